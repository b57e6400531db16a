package cond

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

type strategyParams struct {
	*params
	Schedule protocol.Schedule
	Step     float64       // learning rate, as a share of the largest that converges without noise and clipping
	Floor    float64       // least singular value to invert, as a part of the largest
	Ridge    config.Number // weight of zero in an item's own weight, in labels; not given: by the noise
	Session  protocol.SessionID
	Cohort   protocol.Cohort
}

// strategy is the server's side: gradient descent from zero. Its result is the average of plain
// weights over the last half of the gradients' rounds. It is a server.Durable.
type strategy struct {
	strategyParams
	round    uint64
	sums     []float64 // of the moments; nil before they arrive
	known    moments
	using    *transform
	theta    []float64 // weights of transformed features
	average  []float64 // sum of plain weights
	averaged float64   // number of summands in average
}

func newStrategy(p strategyParams) *strategy {
	return &strategy{strategyParams: p, theta: make([]float64, p.len()), average: make([]float64, p.len())}
}

func (s *strategy) Next() (*protocol.Plan, bool, error) {
	if s.round == uint64(s.Schedule.Rounds()) {
		return nil, true, nil
	}
	if s.round > 0 && s.sums == nil {
		if err := s.know(s.guess()); err != nil {
			return nil, false, err
		}
	}
	s.round++
	step := s.Schedule.At(s.round)
	p := &protocol.Plan{Session: s.Session, Round: s.round, Phase: step.Phase, Cohort: s.Cohort, Releases: step.Releases}
	if step.Phase == Moments {
		return p, false, nil
	}
	if err := s.turn(step.Phase == Conditioned); err != nil {
		return nil, false, err
	}
	v := append(append([]float64{}, s.theta...), s.using.numbers()...)
	p.Broadcast = model.Wrap(len(v), 1, v).Encode()
	return p, false, nil
}

// turn changes to conditioned features, or to plain features: θ becomes the θ with the same predictions (key design 3).
func (s *strategy) turn(conditioned bool) error {
	if s.using != nil && (s.using.features != nil) == conditioned {
		return nil
	}
	weights := s.weights()
	t, err := newTransform(s.layout, s.known, inversion{invert: conditioned, floor: s.Floor, ridge: s.ridge})
	if err != nil {
		return err
	}
	if s.using != nil {
		if conditioned {
			return errors.New("cond: conditioning begins after plain rounds; it can only end before them")
		}
		for j := range weights {
			weights[j] /= t.scale // plain features have one scale
		}
		s.theta = weights
	}
	s.using = t
	return nil
}

// ridge returns the weight of zero in an item's own weight, in labels, for so many noised directions: [sampleRidge] for the
// differences of labels, and more for the noise. With p directions, T gradients with noise of σ in each coordinate, and rates that
// converge, the average of T/2 has noise of variance p·σ²/(2nT) for each example of a direction. An item's weight has a deviation
// of about an eighth of the range.
func (s *strategy) ridge(directions float64) float64 {
	gradients := float64(s.Schedule.Rounds() - s.Schedule[0].Rounds)
	r := s.Schedule[len(s.Schedule)-1].Releases[0]
	noise := math.Sqrt(r.Noise.Target(s.Cohort)) / r.Scale / s.deviation
	return s.Ridge.Or(sampleRidge + directions*noise*noise/(2*gradients*s.known.examples))
}

// sampleRidge covers the differences between the labels of an item: about twice the differences between items.
const sampleRidge = 4

// weights returns the weights of plain features.
func (s *strategy) weights() []float64 {
	if s.using == nil {
		return make([]float64, s.len())
	}
	return s.using.apply(s.layout, s.theta)
}

func (s *strategy) Absorb(p *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	if p.Phase == Moments {
		return s.know(lists.Map(sums.Values[0], func(x float64) float64 { return x / s.publish }))
	}
	// The sum lacks the examples of lost parties, about as many as their share.
	examples := s.known.examples * float64(sums.Survivors) / float64(s.Cohort.Clients)
	rate := s.Step / (2 * s.using.curvature) / examples
	gradient := slices.Clone(sums.Values[0])
	s.using.penalise(s.layout, gradient, s.theta, examples)
	floats.AddScaled(s.theta, -rate, gradient)
	first := s.Schedule[0].Rounds
	if gradients := s.Schedule.Rounds() - first; int(p.Round)-first > gradients/2 {
		floats.Add(s.average, s.weights())
		s.averaged++
	}
	return nil
}

