package internal_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/protocol"
)

var bounds = []inputproof.Bound{{Len: 37, LInf: 5, Squares: 100}, {Len: 3, LInf: 1, Squares: 2}, {Len: 90, LInf: 1000, Squares: 1_500_000}}

func shapeOf(t testing.TB, list []inputproof.Bound) *inputproof.Shape {
	t.Helper()
	s, err := inputproof.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// vectorsOf fills vectors to their bounds.
func vectorsOf(list []inputproof.Bound, seed uint64) [][]int64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([][]int64, len(list))
	for k, b := range list {
		out[k] = make([]int64, b.Len)
		left := b.Squares
		for _, j := range r.Perm(b.Len) {
			x := r.Int64N(2*b.LInf+1) - b.LInf
			for x*x > left {
				x /= 2
			}
			out[k][j] = x
			left -= x * x
		}
	}
	return out
}

func prove(t testing.TB, s *inputproof.Shape, vectors [][]int64) ([]byte, []*edwards25519.Scalar) {
	t.Helper()
	proof, blindings, err := s.Prove([]byte("here"), vectors, rand.NewChaCha8([32]byte{7}), protocol.Workers(2))
	if err != nil {
		t.Fatal(err)
	}
	return proof, blindings
}

func TestProofOfVectorsWithinBounds(t *testing.T) {
	s := shapeOf(t, bounds)
	for seed := range uint64(3) {
		proof, _ := prove(t, s, vectorsOf(bounds, seed))
		if len(proof) != s.Size() {
			t.Fatalf("%d bytes, want %d", len(proof), s.Size())
		}
		if err := s.Verify([]byte("here"), proof); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify([]byte("elsewhere"), proof); !errors.Is(err, inputproof.ErrRefused) {
			t.Errorf("in another context: %v", err)
		}
		r := rand.New(rand.NewPCG(seed, 2))
		for range 30 {
			other := slices.Clone(proof)
			other[r.IntN(len(proof))] ^= 1 << r.IntN(8)
			if err := s.Verify([]byte("here"), other); !errors.Is(err, inputproof.ErrRefused) {
				t.Error("a changed proof is accepted")
			}
		}
	}
}

func TestSumIsOfProvedVectors(t *testing.T) {
	s := shapeOf(t, bounds)
	var proofs [][]byte
	sums, all := make([][]int64, len(bounds)), make([]*edwards25519.Scalar, s.Blindings())
	for k, b := range bounds {
		sums[k] = make([]int64, b.Len)
	}
	for i := range all {
		all[i] = edwards25519.NewScalar()
	}
	for seed := range uint64(3) {
		x := vectorsOf(bounds, seed)
		proof, blindings := prove(t, s, x)
		proofs = append(proofs, proof)
		for k := range x {
			for j := range x[k] {
				sums[k][j] += x[k][j]
			}
		}
		for i := range all {
			all[i].Add(all[i], blindings[i])
		}
	}
	if err := s.Open(proofs, sums, all, protocol.Workers(2)); err != nil {
		t.Fatal(err)
	}
	sums[2][89]++
	if err := s.Open(proofs, sums, all, protocol.Workers(2)); !errors.Is(err, inputproof.ErrRefused) {
		t.Errorf("another sum: %v", err)
	}
	sums[2][89]--
	if err := s.Open(proofs[1:], sums, all, protocol.Workers(2)); !errors.Is(err, inputproof.ErrRefused) {
		t.Errorf("without a client: %v", err)
	}
}
