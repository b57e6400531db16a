package protocol_test

import (
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// TestVectorMemory: each borrower has its memory alone until it is returned, and memory for no index is still of a sparse vector.
func TestVectorMemory(t *testing.T) {
	var none *protocol.VectorMemory
	none.Return()
	for _, n := range []int{0, 3, 100, 2} {
		a, b := protocol.BorrowVectorMemory(n), protocol.BorrowVectorMemory(n)
		if a == b {
			t.Fatal("two borrowers have the same memory")
		}
		for i := range n {
			a.Index[i], b.Index[i], a.Factor[i], b.Factor[i] = 1, 2, 1, 2
		}
		for i := range n {
			if a.Index[i] != 1 || a.Factor[i] != 1 {
				t.Fatalf("of %d, index %d is %d with factor %v after another borrower wrote 2; want 1", n, i, a.Index[i], a.Factor[i])
			}
		}
		if a.Index == nil || len(a.Index) != n || len(a.Factor) != n {
			t.Errorf("%d indices and %d factors, want %d of each, and none nil", len(a.Index), len(a.Factor), n)
		}
		a.Return()
		b.Return()
	}
}
