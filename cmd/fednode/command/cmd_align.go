package command

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// alignCmd is fednode align, of the server and of each party.
type alignCmd struct {
	IDs        string `name:"ids" placeholder:"FILE" help:"A party's list of its users' ids, one a line, spelt as all parties do. They stay here."`
	Pad        int    `default:"1" placeholder:"N" help:"Round the number of a party's ids, which all get to know, up to a multiple of N. What is added are rows without ratings."`
	Invitation string `placeholder:"FILE" help:"The party's or the server's invitation; needed once."`
	Again      bool   `help:"Align anew, though this state holds an alignment. All others have to do so, too."`
	State      string `required:"" placeholder:"DIR" help:"That of fednode client or fednode server; made if it is missing. Rows are kept in it. A start with the same one goes on."`
}

// The files of an alignment in a state.
const (
	alignmentFile = "alignment.json"
	usersFile     = "users.txt" // the server's: what it calls the rows
)

// alignment is the kept result of an alignment: rows for a party, lists for the server.
type alignment struct {
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

const alignmentFormat = "fedsim-alignment-v1"

// readAlignment reads what a state has; nil if there is none.
func readAlignment(dir string) (*alignment, align.Attempt, error) {
	path := filepath.Join(dir, alignmentFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, align.Attempt{}, nil
	}
	if err != nil {
		return nil, align.Attempt{}, err
	}
	a := new(alignment)
	if err = json.Unmarshal(text, a); err != nil {
		return nil, align.Attempt{}, fmt.Errorf("%s: %w", path, err)
	}
	var attempt align.Attempt
	b, err := hex.DecodeString(a.Attempt)
	if err != nil || len(b) != len(attempt) || a.Format != alignmentFormat || a.Users < 1 {
		return nil, attempt, fmt.Errorf("%s is not an alignment that this version has left; align again with --again", path)
	}
	return a, align.Attempt(b), nil
}

// of says whether a party's alignment belongs to a list of ids.
func (a *alignment) of(ids []string) bool {
	for _, id := range ids {
		if _, ok := a.Rows[id]; !ok {
			return false
		}
	}
	return len(ids) == len(a.Rows)
}

func (a *alignment) write(dir string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(dir, alignmentFile), append(text, '\n'))
}

// Run implements fednode align.
func (c *alignCmd) Run(ctx context.Context, s streams) error {
	_, place, err := partyOf(c.State, c.Invitation)
	if err != nil {
		return err
	}
	role := place.Role
	log := s.log("align")
	ids, err := c.ids(role)
	if err != nil {
		return err
	}
	m, err := openMember(ctx, c.State, c.Invitation, role, &log)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // all that is in them is durable
	have, attempt, err := readAlignment(c.State)
	if c.Again {
		have, attempt, err = nil, align.Attempt{}, nil
	}
	if err != nil {
		return err
	}
	if have != nil && role == protocol.Client && !have.of(ids) {
		if have.Ended {
			return cli.Misusef("--ids: %s holds the alignment of another list than %s; --again aligns anew, if all do so", c.State, c.IDs)
		}
		have, attempt = nil, align.Attempt{} // of no use any more
	}
	if have == nil || !have.Ended {
		cfg := node.AlignConfig{Identity: m.identity, Membership: m.membership, Registry: m.registry, Entropy: entropy.System(),
			Log: log, Workers: protocol.Workers(runtime.GOMAXPROCS(0)), Kept: attempt}
		if have, err = c.align(ctx, cfg, have, ids); err != nil {
			return err
		}
	} else {
		log.Info().Msg("aligned already; --again aligns anew")
	}
	return c.print(s.out, have, role)
}

// ids are a party's.
func (c *alignCmd) ids(role protocol.Role) ([]string, error) {
	switch {
	case role == protocol.Server && c.IDs != "":
		return nil, cli.Misusef("--ids: the server has no list of users")
	case role == protocol.Server:
		return nil, nil
	case role != protocol.Client:
		return nil, cli.Misusef("--state: it belongs to the %s; only the server and the parties align", role)
	case c.IDs == "":
		return nil, cli.Misusef("--ids: a file with the ids of the party's users is needed, one a line")
	case c.Pad < 1:
		return nil, cli.Misusef("--pad %d: a number from 1 on is needed", c.Pad)
	}
	list, err := readIDs(c.IDs)
	if err != nil {
		return nil, cli.Misusef("--ids: %w", err)
	}
	for i, id := range list {
		list[i] = strings.TrimSuffix(id, "\r")
	}
	return list, nil
}

// align takes part, and keeps what comes of it.
func (c *alignCmd) align(ctx context.Context, cfg node.AlignConfig, have *alignment, ids []string) (*alignment, error) {
	var err error
	if ids == nil {
		var earlier *align.Ended
		if have != nil {
			earlier = &align.Ended{Attempt: cfg.Kept[:], Signature: have.Signature}
		}
		err = node.AlignServer(ctx, cfg, earlier, func(u *align.Union, e *align.Ended) error {
			have = &alignment{Format: alignmentFormat, Attempt: hex.EncodeToString(u.Attempt[:]), Users: u.Users, Lists: u.Lists, Shared: u.Shared, Signature: e.Signature}
			return errors.Join(writeUsers(c.State, u), have.write(c.State))
		})
	} else {
		count := (len(ids) + c.Pad - 1) / c.Pad * c.Pad
		err = node.AlignParty(ctx, cfg, ids, count, func(r *align.Rows) error {
			have = &alignment{Format: alignmentFormat, Attempt: hex.EncodeToString(r.Attempt[:]), Users: r.Users, Rows: r.Row}
			return have.write(c.State)
		})
	}
	if err != nil {
		return nil, err
	}
	have.Ended = true
	return have, have.write(c.State)
}

// writeUsers leaves what the rows are called, for fednode server --users.
func writeUsers(dir string, u *align.Union) error {
	var b strings.Builder
	for row := range u.Users {
		b.WriteString(u.Attempt.User(row))
		b.WriteByte('\n')
	}
	return store.WriteFile(filepath.Join(dir, usersFile), []byte(b.String()))
}

// print tells what has come of it.
func (c *alignCmd) print(w io.Writer, a *alignment, role protocol.Role) error {
	fmt.Fprintf(w, "alignment  %s\n", a.Attempt[:8])
	fmt.Fprintf(w, "rows       %s\n", units.Count(a.Users))
	if role != protocol.Server {
		fmt.Fprintf(w, "own        %s\n", units.Count(len(a.Rows)))
		return nil
	}
	for k, n := range a.Lists {
		fmt.Fprintf(w, "client %-4d%s ids\n", k, units.Count(n))
	}
	for k, n := range a.Shared {
		fmt.Fprintf(w, "in %-8d%s rows\n", k+1, units.Count(n))
	}
	fmt.Fprintf(w, "users      %s\n", filepath.Join(c.State, usersFile))
	return nil
}

// alignedNames returns the names of a party's users in an experiment, by the alignment in its
// state; nil if the experiment calls them by their ids.
func alignedNames(dir string, e *experiment.Experiment) (map[string]string, error) {
	if e.About().Clients != algorithm.ItemParties || len(e.Data.UserIDs) == 0 || !align.IsUser(e.Data.UserIDs[0]) {
		return nil, nil
	}
	a, attempt, err := readAlignment(dir)
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
