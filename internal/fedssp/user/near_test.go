package user

import (
	"math"
	"testing"
)

// near fails the test unless got has the length of want, and each number is within the tolerance
// relative to 1 plus its magnitude.
func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: %v at %d, want %v", what, got[i], i, want[i])
		}
	}
}
