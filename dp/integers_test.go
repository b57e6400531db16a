package dp

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Random vectors within the bounds, scaled and rounded, never leave the integer bounds.
func TestIntegerBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.IntRange(1, 40).Draw(t, "h")
		f := Fixed{
			L2:         math.Exp(rapid.Float64Range(-3, 3).Draw(t, "log C")),
			Scale:      math.Exp(rapid.Float64Range(-2, 8).Draw(t, "log s")),
			MaxNonZero: h,
		}
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), h, h).Draw(t, "x")
		var square, sum float64
		for _, v := range x {
			square += v * v
			sum += math.Abs(v)
		}
		if square == 0 {
			return
		}
		shrink := f.L2 / math.Sqrt(square)
		f.L1 = sum * shrink
		var d2, d1 float64
		for _, v := range x {
			k := math.Round(v * shrink * f.Scale)
			d2 += k * k
			d1 += math.Abs(k)
		}
		bound2, bound1 := IntegerBounds(f)
		if math.Sqrt(d2) > bound2*(1+1e-12) || d1 > bound1*(1+1e-12) {
			t.Fatalf("norms %v, %v are above the bounds %v, %v", math.Sqrt(d2), d1, bound2, bound1)
		}
	})
}

// By hand: each of the three bounds on D1 where it is the smallest.
func TestIntegerBoundsTable(t *testing.T) {
	for _, c := range []struct {
		f      Fixed
		d2, d1 float64
	}{
		{Fixed{L2: 2, Scale: 100, MaxNonZero: 16}, 202, 808},           // √h·D2 = 4·202
		{Fixed{L2: 1, Scale: 1, MaxNonZero: 10_000}, 51, 2601},         // D2² = 51²
		{Fixed{L2: 2, L1: 3, Scale: 100, MaxNonZero: 16}, 202, 308},    // s·L1 + h/2
		{Fixed{L2: 2, L1: 1000, Scale: 100, MaxNonZero: 16}, 202, 808}, // a loose L1 bound does no harm
	} {
		if d2, d1 := IntegerBounds(c.f); d2 != c.d2 || d1 != c.d1 {
			t.Errorf("bounds of %+v are %v, %v; want %v, %v", c.f, d2, d1, c.d2, c.d1)
		}
	}
}

func TestIntegerBoundsRefuse(t *testing.T) {
	f := Fixed{L2: 0, L1: -1, Scale: math.Inf(1), MaxNonZero: 0}
	err := f.Validate()
	for _, want := range []string{"L2 bound is 0", "L1 bound is -1", "scale is +Inf", "max-non-zero is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q: %v", want, err)
		}
	}
	d2, d1 := IntegerBounds(f)
	if err := Skellam(100, d2, d1).Validate(); err == nil {
		t.Errorf("bounds %v, %v of an invalid description make a valid event", d2, d1)
	}
}
