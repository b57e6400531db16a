package kernel

import (
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// item returns the embedding and bias of an item of the catalogue. The embedding is nil if there is
// none.
func (m *Model) item(j, d int) (row []float64, bias float64) {
	if m.Unchosen {
		return nil, 0
	}
	if m.Chosen != nil {
		j = int(m.Chosen.Place[j])
	}
	return m.at(j, d)
}

// at returns the embedding and bias at a place among the items that are trained on, or at ^place among the others.
func (m *Model) at(place, d int) (row []float64, bias float64) {
	rows, biases := m.Items, m.Bias
	if place < 0 {
		place, rows, biases = ^place, m.Rest, m.RestBias // a choice by weights has biases of all items
	}
	if biases != nil {
		bias = biases[place]
	}
	if rows != nil {
		row = rows[place*d : (place+1)*d]
	}
	return row, bias
}

// Nothing reports whether an embedding says nothing about its item: it is empty, or all its numbers
// are zero because its features were never trained on.
func Nothing(row []float64) bool {
	return !slices.ContainsFunc(row, func(x float64) bool { return x != 0 })
}

// BiasesOf returns the biases of the whole catalogue.
func (m *Model) BiasesOf(items int) []float64 {
	out := make([]float64, items)
	for j := range out {
		_, out[j] = m.item(j, 0)
	}
	return out
}

// CountsOf returns c_j of the whole catalogue. Items that are not trained on count as the least of the
// others. It is nil for a model without counts.
func (m *Model) CountsOf(items int) []float64 {
	if m.Counts == nil || m.Chosen == nil {
		return m.Counts
	}
	out, least := make([]float64, items), slices.Min(m.Counts)
	for j := range out {
		out[j] = least
		if at := m.Chosen.Place[j]; at >= 0 {
			out[j] = m.Counts[at]
		}
	}
	return out
}

// Model is the shared part. The server broadcasts it, and a run ends with it. Predictions take items by
// their numbers in the catalogue. [Model.Row], [Model.ItemBias] and [Model.Count], which clients fit users
// by, take items by the numbers that [Model.TrainedOn] gives.
type Model struct {
	Mean   float64   // μ, on the rating scale
	Counts []float64 // n̂, private counts, one per item; in a final model c_j, if Params.Orders; nil: none
	Bias   []float64 // b_j in rating units, one per item; nil: none were released
	Items  []float64 // V, m x d, row by row
	// Gramian is svec of Σ_j v_j v_jᵀ. Clients need it with implicit feedback; nil otherwise.
	Gramian []float64
	// Theta holds the parameters that gradients are taken at, for solvers that take them; nil in a
	// final model. Users are fitted to Items, which stay within an outer step.
	Theta []float64
	// Popularity is a feature that clients weigh for their users besides public features. It is the
	// standardised logarithm of an item's released weight times Params.Popularity, one number per
	// item; nil: no weights were released, or clients do not weigh them.
	Popularity []float64

	// Covariance is the packed posterior covariance of [v_j, b_j], item by item. Variances holds
	// the variances of priors and residuals ([ResidualVariance] and others). Both belong to the variational solver; nil for
	// another, and at the start.
	Covariance []float64
	Variances  []float64

	Params  *Params // of a model that was read: the settings of the items that are trained on
	Scale   scale
	Weighed *UserFeatures
	popular int    // Params.popularWidth
	Table   *Table // nil: none was made

	// If only some items are trained on, all fields above cover those, in their order.
	Chosen   *Choice   // nil: all items are
	Unchosen bool      // the choice is still open: there is no item
	Rest     []float64 // embeddings of the others, nil: none
	RestBias []float64 // biases of the others, nil: none
}

// scale relates predictions to the rating scale.
type scale struct {
	min, max float64
	Logistic bool
	ranked   bool    // predictions are scores: only their order counts
	Step     float64 // of the bias of an item that is not trained on
}

// Start is the model before the first round. Its mean is the middle of the scale. V is the
// start of an encoder, or random around zero by the seed. With CMF v_j is the mean of such vectors
// over the item's features, so that users begin with weights of features. The baseline without
// cooperation fits users to this model. Without rounds V is zero, and users have biases only.
func (p *Params) Start() (*Model, error) {
	m := p.Unchosen()
	m.Items, m.Unchosen = make([]float64, p.Items*p.Rank), false
	switch {
	case p.Rounds == 0: // only biases of items are learned
	case p.Encodes():
		e, err := p.NewEncoder()
		if err != nil {
			return nil, err
		}
		e.Embed(m.Items, protocol.Workers(1))
	default:
		rng := entropy.Public(p.Seed, "fedssp/start")
		draw := func() float64 { return p.StartSpread * rng.NormFloat64() }
		for i := range m.Items {
			m.Items[i] = draw()
		}
		p.Solver.Start(p, m.Items, draw)
	}
	m.Round()
	m.Complete(p)
	return m, nil
}

// Scale returns what relates predictions to the rating scale.
func (p *Params) Scale() scale {
	return scale{min: p.Min, max: p.Max, Logistic: p.Logits, ranked: p.Feedback == Implicit, Step: p.ClipBias / mostSteps}
}

// Unchosen is the model before the items to train on are chosen.
func (p *Params) Unchosen() *Model {
	m := &Model{Mean: p.Middle(), Params: p, Scale: p.Scale(), Weighed: p.UserFeatures, popular: p.PopularWidth(), Unchosen: true}
	if p.Feedback == Implicit {
		m.Mean = 0
	}
	return m
}

// Training is the model that clients train with in a phase. It leaves out predictions for other
// items, and V before a phase that fits users to V.
func (m *Model) Training(phase string) *Model {
	out := *m
	out.Rest = nil
	if m.Chosen == nil || !m.Chosen.Late { // such a model fits users to all of their ratings
		out.RestBias = nil
	}
	if phase != Statistics {
		out.Items = nil
	}
	return &out
}

// Complete computes the fields that follow from the items.
func (m *Model) Complete(p *Params) {
	if p.Feedback != Implicit {
		return
	}
	d := p.Rank
	gram := make([]float64, d*d)
	for j := range p.Items {
		row := m.Items[j*d : (j+1)*d]
		for a, x := range row {
			dense.Axpy(gram[a*d:a*d+a+1], x, row[:a+1])
		}
	}
	m.Gramian = make([]float64, p.Packed())
	dense.Pack(m.Gramian, gram, d)
}

// Sigmoid is the logistic function.
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Offset is the part of a prediction for item j that does not depend on the user: μ + b_j, or its
// logit if predictions are logits.
func (s scale) Offset(mean, bias float64) float64 {
	x := mean + bias
	if !s.Logistic {
		return x
	}
	share := min(max((x-s.min)/(s.max-s.min), 0.01), 0.99)
	return math.Log(share / (1 - share))
}

// Predict returns a user's rating of the item: μ + b_j + b_u + <u, v_j> + <t, x_j>, not clipped to
// the scale. u is the embedding that [user.Fit] returns, bias the user's own. With a logistic
// loss it is the logit's place on the scale. With implicit feedback it is a score. An item that was
// not trained on, and has no features that were, scores NaN, which comes last.
func (m *Model) Predict(u []float64, bias float64, item int) float64 {
	d := len(u) - m.popular - m.Weighed.Width()
	row, own := m.item(item, d)
	x := bias
	switch {
	case row != nil && (m.Chosen == nil || !m.Scale.ranked || m.Chosen.Place[item] >= 0 || !Nothing(row)):
		x += dense.Dot(u[:d], row)
	case m.Scale.ranked:
		return math.NaN()
	}
	x += m.Weighed.Of(u[d+m.popular:], item)
	if m.popular > 0 {
		x += u[d] * m.PopularityOf(item)
	}
	x += m.Scale.Offset(m.Mean, own)
	if m.Scale.Logistic {
		return m.Scale.min + (m.Scale.max-m.Scale.min)*Sigmoid(x)
	}
	return x
}

// PredictAll is Predict for some items. The same features are multiplied once, if that pays.
func (m *Model) PredictAll(u []float64, bias float64, items []int32, out []float64) {
	if m.Chosen != nil || m.Unchosen || m.Items == nil || m.Scale.Logistic {
		for i, j := range items {
			out[i] = m.Predict(u, bias, int(j))
		}
		return
	}
	own := m.Weighed.products(u[len(u)-m.Weighed.Width():], len(items))
	defer own.free()
	d := len(u) - m.popular - m.Weighed.Width()
	if d == 4 && own.memory != nil && m.popular > 0 && m.Popularity != nil && m.Bias != nil {
		m.predictFours((*[5]float64)(u), bias, *own.memory, items, out)
		return
	}
	for i, j := range items {
		x := bias
		if d == 4 {
			x += dense.Dot4((*[4]float64)(u), (*[4]float64)(m.Items[int(j)*4:]))
		} else {
			x += dense.Dot(u[:d], m.Items[int(j)*d:(int(j)+1)*d])
		}
		if m.Weighed != nil {
			x += own.of(j)
		}
		if m.popular > 0 && m.Popularity != nil {
			x += u[d] * m.Popularity[j]
		}
		var itemBias float64
		if m.Bias != nil {
			itemBias = m.Bias[j]
		}
		out[i] = x + (m.Mean + itemBias)
	}
}

// predictFours is PredictAll of a model with all parts and embeddings of four numbers, for so many items
// that it takes most of the time to make lists. own has the product of each kind of item.
func (m *Model) predictFours(u *[5]float64, bias float64, own []float64, items []int32, out []float64) {
	u0, u1, u2, u3, popular, mean := u[0], u[1], u[2], u[3], u[4], m.Mean
	rows, kind := m.Items, m.Weighed.kind
	fame, biases := m.Popularity[:len(kind)], m.Bias[:len(kind)]
	out = out[:len(items)]
	for i, j := range items {
		v := (*[4]float64)(rows[int(j)*4:])
		x := bias + ((float64(u0*v[0]) + float64(u2*v[2])) + (float64(u1*v[1]) + float64(u3*v[3])))
		x += own[kind[j]]
		x += popular * fame[j]
		out[i] = x + (mean + biases[j])
	}
}

// VariancesNow returns the variances, or the variances of the first fit before any were learned.
func (m *Model) VariancesNow(p *Params) []float64 {
	if m.Variances != nil {
		return m.Variances
	}
	s := dense.Sqr((p.Max - p.Min) / 4)
	return []float64{ResidualVariance: 0.8 * s, UserBiasVariance: 0.2 * s, FeatureVariance: 1, PopularityVariance: 1}
}

// PopularityOf is the popularity of an item; 0 if the model has none.
func (m *Model) PopularityOf(j int) float64 {
	if m.Popularity == nil {
		return 0
	}
	return m.Popularity[j]
}

// ErrNotCounted is returned for the round after a lost round of item counts.
var ErrNotCounted = errors.New("fedssp: the round that counts the items was skipped, so the items to train on are unknown; only that round is spent. " +
	"Run it again, or train on all of them (statistics.top-items 0)")

// Steps is a bias in steps; 0 for NaN.
func (s scale) Steps(x float64) int8 {
	n := math.Round(x / s.Step)
	if math.IsNaN(n) {
		return 0
	}
	return int8(min(max(n, -mostSteps-1), mostSteps))
}

// Round rounds the numbers of the model as [Model.Encode] does.
func (m *Model) Round() {
	for _, part := range [][]float64{m.Counts, m.Bias, m.Items, m.Rest, m.Popularity, m.Covariance, m.Variances} {
		model.Round(part)
	}
	for i, x := range m.RestBias {
		m.RestBias[i] = float64(m.Scale.Steps(x)) * m.Scale.Step
	}
}

// Extended returns the shared embeddings, each followed by the features that clients weigh: m x (d
// + the widths of popularity and UserFeatures), row by row. The product <Extended_j, [u_i, t_i]> is a
// prediction less the terms of item or user alone.
func (m *Model) Extended(p *Params) []float64 {
	d, width := p.Rank, p.Rank+p.ownWidth()
	out := make([]float64, p.Items*width)
	for j := range p.Items {
		row := out[j*width : (j+1)*width]
		known, _ := m.item(j, d)
		copy(row, known)
		if p.PopularWidth() > 0 {
			row[d] = m.PopularityOf(j)
		}
		if p.UserFeatures != nil {
			p.UserFeatures.Row(j, row[d+p.PopularWidth():])
		}
	}
	return out
}

// JointMean is coordinate k of the posterior mean of [v_j, b_j].
func (m *Model) JointMean(p *Params, j, k int) float64 {
	switch {
	case k == p.Rank && m.Bias == nil:
		return 0
	case k == p.Rank:
		return m.Bias[j]
	}
	return m.Items[j*p.Rank+k]
}

// JointCovariance is the covariance of coordinates a >= b. At the start items are certain.
func (m *Model) JointCovariance(p *Params, j, a, b int) float64 {
	if m.Covariance == nil {
		return 0
	}
	x := m.Covariance[j*p.PackedJoint()+a*(a+1)/2+b]
	if a != b {
		x /= math.Sqrt2
	}
	return x
}
