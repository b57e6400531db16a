package party

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// StartFile is the copy of the releases that the session of a server's state starts from. The session needs them again
// when its server is started again, whatever has become of the folder that they were read from.
const StartFile = "start.bin"

// ReadStart reads the releases that a session of a state starts from; nil for none. last stands for the newest model of the
// state or, while a session of it runs, for the releases that this session started from.
func ReadStart(c config.Config, dir string) (*algorithm.Start, error) {
	from := algorithm.StartFrom.Of(c)
	if from == "" || !algorithm.Of(c).About().Has(algorithm.StartFrom.Key) {
		return nil, nil
	}
	if from != "last" {
		return readStart(from)
	}
	at, err := StandingOf(dir)
	if err != nil {
		return nil, err
	}
	if at.Session != "" && at.Ended == "" {
		s, failed := copied(dir)
		if failed == nil && s == nil {
			failed = cli.Misusef("--start-from last: the session of %s, which has not ended, starts from nothing; leave --start-from out, or end that session with --abandon", dir)
		}
		return s, failed
	}
	current := filepath.Join(dir, CurrentLink)
	if _, err = os.Stat(filepath.Join(current, lineage.File)); errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("start-from last: no finished session in %s left a %s; run a session first, or name its folder", dir, lineage.File)
	}
	return readStart(current)
}

func readStart(dir string) (*algorithm.Start, error) {
	s, err := lineage.Read(dir)
	if err != nil {
		return nil, cli.Misusef("start-from: %w", err)
	}
	return s, nil
}

