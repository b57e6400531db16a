// Package merkle proves that leaves stand at places of a list of which only a hash is known.
//
// RFC 6962, section 2.1, defines the trees. A leaf is hashed behind a byte 0, two subtrees behind a
// byte 1. The left of two subtrees has the largest power of two of leaves that leaves something for
// the right. A proof is for several leaves at once. It has the hashes of all subtrees that contain
// none of these leaves but whose parents do, from left to right. For any number of neighbouring
// leaves of n it has at most 2·log2(n) hashes.
package merkle

import (
	"crypto/sha256"
	"errors"
	"math/bits"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Hash is SHA-256's.
type Hash = protocol.Hash

// ErrProof is returned for a proof that is not one of these leaves.
var ErrProof = errors.New("merkle: the proof is not of these leaves")

// Leaf is the hash of a leaf.
func Leaf(data []byte) Hash {
	return sha256.Sum256(append([]byte{0}, data...))
}

func parent(left, right *Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// Tree is a tree of leaves. It is immutable.
type Tree struct {
	// levels from the leaves to the root. A node has nodes 2i and 2i+1 of the level below it; the last of an odd
	// number stands in the next level as it is.
	levels [][]Hash
}

// New makes the tree of at least one leaf's hash; it keeps the slice.
func New(leaves []Hash) *Tree {
	t := &Tree{levels: [][]Hash{leaves}}
	for below := leaves; len(below) > 1; {
		level := make([]Hash, (len(below)+1)/2)
		for i := range level {
			if 2*i+1 < len(below) {
				level[i] = parent(&below[2*i], &below[2*i+1])
			} else {
				level[i] = below[2*i]
			}
		}
		t.levels = append(t.levels, level)
		below = level
	}
	return t
}

// Root is the hash that stands for the whole tree.
func (t *Tree) Root() Hash { return t.levels[len(t.levels)-1][0] }

// Prove is the proof of the leaves at the places given, which ascend.
func (t *Tree) Prove(places []int) []Hash {
	var proof []Hash
	var down func(level, i int, places []int)
	down = func(level, i int, places []int) {
		switch {
		case len(places) == 0:
			proof = append(proof, t.levels[level][i])
		case level > 0:
			left, right := split(places, level, i)
			down(level-1, 2*i, left)
			if 2*i+1 < len(t.levels[level-1]) {
				down(level-1, 2*i+1, right)
			}
		}
	}
	down(len(t.levels)-1, 0, places)
	return proof
}

// split divides the places below a node between its two halves.
func split(places []int, level, i int) (left, right []int) {
	middle, _ := slices.BinarySearch(places, (2*i+1)<<(level-1))
	return places[:middle], places[middle:]
}

// Root is the root of the tree of n leaves that has these hashes at these places, by the
// proof. ErrProof is returned where places do not ascend below n, or the proof has another
// length than theirs. That it is the root which was expected the caller checks.
func Root(n int, places []int, leaves, proof []Hash) (Hash, error) {
	for i, p := range places {
		if p < 0 || p >= n || i > 0 && places[i-1] >= p {
			return Hash{}, ErrProof
		}
	}
	if n < 1 || len(places) == 0 || len(places) != len(leaves) {
		return Hash{}, ErrProof
	}
	missing := false
	var up func(level, i int, places []int) Hash
	up = func(level, i int, places []int) (h Hash) {
		switch {
		case level == 0 && len(places) > 0: // one for each leaf
			h, leaves = leaves[0], leaves[1:]
			return h
		case len(places) == 0 && len(proof) > 0:
			h, proof = proof[0], proof[1:]
			return h
		case len(places) == 0:
			missing = true
			return h
		}
		a, b := split(places, level, i)
		left := up(level-1, 2*i, a)
		if below := (n-1)>>(level-1) + 1; 2*i+1 >= below {
			return left
		}
		right := up(level-1, 2*i+1, b)
		return parent(&left, &right)
	}
	root := up(bits.Len(uint(n-1)), 0, places)
	if missing || len(proof) != 0 {
		return Hash{}, ErrProof
	}
	return root, nil
}
