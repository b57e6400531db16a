package kernel

import (
	"encoding/binary"
	"math"

	"github.com/fedsim/fedsim/internal/dense"
)

// singleDomain begins a model in single precision ([Params.Single]). The server rounds its own
// model before it broadcasts it, so that both sides compute with the same numbers. The rounded
// numbers were released before, so rounding costs no privacy. The model has half the bytes, and
// fewer if only some items are trained on:
//
//	model = domain ‖ flags (2) ‖ mean (8) ‖ choice (a bit an item of the catalogue, if any) ‖ counts ‖ bias ‖ items (if any) ‖ gramian ‖
//	        bias of the others (a byte each, if any) ‖ the others ‖ popularity
//
// Numbers are little-endian float32, except the mean and the Gramian, which are float64. The bias
// of an item that is not trained on is a signed byte, in steps of 1/127 of [Params.ClipBias], the
// largest bias. On a scale of five it is exact within 0.007 stars. V is left out if it is all zero,
// and from models of rounds that do not use it.
const singleDomain = "fedsim/fedssp/model/v2\n"

// mostSteps is the number of steps in the largest bias of an item that is not trained on.
const mostSteps = 127

// head is the length of a model before its numbers.
func (p *Params) head() int {
	if p.Single {
		return len(singleDomain) + 2
	}
	return len(modelDomain) + 1
}

// bytesEach is the size of a number of an item, bytesOfOther the size of the bias of an item that
// is not trained on.
func (p *Params) bytesEach() int {
	if p.Single {
		return 4
	}
	return 8
}

func (p *Params) bytesOfOther() int {
	if p.Single {
		return 1
	}
	return 8
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

func appendSingles(b []byte, x []float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b
}

func singleAt(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}

// Steps is a bias in steps; 0 for NaN.
func (s scale) Steps(x float64) int8 {
	n := math.Round(x / s.Step)
	if math.IsNaN(n) {
		return 0
	}
	return int8(min(max(n, -mostSteps-1), mostSteps))
}

// Round rounds the numbers of the model as its form in single precision holds them.
func (m *Model) Round() {
	for _, part := range [][]float64{m.Counts, m.Bias, m.Items, m.Rest, m.Popularity} {
		for i, x := range part {
			part[i] = float64(float32(dense.Clamp(x, math.MaxFloat32)))
		}
	}
	for i, x := range m.RestBias {
		m.RestBias[i] = float64(m.Scale.Steps(x)) * m.Scale.Step
	}
}

// number decodes one number of items, all decodes all of them; nil for nil.
func (v Broadcast) number(b []byte, i int) float64 {
	if v.Params.Single {
		return singleAt(b, i)
	}
	return FloatAt(b, i)
}

func (v Broadcast) all(b []byte) []float64 {
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
func (v Broadcast) otherBias(at int) float64 {
	if v.Params.Single {
		return float64(int8(v.restBias[at])) * v.Params.Scale().Step
	}
	return FloatAt(v.restBias, at)
}

func (v Broadcast) otherBiases() []float64 {
	if v.restBias == nil {
		return nil
	}
	x := make([]float64, len(v.restBias)/v.Params.bytesOfOther())
	for i := range x {
		x[i] = v.otherBias(i)
	}
	return x
}

// singleRow reads a row, and tames numbers that are not finite or absurdly large.
func singleRow(b []byte, dst []float64) []float64 {
	for i := range dst {
		dst[i] = tame(singleAt(b, i), Farthest)
	}
	return dst
}
