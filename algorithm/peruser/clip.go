package peruser

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Clip returns v within the bounds of the release: at most r.MaxNonZero coordinates differ from zero (the largest stay; of equal ones the first),
// no coordinate exceeds r.LInf in magnitude, and L1 and L2 norms are at most r.L1 and r.L2. Bounds of 0
// on coordinates and on the L1 norm are none. A coordinate that is not a number becomes 0, an infinite one counts
// as the largest float. A vector within the bounds comes back with the same values. v stays as it is; the result
// lists its coordinates, so that it suits a sparse v best.
//
// Clipping by coordinates and by norm maps each user's vector on its own, so that the sensitivity is what the release
// declares, whatever the user's ratings are.
func Clip(v protocol.Vector, r protocol.Release) protocol.Vector {
	out := protocol.Vector{Index: []uint32{}}
	v.Each(func(j int, x float64) {
		if x == 0 || math.IsNaN(x) {
			return
		}
		limit := math.MaxFloat64
		if r.LInf > 0 {
			limit = r.LInf
		}
		out.Index = append(out.Index, uint32(j))
		out.Value = append(out.Value, min(max(x, -limit), limit))
	})
	keepLargest(&out, r.MaxNonZero)
	largest := 0.
	for _, x := range out.Value {
		largest = max(largest, math.Abs(x))
	}
	if largest == 0 {
		return out
	}
	var l1, l2 float64 // of the vector divided by its largest coordinate: no square overflows
	for _, x := range out.Value {
		a := math.Abs(x) / largest
		l1 += a
		l2 += a * a
	}
	shrink := min(1, r.L2/largest/math.Sqrt(l2))
	if r.L1 > 0 {
		shrink = min(shrink, r.L1/largest/l1)
	}
	if shrink < 1 {
		for i := range out.Value {
			out.Value[i] *= shrink
		}
	}
	return out
}

// keepLargest leaves the n coordinates of largest magnitude, in their order.
func keepLargest(v *protocol.Vector, n int) {
	if len(v.Index) <= n {
		return
	}
	order := make([]int, len(v.Index))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := math.Abs(v.Value[a]), math.Abs(v.Value[b]); {
		case x > y:
			return -1
		case x < y:
			return 1
		default:
			return 0
		}
	})
	order = order[:n]
	slices.Sort(order)
	kept := protocol.Vector{Index: make([]uint32, n), Value: make([]float64, n)}
	for k, i := range order {
		kept.Index[k], kept.Value[k] = v.Index[i], v.Value[i]
	}
	*v = kept
}
