package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// TrainedOn returns a user's ratings of the items that are trained on, with item numbers among
// those items, and the places of these ratings among all. If weights choose the items, all ratings
// are fitted.
func (m *Model) TrainedOn(r model.Ratings) (own model.Ratings, from []int) {
	if m.Chosen != nil && !m.Chosen.Late {
		return m.Chosen.Of(r)
	}
	return r, nil
}

// OpenBroadcast reads a model as a client does. It checks form and lengths, but refuses no number, so that no error depends
// on what a client does with it. Numbers that are not finite or absurdly large are neutralised instead.
func OpenBroadcast(b []byte, p *Params) (*Model, error) {
	m, err := decode(b, p)
	if err != nil {
		return nil, err
	}
	m.Mean = min(max(m.Mean, p.Min), p.Max)
	if math.IsNaN(m.Mean) {
		m.Mean = p.Middle()
	}
	for _, part := range []struct {
		values []float64
		bound  float64
	}{
		{m.Bias, p.Max - p.Min}, {m.RestBias, p.Max - p.Min}, {m.Items, Farthest}, {m.Rest, Farthest}, {m.Popularity, Farthest}, {m.Theta, Farthest}, {m.Covariance, Farthest},
	} {
		for i, x := range part.values {
			part.values[i] = tame(x, part.bound)
		}
	}
	if slices.ContainsFunc(m.Variances, func(x float64) bool { return !(x > 0 && x <= Farthest) }) {
		m.Variances = nil
	}
	return m, nil
}

// decode reads the form of Encode. It checks form and lengths, but no number.
func decode(b []byte, p *Params) (*Model, error) {
	if len(b) < modelHead || string(b[:len(modelDomain)]) != modelDomain {
		return nil, fmt.Errorf("fedssp: the model must begin with %q; it is of another algorithm or version", modelDomain)
	}
	flags := binary.LittleEndian.Uint16(b[len(modelDomain):])
	chosen := flags&hasChoice != 0
	m := p.Unchosen()
	switch {
	case p.TopItems == 0 && flags&(hasChoice|hasRest|hasRestBias) != 0:
		return nil, errors.New("fedssp: the model is of some of the items; all are trained on")
	case p.Chooses() && !chosen && flags&^hasItems == 0:
		if len(b) != modelHead+8 {
			return nil, fmt.Errorf("fedssp: the model has %d bytes; before items are chosen it has %d", len(b), modelHead+8)
		}
		m.Mean = model.FloatAt(b[modelHead:], 0)
		return m, nil
	case p.TopItems > 0 && !chosen:
		return nil, errors.New("fedssp: the model does not say which items are trained on")
	case (p.Feedback == Implicit) != (flags&hasGramian != 0):
		return nil, errors.New("fedssp: a model has a Gramian of its items with implicit feedback and only then")
	}
	if flags&hasPopularity != 0 && p.PopularWidth() == 0 {
		return nil, errors.New("fedssp: the model has popularity, which no client weighs by these settings")
	}
	if flags&hasSolver != 0 && p.Solver.Sends(p).all() == 0 {
		return nil, fmt.Errorf("fedssp: the model has parameters of gradients or posteriors; the solver %s has neither", p.Solver)
	}
	if flags >= 2*hasItems {
		return nil, fmt.Errorf("fedssp: the model has flags %#x; the last known is %#x", flags, hasItems)
	}
	rest, need := b[modelHead:], modelHead
	take := func(flag uint16, n int) (part []byte) {
		if flags&flag != flag || n == 0 {
			return nil
		}
		if need += n; len(rest) >= n {
			part, rest = rest[:n:n], rest[n:]
		} else {
			rest = nil
		}
		return part
	}
	items, others := p.Trained(), p.Items-p.Trained()
	mean, choice := model.Floats(take(0, 8)), take(hasChoice, p.choiceSize())
	m.Counts, m.Bias, m.Items = model.Singles(take(hasCounts, 4*items)), model.Singles(take(hasBias, 4*items)), model.Singles(take(hasItems, 4*items*p.Rank))
	m.Gramian = model.Floats(take(hasGramian, 8*p.Packed()))
	for _, step := range take(hasRestBias, others) {
		m.RestBias = append(m.RestBias, float64(int8(step))*m.Scale.Step)
	}
	m.Rest, m.Popularity = model.Singles(take(hasRest, 4*others*p.Rank)), model.Singles(take(hasPopularity, 4*items))
	if flags&hasSolver != 0 {
		n := p.Solver.Sends(p)
		m.Theta, m.Covariance = model.Singles(take(hasSolver, 4*n.Theta)), model.Singles(take(hasSolver, 4*n.Covariance))
		m.Variances = model.Singles(take(hasSolver, 4*n.Variances))
	}
	if len(b) != need {
		return nil, fmt.Errorf("fedssp: the model has %d bytes; %d items of rank %d need %d", len(b), items, p.Rank, need)
	}
	m.Mean, m.Unchosen = mean[0], false
	if chosen {
		var err error
		if m.Chosen, err = p.Over(p.choice(choice)); err != nil {
			return nil, err
		}
		if !m.Chosen.Late {
			m.Params = m.Chosen.Inner
		}
	}
	return m, nil
}

// Farthest is the largest magnitude of a coordinate that a client accepts: sums of its squares stay
// far from overflow.
const Farthest = 1 << 20

// tame makes a broadcast number safe to compute with: at most bound in magnitude, and 0 for NaN.
func tame(x, bound float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, -bound), bound)
}

// Centre is the mean that clients subtract from ratings.
func (m *Model) Centre() float64 {
	if m.Params.Feedback == Implicit {
		return 0
	}
	return m.Mean
}

// Place returns the place among the items that are trained on of an item that a client has rated; of another item ^ its
// place among the others.
func (m *Model) Place(j int) int {
	if m.Chosen == nil || !m.Chosen.Late {
		return j
	}
	return int(m.Chosen.Place[j])
}

// ItemBias is the bias of an item that a client has rated; 0 if there is none.
func (m *Model) ItemBias(j int) float64 {
	_, bias := m.at(m.Place(j), 0)
	return bias
}

// Row is the embedding of an item that a client has rated; nil if there is none.
func (m *Model) Row(j int) []float64 {
	row, _ := m.at(m.Place(j), m.Params.Rank)
	return row
}

// Encode returns the model in its broadcast form.
func (m *Model) Encode() []byte {
	flags, items, solver := m.flags(), m.Items, m.Theta
	if Nothing(items) {
		items = nil
	}
	if m.Variances != nil {
		solver = slices.Concat(m.Covariance, m.Variances)
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
	m, err := decode(b, p)
	if err != nil {
		return nil, err
	}
	switch {
	case !m.Unchosen && m.Items == nil:
		m.Items = make([]float64, p.Trained()*p.Rank)
	case m.Items != nil && Nothing(m.Items):
		return nil, errors.New("fedssp: the model's items are all zero; they are left out then")
	}
	for _, part := range []struct {
		name   string
		values []float64
	}{
		{"mean", []float64{m.Mean}}, {"counts", m.Counts}, {"bias", m.Bias}, {"items", m.Items}, {"gramian", m.Gramian}, {"other biases", m.RestBias}, {"other items", m.Rest},
		{"popularity", m.Popularity}, {"parameters", m.Theta}, {"covariance", m.Covariance}, {"variances", m.Variances},
	} {
		if i := dense.NotFinite(part.values); i >= 0 {
			return nil, fmt.Errorf("fedssp: the model's %s hold %v at place %d; numbers are finite", part.name, part.values[i], i)
		}
	}
	return m, nil
}
