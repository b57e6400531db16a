package fedssp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Model is the shared part. The server broadcasts it, and a run ends with it.
type Model struct {
	Mean   float64   // μ, on the rating scale
	Counts []float64 // n̂, private counts, one per item; nil: none were released
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
	// the variances of priors and residuals. Both belong to the variational solver; nil for
	// another, and at the start.
	Covariance []float64
	Variances  *Variances

	scale   scale
	weighed *UserFeatures
	popular int // Params.popularWidth

	// If only some items are trained on, all fields above cover those, in their order.
	chosen   *chosen   // nil: all items are
	unchosen bool      // the choice is still open: there is no item
	rest     []float64 // embeddings of the others, nil: none
	restBias []float64 // biases of the others, nil: none
}

// scale relates predictions to the rating scale.
type scale struct {
	min, max float64
	logistic bool
	ranked   bool // predictions are scores: only their order counts
	single   bool // Params.Single
	step     float64
}

// Start is the model before the first round. Its mean is the middle of the scale. V is the
// start of an encoder, or random around zero by the seed. With CMF v_j is the mean of such vectors
// over the item's features, so that users begin with weights of features. The baseline without
// cooperation fits users to this model. Without rounds V is zero, and users have biases only.
func (p *Params) Start() (*Model, error) {
	m := &Model{Mean: p.middle(), Items: make([]float64, p.Items*p.Rank), scale: p.scale(), weighed: p.UserFeatures, popular: p.popularWidth()}
	if p.Feedback == Implicit {
		m.Mean = 0
	}
	switch {
	case p.Rounds == 0: // only biases of items are learned
	case p.Encodes():
		e, err := p.newEncoder()
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
		p.Solver.start(p, m.Items, draw)
	}
	if p.Single {
		m.round()
	}
	m.complete(p)
	return m, nil
}

func (p *Params) scale() scale {
	return scale{min: p.Min, max: p.Max, logistic: p.logistic(), ranked: p.Feedback == Implicit, single: p.Single, step: p.ClipBias / mostSteps}
}

// unchosen is the model before the items to train on are chosen.
func (p *Params) unchosen() *Model {
	m := &Model{Mean: p.middle(), scale: p.scale(), weighed: p.UserFeatures, unchosen: true}
	if p.Feedback == Implicit {
		m.Mean = 0
	}
	return m
}

// training is the model that clients train with in a phase. It leaves out predictions for other
// items. In single precision it has no V before a phase that fits users to V.
func (m *Model) training(phase string) *Model {
	out := *m
	out.rest = nil
	if !m.late() { // such a model fits users to all of their ratings
		out.restBias = nil
	}
	if m.scale.single && phase != Statistics {
		out.Items = nil
	}
	return &out
}

// complete computes the fields that follow from the items.
func (m *Model) complete(p *Params) {
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
	m.Gramian = make([]float64, p.packed())
	dense.Pack(m.Gramian, gram, d)
}

// offset is the part of a prediction for item j that does not depend on the user: μ + b_j, or its
// logit if predictions are logits.
func (s scale) offset(mean, bias float64) float64 {
	x := mean + bias
	if !s.logistic {
		return x
	}
	share := min(max((x-s.min)/(s.max-s.min), 0.01), 0.99)
	return math.Log(share / (1 - share))
}

