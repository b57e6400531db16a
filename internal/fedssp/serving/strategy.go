// Package serving has the server's side of a run. [Strategy] is the server's role, with checkpoints.
// Beside it stand the released weights of items, the equations of an outer step, the priors of biases
// and items, and the encoder that follows a sum.
//
// It imports kernel, and never configuration or the client's side. Stages and solvers reach it
// through two small interfaces, [Stage] and [Solver].
package serving

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/posterior"
	"github.com/fedsim/fedsim/protocol"
)

// settle rounds the model as clients receive it, and computes anew everything that follows from it.
func (s *Strategy) settle() {
	s.model.Round()
	s.model.Complete(&s.Params.Params)
}

// New returns a strategy with the model at its start. Its settings and steps must be valid.
// stages lists all that take in sums.
func New(p StrategyParams, stages []Stage) (*Strategy, error) {
	s := &Strategy{Params: p, stages: stages, All: p.Params}
	if p.Chooses() {
		s.model, s.Solving = p.Unchosen(), solverOf(&s.All).Begin(&s.All)
		return s, nil
	}
	return s, s.begin()
}

// Next plans a round. A skipped round counts like any other: the budget is planned over
// attempts.
func (s *Strategy) Next() (*protocol.Plan, bool, error) {
	if s.Round == uint64(len(s.Params.Steps)) {
		return nil, true, nil
	}
	if s.uncounted {
		return nil, false, kernel.ErrNotCounted
	}
	step := s.Params.Steps[s.Round]
	s.Round++
	m := *s.model.Training(step.Phase)
	if step.Phase == kernel.Statistics {
		solverOf(&s.Params.Params).Planned(s, &m)
	}
	return &protocol.Plan{
		Session: s.Params.Session, Round: s.Round, Phase: step.Phase,
		Cohort: s.Params.Cohort, Releases: step.Releases, Broadcast: m.Encode(),
	}, false, nil
}

// Skip uses up an attempt. The model stays, unless other sums of the outer step that ends here
// moved it.
func (s *Strategy) Skip(*protocol.Plan, error) {
	s.uncounted = s.model.Unchosen && s.chosenBy(s.Round)
	s.follow(protocol.Workers(1))
	s.settle()
}

// chosenBy reports whether the round, or an earlier one, chooses the items.
func (s *Strategy) chosenBy(round uint64) bool {
	if s.All.ByWeights {
		return round > 0 && s.Params.Steps[round-1].Phase != kernel.Prepare
	}
	return round > 0
}

// Model returns the encoded model after the last sum that was taken in.
func (s *Strategy) Model() []byte {
	m := *s.model
	solverOf(&s.Params.Params).Settle(s, &m)
	if s.Params.Orders() && s.Weight != nil && s.Round == uint64(len(s.Params.Steps)) {
		m.Counts = s.Counts()
	}
	return m.Encode()
}

