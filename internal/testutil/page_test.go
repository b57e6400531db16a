package testutil

import (
	"math"
	"testing"
)

// Black on white is 21 by definition. #777777 on white is 4.48, as the understanding of WCAG's 1.4.3 gives it.
func TestContrast(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#ffffff", "#ffffff", 1}, {"#777777", "#ffffff", 4.48}} {
		if got := Contrast(c.a, c.b); math.Abs(got-c.want) > 0.005 {
			t.Errorf("%s on %s: %.3f, want %v", c.a, c.b, got, c.want)
		}
	}
}
