package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/model"
)

// Broadcast is an encoded model, read in place. A client decodes only the rows that its ratings
// touch.
type Broadcast struct {
	Params                                          *Params // settings of the items that are trained on
	mean, counts, Bias, items, gram, Theta, popular []byte  // counts, bias, gram, theta, popular nil: none
	Covariance, Spread                              []byte  // nil: none
	Chosen                                          *Choice // nil: all items are, or the choice is still open
	Unchosen                                        bool    // the choice of items is still open
	rest, restBias                                  []byte  // nil: none
	table                                           *Table  // nil: none was made
}

// TrainedOn returns a user's ratings of the items that are trained on, with item numbers among
// those items, and the places of these ratings among all. If weights choose the items, all ratings
// are fitted.
func (v *Broadcast) TrainedOn(r model.Ratings) (own model.Ratings, from []int) {
	if v.Chosen != nil && !v.Chosen.Late {
		return v.Chosen.Of(r)
	}
	return r, nil
}

// OpenBroadcast checks form and lengths, but no number. A client looks only at numbers that its
// user's ratings touch, so an error about a number would tell what the user rated. Bad numbers are
// neutralised instead.
func OpenBroadcast(b []byte, p *Params) (*Broadcast, error) {
	domain, of := modelDomain, p.sizes()
	head, each := of.head, of.each
	if p.Single {
		domain = singleDomain
	}
	if len(b) < head || string(b[:len(domain)]) != domain {
		return nil, fmt.Errorf("fedssp: the model must begin with %q; it is of another algorithm or version", domain)
	}
	flags := uint16(b[len(domain)]) | hasItems
	if p.Single {
		flags = binary.LittleEndian.Uint16(b[len(domain):])
	}
	chosen := flags&hasChoice != 0
	switch {
	case p.TopItems == 0 && flags&(hasChoice|hasRest|hasRestBias) != 0:
		return nil, errors.New("fedssp: the model is of some of the items; all are trained on")
	case p.Chooses() && !chosen && flags&^hasItems == 0:
		if len(b) != head+8 {
			return nil, fmt.Errorf("fedssp: the model has %d bytes; before items are chosen it has %d", len(b), head+8)
		}
		return &Broadcast{Params: p, Unchosen: true, mean: b[head:]}, nil
	case p.TopItems > 0 && !chosen:
		return nil, errors.New("fedssp: the model does not say which items are trained on")
	case (p.Feedback == Implicit) != (flags&hasGramian != 0):
		return nil, errors.New("fedssp: a model has a Gramian of its items with implicit feedback and only then")
	}
	if flags&hasPopularity != 0 && p.PopularWidth() == 0 {
		return nil, errors.New("fedssp: the model has popularity, which no client weighs by these settings")
	}
	if flags&hasSolver != 0 && p.solverNumbers() == 0 {
		return nil, fmt.Errorf("fedssp: the model has parameters of gradients or posteriors; the solver %s has neither", p.Solver)
	}
	if flags >= 2*hasItems {
		return nil, fmt.Errorf("fedssp: the model has flags %#x; the last known is %#x", flags, hasItems)
	}
	v := &Broadcast{Params: p}
	rest, need := b[head:], head
	take := func(present bool, n int, dst *[]byte) {
		if !present {
			return
		}
		need += n
		if len(rest) >= n {
			*dst, rest = rest[:n:n], rest[n:]
		} else {
			rest = nil
		}
	}
	items, others, choice := p.Trained(), p.Items-p.Trained(), []byte(nil)

	take(true, 8, &v.mean)
	take(chosen, p.choiceSize(), &choice)
	take(flags&hasCounts != 0, each*items, &v.counts)
	take(flags&hasBias != 0, each*items, &v.Bias)
	take(flags&hasItems != 0, each*items*p.Rank, &v.items)
	take(flags&hasGramian != 0, 8*p.Packed(), &v.gram)
	take(flags&hasRestBias != 0, of.other*others, &v.restBias)
	take(flags&hasRest != 0, each*others*p.Rank, &v.rest)
	take(flags&hasPopularity != 0, each*items, &v.popular)
	if flags&hasSolver != 0 {
		p.Solver.Open(p, v, func(n int, dst *[]byte) { take(true, 8*n, dst) })
	}
	if len(b) != need {
		return nil, fmt.Errorf("fedssp: the model has %d bytes; %d items of rank %d need %d", len(b), items, p.Rank, need)
	}
	if chosen {
		var err error
		if v.Chosen, err = p.chosenBy(choice); err != nil {
			return nil, err
		}
		if !v.Chosen.Late {
			v.Params = v.Chosen.Inner
		}
	}
	return v, nil
}

