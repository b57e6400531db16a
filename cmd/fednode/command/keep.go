package command

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// A client's result of its last session is in one folder of its state, with a file that names the
// session. The results of earlier sessions are in the folder of each (see pastFolder).
const (
	resultFolder  = "result"
	resultSession = "session.json"
)

// keep writes a party's result of a session into its own state: the embeddings that it alone has,
// and the final model and the experiment. With these fednode recommend predicts. The result is
// there as a whole when keep returns, also after a power failure, and beside the results of earlier
// sessions.
func keep(p *experiment.Party, public []byte, state string, session protocol.SessionID, log *zerolog.Logger) error {
	dir := filepath.Join(state, resultFolder)
	begun, is := dir+".tmp", hex.EncodeToString(session[:])
	err := fillResult(begun, p, public, is)
	if err == nil {
		err = clearResult(state, is)
	}
	if err == nil {
		err = os.Rename(begun, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(begun))
	}
	if err := syncPath(state); err != nil {
		return err
	}
	log.Info().Str("result", dir).Msg("the session has ended")
	return nil
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
	if err := os.WriteFile(filepath.Join(dir, publicFile), public, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, resultSession), mark(session), 0o600); err != nil {
		return err
	}
	return durable(dir)
}

// clearResult makes way for the result of a session. It moves the result of an earlier session to
// that session's folder. A result of the same session, which was taken once more, is removed.
func clearResult(state, session string) error {
	dir := filepath.Join(state, resultFolder)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	of, err := sessionIn(filepath.Join(dir, resultSession))
	if err != nil {
		return err
	}
	if of == session {
		return os.RemoveAll(dir)
	}
	to := filepath.Join(state, pastFolder, of)
	if err = os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err = os.RemoveAll(filepath.Join(to, resultFolder)); err != nil { // of the same session
		return err
	}
	return os.Rename(dir, filepath.Join(to, resultFolder))
}
