package serving

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
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
	// Save appends the solver's part of a checkpoint. restore reads that part and returns the bytes
	// after it.
	Save(b []byte) []byte
	Restore(p *kernel.Params, b []byte) (Solving, []byte, error)
}

// StrategyParams holds the settings of the server's side.
type StrategyParams struct {
	kernel.Params
	Session protocol.SessionID
	Cohort  protocol.Cohort
	Steps   []kernel.Step // of Params.Steps, with scale, width and noise of every release set
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
	// WeightNoises has this deviation for each item, where earlier sessions make it differ; WeightNoise is then the largest. nil: all have the same.
	WeightNoises []float64
	fresh        []float64 // the session's own weights
	freshNoise   float64
	before       *Record          // sums of earlier sessions; nil: none
	own          Record           // sums of this session, except weights
	Left         left             // with BiasRounds above 1 only
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
}

// Deviation is the standard deviation of a release's noise, in the units of the contributions.
func Deviation(r protocol.Release) float64 { return math.Sqrt(r.Noise.Variance) / r.Scale }

// Total is N.
func (p *StrategyParams) Total() float64 { return float64(p.Cohort.Clients) }

// left holds the sums for biases of the rounds so far, scaled to N clients. Each comes with the
// biases that were subtracted before it. nil: none.
type left struct {
	Sums  []float64
	Noise float64
}

// records reports whether the state has the session's own sums: it has them if a session can start from them.
func (s *Strategy) records() bool {
	_, ok := s.Solving.(Resumer)
	return ok && s.All.TopItems == 0
}

// parts lists the parts of a record: the numbers of each, and its number of precisions.
func (r *Record) parts(p *kernel.Params) []recordPart {
	m, d := p.Items, p.Rank
	return []recordPart{
		{&r.Mean, nil, 2, 1}, {&r.Bias, nil, m, m}, {&r.Moments, nil, m * d, m},
		{nil, &r.Gramian, d * d, 0}, {nil, &r.Items, m * p.Packed(), 0},
	}
}

type recordPart struct {
	sum              **Sum
	plain            *[]float64
	size, precisions int
}

// save appends the session's own sums. Each part is 0 if there is none, or else 1 and its numbers. Precisions of a part are all equal, and one stands for them.
func (r *Record) save(b []byte) []byte {
	for _, x := range r.parts(&kernel.Params{}) {
		switch {
		case x.sum != nil && *x.sum != nil:
			b = kernel.AppendFloats(append(b, 1), (*x.sum).Precision[0])
			b = kernel.AppendFloats(b, (*x.sum).Value...)
		case x.plain != nil && len(*x.plain) > 0:
			b = kernel.AppendFloats(append(b, 1), *x.plain...)
		default:
			b = append(b, 0)
		}
	}
	return b
}

// restoreRecord reads the form of save, and returns the bytes after it.
func restoreRecord(p *kernel.Params, b []byte) (r Record, rest []byte, err error) {
	for i, x := range r.parts(p) {
		if len(b) == 0 || b[0] > 1 {
			return r, nil, fmt.Errorf("fedssp: the state ends before part %d of the record of its sums, which must begin with 0 or 1", i+1)
		}
		there := b[0] == 1
		if b = b[1:]; !there {
			continue
		}
		size := 8 * x.size
		if x.sum != nil {
			size += 8
		}
		if len(b) < size {
			return r, nil, fmt.Errorf("fedssp: the state has %d bytes in part %d of the record of its sums; there must be %d", len(b), i+1, size)
		}
		numbers := kernel.Numbers(b[:size])
		b = b[size:]
		for k, v := range numbers {
			if first := x.sum != nil && k == 0; math.IsNaN(v) || math.IsInf(v, 0) && !(first && v > 0) || first && v < 0 {
				return r, nil, fmt.Errorf("fedssp: part %d of the record of the state's sums holds %v at place %d", i+1, v, k)
			}
		}
		if x.plain != nil {
			*x.plain = numbers
			continue
		}
		*x.sum = NewSum(numbers[1:], x.precisions, 1)
		for k := range (*x.sum).Precision {
			(*x.sum).Precision[k] = numbers[0]
		}
	}
	return r, b, nil
}

// stateDomain begins the state of a strategy that survives a restart: the session, the number of
// planned rounds, the model, and the weight counts.
//
//	state = domain ‖ session (16 bytes) ‖ round (8) ‖ model length (4) ‖ model ‖
//	        0 or 1 ‖ (deviation ‖ c_j/|U1| (m), if 1) ‖
//	        (0 or 1 ‖ (deviation ‖ sums for biases (m), if 1), with several of them) ‖ (kept, with the pooled solver) ‖
//	        (record, with solvers from whose sums a session can start) ‖
//	        (0 or 1 ‖ encoder, if there is one)
//	kept = weight ‖ variance ‖ (moments (m·d) ‖ gramian (d·d), if weight is not 0)
//
// The flag before the encoder's state says that V has yet to follow the encoder.
//
// Integers are big endian, numbers as in the model ([kernel.Model.Encode]). The domain ends in the version
// of the form. The keeper of a state must detect damage.
const stateDomain = "fedsim/fedssp/state/v2\n"

