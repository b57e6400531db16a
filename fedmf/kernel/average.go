package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// AverageParams holds the settings of the server's side of VFL- and HFL-SGDMF.
type AverageParams struct {
	PartyParams
	// Start is where the shared embeddings start: U for VFL, V for HFL.
	Start *model.Matrix
	// Gradients makes parties send normalised gradients of the shared embeddings instead of the
	// embeddings (HFL-synSGD); the server takes the step.
	Gradients bool
	Session   protocol.SessionID
	Cohort    protocol.Cohort
	Release   protocol.Release // of PartyParams.Release, with width and the noise of one local step set
}

// Average is the server's side of VFL- and HFL-SGDMF, a server.Durable. It averages the versions of
// the shared embeddings, by weight, over the parties that took part (FMF paper, figure 3, step s2).
type Average struct {
	strategy
	params AverageParams
}

// NewAverage makes the strategy, with the shared embeddings at their start.
func NewAverage(p AverageParams) (*Average, error) {
	errs := []error{p.Validate(), p.Cohort.Validate(), p.Release.Validate()}
	if p.Start == nil || p.Start.Rows()*p.Start.Cols()+1 != p.Release.Len {
		errs = append(errs, fmt.Errorf("the start does not have the %d coordinates of the release", p.Release.Len-1))
	}
	if k := p.Release.Noise.Kind; k != protocol.PartyNoise && k != protocol.NoNoise {
		errs = append(errs, fmt.Errorf("noise is %s; parties noise their own steps or not at all", k))
	}
	if p.Gradients && p.LocalSteps != 1 {
		errs = append(errs, fmt.Errorf("local-steps is %d; it must be 1, since the server averages the gradient of a single step", p.LocalSteps))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Average{strategy{domain: averageState, session: p.Session, rounds: p.Rounds, shared: p.Start.Clone()}, p}, nil
}

// Next returns the plan of the next round, and true after the last.
func (s *Average) Next() (*protocol.Plan, bool, error) {
	r := s.params.Release
	if r.Noise.Kind == protocol.PartyNoise {
		r.Noise.Steps = s.params.StepsOf(s.round + 1)
	}
	return s.next(Shared, s.params.Cohort, r)
}

// Absorb averages the sums into the shared embeddings. If no weight was sent (every party failed to
// train), the embeddings stay.
func (s *Average) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	sum, d := sums.Values[0], s.shared.Cols()
	weight := sum[len(sum)-1]
	if !(weight > 0) {
		return nil
	}
	rate := 0.0
	if s.params.Gradients {
		_, rate = s.params.rates(int(p.Round))
	}
	run.Each(s.shared.Rows(), func(i int) {
		row := s.shared.Row(i)
		for c := range row {
			x := sum[i*d+c] / weight
			if s.params.Gradients {
				row[c] += rate * x
			} else {
				row[c] = x
			}
		}
		if s.params.projects() {
			Project(row, s.params.MaxRating) // an average of feasible points is feasible, except for rounding
		}
	})
	return nil
}

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

// strategyHead is the part of a state between the domain and the embeddings.
type strategyHead struct {
	Session    protocol.SessionID
	Round      uint64
	Rows, Cols uint32
}

// Save returns the state before the next call of Next.
func (s *strategy) Save() ([]byte, error) {
	b, err := binary.Append([]byte(s.domain), binary.BigEndian, strategyHead{s.session, s.round, uint32(s.shared.Rows()), uint32(s.shared.Cols())})
	return append(b, s.shared.Encode()...), err
}

// Restore takes up a saved state. It refuses a state of another session, of a round after the last,
// of embeddings of another shape, or in a wrong form; the strategy is then as it was.
func (s *strategy) Restore(b []byte) error {
	var h strategyHead
	fixed := len(s.domain) + binary.Size(h)
	if len(b) < fixed {
		return fmt.Errorf("fedmf: a state of %d bytes; it begins with %d", len(b), fixed)
	}
	if got := string(b[:len(s.domain)]); got != s.domain {
		return fmt.Errorf("fedmf: the state begins with %q; it must begin with %q: it is of another algorithm or version", got, s.domain)
	}
	_, err := binary.Decode(b[len(s.domain):], binary.BigEndian, &h)
	switch {
	case err != nil:
		return err
	case h.Session != s.session:
		return fmt.Errorf("fedmf: the state is of session %x; this one is %x", h.Session, s.session)
	case h.Round > uint64(s.rounds):
		return fmt.Errorf("fedmf: the state is of round %d; the last one is %d", h.Round, s.rounds)
	case uint64(h.Rows) != uint64(s.shared.Rows()) || uint64(h.Cols) != uint64(s.shared.Cols()):
		return fmt.Errorf("fedmf: the state holds %d x %d embeddings; there must be %d x %d", h.Rows, h.Cols, s.shared.Rows(), s.shared.Cols())
	}
	shared, err := model.NewBroadcast(b[fixed:], s.shared.Rows(), s.shared.Cols())
	if err != nil {
		return err
	}
	m := shared.Matrix()
	for i, x := range m.Data() {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("fedmf: row %d of the state's embeddings holds %v; coordinates are finite", i/m.Cols(), x)
		}
	}
	s.round, s.shared = h.Round, m
	return nil
}

// Snapshot returns u_i, fitted in stage 1, as little-endian float64, row by row.
func (t *User) Snapshot() ([]byte, error) { return numbers(t.u) }

func (t *User) Resume(snapshot []byte, _ entropy.Source) error {
	u := make([]float64, t.params.Rank)
	if err := readNumbers(u, snapshot); err != nil {
		return err
	}
	t.u = u
	return nil
}

// Snapshot returns U_k.
func (t *Horizontal) Snapshot() ([]byte, error) {
	if t.u == nil {
		return nil, nil
	}
	return numbers(t.u.Data())
}

// Resume restores U_k. The ratings are trimmed as they were before.
func (t *Horizontal) Resume(snapshot []byte, src entropy.Source) error {
	if t.steps == nil {
		if err := t.prepare(t.params.StartItems(), src, protocol.Workers(1)); err != nil {
			return err
		}
	}
	return readNumbers(t.u.Data(), snapshot)
}

// numbers encodes x; nil stays nil.
func numbers(x []float64) ([]byte, error) {
	if x == nil {
		return nil, nil
	}
	return binary.Append(make([]byte, 0, 8*len(x)), binary.LittleEndian, x)
}

func readNumbers(dst []float64, b []byte) error {
	if len(b) != 8*len(dst) {
		return fmt.Errorf("fedmf: a snapshot of %d bytes of embeddings; there must be %d", len(b), 8*len(dst))
	}
	_, err := binary.Decode(b, binary.LittleEndian, dst)
	return err
}