// Absorb takes in the sums of a round, stage by stage.
func (s *Strategy) Absorb(plan *protocol.Plan, released protocol.Sums, run protocol.Runner) error {
	r := Absorbed{Values: map[string][]float64{}, Noise: map[string]float64{}, Users: float64(released.Survivors)}
	for i, rel := range plan.Releases {
		r.Values[rel.Name], r.Noise[rel.Name] = released.Values[i], Deviation(rel)
	}
	if err := r.add(&s.Params, plan, run); err != nil {
		return err
	}
	defer s.settle()
	for _, x := range s.stages {
		if x.Takes(plan.Phase) {
			if err := x.Absorb(s, r, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// The functions below estimate how often items are rated, which orders lists (kernel/choice.go). Noise hides the
// weights of all but the popular items. An item with a hidden weight is as popular as its features say.

// These constants belong to the estimate. Logarithms of weights begin with the deviations countsOwn
// around features, countsFeatures of a feature's effect and countsLevel of their mean. A weight of
// countsSure deviations of its noise is taken as it is, apart from its variance. Other weights lie on
// a grid, so many steps wide around the mean weight's logarithm.
const (
	countsOwn      = 1.2
	countsFeatures = 0.5
	countsLevel    = 5
	countsSure     = 6
	countsSteps    = 100
	countsBelow    = 5.
	countsAbove    = 4.5
	countsRounds   = 10
)

// Counts returns c_j of all N clients: exponentials of posterior means of log c_j. The prior of log c_j
// is normal, with a mean that the item's features determine. EM learns the effects of features.
func (s *Strategy) Counts() []float64 {
	p, n := &s.Params.Params, s.Params.Total()
	released, noise := dense.Scaled(s.Weight, n), s.WeightNoise*n
	if noise == 0 {
		least := math.Inf(1)
		for _, c := range released {
			if c > 0 {
				least = min(least, c)
			}
		}
		for j, c := range released {
			released[j] = max(c, least/2)
		}
		return finite(released)
	}
	columns, group := columns(p.Features)
	design := designOf(p.Features, columns, group, make([]float64, len(released)))
	logs := newLogs(released, noise, n, countsBelow, countsAbove, countsSteps)
	prior := posterior.Prior{Own: countsOwn, Groups: slices.Repeat([]float64{countsFeatures}, design.Groups())}
	prior.Groups[0] = countsLevel
	centre, y := slices.Repeat([]float64{logs.middle}, len(released)), posterior.Measurements{Gain: slices.Repeat([]float64{1}, len(released)), Variance: make([]float64, len(released))}
	deviation := countsOwn
	for round := 0; ; round++ {
		var variance float64
		y.Value, variance = logs.posterior(centre, deviation)
		if round == countsRounds {
			break
		}
		_, effects, learned, err := posterior.EstimateEffects(design, y, prior, 1)
		if err != nil {
			break // the mean of all items is left
		}
		prior, centre = learned, design.Predict(effects)
		deviation = max(math.Hypot(learned.Own, math.Sqrt(variance)), leastRatio)
	}
	for j, l := range y.Value {
		released[j] = math.Exp(l)
	}
	return finite(released)
}

// finite replaces numbers that are not positive and finite by 1. There are none unless all weights
// are 0.
func finite(x []float64) []float64 {
	for j, c := range x {
		if !(c > 0 && c <= math.MaxFloat32) {
			x[j] = 1
		}
	}
	return x
}

// logs holds the weights whose logarithms are estimated.
type logs struct {
	released   []float64
	noise      float64
	middle     float64   // the logarithm of the mean weight
	grid, exps []float64 // logarithms, and their exponentials
}

// newLogs makes a grid of so many steps, from below to above the logarithm of the mean weight. Every user has a total
// weight of at least 1.
func newLogs(released []float64, noise, users, below, above float64, steps int) *logs {
	var total float64
	for _, c := range released {
		total += c
	}
	l := &logs{released: released, noise: noise, middle: math.Log(max(total, users) / float64(len(released)))}
	for g := range steps {
		x := l.middle - below + (below+above)*(float64(g)+0.5)/float64(steps)
		l.grid, l.exps = append(l.grid, x), append(l.exps, math.Exp(x))
	}
	return l
}

// posterior returns the posterior means of all logarithms, given their prior, and the mean of their
// variances.
func (l *logs) posterior(centre []float64, deviation float64) (means []float64, variance float64) {
	means = make([]float64, len(centre))
	mass := make([]float64, countsSteps)
	for j, c := range l.released {
		if c > countsSure*l.noise {
			v := dense.Sqr(l.noise / c)
			part := dense.Sqr(deviation) / (dense.Sqr(deviation) + v)
			means[j] = centre[j] + part*(math.Log(c)-centre[j])
			variance += part * v
			continue
		}
		best := math.Inf(-1)
		for g, x := range l.grid {
			mass[g] = -dense.Sqr((x-centre[j])/deviation)/2 - dense.Sqr((c-l.exps[g])/l.noise)/2
			best = max(best, mass[g])
		}
		var all, first, second float64
		for g, x := range l.grid {
			w := math.Exp(mass[g] - best)
			all, first, second = all+w, first+w*x, second+w*x*x
		}
		means[j] = first / all
		variance += max(second/all-dense.Sqr(means[j]), 0)
	}
	return means, variance / float64(len(means))
}

// Descended moves V after a step, at the end of an outer step.
func (s *Strategy) Descended(run protocol.Runner) {
	s.Encoded = true
	s.follow(run)
}

// Sums counts the sums of statistics before this round's.
func (s *Strategy) Sums() int {
	p := &s.Params.Params
	return int(s.Round) - 1 - (len(s.Params.Steps) - p.Rounds*p.Resample)
}

// objective is the loss that an encoder minimises. For item j it is vᵀA_jv/2 - b_jᵀv, discounted
// and with ridge, as a closed form solves it. All losses are divided by one number, which makes the
// mean curvature 1. So one learning rate suits many users and few, long embeddings and short.
type objective struct {
	d    int
	a, b []float64 // m x d x d and m x d
}

func (y *Equations) objective(run protocol.Runner) *objective {
	m, d := y.Params.Items, y.Params.Rank
	o := &objective{d: d}
	o.a, o.b = y.Systems(run)
	var trace float64
	for j := range m {
		for i := range d {
			trace += o.a[j*d*d+i*(d+1)]
		}
	}
	if scale := float64(m*d) / trace; trace > 0 {
		for i := range o.a {
			o.a[i] *= scale
		}
		for i := range o.b {
			o.b[i] *= scale
		}
	}
	return o
}

// Gradient returns the loss of item j at v and sets g to its gradient.
func (o *objective) Gradient(j int, v, g []float64) float64 {
	d := o.d
	a, b := o.a[j*d*d:(j+1)*d*d], o.b[j*d:(j+1)*d]
	var loss float64
	for i := range d {
		av := dense.Dot(a[i*d:(i+1)*d], v)
		loss += (av/2 - b[i]) * v[i]
		g[i] = av - b[i]
	}
	return loss
}

// Outer returns the outer step of a round, from 0, and which of the step's sums it is.
func (s *Strategy) Outer() (step int, part encoder.Slice) {
	p := &s.Params.Params
	sum := s.Sums()
	return sum / p.Resample, encoder.Slice{Index: sum % p.Resample, Of: p.Resample}
}

// FitEncoder takes the gradient steps of one sum. V follows when the outer step ends.
func (s *Strategy) FitEncoder(y *Equations, run protocol.Runner) error {
	step, part := s.Outer()
	if err := s.Encoder.Fit(y.objective(run), uint64(step+1), part, run); err != nil {
		return fmt.Errorf("fedssp: %w", err)
	}
	s.Encoded = true
	s.follow(run)
	return nil
}

// follow sets V to the encoder's output, at the end of an outer step in which the encoder moved.
func (s *Strategy) follow(run protocol.Runner) {
	if !s.Encoded {
		return
	}
	if _, part := s.Outer(); part.Index != part.Of-1 {
		return
	}
	s.Encoder.Embed(s.model.Items, run)
	if s.Chosen != nil && s.Chosen.Rest != nil {
		s.model.Rest = s.Encoder.EmbedOthers(s.Chosen.Rest)
	}
	s.Encoded = false
}

// Limits calls hear with inequalities that the vector of each honest client keeps ([server.Limited]):
//
//   - |w_j·e_j| <= ClipBias·w_j of biases, as each clipped residual e_j is at most ClipBias;
//   - |Σ y|/k <= n/k of the mean, as places on the scale are at most 1;
//   - 0 <= w_j of weights, and 0 <= n_j of counts;
//   - 0 <= g_aa and √2·|g_ab| <= g_aa + g_bb of a packed Gramian, which is positive semi-definite.
func (s *Strategy) Limits(p *protocol.Plan, hear func(terms ...protocol.Term)) {
	weights := slices.IndexFunc(p.Releases, func(r protocol.Release) bool { return r.Name == kernel.WeightCounts })
	for i, r := range p.Releases {
		switch {
		case r.Name == kernel.Bias && weights >= 0:
			for j := range r.Len {
				most := protocol.Term{Release: weights, Coordinate: j, Factor: -s.Params.ClipBias}
				hear(protocol.Term{Release: i, Coordinate: j, Factor: 1}, most)
				hear(protocol.Term{Release: i, Coordinate: j, Factor: -1}, most)
			}
		case r.Name == kernel.Mean:
			most := protocol.Term{Release: i, Coordinate: 1, Factor: -1}
			hear(protocol.Term{Release: i, Factor: 1}, most)
			hear(protocol.Term{Release: i, Factor: -1}, most)
		case r.Name == kernel.WeightCounts || r.Name == kernel.Counts:
			for j := range r.Len {
				hear(protocol.Term{Release: i, Coordinate: j, Factor: -1})
			}
		case r.Name == kernel.Gramian && r.Len == s.Params.Packed():
			gramianLimits(i, s.Params.Rank, hear)
		}
	}
}

// gramianLimits are the limits of svec(G), whose row a begins at a(a+1)/2.
func gramianLimits(release, rank int, hear func(terms ...protocol.Term)) {
	at := func(a, b int, factor float64) protocol.Term {
		return protocol.Term{Release: release, Coordinate: a*(a+1)/2 + b, Factor: factor}
	}
	for a := range rank {
		hear(at(a, a, -1))
		for b := range a {
			hear(at(a, b, math.Sqrt2), at(a, a, -1), at(b, b, -1))
			hear(at(a, b, -math.Sqrt2), at(a, a, -1), at(b, b, -1))
		}
	}
}