// guess returns possible moments for a run whose round of moments was lost: the largest possible number of examples, equally many
// of each item, and profiles of length 1 in every direction. Steps are then too short, and only the catalogue is conditioned.
func (s *strategy) guess() []float64 {
	items := s.items.rows.Rows()
	sums := make([]float64, items+packed(s.profile))
	for j := range items {
		sums[j] = s.most / float64(items)
	}
	at := items
	for a := range s.profile {
		sums[at] = s.most
		at += s.profile - a
	}
	return sums
}

// know takes up the moments.
func (s *strategy) know(sums []float64) (err error) {
	r := s.Schedule[0].Releases[0]
	s.known, err = momentsOf(s.layout, s.items, sums, math.Sqrt(r.Noise.Target(s.Cohort))/r.Scale/s.publish)
	if err == nil {
		s.sums = sums
	}
	return err
}

// Skip moves nothing; the attempt is used up.
func (s *strategy) Skip(*protocol.Plan, error) {}

// Model returns the weights of plain features, averaged as far as there is an average.
func (s *strategy) Model() []byte {
	w := s.weights()
	if s.averaged > 0 {
		for j, sum := range s.average {
			w[j] = sum / s.averaged
		}
	}
	return model.Wrap(len(w), 1, w).Encode()
}

// A strategy's state for a restart:
//
//	state = domain ‖ session (16 bytes) ‖ round (8) ‖ 0, 1 or 2: no transform, plain, conditioned ‖
//	        averaged ‖ average ‖ θ ‖ (sums of the moments, once they are there)
//
// Integers are big endian, numbers little-endian float64.
const stateDomain = "fedsim/fedcond/state/v1\n"

func (s *strategy) Save() ([]byte, error) {
	b := append([]byte(stateDomain), s.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, s.round)
	how := byte(0)
	if s.using != nil {
		how = 1
		if s.using.features != nil {
			how = 2
		}
	}
	b = append(b, how)
	v := append(append(append([]float64{s.averaged}, s.average...), s.theta...), s.sums...)
	return model.AppendFloats(b, v...), nil
}

// Restore takes up a saved state. A state with a wrong form is an error, and the strategy is then as it was.
func (s *strategy) Restore(state []byte) error {
	head := len(stateDomain) + len(s.Session) + 9
	n := s.len()
	without := 8 * (1 + 2*n)
	with := without + 8*(s.items.rows.Rows()+packed(s.profile))
	switch got := len(state) - head; {
	case got != without && got != with:
		return fmt.Errorf("cond: a state of %d bytes; it has %d, or %d once features are summed", len(state), head+without, head+with)
	case string(state[:len(stateDomain)]) != stateDomain:
		return fmt.Errorf("cond: the state begins with %q; it must begin with %q: it is of another algorithm or version", state[:len(stateDomain)], stateDomain)
	case string(state[len(stateDomain):head-9]) != string(s.Session[:]):
		return fmt.Errorf("cond: the state is of session %x; this one is %x", state[len(stateDomain):head-9], s.Session)
	}
	round, how := binary.BigEndian.Uint64(state[head-9:]), state[head-1]
	if round > uint64(s.Schedule.Rounds()) || how > 2 || how > 0 && len(state) == head+without {
		return fmt.Errorf("cond: the state is of round %d and form %d; the last round is %d", round, how, s.Schedule.Rounds())
	}
	v := model.Floats(state[head:])
	if dense.NotFinite(v) >= 0 {
		return errors.New("cond: the state holds what is no number")
	}
	next := newStrategy(s.strategyParams)
	if len(state) == head+with {
		if err := next.know(v[1+2*n:]); err != nil {
			return err
		}
	}
	if how > 0 {
		if err := next.turn(how == 2); err != nil {
			return err
		}
	}
	next.round, next.averaged = round, v[0]
	copy(next.average, v[1:1+n])
	copy(next.theta, v[1+n:1+2*n])
	*s = *next
	return nil
}
