// Package modelserver has the server's side of algorithms whose state is the shared model as it is broadcast: rounds,
// model and saved state. Such an algorithm adds only how a sum moves the model.
package modelserver

import (
	"encoding/binary"
	"fmt"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Server has every method of a server.Durable except Absorb. A round that released nothing is an attempt like
// any other: the budget is planned over attempts.
type Server struct {
	Schedule protocol.Schedule
	Cohort   protocol.Cohort
	Session  protocol.SessionID
	Name     string // begins the errors
	Domain   string // begins a saved state; names the algorithm and the version of the state
	Shared   Shared // the shared model

	round uint64
}

// Shared is a model that all parties know. Encode returns it as it is broadcast, and Decode reads that. Round rounds
// the model as Encode does, so that the server computes with the numbers that clients have.
type Shared interface {
	Encode() []byte
	Decode(b []byte) error
	Round()
}

// Matrix is a shared model of one matrix, whose shape stays.
type Matrix struct{ *model.Matrix }

// Round rounds every coordinate.
func (m *Matrix) Round() { model.Round(m.Data()) }

// Decode refuses a matrix of another shape, and numbers that are not finite.
func (m *Matrix) Decode(b []byte) error {
	read, err := model.NewBroadcast(b, m.Rows(), m.Cols())
	if err != nil {
		return err
	}
	decoded := read.Matrix()
	if i := dense.NotFinite(decoded.Data()); i >= 0 {
		return fmt.Errorf("row %d of the state's model holds %v; coordinates are finite", i/m.Cols(), decoded.Data()[i])
	}
	m.Matrix = decoded
	return nil
}

// Next returns the plan of the next round; true after the last one.
func (s *Server) Next() (*protocol.Plan, bool, error) {
	step := s.Schedule.At(s.round + 1)
	if step == nil {
		return nil, true, nil
	}
	s.round++
	s.Shared.Round()
	return &protocol.Plan{
		Session: s.Session, Round: s.round, Phase: step.Phase, Cohort: s.Cohort,
		Releases: append([]protocol.Release(nil), step.Releases...), Broadcast: s.Shared.Encode(),
	}, false, nil
}

// Skip leaves the model as it is.
func (s *Server) Skip(*protocol.Plan, error) {}

// Model returns the shared model as it is broadcast.
func (s *Server) Model() []byte { return s.Shared.Encode() }

// Save returns the state: the domain, the session (16 bytes), the round (8, big endian), then the model as it is
// broadcast.
func (s *Server) Save() ([]byte, error) {
	b := append([]byte(s.Domain), s.Session[:]...)
	return append(binary.BigEndian.AppendUint64(b, s.round), s.Shared.Encode()...), nil
}

// Restore reads a state of [Server.Save]. It refuses a state of another domain or session, of a round after the last
// one, or with a model that Decode refuses.
func (s *Server) Restore(state []byte) error {
	head := len(s.Domain) + len(s.Session)
	if len(state) < head+8 || string(state[:len(s.Domain)]) != s.Domain {
		return fmt.Errorf("%s: a state of %d bytes that does not begin with %q: it is of another algorithm or version", s.Name, len(state), s.Domain)
	}
	if got := protocol.SessionID(state[len(s.Domain):head]); got != s.Session {
		return fmt.Errorf("%s: the state is of session %x; this one is %x", s.Name, got, s.Session)
	}
	round := binary.BigEndian.Uint64(state[head:])
	if last := uint64(s.Schedule.Rounds()); round > last {
		return fmt.Errorf("%s: the state is of round %d; the last one is %d", s.Name, round, last)
	}
	if err := s.Shared.Decode(state[head+8:]); err != nil {
		return err
	}
	s.round = round
	return nil
}
