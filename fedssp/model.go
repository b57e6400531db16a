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

// Model is the shared part: what the server broadcasts and the run ends with.
type Model struct {
	Mean   float64   // μ, on the rating scale
	Counts []float64 // n̂, private counts, one per item; nil: none were released
	Bias   []float64 // b_j in rating units, one per item; nil: none were released
	Items  []float64 // V, m x d, row by row
	// Gramian is svec of Σ_j v_j v_jᵀ, which clients need with implicit feedback; nil otherwise.
	Gramian []float64
	// Theta are the parameters that gradients are taken at, of solvers that take them; nil in a final model. Items are
	// what users are fitted to, which stays within an outer step.
	Theta []float64
	// Popularity is what clients weigh for their users besides public features: the standardised logarithm of an item's
	// released weight times Params.Popularity, one per item; nil: there is none, or none was released.
	Popularity []float64

	// Covariance is the packed posterior covariance of [v_j, b_j], item by item, and Variances what priors and residuals
	// have, of the variational solver; nil of another, and at the start.
	Covariance []float64
	Variances  *Variances

	scale   scale
	weighed *UserFeatures
	popular int // Params.popularWidth

	// Where not all items are trained on, all of the above is of those that are, in their order.
	chosen   *chosen   // nil: all are
	unchosen bool      // it is not known yet which: there is no item
	rest     []float64 // embeddings of the others, nil: none
	restBias []float64 // their biases, nil: none
}

// scale says how predictions stand on the rating scale.
type scale struct {
	min, max float64
	logistic bool
	ranked   bool // predictions are scores, of which only the order counts
	single   bool // Params.Single
	step     float64
}

// Start is the model before the first round: the middle of the scale, and V where an encoder
// starts, or a seeded spread around zero; with CMF the mean of such vectors of an item's features, from
// which users begin with weights of features. Users fit it before they have cooperated: a baseline
// of that starts here. Without rounds V is zero, and users have biases only.
func (p *Params) Start() (*Model, error) {
	m := &Model{Mean: p.middle(), Items: make([]float64, p.Items*p.Rank), scale: p.scale(), weighed: p.UserFeatures, popular: p.popularWidth()}
	if p.Feedback == Implicit {
		m.Mean = 0
	}
	switch {
	case p.Rounds == 0: // nothing is learned of the items but their biases
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
		p.solver().start(p, m.Items, draw)
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

// unchosen is the model while nobody knows which items are trained on.
func (p *Params) unchosen() *Model {
	m := &Model{Mean: p.middle(), scale: p.scale(), weighed: p.UserFeatures, unchosen: true}
	if p.Feedback == Implicit {
		m.Mean = 0
	}
	return m
}

// training is the model as clients train with it in a phase, without what is said of other items. In single precision it has no V before that is
// fitted to.
func (m *Model) training(phase string) *Model {
	out := *m
	out.rest = nil
	if !m.late() { // which fit users to all of their ratings
		out.restBias = nil
	}
	if m.scale.single && phase != Statistics {
		out.Items = nil
	}
	return &out
}

// complete computes what follows from the items.
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

// offset is what is known of a rating of item j before anything of the user: μ + b_j, or its
// logit where predictions are logits.
func (s scale) offset(mean, bias float64) float64 {
	x := mean + bias
	if !s.logistic {
		return x
	}
	share := min(max((x-s.min)/(s.max-s.min), 0.01), 0.99)
	return math.Log(share / (1 - share))
}

// Predict is the rating that a user of embedding u and the given bias gives the item: μ +
// b_j + b_u + <u, v_j> + <t, x_j>, u as [Params.FitUser] returns it, not clipped to the scale; with a logistic loss the logit's place on the scale.
// With implicit feedback it is a score: NaN, which comes last, of an item of which nothing is known since it was not trained on.
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

// modelDomain begins an encoded model and ends in the version of the form. Models in single precision have another: see single.go.
//
//	model = domain ‖ flags (1) ‖ mean ‖ counts (m, if any) ‖ bias (m, if any) ‖ items (m·d) ‖ gramian (d(d+1)/2, if any) ‖
//	        popularity (m, if any) ‖ of the solver: parameters, or covariance (m·(d+1)(d+2)/2) ‖ variances (4), if any
//
// Numbers are little-endian float64, so that a client reads the rows it needs in place. Where m of M items are trained on, it is
//
//	model = domain ‖ flags (1) ‖ mean                       while it is not known which, and then
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
	hasSolver // what the solver has besides: parameters where gradients are taken by them, posteriors of the variational one
	hasItems  // of the form in single precision, whose flags have two bytes
)

// Encode is the model as it is broadcast.
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

// flags say what there is.
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

// DecodeModel reads a model of the given settings. Another version or shape, and a number
// that is not finite, is an error.
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

// numbers decodes all numbers; nil of nil.
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

// shared is a model as a client reads it, decoded or in place.
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

// late reports whether items were chosen by weights, and are known by their numbers in the catalogue.
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
