package secagg_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fedsim/fedsim/internal/merkle"
)

func leaves(n int) []merkle.Hash {
	out := make([]merkle.Hash, n)
	for i := range out {
		out[i] = merkle.Leaf(fmt.Append(nil, "leaf ", i))
	}
	return out
}

// The oracle is the transparency log of Go's checksum database, which follows RFC 6962, too.
func TestRoot(t *testing.T) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, k := range at {
			out[i] = stored[k]
		}
		return out, nil
	})
	for n := 1; n <= 200; n++ {
		more, err := tlog.StoredHashes(int64(n-1), fmt.Append(nil, "leaf ", n-1), read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
		want, err := tlog.TreeHash(int64(n), read)
		if err != nil {
			t.Fatal(err)
		}
		tree := merkle.New(leaves(n))
		if got := tree.Root(); got != merkle.Hash(want) {
			t.Fatalf("the root of %d leaves is %x, want %x", n, got, want)
		}
		// A proof of one leaf has the same hashes as theirs, which go upwards.
		at := n * 2 / 3
		record, err := tlog.ProveRecord(int64(n), int64(at), read)
		if err != nil {
			t.Fatal(err)
		}
		got := tree.Prove([]int{at})
		same := func(h merkle.Hash) bool { return slices.Contains(record, tlog.Hash(h)) }
		if len(got) != len(record) || slices.IndexFunc(got, func(h merkle.Hash) bool { return !same(h) }) >= 0 {
			t.Fatalf("leaf %d of %d: %d hashes prove it, %d in the log", at, n, len(got), len(record))
		}
	}
}

// The proof of leaves gives the root, and nothing else does: no other leaf, place, number of leaves
// or hash, no hash more or less.
func TestProofs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(70)
		all := leaves(n)
		tree := merkle.New(all)
		places := r.Perm(n)[:1+r.IntN(n)]
		slices.Sort(places)
		wanted := make([]merkle.Hash, len(places))
		for i, p := range places {
			wanted[i] = all[p]
		}
		proof := tree.Prove(places)
		check := func(want bool, n int, places []int, wanted, proof []merkle.Hash, what string) {
			t.Helper()
			got, err := merkle.Root(n, places, wanted, proof)
			if err != nil && !errors.Is(err, merkle.ErrProof) {
				t.Fatal(err)
			}
			if right := err == nil && got == tree.Root(); right != want {
				t.Fatalf("%s, %d of %d leaves: it gives the root: %v", what, len(places), n, right)
			}
		}
		check(true, n, places, wanted, proof, "the proof itself")
		k := r.IntN(len(places))
		other := slices.Clone(wanted)
		other[k][r.IntN(32)] ^= 1
		check(false, n, places, other, proof, "another leaf")
		check(false, n, places, wanted, append(slices.Clone(proof), merkle.Hash{}), "a hash more")
		check(false, n, slices.Insert(slices.Clone(places), k, places[k]), slices.Insert(slices.Clone(wanted), k, wanted[k]), proof, "a place twice")
		check(false, n, append(slices.Clone(places), n), append(slices.Clone(wanted), wanted[0]), proof, "a place beyond the end")
		if len(proof) > 0 {
			j := r.IntN(len(proof))
			other = slices.Clone(proof)
			other[j][r.IntN(32)] ^= 1
			check(false, n, places, wanted, other, "another hash")
			check(false, n, places, wanted, slices.Delete(slices.Clone(proof), j, j+1), "a hash less")
		}
		if free := slices.IndexFunc(all, func(h merkle.Hash) bool { return !slices.Contains(wanted, h) }); free >= 0 && len(places) == 1 {
			check(false, n, []int{free}, wanted, tree.Prove([]int{free}), "another place")
		}
	}
}

// Neighbouring leaves need at most two hashes a level.
func TestProofsAreShort(t *testing.T) {
	const n, m = 1000, 40
	tree := merkle.New(leaves(n))
	for start := range n - m {
		places := make([]int, m)
		for i := range places {
			places[i] = start + i
		}
		if got := len(tree.Prove(places)); got > 2*10 {
			t.Fatalf("%d hashes prove leaves %d to %d of %d", got, start, start+m-1, n)
		}
	}
}
