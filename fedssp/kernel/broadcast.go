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
	if len(b) < modelHead || string(b[:len(modelDomain)]) != modelDomain {
		return nil, fmt.Errorf("fedssp: the model must begin with %q; it is of another algorithm or version", modelDomain)
	}
	flags := binary.LittleEndian.Uint16(b[len(modelDomain):])
	chosen := flags&hasChoice != 0
	switch {
	case p.TopItems == 0 && flags&(hasChoice|hasRest|hasRestBias) != 0:
		return nil, errors.New("fedssp: the model is of some of the items; all are trained on")
	case p.Chooses() && !chosen && flags&^hasItems == 0:
		if len(b) != modelHead+8 {
			return nil, fmt.Errorf("fedssp: the model has %d bytes; before items are chosen it has %d", len(b), modelHead+8)
		}
		return &Broadcast{Params: p, Unchosen: true, mean: b[modelHead:]}, nil
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
	rest, need := b[modelHead:], modelHead
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
	take(flags&hasCounts != 0, 4*items, &v.counts)
	take(flags&hasBias != 0, 4*items, &v.Bias)
	take(flags&hasItems != 0, 4*items*p.Rank, &v.items)
	take(flags&hasGramian != 0, 8*p.Packed(), &v.gram)
	take(flags&hasRestBias != 0, others, &v.restBias)
	take(flags&hasRest != 0, 4*others*p.Rank, &v.rest)
	take(flags&hasPopularity != 0, 4*items, &v.popular)
	if flags&hasSolver != 0 {
		p.Solver.Open(p, v, func(n int, dst *[]byte) { take(true, 4*n, dst) })
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
// far from overflow.
const Farthest = 1 << 20

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
	x := model.FloatAt(v.mean, 0)
	if v.Params.Feedback == Implicit {
		return 0
	}
	if math.IsNaN(x) {
		return v.Params.Middle()
	}
	return min(max(x, v.Params.Min), v.Params.Max)
}

func (v *Broadcast) Counted() bool       { return v.counts != nil }
func (v *Broadcast) Count(j int) float64 { return model.SingleAt(v.counts, j) }

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
		x = model.SingleAt(v.Bias, at)
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
		dst[i] += tame(model.SingleAt(v.Covariance, j*len(dst)+i), Farthest)
	}
}

// VariancesNow returns the broadcast variances, or the start's where a broadcast one is not a positive
// number.
func (v *Broadcast) VariancesNow(p *Params) Variances {
	x := model.Singles(v.Spread)
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
	return tame(model.SingleAt(v.popular, j), Farthest)
}

func (v *Broadcast) Row(j int, dst []float64) []float64 {
	at, trainedOn := v.Place(j)
	rows := v.items
	if !trainedOn {
		rows = v.rest
	}
	if rows == nil {
		clear(dst)
		return dst
	}
	rows = rows[4*at*len(dst):]
	for i := range dst {
		dst[i] = tame(model.SingleAt(rows, i), Farthest)
	}
	return dst
}

// PackedGramian returns the Gramian as the server sent it, unchecked. It influences u only, which
// is zero if it cannot be computed, and is clipped.
func (v *Broadcast) PackedGramian() []float64 { return model.Floats(v.gram) }

// Parameters fills dst with the parameters that gradients are taken at, beginning at a place.
func (v *Broadcast) Parameters(from int, dst []float64) []float64 {
	for i := range dst {
		dst[i] = tame(model.SingleAt(v.Theta, from+i), Farthest)
	}
	return dst
}

// otherBias is the bias of an item that is not trained on, by its place among such items.
func (v *Broadcast) otherBias(at int) float64 {
	return float64(int8(v.restBias[at])) * v.Params.Scale().Step
}

func (v *Broadcast) otherBiases() []float64 {
	if v.restBias == nil {
		return nil
	}
	x := make([]float64, len(v.restBias))
	for i := range x {
		x[i] = v.otherBias(i)
	}
	return x
}

// Encode returns the model in its broadcast form.
func (m *Model) Encode() []byte {
	flags, items, solver := m.flags(), m.Items, m.Theta
	if Nothing(items) {
		items = nil
	}
	if m.Variances != nil {
		solver = slices.Concat(m.Covariance, m.Variances.List())
	}
	b := make([]byte, 0, modelHead+8*(1+len(m.Gramian))+4*(len(m.Counts)+len(m.Bias)+2*len(items)+len(m.RestBias)+len(m.Rest)+len(m.Popularity)+len(solver)))
	b = binary.LittleEndian.AppendUint16(append(b, modelDomain...), flags)
	b = model.AppendFloats(b, m.Mean)
	if m.Chosen != nil {
		b = m.Chosen.append(b)
	}
	b = model.AppendSingles(model.AppendSingles(model.AppendSingles(b, m.Counts...), m.Bias...), items...)
	b = model.AppendFloats(b, m.Gramian...)
	for _, x := range m.RestBias {
		b = append(b, byte(m.Scale.Steps(x)))
	}
	return model.AppendSingles(model.AppendSingles(model.AppendSingles(b, m.Rest...), m.Popularity...), solver...)
}

// flags says which parts the model has. V is left out if it is all zero.
func (m *Model) flags() (flags uint16) {
	for bit, has := range map[uint16]bool{
		hasCounts: m.Counts != nil, hasBias: m.Bias != nil, hasGramian: m.Gramian != nil, hasChoice: m.Chosen != nil, hasRestBias: m.RestBias != nil,
		hasRest: m.Rest != nil, hasPopularity: m.Popularity != nil, hasSolver: m.Theta != nil || m.Variances != nil, hasItems: !Nothing(m.Items),
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
		Mean: model.FloatAt(v.mean, 0), Counts: model.Singles(v.counts), Bias: model.Singles(v.Bias), Items: model.Singles(v.items), Gramian: model.Floats(v.gram),
		Theta: model.Singles(v.Theta), Popularity: model.Singles(v.popular),
		Scale: p.Scale(), Weighed: p.UserFeatures, popular: p.PopularWidth(),
		Chosen: v.Chosen, Unchosen: v.Unchosen, RestBias: v.otherBiases(), Rest: model.Singles(v.rest),
	}
	switch {
	case !m.Unchosen && m.Items == nil:
		m.Items = make([]float64, p.Trained()*p.Rank)
	case m.Items != nil && Nothing(m.Items):
		return nil, errors.New("fedssp: the model's items are all zero; they are left out then")
	}
	if x := model.Singles(v.Spread); x != nil {
		m.Covariance, m.Variances = model.Singles(v.Covariance), VariancesOf(x)
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
