package serving

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// This file combines the noisy sums of a session with the sums of earlier sessions. Every session sums over everything
// that its users have rated by then, so sums of two sessions measure the same quantity, each with noise of its own. The scatter
// of the ratings is not their own: later sums have the earlier ratings, too, and more of them. [Newer] weighs both. The weight
// of a sum falls with each session of age, because tastes move. lab/sessions/retraining.md derives both. All sums are divided by the number of users.

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
	switch {
	case s == nil:
		return before
	case before == nil:
		return s
	}
	shares := make([]float64, len(s.Precision))
	for i, p := range s.Precision {
		shares[i] = Newer(p, before.Precision[i], Measure{Gain: 1}, Measure{Gain: 1}, 0)
	}
	return s.mixed(before, shares)
}

// mixed returns the mean of two measurements of the same rows, where the first has the given shares.
func (s *Sum) mixed(before *Sum, shares []float64) *Sum {
	width := len(s.Value) / len(s.Precision)
	out := &Sum{Value: make([]float64, len(s.Value)), Precision: make([]float64, len(s.Precision))}
	for i, share := range shares {
		for c := i * width; c < (i+1)*width; c++ {
			out.Value[c] = share*s.Value[c] + (1-share)*before.Value[c]
		}
		variance := 0.
		for _, x := range []struct{ share, precision float64 }{{share, s.Precision[i]}, {1 - share, before.Precision[i]}} {
			if x.share > 0 {
				variance += x.share * x.share / x.precision
			}
		}
		out.Precision[i] = 1 / variance
	}
	return out
}

// Measure describes a sum as a measurement of an item. Its gain is the weight of the item's ratings for each user. Its scatter is the
// variance of these ratings' scatter, in units of the scatter of a rating with its weight.
type Measure struct{ Gain, Scatter float64 }

