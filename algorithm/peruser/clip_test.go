package peruser_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/protocol"
)

// The expected vectors are worked out by hand.
func TestClip(t *testing.T) {
	for name, c := range map[string]struct {
		v     protocol.Vector
		r     protocol.Release
		index []uint32
		value []float64
	}{
		"within":       {protocol.Vector{Value: []float64{3, 0, 4}}, protocol.Release{Len: 3, L2: 5, MaxNonZero: 3}, []uint32{0, 2}, []float64{3, 4}},
		"norm":         {protocol.Vector{Value: []float64{6, 8}}, protocol.Release{Len: 2, L2: 5, MaxNonZero: 2}, []uint32{0, 1}, []float64{3, 4}},
		"coordinate":   {protocol.Vector{Value: []float64{-6, 2}}, protocol.Release{Len: 2, L2: 9, LInf: 3, MaxNonZero: 2}, []uint32{0, 1}, []float64{-3, 2}},
		"sum":          {protocol.Vector{Value: []float64{6, -2}}, protocol.Release{Len: 2, L2: 9, L1: 4, MaxNonZero: 2}, []uint32{0, 1}, []float64{3, -1}},
		"most":         {protocol.Vector{Index: []uint32{1, 4, 7}, Value: []float64{1, -5, 5}}, protocol.Release{Len: 9, L2: 9, MaxNonZero: 2}, []uint32{4, 7}, []float64{-5, 5}},
		"equal":        {protocol.Vector{Value: []float64{2, 2, 2}}, protocol.Release{Len: 3, L2: 9, MaxNonZero: 2}, []uint32{0, 1}, []float64{2, 2}},
		"not a number": {protocol.Vector{Value: []float64{math.NaN(), 1}}, protocol.Release{Len: 2, L2: 9, MaxNonZero: 2}, []uint32{1}, []float64{1}},
		"infinite":     {protocol.Vector{Value: []float64{math.Inf(-1), 1}}, protocol.Release{Len: 2, L2: 9, LInf: 2, MaxNonZero: 2}, []uint32{0, 1}, []float64{-2, 1}},
		"zero":         {protocol.Vector{Value: []float64{0, 0}}, protocol.Release{Len: 2, L2: 9, MaxNonZero: 2}, []uint32{}, nil},
		"blocks":       {protocol.Vector{Index: []uint32{1}, Block: 2, Factor: []float64{2}, Value: []float64{3, 4}}, protocol.Release{Len: 4, L2: 5, MaxNonZero: 4}, []uint32{2, 3}, []float64{3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			got := peruser.Clip(c.v, c.r)
			if !slices.Equal(got.Index, c.index) || !slices.EqualFunc(got.Value, c.value, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
				t.Errorf("%v %v, want %v %v", got.Index, got.Value, c.index, c.value)
			}
			if err := got.Validate(c.r.Len); err != nil {
				t.Error(err)
			}
		})
	}
}

// Any vector is brought within the bounds. A slow sum of the result is the oracle.
func TestClipKeepsTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := protocol.Vector{Value: rapid.SliceOfN(rapid.Float64(), 1, 9).Draw(t, "value")}
		r := protocol.Release{Len: len(v.Value), L2: rapid.Float64Range(1e-3, 1e3).Draw(t, "l2"), L1: rapid.SampledFrom([]float64{0, 0.5, 7}).Draw(t, "l1"),
			LInf: rapid.SampledFrom([]float64{0, 0.1, 3}).Draw(t, "linf"), MaxNonZero: rapid.IntRange(1, len(v.Value)).Draw(t, "most")}
		got := peruser.Clip(v, r)
		var l1, l2 float64
		for _, x := range got.Value {
			l1 += math.Abs(x)
			l2 = math.Hypot(l2, x)
			if r.LInf > 0 && math.Abs(x) > r.LInf {
				t.Errorf("a coordinate of %v, above %v", x, r.LInf)
			}
		}
		if len(got.Value) > r.MaxNonZero || l2 > r.L2*(1+1e-12) || r.L1 > 0 && l1 > r.L1*(1+1e-12) {
			t.Errorf("%v has %d coordinates, norms %v and %v; the release allows %d, %v and %v", got, len(got.Value), l2, l1, r.MaxNonZero, r.L2, r.L1)
		}
	})
}
