package party

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// Values of --again, for the experiment of the session that has ended.
const (
	AgainSession = "session" // another session of it
	AgainEnd     = "end"     // that its end is said once more
)

// Proposal is the session of a server's start. Nothing of it is written yet.
type Proposal struct {
	Public *agreement.Public
	Past   string                       // the session before it, which has ended; "": none, or the same one
	Begin  func(*algorithm.Start) error // makes it the session of the state, with what it starts from
}

// Propose returns the state's session if it has not ended, and else a new session. again is the
// value of --again if the experiment is still the experiment of the ended session; "" is none.
func Propose(c config.Config, f agreement.Facts, dir, again string) (*Proposal, error) {
	ended, err := EndedIn(dir)
	if err != nil {
		return nil, err
	}
	gone, err := WasAbandoned(dir)
	if err != nil {
		return nil, err
	}
	p, other, err := kept(c, f, dir, ended != "")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case ended == "" && err != nil:
		return nil, err
	case ended == "" && other != "":
		return nil, cli.Misusef("%s is about another experiment, other in %s, whose session has not ended; continue that experiment, or end its session without a model with --abandon", filepath.Join(dir, PublicFile), other)
	case ended != "" && again == AgainEnd && gone:
		return nil, cli.Misusef("--again end: the session %s ended before its last round, without a model; another experiment begins the next one, and --again session one of this experiment", ended)
	case ended == "" || err == nil && other == "" && again == AgainEnd:
		return &Proposal{Public: p, Begin: func(*algorithm.Start) error { return whole(dir, ended) }}, nil
	case err == nil && other == "" && again != AgainSession:
		cost := "which costs its clients as much again"
		if gone {
			cost = "and clients pay for the rounds of that one: this one ended before its last round, and charged the rounds that clients took part in, or none"
		}
		return nil, cli.Misusef("the session %s of this experiment has ended: --again session begins another one, %s. --again end says its end once more to an aggregator that has lost it. Another experiment begins a session by itself", ended, cost)
	} // what has ended may also be in a form that this version does not read
	p, text, err := draw(c, f)
	if err != nil {
		return nil, err
	}
	return &Proposal{Public: p, Past: ended, Begin: func(start *algorithm.Start) error {
		if ended != "" {
			if err := PutAside(dir, ended); err != nil {
				return err
			}
		}
		if err := KeepStart(dir, start); err != nil {
			return err
		}
		return store.WriteFile(filepath.Join(dir, PublicFile), text)
	}}, nil
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

// PutAside moves a server's files of an ended session to the session's own folder. Cut short, it is
// done again: the file that marks the end stays until another session is in its place.
func PutAside(dir, session string) error {
	to := filepath.Join(dir, PastFolder, session)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range append([]string{EndedFile, PublicFile}, CheckpointFiles...) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var info fs.FileInfo
		if err == nil {
			info, err = os.Stat(filepath.Join(dir, name))
		}
		if err == nil {
			err = store.WriteFile(filepath.Join(to, name), text)
		}
		if err == nil { // fednode sessions shows when a session began
			err = os.Chtimes(filepath.Join(to, name), time.Time{}, info.ModTime())
		}
		if err != nil {
			return err
		}
	}
	for _, name := range CheckpointFiles {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// whole refuses to say the end of a session of which a checkpoint was put aside already: a
// server without one would begin it anew.
func whole(dir, ended string) error {
	if ended == "" {
		return nil
	}
	for _, name := range CheckpointFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return cli.Misusef("--again end: the checkpoint of the session %s is in %s already, since another one was about to begin", ended, filepath.Join(dir, PastFolder, ended))
}
