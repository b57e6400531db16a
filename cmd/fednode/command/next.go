package command

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A server's state holds its last session, and a folder for each session with its model.
const (
	endedFile   = "ended.json"   // the mark of a session whose end is with the aggregator, and whose model is on disk
	currentLink = "current"      // a symbolic link to the model of the last session that has one
	modelFolder = "model"        // in a session's folder
	summaryFile = "summary.json" // in that folder, or in --out
	pastFolder  = "sessions"     // with a folder for each session, by its ID in hex; of a client too, for earlier sessions
)

// checkpointFiles are the files of package store.
var checkpointFiles = []string{"checkpoint", "checkpoint.previous"}

// Values of --again, for the experiment of the session that has ended.
const (
	againSession = "session" // another session of it
	againEnd     = "end"     // that its end is said once more
)

// ofSession is the common part of all files that name a session.
type ofSession struct {
	Session string `json:"session"` // in hex
}

// sessionIn reads the session that a file names; "" where there is no such file.
func sessionIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var of ofSession
	if err = json.Unmarshal(text, &of); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if b, bad := hex.DecodeString(of.Session); bad != nil || len(b) != len(protocol.SessionID{}) { // it becomes a folder's name
		return "", fmt.Errorf("%s: its session is %.40q; %d bytes in hex are needed", path, of.Session, len(protocol.SessionID{}))
	}
	return of.Session, nil
}

// endedIn is the session of a server's state, if that has ended; else "".
func endedIn(dir string) (string, error) {
	session, err := sessionIn(filepath.Join(dir, publicFile))
	if err != nil || session == "" {
		return "", err
	}
	of, err := sessionIn(filepath.Join(dir, endedFile))
	if err != nil || of != session {
		return "", err
	}
	return session, nil
}

// proposal is the session of a server's start. Nothing of it is written yet.
type proposal struct {
	public *agreement.Public
	past   string                       // the session before it, which has ended; "": none, or the same one
	begin  func(*algorithm.Start) error // makes it the session of the state, with what it starts from
}

// propose returns the state's session if it has not ended, and else a new session. again is the
// value of --again if the experiment is still the experiment of the ended session; "" is none.
func propose(c config.Config, f agreement.Facts, dir, again string) (*proposal, error) {
	ended, err := endedIn(dir)
	if err != nil {
		return nil, err
	}
	gone, err := wasAbandoned(dir)
	if err != nil {
		return nil, err
	}
	p, other, err := kept(c, f, dir, ended != "")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case ended == "" && err != nil:
		return nil, err
	case ended == "" && other != "":
		return nil, cli.Misusef("%s is about another experiment, other in %s, whose session has not ended; continue that experiment, or end its session without a model with --abandon", filepath.Join(dir, publicFile), other)
	case ended != "" && again == againEnd && gone:
		return nil, cli.Misusef("--again end: the session %s ended before its last round, without a model; another experiment begins the next one, and --again session one of this experiment", ended)
	case ended == "" || err == nil && other == "" && again == againEnd:
		return &proposal{public: p, begin: func(*algorithm.Start) error { return whole(dir, ended) }}, nil
	case err == nil && other == "" && again != againSession:
		return nil, cli.Misusef("the session %s of this experiment has ended: --again session begins another one, which costs its clients as much again. --again end says its end once more to an aggregator that has lost it. Another experiment begins a session by itself", ended)
	} // what has ended may also be in a form that this version does not read
	p, text, err := draw(c, f)
	if err != nil {
		return nil, err
	}
	return &proposal{public: p, past: ended, begin: func(start *algorithm.Start) error {
		if ended != "" {
			if err := putAside(dir, ended); err != nil {
				return err
			}
		}
		if err := keepStart(dir, start); err != nil {
			return err
		}
		return store.WriteFile(filepath.Join(dir, publicFile), text)
	}}, nil
}

// putAside moves a server's files of an ended session to the session's own folder. Cut short, it is
// done again: the file that marks the end stays until another session is in its place.
func putAside(dir, session string) error {
	to := filepath.Join(dir, pastFolder, session)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range append([]string{endedFile, publicFile}, checkpointFiles...) {
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
	for _, name := range checkpointFiles {
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
	for _, name := range checkpointFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return cli.Misusef("--again end: the checkpoint of the session %s is in %s already, since another one was about to begin", ended, filepath.Join(dir, pastFolder, ended))
}

// modelOf returns the folder of a session's model in a server's state.
func modelOf(dir, session string) string { return filepath.Join(dir, pastFolder, session, modelFolder) }

// point has the link current of a state lead to the model of a session, in one step and durably.
func point(dir, session string) error {
	return linkTo(dir, currentLink, filepath.Join(pastFolder, session, modelFolder))
}

// linkTo has a link of a state lead to a folder in the state, in one step and durably.
func linkTo(dir, name, to string) error {
	link := filepath.Join(dir, name)
	draft := link + ".tmp"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed
		return err
	}
	if err := os.Symlink(to, draft); err != nil {
		return err
	}
	if err := os.Rename(draft, link); err != nil {
		return err
	}
	return syncPath(dir)
}

// end marks the session of a state as ended.
func end(dir, session string) error {
	return store.WriteFile(filepath.Join(dir, endedFile), mark(session))
}

// abandon marks the session of a state as ended without a model before its last round.
func abandon(dir, session string) error {
	return store.WriteFile(filepath.Join(dir, endedFile), []byte(`{"session":"`+session+`","abandoned":true}`+"\n"))
}

// wasAbandoned reports whether the session of a state ended before its last round.
func wasAbandoned(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, endedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var of struct {
		Abandoned bool `json:"abandoned"`
	}
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	return of.Abandoned, err
}

// mark returns the content of a file that names a session.
func mark(session string) []byte { return []byte(`{"session":"` + session + `"}` + "\n") }

// durable has what is in a folder, which holds files only, survive a power failure.
func durable(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err = syncPath(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(syncPath(dir), syncPath(filepath.Dir(dir)))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
