package party

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// A client's result of a session is in the session's folder (see pastFolder), with a file that names the
// session. The link resultFolder in the state leads to the last result, and is replaced in one step.
const (
	ResultFolder  = "result"
	ResultSession = "session.json"
)

// KeepResult writes a party's result of a session into its own state: the embeddings that it alone has,
// and the final model and the experiment. With these fednode recommend predicts. The result is
// there as a whole when keep returns, also after a power failure, and beside the results of earlier
// sessions. Programs that read the link meanwhile find one result or the other.
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

// fillResult makes the folder of a session's result anew, and returns once all in it would
// survive a power failure.
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
	return os.WriteFile(filepath.Join(dir, ResultSession), Mark(session), 0o600)
}
