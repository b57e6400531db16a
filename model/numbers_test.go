package model_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/model"
)

// Rounding moves a number by at most a part in 2²⁴, as a float32 has 24 binary digits. A number beyond
// the largest float32 becomes that one, and NaN stays. A rounded number is broadcast as it is.
func TestRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := []float64{math.NaN(), 1e300, math.Inf(-1), 0, 16777217} // 2²⁴ + 1 lies between two float32
	for range 1000 {
		x = append(x, math.Copysign(math.Exp(10*rng.NormFloat64()), rng.Float64()-0.5))
	}
	rounded := slices.Clone(x)
	model.Round(rounded)
	for i, v := range x[3:] {
		if d := math.Abs(rounded[3+i] - v); d > math.Abs(v)/(1<<24) {
			t.Errorf("%v is rounded to %v", v, rounded[3+i])
		}
	}
	if !math.IsNaN(rounded[0]) || rounded[1] != math.MaxFloat32 || rounded[2] != -math.MaxFloat32 || rounded[4] != 16777216 {
		t.Errorf("rounded to %v", rounded[:5])
	}
	sent := model.AppendSingles(nil, x...)
	if got := model.Singles(sent); len(sent) != 4*len(x) || !slices.Equal(got[1:], rounded[1:]) {
		t.Error("clients read other numbers than the server rounds to")
	}
	if !slices.Equal(model.AppendSingles(nil, rounded...), sent) {
		t.Error("rounded numbers are broadcast otherwise")
	}
}

// A state keeps every bit: 0.1 is 0x3fb999999999999a.
func TestFloats(t *testing.T) {
	b := model.AppendFloats(nil, 0.1, -2)
	if !slices.Equal(b[:8], []byte{0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f}) {
		t.Errorf("0.1 is % x", b[:8])
	}
	x := make([]float64, 2)
	if err := model.ReadFloats(x, b); err != nil || !slices.Equal(x, []float64{0.1, -2}) || !slices.Equal(model.Floats(b), x) {
		t.Errorf("read %v, %v", x, err)
	}
	if model.ReadFloats(x, b[1:]) == nil || model.ReadFloats(x[:1], b) == nil {
		t.Error("another number of floats was read")
	}
	if model.Floats(nil) != nil || model.Singles(nil) != nil {
		t.Error("nothing was decoded to something")
	}
}
