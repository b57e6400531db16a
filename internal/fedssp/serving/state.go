package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Solver is the server's part of a solver.
type Solver interface {
	// Begin makes the state that the server keeps from sum to sum.
	Begin(*kernel.Params) Solving
	// Planned adds to the model of a plan what clients need beside the items. Settle brings a model
	// up to the last sum.
	Planned(*Strategy, *kernel.Model)
	Settle(*Strategy, *kernel.Model)
}

// solverOf returns the server's part of the settings' solver.
func solverOf(p *kernel.Params) Solver { return p.Solver.(Solver) }

// Solving is the server's side of a solver during a run.
type Solving interface {
	// Solve takes in a sum of statistics. It is not called until the weights of items are known,
	// unless the solver sums gradients by user.
	Solve(s *Strategy, r Absorbed, run protocol.Runner) error
}

// Keeper is a Solving whose state does not follow from the model.
type Keeper interface {
	// Save returns the solver's part of a checkpoint, and Restore reads it.
	Save() []byte
	Restore(p *kernel.Params, b []byte) (Solving, error)
}

// StrategyParams holds the settings of the server's side.
type StrategyParams struct {
	kernel.Params
	Session protocol.SessionID
	Cohort  protocol.Cohort
	Steps   []kernel.Step // of Params.Steps, with scale, width and noise of every release set
	Donors  []Donor       // in the order in which their numbers are added; nil: none
}

// Stage is the server's part of a stage of releases.
type Stage interface {
	// Takes reports whether sums of a phase belong to this stage. absorb takes in such a sum.
	Takes(phase string) bool
	Absorb(*Strategy, Absorbed, protocol.Runner) error
}

// Strategy is the server's side: a server.Durable.
//
// A round without a release leaves the model as it is. Without counts weights are equal,
// without a mean the mean is the middle of the scale, without biases they are zero, without
// statistics V stays. Later steps run all the same.
type Strategy struct {
	stages    []Stage
	Params    StrategyParams // the settings; once items are chosen, over these
	All       kernel.Params  // of the whole catalogue
	Chosen    *kernel.Choice // nil if all items are trained on, and until they are chosen
	uncounted bool           // the round that chooses the items was lost
	Round     uint64
	model     *kernel.Model
	// Weight is c_j/|U1|, nil until the weights are released; weightNoise is the deviation of their
	// noise.
	Weight      []float64
	WeightNoise float64
	// WeightNoises has this deviation for each item, which tilts and earlier sessions make differ; WeightNoise is the largest. nil: all have the same.
	WeightNoises []float64
	fresh        *Sum             // the session's own weights; nil: none were released
	Given        []float64        // the weights of the donors' ratings in the last sum that has weights; nil: there are none
	Before       *Record          // sums of earlier sessions; nil: none
	own          Record           // sums of this session, except weights
	Left         *Sum             // with BiasRounds above 1 only: the sums for biases of the rounds so far, each with the biases that were subtracted before it
	Solving      Solving          // what the solver keeps from sum to sum
	Encoder      *encoder.Encoder // nil if the solver has none
	Encoded      bool             // the encoder moved in this outer step, and V has not followed
}

// begin sets model and solver to their start.
func (s *Strategy) begin() error {
	p := &s.Params.Params
	m, err := p.Start()
	if err != nil {
		return err
	}
	m.Chosen, m.Weighed = s.Chosen, s.All.UserFeatures
	s.model = m
	return s.prepareSolver()
}

// prepareSolver sets up the solver's state beside the model.
func (s *Strategy) prepareSolver() error {
	p := &s.Params.Params
	var err error
	if p.Encodes() {
		s.Encoder, err = p.NewEncoder()
	}
	s.Solving = solverOf(p).Begin(p)
	return err
}

// Current returns the model itself, not a copy.
func (s *Strategy) Current() *kernel.Model { return s.model }

// Absorbed holds the releases of a round, by name.
type Absorbed struct {
	Values map[string][]float64
	Noise  map[string]float64 // standard deviation in a coordinate
	Users  float64            // |U1|
	// Donated has what all donors add to each release, without noise. Values and Users have it, too. nil: there are no donors.
	Donated map[string][]float64
}

// Deviation is the standard deviation of a release's noise, in the units of the contributions.
func Deviation(r protocol.Release) float64 { return math.Sqrt(r.Noise.Variance) / r.Scale }

// Total is N, donors included.
func (p *StrategyParams) Total() float64 { return float64(p.Cohort.Clients + len(p.Donors)) }

// stateDomain begins the state of a strategy that survives a restart. A state in JSON follows. The
// domain ends in the version of the form. The keeper of a state must detect damage.
const stateDomain = "fedsim/fedssp/state/v4\n"

// state is a strategy between two rounds. The numbers of a part are as [measured] writes them.
type state struct {
	Session []byte            `json:"session"`
	Round   uint64            `json:"round"`          // planned rounds
	Model   []byte            `json:"model"`          // see [kernel.Model.Encode]
	Weight  []byte            `json:"weight"`         // c_j/|U1|
	Left    []byte            `json:"left,omitempty"` // sums for biases, with several of them
	Solving []byte            `json:"solving"`        // of a [Keeper]
	Own     map[string][]byte `json:"own,omitempty"`  // the record of this session, with solvers from whose sums a session can start
	Encoded bool              `json:"encoded"`        // V has yet to follow the encoder
	Encoder []byte            `json:"encoder"`
}

