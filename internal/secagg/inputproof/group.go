package inputproof

import (
	"bytes"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/binary"
	"io"
	"math/bits"
	"sync"

	"filippo.io/edwards25519"
)

type (
	scalar = edwards25519.Scalar
	point  = edwards25519.Point
)

// known are the generators that were asked for so far, and the subsets.
var known struct {
	sync.Mutex
	points  []*point
	subsets [][]point
}

// generators returns the first n generators. No party knows how they depend on one another or on the base point: each is eight
// times the first point that hashes of its number decode to.
func generators(n int) []*point {
	known.Lock()
	defer known.Unlock()
	for i := len(known.points); i < n; i++ {
		known.points = append(known.points, generator(uint32(i)))
	}
	return known.points[:n:n]
}

// subsets returns, for each whole eight of the first n generators, the sums of all subsets: the bits of an index say which are
// in. A prover alone needs them.
func subsets(n int) [][]point {
	points := generators(n)
	known.Lock()
	defer known.Unlock()
	for g := len(known.subsets); 8*(g+1) <= n; g++ {
		table := make([]point, 256)
		table[0].Set(edwards25519.NewIdentityPoint())
		for b := 1; b < 256; b++ {
			table[b].Add(&table[b&(b-1)], points[8*g+bits.TrailingZeros8(uint8(b))])
		}
		known.subsets = append(known.subsets, table)
	}
	return known.subsets[: n/8 : n/8]
}

func generator(number uint32) *point {
	for try := uint32(0); ; try++ {
		in := binary.BigEndian.AppendUint32([]byte("fedsim/inputproof/generator/v1"), number)
		sum := sha512.Sum512(binary.BigEndian.AppendUint32(in, try))
		p, err := new(point).SetBytes(sum[:32])
		if err != nil {
			continue
		}
		if p.MultByCofactor(p); p.Equal(edwards25519.NewIdentityPoint()) == 0 {
			return p
		}
	}
}

// decode returns the point of an encoding of 32 bytes, or nil. SetBytes takes 2^255 - 19 and more for a coordinate, and a sign of zero,
// where RFC 8032 does not. Byte 30 of these is 0 or 255.
func decode(b []byte) *point {
	p, err := new(point).SetBytes(b)
	if err != nil || b[30]+1 < 2 && !bytes.Equal(p.Bytes(), b) {
		return nil
	}
	return p
}

// multiply returns Σ s·P, in time that depends on the scalars.
func multiply(scalars []scalar, points []*point) *point {
	pointers := make([]*scalar, len(scalars))
	for i := range scalars {
		pointers[i] = &scalars[i]
	}
	return new(point).VarTimeMultiScalarMult(pointers, points)
}

// commit returns Σ x·G + hide·B.
func commit(x []scalar, hide *scalar) *point {
	p := multiply(x, generators(len(x)))
	return p.Add(p, new(point).ScalarBaseMult(hide))
}

// opens reports whether x and hide open Σ s·P, up to a point of small order.
func opens(scalars []scalar, points []*point, x []scalar, hide *scalar) bool {
	sum := multiply(scalars, points)
	sum.Subtract(sum, commit(x, hide))
	return sum.MultByCofactor(sum).Equal(edwards25519.NewIdentityPoint()) == 1
}

// draw returns n uniform scalars.
func draw(random io.Reader, n int) ([]scalar, error) {
	out, b := make([]scalar, n), make([]byte, 64)
	for i := range out {
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, err
		}
		_, _ = out[i].SetUniformBytes(b) // 64 bytes fit
	}
	return out, nil
}

// small returns n scalars of so many bytes each from a hash.
func small(h *sha3.SHAKE, n, size int) []scalar {
	out := make([]scalar, n)
	for i := range out {
		var b [32]byte
		_, _ = h.Read(b[:size]) // never fails
		_, _ = out[i].SetCanonicalBytes(b[:])
	}
	return out
}

// ofInt is an integer as a scalar.
func ofInt(x int64) *scalar {
	s := of128(0, uint64(max(x, -x)))
	if x < 0 {
		s.Negate(s)
	}
	return s
}

// of128 is hi·2^64 + lo as a scalar.
func of128(hi, lo uint64) *scalar {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], lo)
	binary.LittleEndian.PutUint64(b[8:], hi)
	s, _ := new(scalar).SetCanonicalBytes(b[:]) // below the order
	return s
}

// powers returns x^0, ..., x^n.
func powers(x *scalar, n int) []scalar {
	out := make([]scalar, n+1)
	out[0] = *ofInt(1)
	for i := range n {
		out[i+1].Multiply(&out[i], x)
	}
	return out
}

// inner is Σ x·y.
func inner(x, y []scalar) *scalar {
	sum := new(scalar)
	for i := range x {
		sum.MultiplyAdd(&x[i], &y[i], sum)
	}
	return sum
}