// Save returns the state before the next call of Next.
func (s *Strategy) Save() ([]byte, error) {
	model := s.model.Encode()
	b := append([]byte(stateDomain), s.Params.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, s.Round)
	b = binary.BigEndian.AppendUint32(b, uint32(len(model)))
	b = append(b, model...)
	b = appendMeasured(b, s.fresh, s.freshNoise)
	if s.Params.BiasRounds > 1 {
		b = appendMeasured(b, s.Left.Sums, s.Left.Noise)
	}
	b = s.Solving.Save(b)
	if s.records() {
		b = s.own.save(b)
	}
	if s.Encoder == nil {
		return b, nil
	}
	if s.Encoded {
		return append(append(b, 1), s.Encoder.Save()...), nil
	}
	return append(append(b, 0), s.Encoder.Save()...), nil
}

// appendMeasured appends a flag and, if there are numbers, the deviation of their noise and a
// number for every item.
func appendMeasured(b []byte, x []float64, noise float64) []byte {
	if x == nil {
		return append(b, 0)
	}
	return kernel.AppendFloats(kernel.AppendFloats(append(b, 1), noise), x...)
}

// Restore returns an error that says why if a state belongs to another session or does not fit. The
// strategy is then unchanged.
func (s *Strategy) Restore(state []byte) error {
	session := s.Params.Session
	b := state
	if len(b) < len(stateDomain)+len(session)+8+4 {
		return fmt.Errorf("fedssp: a state of %d bytes; it begins with %d", len(b), len(stateDomain)+len(session)+8+4)
	}
	if got := string(b[:len(stateDomain)]); got != stateDomain {
		return fmt.Errorf("fedssp: the state begins with %q; it must begin with %q: it is of another algorithm or version", got, stateDomain)
	}
	b = b[len(stateDomain):]
	if got := b[:len(session)]; string(got) != string(session[:]) {
		return fmt.Errorf("fedssp: the state is of session %x; this one is %x", got, session)
	}
	b = b[len(session):]
	next := *s // takes effect as a whole, or not at all
	round, length := binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	if round > uint64(len(s.Params.Steps)) {
		return fmt.Errorf("fedssp: the state is of round %d; the last one is %d", round, len(s.Params.Steps))
	}
	b = b[12:]
	if uint64(length) > uint64(len(b)) {
		return fmt.Errorf("fedssp: the state ends within its model of %d bytes", length)
	}
	model, err := kernel.DecodeModel(b[:length], &s.All)
	if err != nil {
		return err
	}
	if err = next.turnBack(model); err != nil {
		return err
	}
	weight, deviation, b, err := next.decodeMeasured("weight counts", b[length:])
	if err != nil {
		return err
	}
	var before left
	if next.Params.BiasRounds > 1 {
		if before.Sums, before.Noise, b, err = next.decodeMeasured("sums for biases", b); err != nil {
			return err
		}
	}
	if next.Solving, b, err = next.Solving.Restore(&next.Params.Params, b); err != nil {
		return err
	}
	next.own = Record{}
	if next.records() {
		if next.own, b, err = restoreRecord(&next.Params.Params, b); err != nil {
			return err
		}
	}
	switch {
	case next.Encoder == nil && len(b) > 0:
		return fmt.Errorf("fedssp: %d bytes stand behind the state; there must be none", len(b))
	case next.Encoder != nil && (len(b) == 0 || b[0] > 1):
		return errors.New("fedssp: the state ends before its encoder's state, which must begin with 0 or 1")
	case next.Encoder != nil:
		if err := next.Encoder.Restore(b[1:]); err != nil {
			return err
		}
	}
	next.Encoded, next.Left = len(b) > 0 && b[0] == 1, before
	next.uncounted = model.Unchosen && s.chosenBy(round)
	next.Round, next.model, next.fresh, next.freshNoise = round, model, weight, deviation
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

// decodeMeasured reads the form of appendMeasured, and returns the bytes after it.
func (s *Strategy) decodeMeasured(what string, b []byte) (x []float64, deviation float64, rest []byte, err error) {
	if len(b) > 0 && b[0] == 0 {
		return nil, 0, b[1:], nil
	}
	end := 1 + 8*(1+s.Params.Items)
	if len(b) < end || b[0] != 1 {
		return nil, 0, nil, fmt.Errorf("fedssp: the state has %d bytes of %s and more; 0 leads none, and 1 %d bytes for %d items", len(b), what, end-1, s.Params.Items)
	}
	x = kernel.Numbers(b[1:end])
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || i == 0 && v < 0 {
			return nil, 0, nil, fmt.Errorf("fedssp: the state's %s hold %v at place %d; they are finite, and their deviation not negative", what, v, i)
		}
	}
	return x[1:], x[0], b[end:], nil
}