// copied reads the copy of the releases in a state; nil if there is none.
func copied(dir string) (*algorithm.Start, error) {
	path := filepath.Join(dir, StartFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := lineage.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.From = path
	return s, nil
}

// KeepStart makes releases the start of the session that begins in a state.
func KeepStart(dir string, s *algorithm.Start) error {
	path := filepath.Join(dir, StartFile)
	if s == nil {
		return atomicfile.Remove(path)
	}
	text, err := lineage.Encode(s)
	if err != nil {
		return err
	}
	return store.WriteFile(path, text)
}

// OpenSession opens the experiment of a session with the releases that it starts from. Those are the given ones or, for a
// session that began before, the copy in the state.
func OpenSession(p *agreement.Public, dir string, given *algorithm.Start) (*experiment.Experiment, error) {
	stated := p.Facts.Start
	if stated == nil {
		return agreement.Open(p)
	}
	if given == nil || hex.EncodeToString(given.Digest[:]) != stated.Digest {
		var err error
		if given, err = copied(dir); err != nil {
			return nil, err
		}
	}
	return agreement.OpenFrom(p, given)
}

// ResultItems returns the embeddings that an organisation with items of its own ended with in the last of the sessions that
// this session starts from; nil if it was not in that session.
func ResultItems(state string, e *experiment.Experiment, log *zerolog.Logger) ([]model.Embeddings, error) {
	if e.Start == nil || e.About().Clients != algorithm.ItemParties {
		return nil, nil
	}
	last := e.Start.Sessions[len(e.Start.Sessions)-1].Session
	for _, dir := range []string{filepath.Join(state, ResultFolder), filepath.Join(state, PastFolder, last, ResultFolder)} {
		of, err := SessionIn(filepath.Join(dir, ResultSession))
		if err != nil {
			return nil, err
		}
		if of == last {
			all, err := results.ReadEmbeddings(dir)
			return slices.DeleteFunc(all, func(x model.Embeddings) bool { return x.Name != "item_embeddings" }), err
		}
	}
	log.Warn().Str("session", last).Msg("the session starts from one of which this state has no result: this party's items start anew")
	return nil, nil
}

// WriteRecord writes what the session released into its model's folder, for a later session to start from. It returns the
// cost of all sessions together; nil for a session that starts from nothing.
func WriteRecord(dir string, e *experiment.Experiment, s *algorithm.Start) (*results.AllSessions, error) {
	if s == nil {
		return nil, nil
	}
	text, err := lineage.Encode(s)
	if err != nil {
		return nil, err
	}
	if err = store.WriteFile(filepath.Join(dir, lineage.File), text); err != nil || e.Start == nil {
		return nil, err
	}
	return results.Together(s)
}

// SetCurrent has the link current of a state lead to the model of a session, in one step and durably.
func SetCurrent(dir, session string) error {
	return linkTo(dir, CurrentLink, filepath.Join(PastFolder, session, ModelFolder))
}

// linkTo has a link of a state lead to a folder in the state, in one step and durably.
func linkTo(dir, name, to string) error {
	link := filepath.Join(dir, name)
	draft := link + ".tmp"
	if err := atomicfile.Remove(draft); err != nil { // left by a process that was killed
		return err
	}
	if err := os.Symlink(to, draft); err != nil {
		return err
	}
	return atomicfile.Rename(draft, link)
}

// LockKey holds a key's file for this process, so that no second process of this machine uses the key. The lock ends with
// the process, or with unlock.
func LockKey(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err = atomicfile.Lock(f, false, false); errors.Is(err, atomicfile.ErrHeld) {
		_ = f.Close() // only read
		return nil, cli.Misusef("--key %s: another process on this machine runs with this key; stop it first", path)
	}
	return func() { _ = f.Close() }, nil // a file system without locks has none
}

// A server's state holds its last session, and a folder for each session with its model.
const (
	EndedFile   = "ended.json"   // the mark of a session whose end is with the aggregator, and whose model is on disk
	CurrentLink = "current"      // a symbolic link to the model of the last session that has one
	ModelFolder = "model"        // in a session's folder
	SummaryFile = "summary.json" // in that folder, or in --out
	PastFolder  = "sessions"     // with a folder for each session, by its ID in hex; of a client too, for earlier sessions
)

// CheckpointFiles are the files of package store.
var CheckpointFiles = []string{"checkpoint", "checkpoint.previous"}

// OfSession is the common part of all files that name a session.
type OfSession struct {
	Session   string `json:"session"`             // in hex
	Abandoned bool   `json:"abandoned,omitempty"` // it ended without a model
}

// SessionIn reads the session that a file names; "" where there is no such file.
func SessionIn(path string) (string, error) {
	of, err := sessionIn(path)
	return of.Session, err
}

func sessionIn(path string) (of OfSession, err error) {
	if found, err := atomicfile.FindJSON(path, &of); err != nil || !found {
		return OfSession{}, err
	}
	if b, bad := hex.DecodeString(of.Session); bad != nil || len(b) != len(protocol.SessionID{}) { // it becomes a folder's name
		return OfSession{}, fmt.Errorf("%s: its session is %.40q; %d bytes in hex are needed", path, of.Session, len(protocol.SessionID{}))
	}
	return of, nil
}

// Standing says how the session of a server's state stands.
type Standing struct {
	Session   string // in hex; "": there is none
	Ended     string // the same once it has ended; else ""
	Abandoned bool   // it ended before its last round, without a model
}

// StandingOf reads how the session of a server's state stands.
func StandingOf(dir string) (s Standing, err error) {
	if s.Session, err = SessionIn(filepath.Join(dir, PublicFile)); err != nil || s.Session == "" {
		return s, err
	}
	end, err := sessionIn(filepath.Join(dir, EndedFile))
	if end.Session == s.Session {
		s.Ended, s.Abandoned = end.Session, end.Abandoned
	}
	return s, err
}

// Knows reports whether a server's state has the folder of an earlier session.
func Knows(dir, session string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, PastFolder, session))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// End marks the session of a state as ended.
func End(dir, session string) error {
	return store.WriteJSON(filepath.Join(dir, EndedFile), OfSession{Session: session})
}

// Abandon marks the session of a state as ended without a model before its last round.
func Abandon(dir, session string) error {
	return store.WriteJSON(filepath.Join(dir, EndedFile), OfSession{session, true})
}

// ModelFolderOf returns the folder of a session's model in a server's state.
func ModelFolderOf(dir, session string) string {
	return filepath.Join(dir, PastFolder, session, ModelFolder)
}

// CheckModel says that the model of a session is complete, or what it lacks.
func CheckModel(dir string) (string, error) {
	of, err := SessionIn(filepath.Join(dir, SummaryFile))
	if err != nil {
		return "", err
	}
	if !strings.EqualFold(of, filepath.Base(filepath.Dir(dir))) {
		return "", fmt.Errorf("%s is missing, or of another session", SummaryFile)
	}
	e, err := OpenPublic(dir)
	if err != nil {
		return "", err
	}
	shared, err := os.ReadFile(filepath.Join(dir, results.SharedFile))
	if err != nil {
		return "", err
	}
	want, err := e.Instance().Shared(shared)
	if err != nil {
		return "", fmt.Errorf("%s: %w", results.SharedFile, err)
	}
	for _, x := range want {
		if _, err = os.Stat(filepath.Join(dir, x.Name+".npy")); err != nil {
			return "", fmt.Errorf("%s: it lacks %s.npy", ModelFolder, x.Name)
		}
	}
	_, err = results.ReadEmbeddings(dir)
	return "complete", err
}