// Predict returns a user's rating of the item: μ + b_j + b_u + <u, v_j> + <t, x_j>, not clipped to
// the scale. u is the embedding that [Params.FitUser] returns, bias the user's own. With a logistic
// loss it is the logit's place on the scale. With implicit feedback it is a score. An item that was
// not trained on, and has no features that were, scores NaN, which comes last.
func (m *Model) Predict(u []float64, bias float64, item int) float64 {
	d := len(u) - m.popular - m.weighed.Width()
	row, own := m.item(item, d)
	x := bias
	switch {
	case row != nil && (m.chosen == nil || !m.scale.ranked || m.chosen.place[item] >= 0 || !nothing(row)):
		x += dense.Dot(u[:d], row)
	case m.scale.ranked:
		return math.NaN()
	}
	x += m.weighed.of(u[d+m.popular:], item)
	if m.popular > 0 {
		x += u[d] * m.popularity(item)
	}
	x += m.scale.offset(m.Mean, own)
	if m.scale.logistic {
		return m.scale.min + (m.scale.max-m.scale.min)*sigmoid(x)
	}
	return x
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// modelDomain begins an encoded model and ends in the version of the form. Models in single
// precision have another domain: see single.go.
//
//	model = domain ‖ flags (1) ‖ mean ‖ counts (m, if any) ‖ bias (m, if any) ‖ items (m·d) ‖ gramian (d(d+1)/2, if any) ‖
//	        popularity (m, if any) ‖ of the solver: parameters, or covariance (m·(d+1)(d+2)/2) ‖ variances (4), if any
//
// Numbers are little-endian float64, so that a client reads the rows it needs in place. If m of M
// items are trained on, the form is
//
//	model = domain ‖ flags (1) ‖ mean                       until the items are chosen, and then
//	model = domain ‖ flags (1) ‖ mean ‖ choice (m·4 bytes) ‖ counts ‖ bias ‖ items ‖ gramian ‖
//	        bias of the others (M-m, if any) ‖ the others ((M-m)·d, if any)
const modelDomain = "fedsim/fedssp/model/v1\n"

const (
	hasCounts = 1 << iota
	hasBias
	hasGramian
	hasChoice
	hasRestBias
	hasRest
	hasPopularity
	hasSolver // the solver's own part: parameters that gradients are taken at, or posteriors of the variational solver
	hasItems  // of the form in single precision, whose flags have two bytes
)

// Encode returns the model in its broadcast form.
func (m *Model) Encode() []byte {
	flags := m.flags()
	if m.scale.single {
		return m.encodeSingle(flags)
	}
	var solver []float64
	if flags&hasSolver != 0 {
		if solver = m.Theta; m.Variances != nil {
			solver = slices.Concat(m.Covariance, m.Variances.list())
		}
	}
	b := make([]byte, 0, len(modelDomain)+1+8*(1+len(m.Counts)+len(m.Bias)+2*len(m.Items)+len(m.Gramian)+len(m.restBias)+len(m.rest)+len(m.Popularity)+len(solver)))
	b = append(append(b, modelDomain...), byte(flags))
	b = appendFloats(b, m.Mean)
	if m.chosen != nil {
		b = m.chosen.append(b)
	}
	b = appendFloats(b, m.Counts...)
	b = appendFloats(b, m.Bias...)
	b = appendFloats(b, m.Items...)
	b = appendFloats(b, m.Gramian...)
	b = appendFloats(b, m.restBias...)
	b = appendFloats(b, m.rest...)
	b = appendFloats(b, m.Popularity...)
	return appendFloats(b, solver...)
}

// flags says which parts the model has.
func (m *Model) flags() (flags uint16) {
	if m.Counts != nil {
		flags |= hasCounts
	}
	if m.Bias != nil {
		flags |= hasBias
	}
	if m.Gramian != nil {
		flags |= hasGramian
	}
	if m.chosen != nil {
		flags |= hasChoice
	}
	if m.restBias != nil {
		flags |= hasRestBias
	}
	if m.rest != nil {
		flags |= hasRest
	}
	if m.Popularity != nil {
		flags |= hasPopularity
	}
	if m.Theta != nil || m.Variances != nil {
		flags |= hasSolver
	}
	return flags
}

func appendFloats(b []byte, x ...float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func floatAt(b []byte, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
}

// DecodeModel reads a model of the given settings. It returns an error for another version or
// shape, and for a number that is not finite.
func DecodeModel(b []byte, p *Params) (*Model, error) {
	v, err := openBroadcast(b, p)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Mean: floatAt(v.mean, 0), Counts: v.all(v.counts), Bias: v.all(v.bias), Items: v.all(v.items), Gramian: numbers(v.gram), Theta: numbers(v.theta), Popularity: v.all(v.popular),
		scale: p.scale(), weighed: p.UserFeatures, popular: p.popularWidth(),
		chosen: v.chosen, unchosen: v.unchosen, restBias: v.otherBiases(), rest: v.all(v.rest),
	}
	switch {
	case p.Single && !m.unchosen && m.Items == nil:
		m.Items = make([]float64, p.trained()*p.Rank)
	case p.Single && m.Items != nil && nothing(m.Items):
		return nil, errors.New("fedssp: the model's items are all zero; in single precision they are left out then")
	}
	if x := numbers(v.spread); x != nil {
		m.Covariance, m.Variances = numbers(v.covariance), variancesOf(x)
	}
	for _, part := range []struct {
		name   string
		values []float64
	}{
		{"mean", []float64{m.Mean}}, {"counts", m.Counts}, {"bias", m.Bias}, {"items", m.Items}, {"gramian", m.Gramian}, {"other biases", m.restBias}, {"other items", m.rest},
		{"popularity", m.Popularity}, {"parameters", m.Theta}, {"covariance", m.Covariance}, {"variances", m.Variances.list()},
	} {
		for i, x := range part.values {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("fedssp: the model's %s hold %v at place %d; numbers are finite", part.name, x, i)
			}
		}
	}
	return m, nil
}

// numbers decodes all numbers; nil for nil.
func numbers(b []byte) []float64 {
	if b == nil {
		return nil
	}
	x := make([]float64, len(b)/8)
	for i := range x {
		x[i] = floatAt(b, i)
	}
	return x
}

// shared is a model that a client reads, decoded or in place.
type shared interface {
	centre() float64                    // μ
	count(j int) float64                // n̂_j
	counted() bool                      // whether there are counts
	itemBias(j int) float64             // b_j, 0 if there are none
	popularity(j int) float64           // 0 if there is none
	row(j int, dst []float64) []float64 // v_j, in dst or in place
	packedGramian() []float64
	addCovariance(j int, dst []float64) // adds the packed covariance of [v_j, b_j], if there is one
	variances(p *Params) Variances
}

func (m *Model) centre() float64          { return m.Mean }
func (m *Model) counted() bool            { return m.Counts != nil }
func (m *Model) count(j int) float64      { return m.Counts[j] }
func (m *Model) packedGramian() []float64 { return m.Gramian }

func (m *Model) row(j int, dst []float64) []float64 {
	switch {
	case m.late():
		row, _ := m.item(j, len(dst))
		if row == nil {
			clear(dst)
			return dst
		}
		return row
	default:
		return m.Items[j*len(dst) : (j+1)*len(dst)]
	}
}

// late reports whether weights chose the items, so that items keep their numbers in the catalogue.
func (m *Model) late() bool { return m.chosen != nil && m.chosen.late }

func (m *Model) itemBias(j int) float64 {
	switch {
	case m.late():
		_, bias := m.item(j, 0)
		return bias
	case m.Bias == nil:
		return 0
	default:
		return m.Bias[j]
	}
}

func (m *Model) addCovariance(j int, dst []float64) {
	if m.Covariance != nil {
		dense.Axpy(dst, 1, m.Covariance[j*len(dst):(j+1)*len(dst)])
	}
}

func (m *Model) variances(p *Params) Variances {
	if m.Variances == nil {
		return p.startVariances()
	}
	return *m.Variances
}

func (m *Model) popularity(j int) float64 {
	if m.Popularity == nil {
		return 0
	}
	return m.Popularity[j]
}
