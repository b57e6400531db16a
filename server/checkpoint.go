package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Durable is a Strategy whose state outlives its process.
type Durable interface {
	Strategy
	// Save is the state as it is before the next call of Next.
	Save() ([]byte, error)
	// Restore goes back to a saved state: Next then plans what it planned after
	// Save. A state that does not fit is an error that says why, and changes nothing.
	Restore(state []byte) error
}

// Attempts counts iterations: those that were opened, each of which costs clients
// its full price whatever becomes of it, and those of them that released a sum.
type Attempts struct{ Opened, Released uint64 }

// Attempts are those of the session so far, before restarts too.
func (s *Server) Attempts() Attempts { return s.attempts }

// ErrInterrupted is why an iteration released nothing that was in progress when the
// server stopped. Its number is used up: what was sent of it cannot be known.
var ErrInterrupted = errors.New("the server stopped while the iteration was in progress")

// Why the server gives an iteration up without having been told to.
var (
	// ErrAggregatorLost: the aggregator was started anew, and knows nothing of it.
	ErrAggregatorLost = errors.New("the aggregator was lost while the iteration was in progress")
	// ErrOverdue: neither a result nor an abort has come for longer than the
	// server's patience.
	ErrOverdue = errors.New("nothing was heard of the iteration for too long")
)

// Wait sets how long an iteration may take before the server gives it up: longer
// than all its stages may. By default it waits for ever, which is right only where
// no message is ever lost between it and the aggregator.
func (s *Server) Wait(patience time.Duration) { s.patience = patience }

// NewDurable makes a server that has a protocol.Checkpoint of the session made
// before every plan and before the final model.
func NewDurable(d Durable, session protocol.SessionID) *Server {
	return &Server{strategy: d, durable: d, session: session}
}

// Resume makes the server that goes on from a checkpoint. The strategy is that of the
// session at its start. An iteration that was in progress is skipped, as an attempt.
// A checkpoint that does not fit the strategy is an error that says why.
func Resume(d Durable, c protocol.Checkpoint) (*Server, error) {
	s := NewDurable(d, c.Session)
	s.last = c.Iteration
	if err := s.resume(c.State); err != nil {
		return nil, fmt.Errorf("server: checkpoint of iteration %d in session %x: %w", c.Iteration, c.Session, err)
	}
	return s, nil
}

// Finished says of a server that was resumed whether all iterations were over before:
// there is nothing left but to say so, for which no client is needed.
func (s *Server) Finished() bool { return s.finished }

func (s *Server) resume(state []byte) error {
	a, inner, err := decodeState(state)
	if err != nil {
		return err
	}
	if a.Opened > s.last {
		return fmt.Errorf("the state has %d iterations opened, of which the latest is number %d", a.Opened, s.last)
	}
	if err = s.durable.Restore(inner); err != nil {
		return err
	}
	s.attempts = a
	p, done, err := s.strategy.Next()
	if err != nil || done {
		s.finished = done
		return err
	}
	if p.Session != s.session || p.Iteration != s.last {
		return fmt.Errorf("its state goes on with iteration %d in session %x", p.Iteration, p.Session)
	}
	s.interrupted = true
	s.strategy.Skip(p, ErrInterrupted)
	return nil
}

// save is the strategy's state, if the server keeps any.
func (s *Server) save() ([]byte, error) {
	if s.durable == nil {
		return nil, nil
	}
	return s.durable.Save()
}

// checkpoint records where the session stands; nothing where nothing is kept.
func (s *Server) checkpoint(strategy []byte) []protocol.Record {
	if s.durable == nil {
		return nil
	}
	return []protocol.Record{protocol.Checkpoint{Session: s.session, Iteration: s.last, State: encodeState(s.attempts, strategy)}}
}

// stateDomain begins a state, and ends in the version of its form. Behind it stand
// how many iterations were opened and how many released a sum, 8 bytes each, big
// endian, and the state of the strategy.
const stateDomain = "fedsim/server/v1\n"

func encodeState(a Attempts, strategy []byte) []byte {
	b := make([]byte, 0, len(stateDomain)+16+len(strategy))
	b = append(b, stateDomain...)
	b = binary.BigEndian.AppendUint64(b, a.Opened)
	b = binary.BigEndian.AppendUint64(b, a.Released)
	return append(b, strategy...)
}

func decodeState(b []byte) (a Attempts, strategy []byte, err error) {
	const head = len(stateDomain) + 16
	if len(b) < head {
		return a, nil, fmt.Errorf("a state of %d bytes; it begins with %d", len(b), head)
	}
	if got := string(b[:len(stateDomain)]); got != stateDomain {
		return a, nil, fmt.Errorf("the state begins with %q; it must begin with %q: another version wrote it", got, stateDomain)
	}
	b = b[len(stateDomain):]
	a = Attempts{Opened: binary.BigEndian.Uint64(b), Released: binary.BigEndian.Uint64(b[8:])}
	if a.Released > a.Opened {
		return a, nil, fmt.Errorf("the state has %d sums of %d iterations", a.Released, a.Opened)
	}
	return a, b[16:], nil
}
