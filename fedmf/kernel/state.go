package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// A strategy's state for a restart holds its session, the number of rounds it has planned, and
// the shared embeddings.
//
//	state = domain ‖ session (16 bytes) ‖ round (8) ‖ rows (4) ‖ columns (4) ‖ embeddings
//
// Integers are big endian; embeddings are encoded as for a broadcast ([Matrix.Encode]). The domain
// ends in the version of the form. The keeper of a state must detect damage.
const (
	lflState     = "fedsim/fedmf/lfl/v1\n"
	averageState = "fedsim/fedmf/average/v1\n"
)

// progress is the part of a strategy that changes.
type progress struct {
	round  uint64
	shared *model.Matrix
}

func (p progress) encode(domain string, session protocol.SessionID) []byte {
	b := append([]byte(domain), session[:]...)
	b = binary.BigEndian.AppendUint64(b, p.round)
	b = binary.BigEndian.AppendUint32(b, uint32(p.shared.Rows()))
	b = binary.BigEndian.AppendUint32(b, uint32(p.shared.Cols()))
	return append(b, p.shared.Encode()...)
}

// decodeProgress reads a state of the session, of at most rounds rounds and of embeddings of
// like's shape; like stays as it is.
func decodeProgress(b []byte, domain string, session protocol.SessionID, rounds int, like *model.Matrix) (progress, error) {
	fixed := len(domain) + len(session) + 8 + 4 + 4
	if len(b) < fixed {
		return progress{}, fmt.Errorf("fedmf: a state of %d bytes; it begins with %d", len(b), fixed)
	}
	if got := string(b[:len(domain)]); got != domain {
		return progress{}, fmt.Errorf("fedmf: the state begins with %q; it must begin with %q: it is of another algorithm or version", got, domain)
	}
	b = b[len(domain):]
	if got := protocol.SessionID(b[:len(session)]); got != session {
		return progress{}, fmt.Errorf("fedmf: the state is of session %x; this one is %x", got, session)
	}
	b = b[len(session):]
	round := binary.BigEndian.Uint64(b)
	if round > uint64(rounds) {
		return progress{}, fmt.Errorf("fedmf: the state is of round %d; the last one is %d", round, rounds)
	}
	rows, cols := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	if uint64(rows) != uint64(like.Rows()) || uint64(cols) != uint64(like.Cols()) {
		return progress{}, fmt.Errorf("fedmf: the state holds %d x %d embeddings; there must be %d x %d", rows, cols, like.Rows(), like.Cols())
	}
	shared, err := model.NewBroadcast(b[16:], like.Rows(), like.Cols())
	if err != nil {
		return progress{}, err
	}
	p := progress{round, shared.Matrix()}
	for i, x := range p.shared.Data() {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return progress{}, fmt.Errorf("fedmf: row %d of the state's embeddings holds %v; coordinates are finite", i/like.Cols(), x)
		}
	}
	return p, nil
}

// Save returns the state before the next call of Next.
func (s *LFL) Save() ([]byte, error) {
	return progress{s.round, s.items}.encode(lflState, s.params.Session), nil
}

// Restore takes up a saved state. A state of another session, or one with a wrong form, is an error
// that says why; the strategy is then as it was.
func (s *LFL) Restore(state []byte) error {
	p, err := decodeProgress(state, lflState, s.params.Session, s.params.Rounds, s.items)
	if err != nil {
		return err
	}
	s.round, s.items = p.round, p.shared
	return nil
}

// Save returns the state before the next call of Next.
func (s *Average) Save() ([]byte, error) {
	return progress{s.round, s.shared}.encode(averageState, s.params.Session), nil
}

// Restore takes up a saved state. A state of another session, or with a wrong form, is an error
// that says why; the strategy is then as it was.
func (s *Average) Restore(state []byte) error {
	p, err := decodeProgress(state, averageState, s.params.Session, s.params.Rounds, s.shared)
	if err != nil {
		return err
	}
	s.round, s.shared = p.round, p.shared
	return nil
}
