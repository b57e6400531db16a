package audit_test

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/lab/internal/binomial"
)

// The closed forms are of all or none; the pair for 5 of 10 is in tables of the interval of
// Clopper and Pearson.
func TestClopperPearson(t *testing.T) {
	for _, c := range []struct {
		k, n         int
		lower, upper float64
	}{
		{0, 20, 0, 1 - math.Pow(binomial.Tail, 1./20)},
		{20, 20, math.Pow(binomial.Tail, 1./20), 1},
		{5, 10, 0.1871, 0.8129},
		{0, 5000, 0, 1 - math.Pow(binomial.Tail, 1./5000)},
	} {
		if lo, hi := binomial.Lower(c.k, c.n, binomial.Tail), binomial.Upper(c.k, c.n, binomial.Tail); math.Abs(lo-c.lower) > 5e-5 || math.Abs(hi-c.upper) > 5e-5 {
			t.Errorf("%d of %d: from %.5f to %.5f, want %.5f to %.5f", c.k, c.n, lo, hi, c.lower, c.upper)
		}
	}
}
