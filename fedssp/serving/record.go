package serving

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// This file combines the noisy sums of a session with the sums of earlier sessions. Every session sums over everything
// that its users have rated by then, so sums of two sessions measure the same quantity, each with noise of its own. Sums are
// divided by the number of users, and the mean weighted by inverse noise variances is the best linear estimate. A weight falls
// with each session of age, because tastes move. docs/retraining.md derives both.

// Sum is a noisy sum over users, divided by their number, in rows.
type Sum struct {
	Value []float64
	// Precision has the inverse variance of the noise in each row's coordinates. It is 0 of a row that was not summed, and +Inf without noise.
	Precision []float64
}

// NewSum returns a sum whose rows all have noise of one variance.
func NewSum(value []float64, rows int, variance float64) *Sum {
	s := &Sum{Value: value, Precision: make([]float64, rows)}
	for i := range s.Precision {
		s.Precision[i] = 1 / variance
	}
	return s
}

// Joined returns the mean of two measurements of the same rows, weighted by their precisions. Without noise the first one counts alone. Either may be nil.
func (s *Sum) Joined(before *Sum) *Sum {
	if s == nil || before == nil {
		if s == nil {
			return before
		}
		return s
	}
	width := len(s.Value) / len(s.Precision)
	out := &Sum{Value: make([]float64, len(s.Value)), Precision: make([]float64, len(s.Precision))}
	for i, p := range s.Precision {
		share := 1. // of the first
		if q := before.Precision[i]; !math.IsInf(p, 1) && p+q > 0 {
			share = p / (p + q)
			if math.IsInf(q, 1) {
				share = 0
			}
		}
		out.Precision[i] = p + before.Precision[i]
		for c := i * width; c < (i+1)*width; c++ {
			out.Value[c] = share*s.Value[c] + (1-share)*before.Value[c]
		}
	}
	return out
}

// Aged returns the sum with its precision multiplied by a decay. A nil Sum stays nil.
func (s *Sum) Aged(decay float64) *Sum {
	if s == nil {
		return nil
	}
	return &Sum{s.Value, dense.Scaled(s.Precision, decay)}
}

// unknown is the deviation of a row that was not summed, for each user: as large as a user's addition.
const unknown = 1

// deviations returns the deviation of the noise in each row, in sums over n users.
func (s *Sum) deviations(n float64) []float64 {
	out := make([]float64, len(s.Precision))
	for i, p := range s.Precision {
		out[i] = unknown * n
		if p > 0 {
			out[i] = n / math.Sqrt(p)
		}
	}
	return out
}

// Record holds the sums of a session, or of several together. A part is nil if it was not released.
type Record struct {
	Mean *Sum // the sum of ratings' places on the scale, and their number: one row
	// Weight has c_j, Bias the sums for biases. In a record that is kept these are about the middle of the scale, and
	// else about the mean of the model.
	Weight, Bias *Sum
	Moments      *Sum      // a row of d numbers for each item
	Gramian      []float64 // of an average user, d x d, projected; as precise as Moments
	Items        []float64 // A_j packed, item by item; as precise as Moments
}

// aged returns the record after one more session.
func (r *Record) aged(decay float64) *Record {
	return &Record{r.Mean.Aged(decay), r.Weight.Aged(decay), r.Bias.Aged(decay), r.Moments.Aged(decay), r.Gramian, r.Items}
}

// about returns the sums for biases about another mean than the middle of the scale: an item's ratings then have biases
// that are smaller by the difference, times the weight of the ratings.
func (r *Record) about(difference float64) *Sum {
	if r == nil || r.Bias == nil || r.Weight == nil {
		return nil
	}
	out := &Sum{append([]float64(nil), r.Bias.Value...), r.Bias.Precision}
	dense.Axpy(out.Value, -difference, r.Weight.Value)
	return out
}

// Resumer is a Stage or a Solving that can compute its part of the model from earlier sessions' sums alone.
type Resumer interface {
	Resume(*Strategy, protocol.Runner) error
}

// ErrNotResumed is wrapped by errors for settings with which no session can start from another.
var ErrNotResumed = errors.New("fedssp: a session cannot start from sums")

// StartFrom sets the model to what earlier sessions' sums tell, before the first round. Precisions of the record, which is
// over the items of this session, are multiplied by the decay. The sums of this session will be combined with them.
func (s *Strategy) StartFrom(r *Record, decay float64) error {
	if _, ok := s.Solving.(Resumer); !ok || s.Round > 0 || s.Chosen != nil || s.Params.Chooses() {
		return fmt.Errorf("%w: the solver %s takes none, or trains on some of the items", ErrNotResumed, s.Params.Solver)
	}
	s.before = r.aged(decay)
	s.weigh()
	for _, x := range s.stages {
		if y, ok := x.(Resumer); ok {
			if err := y.Resume(s, protocol.Workers(1)); err != nil {
				return err
			}
		}
	}
	s.settle()
	return nil
}

// Before returns the record of earlier sessions; nil if there are none.
func (s *Strategy) Before() *Record { return s.before }

// Mean notes a sum of the mean, and returns it with those before: its two numbers for each user, with the deviation of their noise.
func (s *Strategy) Mean(r Absorbed) (sum, count, noise float64) {
	x := r.Values[kernel.Mean]
	s.own.Mean = NewSum(dense.Scaled(x, 1/r.Users), 1, dense.Sqr(r.Noise[kernel.Mean]/r.Users))
	all := s.own.Mean.Joined(s.before.mean())
	return all.Value[0], all.Value[1], all.deviations(1)[0]
}

