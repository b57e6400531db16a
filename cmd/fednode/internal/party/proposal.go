package party

import (
	"bytes"
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
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
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
	at, err := StandingOf(dir)
	if err != nil {
		return nil, err
	}
	ended, gone := at.Ended, at.Abandoned
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
	var session protocol.SessionID
	if _, err = io.ReadFull(entropy.System().Stream("fednode/session", 0), session[:]); err != nil {
		return nil, err
	}
	if p, err = agreement.Publish(c, f, session); err != nil {
		return nil, err
	}
	text, err := p.Encode()
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

// kept returns the public part of the state's last session, and names the settings in which the experiment differs from it; "" if none. An
// experiment is the same whatever it starts from, once the session has ended: another session of it costs the clients as much again.
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
		other = differences(before, p)
	}
	return p, other, nil
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
	return errors.Join(lists.Map(CheckpointFiles, func(name string) error { return atomicfile.Remove(filepath.Join(dir, name)) })...)
}

// whole refuses to say the end of a session of which a checkpoint was put aside already: a server without one would begin it anew.
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

// PublicFile holds the public part of a server's session, in its state.
const PublicFile = "public.json"

// ReadPublic reads the public part of the session of a folder.
func ReadPublic(dir string) (*agreement.Public, error) {
	p, _, err := decodePublic(dir)
	return p, err
}

func decodePublic(dir string) (*agreement.Public, []byte, error) {
	path := filepath.Join(dir, PublicFile)
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

// OpenPublic opens the experiment of the session of a folder.
func OpenPublic(dir string) (*experiment.Experiment, error) {
	p, err := ReadPublic(dir)
	if err != nil {
		return nil, err
	}
	return agreement.Open(p)
}

// differences names what two public parts differ in whose encodings are not the same.
func differences(a, b *agreement.Public) string {
	list := a.Other(b)
	same := func(a, b any) bool {
		x, err := json.Marshal(a)
		y, wrong := json.Marshal(b)
		return errors.Join(err, wrong) == nil && bytes.Equal(x, y)
	}
	x, y := a.Facts, b.Facts
	x.Start, y.Start = nil, nil
	if !same(x, y) {
		list = append(list, "the items, the users or the donors")
	}
	if !same(a.Facts.Start, b.Facts.Start) {
		list = append(list, algorithm.StartFrom.Name)
	}
	if len(list) == 0 {
		list = append(list, "values that this version derives")
	}
	return strings.Join(list, ", ")
}

// A client's result of a session is in the session's folder (see pastFolder), with a file that names the
// session. The link resultFolder in the state leads to the last result, and is replaced in one step.
const (
	ResultFolder  = "result"
	ResultSession = "session.json"
)

// KeepResult writes a party's result of a session into its own state: the embeddings that it alone has, and the final model and the
// experiment. With these fednode recommend predicts. The result is there as a whole when keep returns, also after a power failure, and
// beside the results of earlier sessions. Programs that read the link meanwhile find one result or the other.
func KeepResult(p *experiment.Party, public []byte, state string, session protocol.SessionID, log *zerolog.Logger) error {
	is := hex.EncodeToString(session[:])
	of := filepath.Join(state, PastFolder, is)
	if err := os.MkdirAll(of, 0o700); err != nil {
		return err
	}
	dir := filepath.Join(of, ResultFolder)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) { // else it is of the same session, which was taken once more
		begun := dir + ".tmp"
		if err = fillResult(begun, p, public, is); err == nil {
			err = atomicfile.Folder(begun, dir)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(begun))
		}
	}
	if err := errors.Join(atomicfile.Sync(of), atomicfile.Sync(filepath.Dir(of)), atomicfile.Sync(state)); err != nil {
		return err
	}
	if err := showResult(state, is); err != nil {
		return err
	}
	log.Info().Str("result", filepath.Join(state, ResultFolder)).Msg("the session has ended")
	return nil
}

// showResult has the result of a session be the last. A system that does not let this process make links
// gets a copy, which is missing for a moment whenever there is a newer result.
func showResult(state, session string) error {
	last := filepath.Join(state, ResultFolder)
	if info, err := os.Lstat(last); err == nil && info.IsDir() {
		if err = clearResult(state); err != nil {
			return err
		}
	}
	err := linkTo(state, ResultFolder, filepath.Join(PastFolder, session, ResultFolder))
	if err == nil || runtime.GOOS != "windows" {
		return err
	}
	return os.CopyFS(last, os.DirFS(filepath.Join(state, PastFolder, session, ResultFolder)))
}

// clearResult removes a result that is a copy. A result that is no copy is kept in the folder of its session.
func clearResult(state string) error {
	last := filepath.Join(state, ResultFolder)
	of, err := SessionIn(filepath.Join(last, ResultSession))
	if err != nil {
		return err
	}
	kept := filepath.Join(state, PastFolder, of, ResultFolder)
	if _, err = os.Lstat(kept); err == nil {
		return os.RemoveAll(last)
	}
	if err = os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	return atomicfile.Rename(last, kept)
}

// fillResult makes the folder of a session's result anew, and returns once all in it would survive a power failure.
func fillResult(dir string, p *experiment.Party, public []byte, session string) error {
	if err := os.RemoveAll(dir); err != nil { // of a process that was killed
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	shared, err := p.Shared()
	if err != nil {
		return err
	}
	for _, x := range append(p.Result(), shared...) {
		if err := results.WriteEmbeddings(dir, x); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, PublicFile), public, 0o600); err != nil {
		return err
	}
	return store.WriteJSON(filepath.Join(dir, ResultSession), OfSession{Session: session})
}

// CheckResult says of what session a result is, or what is wrong with it.
func CheckResult(dir string) (string, error) {
	session, err := SessionIn(filepath.Join(dir, ResultSession))
	if err == nil && session == "" {
		err = fmt.Errorf("%s is missing", ResultSession)
	}
	if err == nil {
		_, err = OpenPublic(dir)
	}
	if err == nil {
		_, err = results.ReadEmbeddings(dir)
	}
	return fmt.Sprintf("model and user's embedding of session %s, complete", session), err
}
