package party

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node/store"
)

// The files of an alignment in a state.
const (
	AlignmentFile = "alignment.json"
	UsersFile     = "users.txt" // the server's: what it calls the rows
)

// Alignment is the kept result of an alignment: rows for a party, lists for the server.
type Alignment struct {
	Format  string `json:"format"`
	Attempt string `json:"attempt"` // in hex
	Users   int    `json:"users"`
	// Ended says that all others keep theirs, too.
	Ended bool           `json:"ended"`
	Rows  map[string]int `json:"rows,omitempty"`
	// Lists counts the ids of each client, Shared the rows that are in so many lists.
	Lists     []int  `json:"lists,omitempty"`
	Shared    []int  `json:"shared,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

const AlignmentFormat = "fedsim-alignment-v1"

// ReadAlignment reads what a state has; nil if there is none.
func ReadAlignment(dir string) (*Alignment, align.Attempt, error) {
	path := filepath.Join(dir, AlignmentFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, align.Attempt{}, nil
	}
	if err != nil {
		return nil, align.Attempt{}, err
	}
	a := new(Alignment)
	if err = json.Unmarshal(text, a); err != nil {
		return nil, align.Attempt{}, fmt.Errorf("%s: %w", path, err)
	}
	var attempt align.Attempt
	b, err := hex.DecodeString(a.Attempt)
	if err != nil || len(b) != len(attempt) || a.Format != AlignmentFormat || a.Users < 1 {
		return nil, attempt, fmt.Errorf("%s is not an alignment that this version has left; align again with --again", path)
	}
	return a, align.Attempt(b), nil
}

// Of says whether a party's alignment belongs to a list of ids.
func (a *Alignment) Of(ids []string) bool {
	for _, id := range ids {
		if _, ok := a.Rows[id]; !ok {
			return false
		}
	}
	return len(ids) == len(a.Rows)
}

// Write keeps the alignment in a state.
func (a *Alignment) Write(dir string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(dir, AlignmentFile), append(text, '\n'))
}

// WriteUsers leaves what the rows are called, for fednode server --users.
func WriteUsers(dir string, u *align.Union) error {
	var b strings.Builder
	for row := range u.Users {
		b.WriteString(u.Attempt.User(row))
		b.WriteByte('\n')
	}
	return store.WriteFile(filepath.Join(dir, UsersFile), []byte(b.String()))
}

// AlignedNames returns the names of a party's users in an experiment, by the alignment in its
// state; nil if the experiment calls them by their ids.
func AlignedNames(dir string, e *experiment.Experiment) (map[string]string, error) {
	if e.About().Clients != algorithm.ItemParties || len(e.Data.UserIDs) == 0 || !align.IsUser(e.Data.UserIDs[0]) {
		return nil, nil
	}
	a, attempt, err := ReadAlignment(dir)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, fmt.Errorf("the session is of users that organisations have aligned, and %s holds no alignment: take part in one with fednode align", dir)
	case e.Data.UserIDs[0] != attempt.User(0) || len(e.Data.UserIDs) != a.Users:
		return nil, fmt.Errorf("the session is of another alignment (%d users, the first %s) than %s holds (%d, %s): the parties have to align again, or the server has to begin with the newest",
			len(e.Data.UserIDs), e.Data.UserIDs[0], dir, a.Users, attempt.User(0))
	}
	names := make(map[string]string, len(a.Rows))
	for id, row := range a.Rows {
		names[id] = attempt.User(row)
	}
	return names, nil
}
