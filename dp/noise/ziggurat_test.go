package noise

import (
	"math"
	"testing"
)

// edge returns x[i] of the ziggurat; the last is zero.
func edge(i int) float64 {
	if i == layers {
		return 0
	}
	return zig.layers[i].width * 0x1p54
}

func relative(got, want float64) float64 {
	return math.Abs(got-want) / math.Abs(want)
}

// upper returns the integral of exp(-t²/2) from x to infinity.
func upper(x float64) float64 {
	return math.Sqrt(math.Pi/2) * math.Erfc(x/math.Sqrt2)
}

// TestZigguratEquations: the table against its definition, by math.Exp and
// math.Erfc.
func TestZigguratEquations(t *testing.T) {
	f := func(x float64) float64 { return math.Exp(-x * x / 2) }
	if d := relative(baseEdge*f(baseEdge)+upper(baseEdge), layerArea); d > 1e-14 {
		t.Errorf("the base layer's area is off by %.2g of itself", d)
	}
	if d := relative(edge(0)*zig.y[1], layerArea); d > 1e-14 || edge(1) != baseEdge || zig.y[0] != 0 || zig.y[layers] != 1 {
		t.Errorf("ends of the table: x[1] = %v, y[0] = %v, y[%d] = %v, first area off by %.2g", edge(1), zig.y[0], layers, zig.y[layers], d)
	}
	for i := 1; i < layers; i++ {
		if d := relative(edge(i)*(zig.y[i+1]-zig.y[i]), layerArea); d > 1e-13 {
			t.Errorf("layer %d has an area off by %.2g of itself", i, d)
		}
		if d := relative(zig.y[i], f(edge(i))); d > 1e-14 {
			t.Errorf("y[%d] is off by %.2g of itself", i, d)
		}
	}
	// In 50 digits by mpmath, rounded.
	for i, want := range map[int][2]float64{
		0:    {4.2734453030989946179, 0},
		2:    {3.8560026549832624497, 0.00059059607313460181743},
		512:  {1.5373123302506955838, 0.30676766778138429939},
		1000: {0.44860680815220981369, 0.90427294472126007884},
		1023: {0.13506355863516885346, 0.99092038845455262168},
	} {
		if relative(edge(i), want[0]) > 3e-14 || math.Abs(zig.y[i]-want[1]) > 1e-15 {
			t.Errorf("layer %d starts at %v, %v; want %v, %v", i, edge(i), zig.y[i], want[0], want[1])
		}
	}
}

// TestZigguratLimits: abscissas inside are under the curve, and the share of words that are not
// inside is mpmath's, 0.00427657.
func TestZigguratLimits(t *testing.T) {
	sum := 0.0
	for i := range zig.layers {
		l := &zig.layers[i]
		if l.limit%2 != 0 || l.limit >= 1<<54 {
			t.Fatalf("layer %d has the limit %#x, want an even number below 2^54", i, l.limit)
		}
		if d := edge(i+1) - float64(l.limit)*l.width; math.Abs(d) > 1e-15 {
			t.Errorf("layer %d: its limit is %.2g short of the next layer", i, d)
		}
		for _, j := range []int64{1, int64(l.limit) - 1, int64(l.limit) + 1, 1<<54 - 1} {
			want := uint64(j) < l.limit
			if l.inside(j) != want || l.inside(-j) != want {
				t.Errorf("layer %d: inside(±%d) = %v, %v; the limit is %d", i, j, l.inside(j), l.inside(-j), l.limit)
			}
		}
		sum += 1 - float64(l.limit)*0x1p-54
	}
	if got := sum / layers; relative(got, 0.00427657) > 2e-6 {
		t.Errorf("a share of %v of words is not inside, want 0.00427657", got)
	}
}

// TestImpliedDensity: the density that draws have if words are uniform, added up
// over the layers, is proportional to exp(-x²/2) (by math.Exp), everywhere, to
// 1e-14; and the tail is taken as often as math.Erfc says.
func TestImpliedDensity(t *testing.T) {
	worst := 0.0
	check := func(x float64) {
		f, sum := math.Exp(-x*x/2), 0.0
		for i := range zig.layers {
			switch l := &zig.layers[i]; {
			case x < float64(l.limit)*l.width:
				sum += 1 / edge(i)
			case i > 0 && x < edge(i):
				sum += min(1, max(0, (f-zig.y[i])/(zig.y[i+1]-zig.y[i]))) / edge(i)
			}
		}
		worst = max(worst, relative(sum*layerArea, f))
	}
	for i := 1; i < layers; i++ {
		left, width := edge(i+1), edge(i)-edge(i+1)
		for _, share := range []float64{1e-9, 0.2, 0.5, 0.8, 1 - 1e-9} {
			check(left + share*width)
		}
	}
	t.Logf("largest relative error of the density: %.2g", worst)
	if worst > 1e-14 {
		t.Errorf("the density is off by up to %.2g of itself, limit 1e-14", worst)
	}
	base := &zig.layers[0]
	if d := relative(1-float64(base.limit)*0x1p-54, upper(baseEdge)/layerArea); d > 1e-12 {
		t.Errorf("the share of the tail in the base layer is off by %.2g of itself", d)
	}
}

// TestElementary: against mpmath in 50 digits, and against package math, whose
// own error is below one unit of the last place.
func TestElementary(t *testing.T) {
	const ulp = 0x1p-52
	for x, want := range map[float64]float64{
		-0.1: 0.9048374180359595, -0.34: 0.7117703227626097, -0.36: 0.697676326071031,
		-1: 0.36787944117144233, -9.15: 0.00010621980274645875, -37.4: 5.719872877313073e-17, 0.3: 1.3498588075760032,
	} {
		if got := exp(x); relative(got, want) > 2*ulp {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	for x, want := range map[float64]float64{
		0.5: -0.6931471805599453, 0.999: -0.0010005003335835344, 0.00028: -8.180720954795024,
		0x1p-54: -37.42994775023705, 0.7071: -0.346583180371942,
	} {
		if got := log(x); math.Abs(got-want) > max(4e-16, 2*ulp*math.Abs(want)) {
			t.Errorf("log(%v) = %v, want %v", x, got, want)
		}
	}
	for k := range 100_000 {
		x := -40 * float64(k) / 100_000
		if got, want := exp(x), math.Exp(x); relative(got, want) > 3*ulp {
			t.Fatalf("exp(%v) = %v, package math has %v", x, got, want)
		}
		u := math.Exp(x)
		if got, want := log(u), math.Log(u); math.Abs(got-want) > max(4e-16, 3*ulp*math.Abs(want)) {
			t.Fatalf("log(%v) = %v, package math has %v", u, got, want)
		}
	}
	for _, x := range []float64{-700, 700} { // the ends of what exp promises
		if got, want := exp(x), math.Exp(x); relative(got, want) > 3*ulp {
			t.Errorf("exp(%v) = %v, package math has %v", x, got, want)
		}
	}
	for _, x := range []float64{0x1p-1000, 0x1p1000, 1} {
		if got, want := log(x), math.Log(x); math.Abs(got-want) > max(4e-16, 3*ulp*math.Abs(want)) {
			t.Errorf("log(%v) = %v, package math has %v", x, got, want)
		}
	}
}
