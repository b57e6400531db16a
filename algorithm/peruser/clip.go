package peruser

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Clip brings a vector within all bounds of the release, each vector on its own. At most r.MaxNonZero
// coordinates stay: the largest, and of equal ones the first. No coordinate exceeds r.LInf in magnitude, and the
// L1 and L2 norms are at most r.L1 and r.L2. A bound of 0 on coordinates or on the L1 norm sets no limit.
//
// A coordinate that is not a number becomes 0. An infinite coordinate counts as the largest float. A vector
// within the bounds keeps its values. v itself does not change. The result lists its coordinates.
func Clip(v protocol.Vector, r protocol.Release) protocol.Vector {
	out := numbersOf(v)
	limit := math.MaxFloat64
	if r.LInf > 0 {
		limit = r.LInf
	}
	for i, x := range out.Value {
		out.Value[i] = min(max(x, -limit), limit)
	}
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

// numbersOf returns the coordinates that are neither 0 nor NaN, in memory of their own.
func numbersOf(v protocol.Vector) protocol.Vector {
	listed := len(v.Index)
	single := v.Index != nil && v.Block <= 1 && v.Factor == nil
	if !single {
		listed = 0
		v.Each(func(_ int, x float64) {
			if x != 0 {
				listed++
			}
		})
	}
	out := protocol.Vector{Index: make([]uint32, 0, listed), Value: slices.Grow([]float64(nil), listed)}
	if !single {
		v.Each(func(j int, x float64) {
			if x != 0 && !math.IsNaN(x) {
				out.Index, out.Value = append(out.Index, uint32(j)), append(out.Value, x)
			}
		})
		return out
	}
	for i, j := range v.Index { // half of the time of Each
		if x := v.Value[i]; x != 0 && !math.IsNaN(x) {
			out.Index, out.Value = append(out.Index, j), append(out.Value, x)
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