func (r *Record) mean() *Sum {
	if r == nil {
		return nil
	}
	return r.Mean
}

// weigh sets the weights of items from the session's own and those before.
func (s *Strategy) weigh() {
	s.Weight, s.WeightNoise, s.WeightNoises = s.fresh, s.freshNoise, nil
	if s.before == nil || s.before.Weight == nil {
		return
	}
	all := s.weights()
	s.Weight, s.WeightNoises = all.Value, all.deviations(1)
	s.WeightNoise = 0
	for _, x := range s.WeightNoises {
		s.WeightNoise = max(s.WeightNoise, x)
	}
}

// weights returns the weights of items as they are known, for each user; nil if they are unknown.
func (s *Strategy) weights() *Sum {
	var own, before *Sum
	if s.fresh != nil {
		own = NewSum(s.fresh, len(s.fresh), dense.Sqr(s.freshNoise))
	}
	if s.before != nil {
		before = s.before.Weight
	}
	return own.Joined(before)
}

// Biases notes the session's sums for biases, over all N clients, and returns them with the sums before. deviations has the noise of
// each item; nil: all have the noise that was given.
func (s *Strategy) Biases(sums []float64, noise float64) (all, deviations []float64) {
	n := s.Params.Total()
	s.own.Bias = NewSum(dense.Scaled(sums, 1/n), len(sums), dense.Sqr(noise/n))
	before := s.before.about(s.offCentre())
	if before == nil {
		return sums, nil
	}
	x := s.own.Bias.Joined(before)
	return dense.Scaled(x.Value, n), x.deviations(n)
}

// BiasesBefore returns the sums for biases of earlier sessions, as of all N clients; nil if there are none.
func (s *Strategy) BiasesBefore() (sums, deviations []float64) {
	x := s.before.about(s.offCentre())
	if x == nil {
		return nil, nil
	}
	n := s.Params.Total()
	return dense.Scaled(x.Value, n), x.deviations(n)
}

func (s *Strategy) offCentre() float64 { return s.model.Mean - s.Params.Middle() }

// Join notes the statistics of a sum as the session's own, and combines them with the statistics before. variance is of the
// noise in a coordinate of y.B. Join returns this variance for each item.
func (s *Strategy) Join(y *Equations, variance float64) []float64 {
	p, n := &s.Params.Params, s.Params.Total()
	s.own.Moments = NewSum(dense.Scaled(y.B, 1/n), p.Items, variance/dense.Sqr(n))
	s.own.Gramian, s.own.Items = append([]float64(nil), y.Gramian...), nil
	if y.Items != nil {
		s.own.Items = dense.Scaled(y.Items, 1/n)
	}
	if s.before == nil || s.before.Moments == nil {
		out := make([]float64, p.Items)
		for j := range out {
			out[j] = variance
		}
		return out
	}
	return s.load(y, s.together())
}

// EquationsBefore returns the equations of earlier sessions' statistics, with the noise variance of each item; nil if there are none.
func (s *Strategy) EquationsBefore() (*Equations, []float64) {
	if s.before == nil || s.before.Moments == nil || s.Weight == nil {
		return nil, nil
	}
	y := &Equations{Params: &s.Params.Params}
	y.Weight, y.Typical = s.Weights()
	return y, s.load(y, s.before)
}

// together returns the session's statistics with the statistics before.
func (s *Strategy) together() *Record {
	if s.before == nil || s.before.Moments == nil {
		return &s.own
	}
	if s.own.Moments == nil {
		return s.before
	}
	own, before := &s.own, s.before
	out := &Record{Moments: own.Moments.Joined(before.Moments)}
	rows := len(own.Moments.Precision)
	if own.Items != nil && before.Items != nil {
		out.Items = (&Sum{own.Items, own.Moments.Precision}).Joined(&Sum{before.Items, before.Moments.Precision}).Value
	}
	if len(own.Gramian) > 0 && len(before.Gramian) > 0 {
		most := func(p []float64) []float64 { // a Gramian is of all users, and as precise as the items that were in all sums
			m := 0.
			for _, x := range p {
				m = max(m, x)
			}
			return []float64{m}
		}
		out.Gramian = (&Sum{own.Gramian, most(own.Moments.Precision)}).Joined(&Sum{before.Gramian, most(before.Moments.Precision[:rows])}).Value
	}
	return out
}

// load sets equations to statistics for each user, times N, and returns the noise variance of each item.
func (s *Strategy) load(y *Equations, r *Record) []float64 {
	n := s.Params.Total()
	y.B = dense.Scaled(r.Moments.Value, n)
	if r.Items != nil {
		y.Items = dense.Scaled(r.Items, n)
	}
	if len(r.Gramian) > 0 {
		y.Gramian = append([]float64(nil), r.Gramian...)
		y.Share = y.shares(n)
	}
	variance := r.Moments.deviations(n)
	y.Rhos = make([]float64, len(variance))
	for j, x := range variance {
		variance[j] = dense.Sqr(x)
		y.Rhos[j] = variance[j] / y.Typical
	}
	return variance
}

// Together returns what this session and those before it released.
func (s *Strategy) Together() *Record {
	out := *s.together()
	out.Mean = s.own.Mean.Joined(s.before.mean())
	out.Weight = s.weights()
	if sums := s.own.Bias.Joined(s.before.about(s.offCentre())); sums != nil && out.Weight != nil {
		moved := &Record{Weight: out.Weight, Bias: sums}
		out.Bias = moved.about(-s.offCentre())
	}
	return &out
}
