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

// strategy holds the shared embeddings of a server's side, and the rounds that it has planned. A skipped
// round is an attempt like any other: the budget is planned over attempts.
type strategy struct {
	domain  string // begins a saved state
	session protocol.SessionID
	rounds  int
	round   uint64
	shared  *model.Matrix
}

// Shared returns the current shared embeddings, not a copy.
func (s *strategy) Shared() *model.Matrix { return s.shared }

// next returns the plan of the next round, and true after the last.
func (s *strategy) next(phase string, c protocol.Cohort, r protocol.Release) (*protocol.Plan, bool, error) {
	if s.round == uint64(s.rounds) {
		return nil, true, nil
	}
	s.round++
	return &protocol.Plan{
		Session: s.session, Round: s.round, Phase: phase,
		Cohort: c, Releases: []protocol.Release{r}, Broadcast: s.shared.Encode(),
	}, false, nil
}

// Skip leaves the embeddings as they are; the attempt is used up.
func (s *strategy) Skip(*protocol.Plan, error) {}

// Model returns the shared embeddings, encoded.
func (s *strategy) Model() []byte { return s.shared.Encode() }

// Save returns the state before the next call of Next.
func (s *strategy) Save() ([]byte, error) {
	b := append([]byte(s.domain), s.session[:]...)
	b = binary.BigEndian.AppendUint64(b, s.round)
	b = binary.BigEndian.AppendUint32(b, uint32(s.shared.Rows()))
	b = binary.BigEndian.AppendUint32(b, uint32(s.shared.Cols()))
	return append(b, s.shared.Encode()...), nil
}

// Restore takes up a saved state. It refuses a state of another session, of a round after the last,
// of embeddings of another shape, or in a wrong form; the strategy is then as it was.
func (s *strategy) Restore(b []byte) error {
	fixed := len(s.domain) + len(s.session) + 8 + 4 + 4
	if len(b) < fixed {
		return fmt.Errorf("fedmf: a state of %d bytes; it begins with %d", len(b), fixed)
	}
	if got := string(b[:len(s.domain)]); got != s.domain {
		return fmt.Errorf("fedmf: the state begins with %q; it must begin with %q: it is of another algorithm or version", got, s.domain)
	}
	b = b[len(s.domain):]
	if got := protocol.SessionID(b[:len(s.session)]); got != s.session {
		return fmt.Errorf("fedmf: the state is of session %x; this one is %x", got, s.session)
	}
	b = b[len(s.session):]
	round := binary.BigEndian.Uint64(b)
	if round > uint64(s.rounds) {
		return fmt.Errorf("fedmf: the state is of round %d; the last one is %d", round, s.rounds)
	}
	rows, cols := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	if uint64(rows) != uint64(s.shared.Rows()) || uint64(cols) != uint64(s.shared.Cols()) {
		return fmt.Errorf("fedmf: the state holds %d x %d embeddings; there must be %d x %d", rows, cols, s.shared.Rows(), s.shared.Cols())
	}
	shared, err := model.NewBroadcast(b[16:], s.shared.Rows(), s.shared.Cols())
	if err != nil {
		return err
	}
	m := shared.Matrix()
	for i, x := range m.Data() {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("fedmf: row %d of the state's embeddings holds %v; coordinates are finite", i/m.Cols(), x)
		}
	}
	s.round, s.shared = round, m
	return nil
}
