package noise

import "math"

const (
	layerBits = 10
	layers    = 1 << layerBits

	// baseEdge and layerArea solve, for 1,024 layers, the two equations of the
	// ziggurat: with f(x) = exp(-x²/2) the base layer has
	//	layerArea = baseEdge·f(baseEdge) + ∫ f from baseEdge to ∞,
	// and rectangles of that area stacked on it end at f(0) = 1. (More layers
	// leave fewer draws to the slow paths; 256 take 15% longer. Beyond 1,024 the
	// table leaves the fastest cache.)
	baseEdge  = 4.038849846109504522714423
	layerArea = 0.001226324646353088072885371
)

// zig is the ziggurat of the standard normal distribution. It is computed once
// and not changed.
var zig = newZiggurat()

// ziggurat covers the right half of the curve f(x) = exp(-x²/2) by layers of equal area. Layer i >
// 0 is the rectangle from 0 to x[i] and from y[i] to y[i+1], where y[i] = f(x[i]). Layer 0 is the
// area under y[1], tail included. It is drawn as if it were a rectangle of width x[0], with the
// tail in place of the part beyond x[1] = baseEdge.
type ziggurat struct {
	layers [layers]layer
	y      [layers + 1]float64
}

// layer holds everything that a draw inside of it needs.
type layer struct {
	limit uint64  // even; abscissas below are under the curve at any height
	width float64 // x[i] / 2^54
}

// inside reports whether -limit < j < limit, for odd j.
func (l *layer) inside(j int64) bool {
	return uint64(j)+l.limit < 2*l.limit
}

// at returns the position of the abscissa j.
func (l *layer) at(j int64) float64 {
	return float64(float64(j) * l.width)
}

func newZiggurat() ziggurat {
	const one = 1 << (64 - layerBits) // the abscissa of a layer's right end
	var z ziggurat
	z.y[1] = density(baseEdge)
	z.y[layers] = 1
	x, next := layerArea/z.y[1], baseEdge
	lost := 0.0 // to rounding, so far (Kahan's summation)
	for i := range z.layers {
		z.layers[i] = layer{
			limit: uint64(float64(next/x*one)) &^ 1,
			width: x / one,
		}
		x = next
		if i+2 >= layers { // the topmost layer ends at zero
			next = 0
			continue
		}
		height := layerArea/x - lost
		z.y[i+2] = z.y[i+1] + height
		lost = z.y[i+2] - z.y[i+1] - height
		next = math.Sqrt(-2 * log(z.y[i+2]))
	}
	return z
}

// density returns exp(-x²/2).
func density(x float64) float64 {
	return exp(float64(-x * x / 2))
}
