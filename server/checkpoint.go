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

// Attempts counts rounds. Opened counts the rounds that were opened: each costs clients its full
// price whatever its result. Released counts the rounds that released a sum.
type Attempts struct{ Opened, Released uint64 }

// Attempts returns the counts of the session so far, including before restarts.
func (s *Server) Attempts() Attempts { return s.attempts }

// ErrInterrupted is the reason for a round that was in progress when the server
// stopped. It counts as having released nothing, and its number is used up, since the
// server cannot know what had been sent.
var ErrInterrupted = errors.New("the server stopped while the round was in progress")

// Reasons for which the server gives a round up on its own.
var (
	// ErrAggregatorLost: the aggregator restarted and knows nothing of the round.
	ErrAggregatorLost = errors.New("the aggregator was lost while the round was in progress")
	// ErrOverdue: neither a result nor an abort came within the server's patience (Wait).
	ErrOverdue = errors.New("nothing was heard of the round for too long")
)

// Wait sets how long a round may take before the server gives it up. It must be
// longer than all stages together may take. By default the server waits for ever, which
// is safe only if no message between it and the aggregator is ever lost. A round that the
// aggregator holds until enough clients are connected may take longer by hold.
func (s *Server) Wait(patience, hold time.Duration) { s.patience, s.hold = patience, hold }

// NewDurable makes a server that has a protocol.Checkpoint of the session made
// before every plan and before the final model.
func NewDurable(d Durable, session protocol.SessionID) *Server {
	return &Server{strategy: d, durable: d, session: session}
}

// Resume makes a server that continues from a checkpoint. d is the strategy as at the session's
// start. A round that was in progress is skipped, and counts as an attempt. A checkpoint that does
// not fit the strategy is an error that says why.
func Resume(d Durable, c protocol.Checkpoint) (*Server, error) {
	s := NewDurable(d, c.Session)
	s.last = c.Round
	if err := s.resume(c.State); err != nil {
		return nil, fmt.Errorf("server: checkpoint of round %d in session %x: %w", c.Round, c.Session, err)
	}
	return s, nil
}

// Finished reports, for a resumed server, whether all rounds were over before. Then only the end of
// the session is left to announce. That needs no client.
func (s *Server) Finished() bool { return s.finished }

func (s *Server) resume(state []byte) error {
	a, inner, err := decodeState(state)
	if err != nil {
		return err
	}
	if a.Opened > s.last {
		return fmt.Errorf("the state has %d rounds opened, and the latest is number %d", a.Opened, s.last)
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
	if p.Session != s.session || p.Round != s.last {
		return fmt.Errorf("its state continues with round %d in session %x", p.Round, p.Session)
	}
	s.interrupted = true
	s.strategy.Skip(p, ErrInterrupted)
	return nil
}

// checkpoint records where the session stands; nothing where nothing is kept.
func (s *Server) checkpoint(strategy []byte) []protocol.Record {
	if s.durable == nil {
		return nil
	}
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, len(stateDomain)+16+len(strategy)), stateDomain...), s.attempts.Opened)
	b = binary.BigEndian.AppendUint64(b, s.attempts.Released)
	return []protocol.Record{protocol.Checkpoint{Session: s.session, Round: s.last, State: append(b, strategy...)}}
}

// stateDomain begins a state, and ends in the version of its form. Behind it stand
// how many rounds were opened and how many released a sum, 8 bytes each, big
// endian, and the state of the strategy.
const stateDomain = "fedsim/server/v1\n"

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
		return a, nil, fmt.Errorf("the state has %d sums of %d rounds", a.Released, a.Opened)
	}
	return a, b[16:], nil
}
