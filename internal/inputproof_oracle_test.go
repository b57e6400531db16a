package internal_test

import (
	"crypto/sha256"
	"crypto/sha3"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/protocol"
)

// hexBytes are bytes that JSON has in hexadecimal.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// oracle is secagg/inputproof/testdata/inputproof.json, which inputproof.py there writes from inputproof.md alone.
type oracle struct {
	Seed   string
	Honest []struct {
		Context   hexBytes
		Bounds    [][3]int64
		Vectors   [][]int64
		Size      int
		SHA256    hexBytes
		Proof     hexBytes
		Blindings []hexBytes
	}
	Cheating []struct {
		Name    string
		Bounds  [][3]int64
		Context hexBytes
		Proof   hexBytes
		Accept  bool
	}
	Sum struct {
		Bounds  [][3]int64
		Clients []struct {
			Context, Proof hexBytes
			Seed           string
			Vectors        [][]int64
		}
		Vectors   [][]int64
		Blindings []hexBytes
	}
}

func readOracle(t *testing.T) *oracle {
	t.Helper()
	data, err := os.ReadFile("secagg/inputproof/testdata/inputproof.json")
	if err != nil {
		t.Fatal(err)
	}
	o := new(oracle)
	if err = json.Unmarshal(data, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func shapeOfNumbers(t *testing.T, numbers [][3]int64) *inputproof.Shape {
	t.Helper()
	var list []inputproof.Bound
	for _, b := range numbers {
		list = append(list, inputproof.Bound{Len: int(b[0]), LInf: b[1], Squares: b[2]})
	}
	return shapeOf(t, list)
}

// proveFrom proves with a hash's output as the random source.
func proveFrom(t *testing.T, s *inputproof.Shape, context []byte, vectors [][]int64, seed string) ([]byte, []*edwards25519.Scalar) {
	t.Helper()
	random := sha3.NewSHAKE256()
	_, _ = random.Write([]byte(seed))
	proof, blindings, err := s.Prove(context, vectors, random, protocol.Workers(2))
	if err != nil {
		t.Fatal(err)
	}
	return proof, blindings
}

func TestOracleProofsAreTheSameBytes(t *testing.T) {
	o := readOracle(t)
	for _, c := range o.Honest {
		s := shapeOfNumbers(t, c.Bounds)
		if s.Size() != c.Size {
			t.Errorf("%v: a size of %d, want %d", c.Bounds, s.Size(), c.Size)
			continue
		}
		proof, blindings := proveFrom(t, s, c.Context, c.Vectors, o.Seed)
		if sum := sha256.Sum256(proof); !slices.Equal(sum[:], c.SHA256) {
			t.Errorf("%v: another proof", c.Bounds)
			for i := 0; c.Proof != nil && i < len(proof); i += 32 {
				if !slices.Equal(proof[i:i+32], c.Proof[i:i+32]) {
					t.Errorf("%v: from element %d of %d points and scalars", c.Bounds, i/32, len(proof)/32)
					break
				}
			}
		}
		if len(blindings) != len(c.Blindings) {
			t.Fatalf("%v: %d blindings, want %d", c.Bounds, len(blindings), len(c.Blindings))
		}
		for j, want := range c.Blindings {
			if !slices.Equal(blindings[j].Bytes(), want) {
				t.Errorf("%v: blinding %d is another", c.Bounds, j)
			}
		}
		if err := s.Verify(c.Context, proof); err != nil {
			t.Errorf("%v: %v", c.Bounds, err)
		}
	}
}

func TestOracleCheatingIsRefused(t *testing.T) {
	for _, c := range readOracle(t).Cheating {
		err := shapeOfNumbers(t, c.Bounds).Verify(c.Context, c.Proof)
		if c.Accept && err != nil || !c.Accept && !errors.Is(err, inputproof.ErrRefused) {
			t.Errorf("%v: %s: %v", c.Bounds, c.Name, err)
		}
	}
}

// A point of small order in a commitment changes neither what is proved nor what is opened.
func TestOracleSmallOrderOpens(t *testing.T) {
	o := readOracle(t)
	honest := o.Honest[0]
	s := shapeOfNumbers(t, honest.Bounds)
	blindings := make([]*edwards25519.Scalar, len(honest.Blindings))
	for i, b := range honest.Blindings {
		var err error
		if blindings[i], err = edwards25519.NewScalar().SetCanonicalBytes(b); err != nil {
			t.Fatal(err)
		}
	}
	found := false
	for _, c := range o.Cheating {
		if c.Name != "a point of order 8 added to a commitment before the challenge" || !slices.Equal(c.Bounds, honest.Bounds) {
			continue
		}
		found = true
		if err := s.Open([][]byte{c.Proof}, honest.Vectors, blindings, protocol.Workers(1)); err != nil {
			t.Error(err)
		}
		honest.Vectors[0][0]++
		if err := s.Open([][]byte{c.Proof}, honest.Vectors, blindings, protocol.Workers(1)); !errors.Is(err, inputproof.ErrRefused) {
			t.Errorf("another vector: %v", err)
		}
	}
	if !found {
		t.Error("no such proof")
	}
}

func TestOracleSum(t *testing.T) {
	o := readOracle(t).Sum
	s := shapeOfNumbers(t, o.Bounds)
	all := make([]*edwards25519.Scalar, s.Blindings())
	for i := range all {
		all[i] = edwards25519.NewScalar()
	}
	var proofs [][]byte
	for _, c := range o.Clients {
		proof, blindings := proveFrom(t, s, c.Context, c.Vectors, c.Seed)
		if !slices.Equal(proof, c.Proof) {
			t.Error("another proof")
		}
		proofs = append(proofs, c.Proof)
		for i, x := range blindings {
			all[i].Add(all[i], x)
		}
	}
	given := make([]*edwards25519.Scalar, len(o.Blindings))
	for i, b := range o.Blindings {
		var err error
		if given[i], err = edwards25519.NewScalar().SetCanonicalBytes(b); err != nil {
			t.Fatal(err)
		}
		if given[i].Equal(all[i]) == 0 {
			t.Errorf("sum %d of blindings is another", i)
		}
	}
	open := func() error { return s.Open(proofs, o.Vectors, given, protocol.Workers(2)) }
	if err := open(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(proofs)
	if err := open(); err != nil {
		t.Errorf("in another order: %v", err)
	}
	for k := range o.Vectors {
		for _, by := range []int64{1, -2} {
			o.Vectors[k][0] += by
			if err := open(); !errors.Is(err, inputproof.ErrRefused) {
				t.Errorf("vector %d is off by %d: %v", k, by, err)
			}
			o.Vectors[k][0] -= by
		}
	}
	one := edwards25519.NewScalar().Subtract(given[0], given[1])
	given[0].Subtract(given[0], one)
	given[1].Add(given[1], one)
	if err := open(); !errors.Is(err, inputproof.ErrRefused) {
		t.Errorf("two blindings that are swapped: %v", err)
	}
}
