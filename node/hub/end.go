package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
)

// endFile is the file in the aggregator's state with the end of its last session. A client that was
// away then finds the final model. It does so even if the server's process has ended and the
// aggregator was started again. The server has signed everything in the file.
const endFile = "ended.json"

type ending struct {
	Descriptor json.RawMessage `json:"descriptor"`
	Signature  []byte          `json:"signature"`
	Model      []byte          `json:"model"`
	Final      []byte          `json:"final"` // the signature of the model
}

func (a *Aggregator) endPath() string { return filepath.Join(a.cfg.State, endFile) }

// keepFinal keeps the end of a session, durably when it returns.
func (a *Aggregator) keepFinal(s *hubSession, f *protocol.Final) error {
	frames, err := wire.AppendFrames(nil, f)
	if err != nil {
		return err
	}
	text, err := json.Marshal(&ending{Descriptor: s.signed.Descriptor, Signature: s.signed.Signature, Model: f.Model, Final: f.Signature})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s != a.session {
		return nil // another one has begun
	}
	if err = atomicfile.Write(a.endPath(), text, 0o600); err != nil {
		return err
	}
	s.final = frames
	a.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionEnded, Round: uint64(s.terms.Steps.Rounds()), Party: protocol.Party{Role: protocol.Aggregator}})
	a.tellRelays(s)
	return a.keepRunning("")
}

// forget lets the end of a session go when another one begins.
func (a *Aggregator) forget() error {
	if err := os.Remove(a.endPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// loadEnd goes back to the end of the last session after a restart. An unusable file is no reason
// not to start: the server, started again, ends the session once more.
func (a *Aggregator) loadEnd() {
	s, err := a.readEnd()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		a.cfg.Log.Warn().Err(err).Msg("the end of the last session is not shown to clients")
	default:
		a.session = s
		a.cfg.Observer.Session(s.terms.Session)
		a.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionEnded, Round: uint64(s.terms.Steps.Rounds()), Party: protocol.Party{Role: protocol.Aggregator}})
		a.cfg.Log.Info().Hex("session", s.terms.Session[:]).Msg("the last session has ended; its model is there for clients that were away")
	}
}

func (a *Aggregator) readEnd() (*hubSession, error) {
	list := a.cfg.Registry.List()
	e, err := openEnd(a.endPath(), a.cfg.Registry.Federation(), list)
	if err != nil {
		return nil, err
	}
	frames, err := wire.AppendFrames(nil, e.final)
	if err != nil {
		return nil, err
	}
	s := a.lead(e.signed, e.descriptor, e.server, list)
	s.closeAcceptance()
	s.final = frames
	return s, nil
}

// openedEnd is the end of a session, verified.
type openedEnd struct {
	signed     *session.Signed
	descriptor *session.Descriptor
	server     admission.PublicKey
	final      *protocol.Final
}

// openEnd reads the end of a session, and verifies the server's signatures.
func openEnd(path string, f *admission.Federation, list *admission.List) (*openedEnd, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	e := new(ending)
	if err = json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	server, ok := list.Holder(admission.ServerPlace)
	if !ok {
		return nil, fmt.Errorf("%s: %w: no party on the list is the server", path, session.ErrSession)
	}
	out := &openedEnd{signed: &session.Signed{Descriptor: e.Descriptor, Signature: e.Signature, Ended: true}, server: server,
		final: &protocol.Final{Model: e.Model, Signature: e.Final}}
	if out.descriptor, err = out.signed.Verify(f, server); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err = protocol.VerifyFinal(server.Ed25519(), out.descriptor.Terms.Session, out.final); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}
