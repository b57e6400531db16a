package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
)

// terms returns the terms that every party goes by in a session of an experiment.
func terms(e *experiment.Experiment) *session.Terms {
	return &session.Terms{
		Session: e.Session(), Cohort: e.Cohort, Mode: e.Mode(), SitOut: algorithm.SitOut.Value(e.Config),
		StageTimeout: seconds(algorithm.StageTimeout.Value(e.Config)), Tail: seconds(algorithm.Tail.Value(e.Config)), Gather: seconds(algorithm.Gather.Value(e.Config)), Steps: e.Schedule,
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// facts returns the public facts about the data: the list of items in a folder, and who or how many
// the users are. No rating is opened.
func facts(ctx context.Context, c config.Config, items, users string, clients int) (agreement.Facts, error) {
	set, err := read.Items(ctx, items, experiment.DataOptions(c))
	if err != nil {
		return agreement.Facts{}, fmt.Errorf("the list of items, in a folder with movies.csv, movies.dat, u.item or items.csv: %w", err)
	}
	about := algorithm.Of(c).About()
	switch about.Clients {
	case algorithm.ItemParties:
		if set.UserIDs, err = readIDs(users); err != nil {
			return agreement.Facts{}, cli.Misusef("--users: with %s a file with the ids of all users is needed, one a line: %w", about.Name, err)
		}
		set.Users = len(set.UserIDs)
	case algorithm.UserParties:
		if set.Users, err = strconv.Atoi(users); err != nil {
			return agreement.Facts{}, cli.Misusef("--users: with %s the number of users of all parties is needed, not %q", about.Name, users)
		}
	default:
		if users != "" {
			return agreement.Facts{}, cli.Misusef("--users: with %s every client is a user", about.Name)
		}
		set.Users = clients
	}
	return agreement.FactsOf(c, set)
}

// publicFile holds the public part of a server's session, in its state.
const publicFile = "public.json"

// readPublic reads the public part of the session of a folder.
func readPublic(dir string) (*agreement.Public, error) {
	p, _, err := decodePublic(dir)
	return p, err
}

func decodePublic(dir string) (*agreement.Public, []byte, error) {
	path := filepath.Join(dir, publicFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := agreement.Decode(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, text, nil
}

// openPublic opens the experiment of the session of a folder.
func openPublic(dir string) (*experiment.Experiment, error) {
	p, err := readPublic(dir)
	if err != nil {
		return nil, err
	}
	return agreement.Open(p)
}

// kept returns the public part of the state's last session, and names the settings in which the
// experiment differs from it; "" if none. An experiment is the same whatever it starts from, once the session has ended:
// another session of it costs the clients as much again.
func kept(c config.Config, f agreement.Facts, dir string, ended bool) (p *agreement.Public, other string, err error) {
	before, text, err := decodePublic(dir)
	if err != nil {
		return nil, "", err
	}
	if ended {
		f.Start = before.Facts.Start
	}
	if p, err = agreement.Publish(c, f, before.Session); err != nil {
		return nil, "", err
	}
	now, err := p.Encode()
	if err != nil {
		return nil, "", err
	}
	if !bytes.Equal(text, now) {
		other = differences(text, now)
	}
	return p, other, nil
}

// draw returns the public part of a new session.
func draw(c config.Config, f agreement.Facts) (p *agreement.Public, text []byte, err error) {
	var session protocol.SessionID
	if _, err = io.ReadFull(entropy.System().Stream("fednode/session", 0), session[:]); err != nil {
		return nil, nil, err
	}
	if p, err = agreement.Publish(c, f, session); err != nil {
		return nil, nil, err
	}
	text, err = p.Encode()
	return p, text, err
}

// stated is an encoding of the public part, setting by setting.
type stated struct {
	Config map[string]string `json:"config"`
	Facts  json.RawMessage   `json:"facts"`
}

// otherIn names the settings that are others in b, in order.
func (a stated) otherIn(b stated) []string {
	var list []string
	for key, value := range a.Config {
		if b.Config[key] != value {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}

// otherFacts reports whether facts differ in b, and whether the start does.
func (a stated) otherFacts(b stated) (facts, start bool) {
	var x, y map[string]json.RawMessage
	if errors.Join(json.Unmarshal(a.Facts, &x), json.Unmarshal(b.Facts, &y)) != nil {
		return true, false
	}
	start = !bytes.Equal(x["start"], y["start"])
	delete(x, "start")
	delete(y, "start")
	return !maps.EqualFunc(x, y, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }), start
}

// differences names what two encodings of what is public differ in.
func differences(a, b []byte) string {
	var x, y stated
	if errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)) != nil {
		return "its form"
	}
	list := x.otherIn(y)
	facts, start := x.otherFacts(y)
	if facts {
		list = append(list, "the items or users")
	}
	if start {
		list = append(list, algorithm.StartFrom.Name)
	}
	if len(list) == 0 {
		list = append(list, "values that this version derives")
	}
	return strings.Join(list, ", ")
}