// Farthest is the largest magnitude of a coordinate that a client accepts: sums of its squares stay
// far from overflow. The exponent reach is biased: from it on a float64 is at least as large, or is
// no number.
const (
	Farthest = 1 << 20
	reach    = 1023 + 20
)

// tame makes a broadcast number safe to compute with: at most bound in magnitude, and 0 for NaN.
func tame(x, bound float64) float64 {
	if math.Abs(x) <= bound {
		return x
	}
	if math.IsNaN(x) {
		return 0
	}
	return math.Copysign(bound, x)
}

func (v *Broadcast) Centre() float64 {
	x := FloatAt(v.mean, 0)
	if v.Params.Feedback == Implicit {
		return 0
	}
	if math.IsNaN(x) {
		return v.Params.Middle()
	}
	return min(max(x, v.Params.Min), v.Params.Max)
}

func (v *Broadcast) Counted() bool       { return v.counts != nil }
func (v *Broadcast) Count(j int) float64 { return v.number(v.counts, j) }

// Place returns an item's place among the items that are trained on, and true; for another item its
// Place among the others, and false.
func (v *Broadcast) Place(j int) (at int, trainedOn bool) {
	if v.Chosen == nil || !v.Chosen.Late {
		return j, true
	}
	if at = int(v.Chosen.Place[j]); at < 0 {
		return ^at, false
	}
	return at, true
}

func (v *Broadcast) ItemBias(j int) float64 {
	at, trainedOn := v.Place(j)
	x := 0.
	switch {
	case trainedOn && v.Bias != nil:
		x = v.number(v.Bias, at)
	case !trainedOn && v.restBias != nil:
		x = v.otherBias(at)
	}
	return tame(x, v.Params.Max-v.Params.Min)
}

func (v *Broadcast) AddCovariance(j int, dst []float64) {
	if v.Covariance == nil {
		return
	}
	for i := range dst {
		dst[i] += tame(FloatAt(v.Covariance, j*len(dst)+i), Farthest)
	}
}

// VariancesNow returns the broadcast variances, or the start's where a broadcast one is not a positive
// number.
func (v *Broadcast) VariancesNow(p *Params) Variances {
	x := Numbers(v.Spread)
	for _, y := range x {
		if !(y > 0 && y <= Farthest) {
			x = nil
			break
		}
	}
	if x == nil {
		return p.startVariances()
	}
	return *VariancesOf(x)
}

func (v *Broadcast) PopularityOf(j int) float64 {
	if v.popular == nil {
		return 0
	}
	return tame(v.number(v.popular, j), Farthest)
}

func (v *Broadcast) Row(j int, dst []float64) []float64 {
	at, trainedOn := v.Place(j)
	rows := v.items
	if !trainedOn {
		rows = v.rest
	}
	switch {
	case rows == nil:
		clear(dst)
		return dst
	case v.Params.Single:
		for i := range dst {
			dst[i] = tame(singleAt(rows, at*len(dst)+i), Farthest)
		}
		return dst
	}
	rows = rows[8*at*len(dst):][:8*len(dst)]
	for i := range dst {
		bits := binary.LittleEndian.Uint64(rows[8*i:])
		dst[i] = math.Float64frombits(bits)
		if bits>>52&0x7ff >= reach {
			dst[i] = tame(dst[i], Farthest)
		}
	}
	return dst
}

// PackedGramian returns the Gramian as the server sent it, unchecked. It influences u only, which
// is zero if it cannot be computed, and is clipped.
func (v *Broadcast) PackedGramian() []float64 { return Numbers(v.gram) }

// Parameters fills dst with the parameters that gradients are taken at, beginning at a place.
func (v *Broadcast) Parameters(from int, dst []float64) []float64 {
	for i := range dst {
		dst[i] = tame(FloatAt(v.Theta, from+i), Farthest)
	}
	return dst
}

// number decodes one number of items, all decodes all of them; nil for nil.
func (v *Broadcast) number(b []byte, i int) float64 {
	if v.Params.Single {
		return singleAt(b, i)
	}
	return FloatAt(b, i)
}

func (v *Broadcast) all(b []byte) []float64 {
	if b == nil || !v.Params.Single {
		return Numbers(b)
	}
	x := make([]float64, len(b)/4)
	for i := range x {
		x[i] = singleAt(b, i)
	}
	return x
}

// otherBias is the bias of an item that is not trained on, by its place among such items.
func (v *Broadcast) otherBias(at int) float64 {
	if v.Params.Single {
		return float64(int8(v.restBias[at])) * v.Params.Scale().Step
	}
	return FloatAt(v.restBias, at)
}