// Newer returns the share of a newer measurement beside an older one in their best linear combination. p and q are the precisions
// of their noise, and scatter is the variance of a rating's scatter, with its weight. Ratings of the older measurement are among the newer's, which
// gives both a covariance. See lab/sessions/retraining.md.
func Newer(p, q float64, now, then Measure, scatter float64) float64 {
	switch {
	case math.IsInf(p, 1) || q == 0:
		return 1
	case p == 0:
		return 0
	case math.IsInf(q, 1):
		q = math.MaxFloat64
	}
	old := then.Gain / p
	fresh := now.Gain/q + scatter*max(then.Scatter*now.Gain-then.Gain*then.Gain*now.Scatter/now.Gain, 0)
	return fresh / (old + fresh)
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
	// else about the mean of the model. BiasScatter has the scatter of both for each item.
	Weight, Bias *Sum
	BiasScatter  []float64
	Moments      *Sum      // a row of d numbers for each item
	Gain         []float64 // the weights of the ratings in Moments
	Scatter      []float64 // of Moments
	Gramian      []float64 // of an average user, d x d, projected; as precise as Moments
	Items        []float64 // A_j packed, item by item; as precise as Moments
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
	aged := *r
	aged.Mean, aged.Weight, aged.Bias, aged.Moments = r.Mean.Aged(decay), r.Weight.Aged(decay), r.Bias.Aged(decay), r.Moments.Aged(decay)
	s.Before = &aged
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

// StartedIn reports whether the strategy started from earlier sums and the last planned round is of a phase. The model then
// has parts that only a later phase makes otherwise.
func (s *Strategy) StartedIn(phase string) bool {
	return s.Before != nil && s.Round > 0 && s.Params.Steps[s.Round-1].Phase == phase
}

// Mean notes a sum of the mean, and returns it with those before: its two numbers for each user, with the deviation of their noise.
func (s *Strategy) Mean(r Absorbed) (sum, count, noise float64) {
	x := r.Values[kernel.Mean]
	s.own.Mean = NewSum(dense.Scaled(x, 1/r.Users), 1, dense.Sqr(r.Noise[kernel.Mean]/r.Users))
	all := s.own.Mean.Joined(s.Before.mean())
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
	s.Weight, s.WeightNoise, s.WeightNoises = nil, 0, nil
	if all, _ := s.weights(); all != nil {
		s.Weight, s.WeightNoises = all.Value, all.deviations(1)
		s.WeightNoise = slices.Max(s.WeightNoises)
	}
}

// weights returns the weights of items as they are known, and their scatter; nil if they are unknown. They have the shares that
// biases have, whose gains they are.
func (s *Strategy) weights() (*Sum, []float64) {
	if s.fresh == nil && s.Before == nil {
		return nil, nil
	}
	if s.fresh == nil {
		return s.Before.Weight, s.Before.BiasScatter
	}
	switch {
	case s.Before == nil || s.Before.Weight == nil:
		return s.fresh, s.ownScatter()
	case s.own.Bias == nil || s.Before.Bias == nil:
		return s.fresh.Joined(s.Before.Weight), s.ownScatter()
	}
	shares, scatter := s.shares(s.own.Bias.Precision, s.Before.Bias.Precision, s.Before.Weight.Value, s.Before.BiasScatter, dense.Sqr(s.Params.Residual(s.Params.ClipBias)))
	return s.fresh.mixed(s.Before.Weight, shares), scatter
}

// ownScatter is the scatter of sums of this session, for each user.
func (s *Strategy) ownScatter() []float64 {
	out := make([]float64, len(s.fresh.Value))
	for j := range out {
		out[j] = s.now(j).Scatter
	}
	return out
}

// now describes the sums of this session for an item.
func (s *Strategy) now(j int) Measure {
	c := max(s.fresh.Value[j], s.freshNoise(j), 1e-9)
	return Measure{c, c / s.Params.Total()}
}

// freshNoise is the deviation of the noise in the session's own weight of an item; 0 if there is none.
func (s *Strategy) freshNoise(j int) float64 {
	if s.fresh == nil {
		return 0
	}
	return 1 / math.Sqrt(s.fresh.Precision[j])
}

// shares returns the shares of this session's measurements of items beside earlier ones, and the scatter of both together. residual is the
// variance of a rating around its prediction.
func (s *Strategy) shares(p, q, gain, scatter []float64, residual float64) (shares, all []float64) {
	_, typical := s.typical(s.fresh.Value)
	shares, all = make([]float64, len(p)), make([]float64, len(p))
	for j := range p {
		now, then := s.now(j), Measure{max(gain[j], 1e-9), scatter[j]}
		shares[j] = Newer(p[j], q[j], now, then, residual*typical)
		share, common := shares[j], then.Gain*now.Scatter/now.Gain
		all[j] = share*share*now.Scatter + (1-share)*(1-share)*then.Scatter + 2*share*(1-share)*common
	}
	return shares, all
}

// Biases notes the session's sums for biases, nil if there are none yet. It returns them with the sums before, over all N clients, with
// the noise of each item; nil if there are neither.
func (s *Strategy) Biases(own *Sum) (all, deviations []float64) {
	if s.own.Bias = own; own != nil && s.Before != nil {
		s.weigh()
	}
	x, n := s.biases(), s.Params.Total()
	if x == nil {
		return nil, nil
	}
	return dense.Scaled(x.Value, n), x.deviations(n)
}

// biases returns the sums for biases as they are known, about the mean of the model; nil if they are unknown.
func (s *Strategy) biases() *Sum {
	before := s.Before.about(s.offCentre())
	if before == nil || s.own.Bias == nil || s.fresh == nil {
		if s.own.Bias == nil {
			return before
		}
		return s.own.Bias
	}
	shares, _ := s.shares(s.own.Bias.Precision, before.Precision, s.Before.Weight.Value, s.Before.BiasScatter, dense.Sqr(s.Params.Residual(s.Params.ClipBias)))
	return s.own.Bias.mixed(before, shares)
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
	if s.Before == nil || s.Before.Moments == nil {
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
	if s.Before == nil || s.Before.Moments == nil || s.Weight == nil {
		return nil, nil
	}
	y := &Equations{Params: &s.Params.Params}
	y.Weight, y.Typical = s.Weights()
	return y, s.load(y, s.Before)
}

// together returns the session's statistics with the statistics before.
func (s *Strategy) together() *Record {
	own, before := &s.own, s.Before
	switch {
	case own.Moments == nil && before == nil:
		return own
	case own.Moments == nil:
		return before
	case before == nil || before.Moments == nil || s.fresh == nil:
		out := *own
		if s.fresh != nil {
			out.Gain, out.Scatter = s.fresh.Value, s.ownScatter()
		} else if before != nil && before.Weight != nil { // this session's were lost
			out.Gain, out.Scatter = before.Weight.Value, before.BiasScatter
		}
		return &out
	}
	shares, scatter := s.shares(own.Moments.Precision, before.Moments.Precision, before.Gain, before.Scatter, s.spread(own.Gramian)*dense.Sqr(s.Params.Residual(s.Params.TargetBound())))
	out := &Record{Moments: own.Moments.mixed(before.Moments, shares), Gain: make([]float64, len(shares)), Scatter: scatter}
	most := 0.
	for j, share := range shares {
		out.Gain[j] = share*s.fresh.Value[j] + (1-share)*before.Gain[j]
		if share < 1 {
			most = max(most, before.Moments.Precision[j])
		}
	}
	if own.Items != nil && before.Items != nil {
		out.Items = (&Sum{own.Items, own.Moments.Precision}).mixed(&Sum{before.Items, before.Moments.Precision}, shares).Value
	}
	if len(own.Gramian) > 0 && len(before.Gramian) > 0 { // of all users, and as precise as items that were in all sums
		out.Gramian = (&Sum{own.Gramian, own.Moments.Precision[:1]}).Joined(&Sum{before.Gramian, []float64{most}}).Value
	}
	return out
}

// spread is the mean of the squares of an average user's coordinates, which scale the scatter of moments; 1 if it is unknown.
func (s *Strategy) spread(gramian []float64) float64 {
	d := s.Params.Rank
	if len(gramian) == 0 {
		return 1
	}
	sum := 0.
	for i := range d {
		sum += gramian[i*(d+1)]
	}
	return sum / float64(d)
}

// load sets equations to statistics for each user, times N, and returns the noise variance of each item.
func (s *Strategy) load(y *Equations, r *Record) []float64 {
	n := s.Params.Total()
	y.B, y.Gains = dense.Scaled(r.Moments.Value, n), dense.Scaled(r.Gain, n)
	for j, c := range y.Gains {
		y.Weight[j] = max(c, min(y.Weight[j], s.freshNoise(j)*n), 1e-9)
	}
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
	out.Mean = s.own.Mean.Joined(s.Before.mean())
	out.Weight, out.BiasScatter = s.weights()
	out.Bias = nil
	if sums := s.biases(); sums != nil && out.Weight != nil {
		moved := &Record{Weight: out.Weight, Bias: sums}
		out.Bias = moved.about(-s.offCentre())
	}
	return &out
}