// Save returns the state before the next call of Next.
func (s *Strategy) Save() ([]byte, error) {
	x := state{Session: s.Params.Session[:], Round: s.Round, Model: s.model.Encode(), Weight: s.fresh.save(),
		Left: s.Left.save(), Encoded: s.Encoded}
	if k, ok := s.Solving.(Keeper); ok {
		x.Solving = k.Save()
	}
	if _, ok := s.Solving.(Resumer); ok && s.All.TopItems == 0 { // a session can start from its sums
		x.Own = s.own.save()
	}
	if s.Encoder != nil {
		x.Encoder = s.Encoder.Save()
	}
	b, err := json.Marshal(x)
	return append([]byte(stateDomain), b...), err
}

// measured encodes numbers behind the precision of their noise; nil for no numbers.
func measured(x []float64, noise float64) []byte {
	if len(x) == 0 {
		return nil
	}
	return model.AppendFloats(model.AppendFloats(nil, noise), x...)
}

// unmeasured reads n numbers that measured wrote.
func unmeasured(what string, b []byte, n int) (x []float64, noise float64, err error) {
	if b == nil {
		return nil, 0, nil
	}
	if x, err = kernel.Finite(what, b, n+1); err != nil {
		return nil, 0, err
	}
	return x[1:], x[0], nil
}

// save encodes a sum behind its precisions; if all are equal one stands for them. nil for nil.
func (s *Sum) save() []byte {
	if s == nil {
		return nil
	}
	first := s.Precision[0]
	if !slices.ContainsFunc(s.Precision, func(x float64) bool { return x != first }) {
		return measured(s.Value, first)
	}
	return model.AppendFloats(model.AppendFloats(nil, s.Precision...), s.Value...)
}

// restoreSum reads what save returned of a sum of rows.
func restoreSum(what string, b []byte, rows, width int) (*Sum, error) {
	if b == nil {
		return nil, nil
	}
	if n := rows * (1 + width); len(b) == 8*n {
		x, err := kernel.Finite(what, b, n)
		return &Sum{x[min(rows, len(x)):], x[:min(rows, len(x))]}, err
	}
	x, precision, err := unmeasured(what, b, rows*width)
	return &Sum{x, slices.Repeat([]float64{precision}, rows)}, err
}

// save encodes the session's own sums.
func (r *Record) save() map[string][]byte {
	out := map[string][]byte{"gramian": measured(r.Gramian, 0), "items": measured(r.Items, 0)}
	for name, x := range map[string]*Sum{"mean": r.Mean, "bias": r.Bias, "moments": r.Moments} {
		if x != nil {
			out[name] = x.save()
		}
	}
	return out
}

// restoreRecord reads the form of save.
func restoreRecord(p *kernel.Params, saved map[string][]byte) (r Record, err error) {
	plain := func(name string, size int) []float64 {
		x, _, failed := unmeasured("the record's "+name, saved[name], size)
		err = errors.Join(err, failed)
		return x
	}
	sum := func(name string, rows, width int) *Sum {
		x, failed := restoreSum("the record's "+name, saved[name], rows, width)
		err = errors.Join(err, failed)
		return x
	}
	m, d := p.Items, p.Rank
	r = Record{Mean: sum("mean", 1, 2), Bias: sum("bias", m, 1), Moments: sum("moments", m, d), Gramian: plain("gramian", d*d), Items: plain("items", m*p.Packed())}
	return r, err
}

// Restore returns an error that says why if a state belongs to another session or does not fit. The
// strategy is then unchanged.
func (s *Strategy) Restore(b []byte) error {
	rest, ok := bytes.CutPrefix(b, []byte(stateDomain))
	if !ok {
		return fmt.Errorf("fedssp: a state of %d bytes that does not begin with %q: it is of another algorithm or version", len(b), stateDomain)
	}
	var x state
	if err := json.Unmarshal(rest, &x); err != nil {
		return fmt.Errorf("fedssp: the state: %w", err)
	}
	if !bytes.Equal(x.Session, s.Params.Session[:]) {
		return fmt.Errorf("fedssp: the state is of session %x; this one is %x", x.Session, s.Params.Session)
	}
	if x.Round > uint64(len(s.Params.Steps)) {
		return fmt.Errorf("fedssp: the state is of round %d; the last one is %d", x.Round, len(s.Params.Steps))
	}
	next := *s // takes effect as a whole, or not at all
	var err error
	if next.model, err = kernel.DecodeModel(x.Model, &s.All); err != nil {
		return err
	}
	if err = next.turnBack(next.model); err != nil {
		return err
	}
	p := &next.Params.Params
	if next.fresh, err = restoreSum("weight counts", x.Weight, p.Items, 1); err != nil {
		return err
	}
	if next.Left, err = restoreSum("sums for biases", x.Left, p.Items, 1); err != nil {
		return err
	}
	if k, ok := next.Solving.(Keeper); ok {
		if next.Solving, err = k.Restore(p, x.Solving); err != nil {
			return err
		}
	}
	if next.own, err = restoreRecord(p, x.Own); err != nil {
		return err
	}
	if next.Encoder != nil {
		if err = next.Encoder.Restore(x.Encoder); err != nil {
			return err
		}
	}
	next.Round, next.Encoded = x.Round, x.Encoded
	next.uncounted = next.model.Unchosen && s.chosenBy(x.Round)
	next.weigh()
	*s = next
	return nil
}

// turnBack sets the strategy to the items that a model was trained on.
func (s *Strategy) turnBack(m *kernel.Model) error {
	switch {
	case m.Unchosen:
		s.Chosen, s.Params.Params, s.Encoder, s.Solving = nil, s.All, nil, solverOf(&s.All).Begin(&s.All)
		return nil
	case m.Chosen != nil:
		s.turnTo(m.Chosen)
		return s.prepareSolver()
	default:
		return nil
	}
}
