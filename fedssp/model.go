package fedssp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/entropy"
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
}

// scale says how predictions stand on the rating scale.
type scale struct {
	min, max float64
	logistic bool
}

// Start is the model before the first iteration: the middle of the scale, and V where an encoder
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
		if p.Solver == CMF {
			newCollective(p).start(m.Items, draw)
		}
	}
	m.complete(p)
	return m, nil
}

func (p *Params) scale() scale { return scale{p.Min, p.Max, p.logistic()} }

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
			axpy(gram[a*d:a*d+a+1], x, row[:a+1])
		}
	}
	m.Gramian = make([]float64, p.packed())
	pack(m.Gramian, gram, d)
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
// With implicit feedback it is a score.
func (m *Model) Predict(u []float64, bias float64, item int) float64 {
	d := len(u) - m.popular - m.weighed.Width()
	x := bias + dot(u[:d], m.row(item, u[:d])) + m.weighed.of(u[d+m.popular:], item)
	if m.popular > 0 {
		x += u[d] * m.popularity(item)
	}
	if m.Bias != nil {
		x += m.scale.offset(m.Mean, m.Bias[item])
	} else {
		x += m.scale.offset(m.Mean, 0)
	}
	if m.scale.logistic {
		return m.scale.min + (m.scale.max-m.scale.min)*sigmoid(x)
	}
	return x
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// modelDomain begins an encoded model and ends in the version of the form.
//
//	model = domain ‖ flags (1) ‖ mean ‖ counts (m, if any) ‖ bias (m, if any) ‖ items (m·d) ‖ gramian (d(d+1)/2, if any) ‖
//	        popularity (m, if any) ‖ (covariance (m·(d+1)(d+2)/2) ‖ variances (4), if any)
//
// Numbers are little-endian float64, so that a client reads the rows it needs in place.
const modelDomain = "fedsim/fedssp/model/v1\n"

const (
	hasCounts = 1 << iota
	hasBias
	hasGramian
	hasPopularity
	hasPosterior
	allFlags = hasCounts | hasBias | hasGramian | hasPopularity | hasPosterior
)

// Encode is the model as it is broadcast.
func (m *Model) Encode() []byte {
	var flags byte
	if m.Counts != nil {
		flags |= hasCounts
	}
	if m.Bias != nil {
		flags |= hasBias
	}
	if m.Gramian != nil {
		flags |= hasGramian
	}
	if m.Popularity != nil {
		flags |= hasPopularity
	}
	var posterior []float64
	if m.Variances != nil {
		flags |= hasPosterior
		posterior = slices.Concat(m.Covariance, m.Variances.list())
	}
	b := make([]byte, 0, len(modelDomain)+1+8*(1+len(m.Counts)+len(m.Bias)+len(m.Items)+len(m.Gramian)+len(m.Popularity)+len(posterior)))
	b = append(append(b, modelDomain...), flags)
	b = appendFloats(b, m.Mean)
	b = appendFloats(b, m.Counts...)
	b = appendFloats(b, m.Bias...)
	b = appendFloats(b, m.Items...)
	b = appendFloats(b, m.Gramian...)
	b = appendFloats(b, m.Popularity...)
	return appendFloats(b, posterior...)
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
	m := &Model{Mean: floatAt(v.mean, 0), Counts: numbers(v.counts), Bias: numbers(v.bias), Items: numbers(v.items), Gramian: numbers(v.gram), Popularity: numbers(v.popular), scale: p.scale(), weighed: p.UserFeatures, popular: p.popularWidth()}
	if x := numbers(v.spread); x != nil {
		m.Covariance, m.Variances = numbers(v.covariance), variancesOf(x)
	}
	for _, part := range []struct {
		name   string
		values []float64
	}{{"mean", []float64{m.Mean}}, {"counts", m.Counts}, {"bias", m.Bias}, {"items", m.Items}, {"gramian", m.Gramian}, {"popularity", m.Popularity}, {"covariance", m.Covariance}, {"variances", m.Variances.list()}} {
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

// broadcast is an encoded model in place. A client reads what its ratings touch and no more.
type broadcast struct {
	p                                        *Params
	mean, counts, bias, items, gram, popular []byte // counts, bias, gram, popular nil: none
	covariance, spread                       []byte // nil: none
}

// openBroadcast checks form and lengths, and no number: which of them a client looks at depends
// on what its user rated, so that what is wrong with one is neutralised there, not refused.
func openBroadcast(b []byte, p *Params) (broadcast, error) {
	if len(b) < len(modelDomain)+1 || string(b[:len(modelDomain)]) != modelDomain {
		return broadcast{}, fmt.Errorf("fedssp: the model must begin with %q; it is of another algorithm or version", modelDomain)
	}
	flags := b[len(modelDomain)]
	if flags&^allFlags != 0 {
		return broadcast{}, fmt.Errorf("fedssp: the model has flags %#x; only %#x are known", flags, allFlags)
	}
	if want := p.Feedback == Implicit; want != (flags&hasGramian != 0) {
		return broadcast{}, errors.New("fedssp: a model has a Gramian of its items with implicit feedback and only then")
	}
	if flags&hasPopularity != 0 && p.popularWidth() == 0 {
		return broadcast{}, errors.New("fedssp: the model has popularity, which no client weighs by these settings")
	}
	if flags&hasPosterior != 0 && p.Solver != Variational {
		return broadcast{}, fmt.Errorf("fedssp: the model has posteriors; they are of the solver %s", Variational)
	}
	v := broadcast{p: p}
	rest := b[len(modelDomain)+1:]
	need := 0
	take := func(present bool, n int, dst *[]byte) {
		if !present {
			return
		}
		need += 8 * n
		if len(rest) >= 8*n {
			*dst, rest = rest[:8*n:8*n], rest[8*n:]
		} else {
			rest = nil
		}
	}
	take(true, 1, &v.mean)
	take(flags&hasCounts != 0, p.Items, &v.counts)
	take(flags&hasBias != 0, p.Items, &v.bias)
	take(true, p.Items*p.Rank, &v.items)
	take(flags&hasGramian != 0, p.packed(), &v.gram)
	take(flags&hasPopularity != 0, p.Items, &v.popular)
	take(flags&hasPosterior != 0, p.Items*p.packedJoint(), &v.covariance)
	take(flags&hasPosterior != 0, numVariances, &v.spread)
	if need += len(modelDomain) + 1; len(b) != need {
		return broadcast{}, fmt.Errorf("fedssp: the model has %d bytes; %d items of rank %d need %d", len(b), p.Items, p.Rank, need)
	}
	return v, nil
}

// shared is a model as a client reads it, decoded or in place.
type shared interface {
	centre() float64          // μ
	count(j int) float64      // n̂_j
	counted() bool            // whether there are counts
	itemBias(j int) float64   // b_j, 0 if there are none
	popularity(j int) float64 // 0 if there is none
	row(j int, dst []float64) []float64
	packedGramian() []float64
	addCovariance(j int, dst []float64) // adds the packed covariance of [v_j, b_j], if there is one
	variances(p *Params) Variances
}

func (m *Model) centre() float64                     { return m.Mean }
func (m *Model) counted() bool                       { return m.Counts != nil }
func (m *Model) count(j int) float64                 { return m.Counts[j] }
func (m *Model) row(j int, like []float64) []float64 { return m.Items[j*len(like) : (j+1)*len(like)] }
func (m *Model) packedGramian() []float64            { return m.Gramian }

func (m *Model) itemBias(j int) float64 {
	if m.Bias == nil {
		return 0
	}
	return m.Bias[j]
}

func (m *Model) addCovariance(j int, dst []float64) {
	if m.Covariance != nil {
		axpy(dst, 1, m.Covariance[j*len(dst):(j+1)*len(dst)])
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

// farthest is the largest coordinate of a broadcast that is taken at its word: squares of it, summed
// over ratings, stay far from overflow. reach is the biased exponent from which on a float64 is at
// least as large, or no number.
const (
	farthest = 1 << 20
	reach    = 1023 + 20
)

// tame is a number of a broadcast as a client uses it.
func tame(x, bound float64) float64 {
	if math.Abs(x) <= bound {
		return x
	}
	if math.IsNaN(x) {
		return 0
	}
	return math.Copysign(bound, x)
}

func (v broadcast) centre() float64 {
	x := floatAt(v.mean, 0)
	if v.p.Feedback == Implicit {
		return 0
	}
	if math.IsNaN(x) {
		return v.p.middle()
	}
	return min(max(x, v.p.Min), v.p.Max)
}

func (v broadcast) counted() bool       { return v.counts != nil }
func (v broadcast) count(j int) float64 { return floatAt(v.counts, j) }

func (v broadcast) itemBias(j int) float64 {
	if v.bias == nil {
		return 0
	}
	return tame(floatAt(v.bias, j), v.p.Max-v.p.Min)
}

func (v broadcast) addCovariance(j int, dst []float64) {
	if v.covariance == nil {
		return
	}
	for i := range dst {
		dst[i] += tame(floatAt(v.covariance, j*len(dst)+i), farthest)
	}
}

// variances are those of the start where they are no variances.
func (v broadcast) variances(p *Params) Variances {
	x := numbers(v.spread)
	for _, y := range x {
		if !(y > 0 && y <= farthest) {
			x = nil
			break
		}
	}
	if x == nil {
		return p.startVariances()
	}
	return *variancesOf(x)
}

func (v broadcast) popularity(j int) float64 {
	if v.popular == nil {
		return 0
	}
	return tame(floatAt(v.popular, j), farthest)
}

func (v broadcast) row(j int, dst []float64) []float64 {
	at := v.items[8*j*len(dst):][:8*len(dst)]
	for i := range dst {
		bits := binary.LittleEndian.Uint64(at[8*i:])
		dst[i] = math.Float64frombits(bits)
		if bits>>52&0x7ff >= reach {
			dst[i] = tame(dst[i], farthest)
		}
	}
	return dst
}

// packedGramian trusts the server with what follows from its own items: it shapes u, which is
// zero where it cannot be computed, and clipped.
func (v broadcast) packedGramian() []float64 { return numbers(v.gram) }
