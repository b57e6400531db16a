package kernel

import (
	"encoding/binary"
	"math"
)

// modelDomain begins an encoded model and ends in the version of the form. Models in single
// precision have another domain, see singleDomain.
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

// AppendFloats appends each number as a little-endian float64.
func AppendFloats(b []byte, x ...float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// FloatAt returns the i-th little-endian float64 of b.
func FloatAt(b []byte, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
}

// Numbers decodes all numbers; nil for nil.
func Numbers(b []byte) []float64 {
	if b == nil {
		return nil
	}
	x := make([]float64, len(b)/8)
	for i := range x {
		x[i] = FloatAt(b, i)
	}
	return x
}

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

func appendSingles(b []byte, x []float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b
}

func singleAt(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}
