package internal_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/internal/secagg/inputproof"
)

// Bits counts the zeros behind short vectors and the slacks too: so must the limit. Without them, a list of short vectors has shapes
// whose proofs take hours, since a prover's time grows with the square of the rows.
func TestShapesHaveAtMostMaxBits(t *testing.T) {
	list := make([]inputproof.Bound, 1<<16)
	for k := range list {
		list[k] = inputproof.Bound{Len: 1, LInf: 1, Squares: 1}
	}
	s, err := inputproof.New(list)
	if err == nil && s.Bits() > inputproof.MaxBits {
		t.Errorf("a shape of %d vectors has %d bits, beyond %d", len(list), s.Bits(), inputproof.MaxBits)
	}
}

// A caller that changes its list changes what a shape hashes, but not its layout.
func TestShapeKeepsItsBounds(t *testing.T) {
	list := []inputproof.Bound{{Len: 5, LInf: 3, Squares: 40}}
	s := shapeOf(t, list)
	vectors := [][]int64{{1, -2, 3, 0, 0}}
	proof, _ := prove(t, s, vectors)
	list[0].Squares--
	if err := s.Verify([]byte("here"), proof); err != nil {
		t.Errorf("after a change of the caller's list: %v", err)
	}
}

func TestBoundsOutOfRange(t *testing.T) {
	for _, b := range []inputproof.Bound{
		{}, {Len: math.MaxInt, LInf: 1, Squares: 1}, {Len: math.MinInt, LInf: 1, Squares: 1}, {Len: math.MaxInt/2 + 2, LInf: 1, Squares: 1},
		{Len: 1, LInf: math.MinInt64, Squares: 1}, {Len: 1, LInf: 1<<31 + 1, Squares: 1}, {Len: 1, LInf: math.MaxInt64, Squares: 1},
		{Len: 1, LInf: 1, Squares: math.MinInt64}, {Len: 1, LInf: 1, Squares: 1<<62 + 1}, {Len: 1, LInf: 1, Squares: 0},
		{Len: 1 << 24, LInf: 1, Squares: 1},
	} {
		for _, list := range [][]inputproof.Bound{{b}, {{Len: 1, LInf: 1, Squares: 1}, b}} {
			if _, err := inputproof.New(list); !errors.Is(err, inputproof.ErrBounds) {
				t.Errorf("%v: %v", list, err)
			}
		}
	}
}

func TestVectorsOutOfRange(t *testing.T) {
	s := shapeOf(t, []inputproof.Bound{{Len: 3, LInf: 1 << 31, Squares: 1 << 62}})
	for _, x := range [][]int64{
		{math.MinInt64, 0, 0}, {math.MaxInt64, 0, 0}, {0, 1<<31 + 1, 0}, {0, -1<<31 - 1, 0},
		{1 << 31, 1, 0}, {1 << 31, 1 << 31, 1 << 31}, {1 << 32, 0, 0},
	} {
		if _, _, err := s.Prove(nil, [][]int64{x}, rand.NewChaCha8([32]byte{}), nil); !errors.Is(err, inputproof.ErrBeyond) {
			t.Errorf("%v: %v", x, err)
		}
	}
}