func (v *Broadcast) otherBiases() []float64 {
	if v.restBias == nil {
		return nil
	}
	x := make([]float64, len(v.restBias)/v.Params.sizes().other)
	for i := range x {
		x[i] = v.otherBias(i)
	}
	return x
}

// Encode returns the model in its broadcast form.
func (m *Model) Encode() []byte {
	flags := m.flags()
	if m.Scale.Single {
		return m.encodeSingle(flags)
	}
	var solver []float64
	if flags&hasSolver != 0 {
		if solver = m.Theta; m.Variances != nil {
			solver = slices.Concat(m.Covariance, m.Variances.List())
		}
	}
	b := make([]byte, 0, len(modelDomain)+1+8*(1+len(m.Counts)+len(m.Bias)+2*len(m.Items)+len(m.Gramian)+len(m.RestBias)+len(m.Rest)+len(m.Popularity)+len(solver)))
	b = append(append(b, modelDomain...), byte(flags))
	b = AppendFloats(b, m.Mean)
	if m.Chosen != nil {
		b = m.Chosen.append(b)
	}
	for _, part := range [][]float64{m.Counts, m.Bias, m.Items, m.Gramian, m.RestBias, m.Rest, m.Popularity, solver} {
		b = AppendFloats(b, part...)
	}
	return b
}

// flags says which parts the model has.
func (m *Model) flags() (flags uint16) {
	for bit, has := range map[uint16]bool{
		hasCounts: m.Counts != nil, hasBias: m.Bias != nil, hasGramian: m.Gramian != nil, hasChoice: m.Chosen != nil, hasRestBias: m.RestBias != nil,
		hasRest: m.Rest != nil, hasPopularity: m.Popularity != nil, hasSolver: m.Theta != nil || m.Variances != nil,
	} {
		if has {
			flags |= bit
		}
	}
	return flags
}

// DecodeModel reads a model of the given settings. It returns an error for another version or
// shape, and for a number that is not finite.
func DecodeModel(b []byte, p *Params) (*Model, error) {
	v, err := OpenBroadcast(b, p)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Mean: FloatAt(v.mean, 0), Counts: v.all(v.counts), Bias: v.all(v.Bias), Items: v.all(v.items), Gramian: Numbers(v.gram), Theta: Numbers(v.Theta), Popularity: v.all(v.popular),
		Scale: p.Scale(), Weighed: p.UserFeatures, popular: p.PopularWidth(),
		Chosen: v.Chosen, Unchosen: v.Unchosen, RestBias: v.otherBiases(), Rest: v.all(v.rest),
	}
	switch {
	case p.Single && !m.Unchosen && m.Items == nil:
		m.Items = make([]float64, p.Trained()*p.Rank)
	case p.Single && m.Items != nil && Nothing(m.Items):
		return nil, errors.New("fedssp: the model's items are all zero; in single precision they are left out then")
	}
	if x := Numbers(v.Spread); x != nil {
		m.Covariance, m.Variances = Numbers(v.Covariance), VariancesOf(x)
	}
	for _, part := range []struct {
		name   string
		values []float64
	}{
		{"mean", []float64{m.Mean}}, {"counts", m.Counts}, {"bias", m.Bias}, {"items", m.Items}, {"gramian", m.Gramian}, {"other biases", m.RestBias}, {"other items", m.Rest},
		{"popularity", m.Popularity}, {"parameters", m.Theta}, {"covariance", m.Covariance}, {"variances", m.Variances.List()},
	} {
		for i, x := range part.values {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("fedssp: the model's %s hold %v at place %d; numbers are finite", part.name, x, i)
			}
		}
	}
	return m, nil
}

// encodeSingle encodes the model in single precision. V is left out if it is all zero.
func (m *Model) encodeSingle(flags uint16) []byte {
	items := m.Items
	if Nothing(items) {
		items = nil
	} else {
		flags |= hasItems
	}
	b := append([]byte(nil), singleDomain...)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = AppendFloats(b, m.Mean)
	if m.Chosen != nil {
		b = m.Chosen.append(b)
	}
	b = appendSingles(b, m.Counts)
	b = appendSingles(b, m.Bias)
	b = appendSingles(b, items)
	b = AppendFloats(b, m.Gramian...)
	for _, x := range m.RestBias {
		b = append(b, byte(m.Scale.Steps(x)))
	}
	b = appendSingles(b, m.Rest)
	return appendSingles(b, m.Popularity)
}
