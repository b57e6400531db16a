package mask_test

import (
	"testing"

	"github.com/fedsim/fedsim/secagg/internal/linear"
	"github.com/fedsim/fedsim/secagg/mask"
)

// TestNotLinear adds up the masks of a client with 48 neighbours and finds the
// length of the shortest linear recurrence behind the lowest bits of n = 41,000
// coordinates. By the count of package linear, uniform bits miss n/2 by more than 40
// with probability below 2^-80; the input is fixed besides.
func TestNotLinear(t *testing.T) {
	const length = 41_000
	v := newVector(t, 29, length)
	var terms []mask.Term
	for i := range byte(49) {
		terms = append(terms, mask.Term{Stream: newStream(t, i, 29, length), Sub: i%2 == 1})
	}
	if err := mask.AddAll(v, terms); err != nil {
		t.Fatal(err)
	}
	low := make([]bool, length)
	for i, x := range v.AppendInts(nil) {
		low[i] = x&1 == 1
	}
	if got := linear.Complexity(low); got < 20_460 || got > 20_540 {
		t.Errorf("linear complexity %d, want 20,500 ± 40", got)
	}
}
