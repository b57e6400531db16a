package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

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
