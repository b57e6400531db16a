package internal_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"testing"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
)

// Points of low order, as encodings: the neutral point, all points of order 2 and 4, and two of order 8 (RFC 8032 has the curve, and
// "Taming the many EdDSAs", Chalkias et al. 2020, the list).
var lowOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
}

func decoded(t testing.TB, s string) (out [shamir.Size]byte) {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil || copy(out[:], b) != shamir.Size {
		t.Fatal(err)
	}
	return out
}

// pointsOf are the points of a secret and of its shares for holders.
func pointsOf(t testing.TB, s shamir.Secret, threshold int, holders []shamir.Index) [][shamir.Size]byte {
	t.Helper()
	shares, err := shamir.Split(s, threshold, holders, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out := [][shamir.Size]byte{s.Point()}
	for _, x := range shares {
		out = append(out, parsed(t, x.Bytes()).Point())
	}
	return out
}

// parsed is the secret with an encoding.
func parsed(t testing.TB, b [shamir.Size]byte) shamir.Secret {
	t.Helper()
	s, err := shamir.ParseSecret(b[:])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scalarOf is the number that a secret is.
func scalarOf(t testing.TB, s shamir.Secret) *edwards25519.Scalar {
	t.Helper()
	b := s.Bytes()
	x, err := new(edwards25519.Scalar).SetCanonicalBytes(b[:])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func drawnSecret(t testing.TB) shamir.Secret {
	t.Helper()
	s, err := shamir.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plus adds a point to an encoded one.
func plus(t testing.TB, b, more [shamir.Size]byte) [shamir.Size]byte {
	t.Helper()
	p, err := new(edwards25519.Point).SetBytes(b[:])
	q, wrong := new(edwards25519.Point).SetBytes(more[:])
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	return [shamir.Size]byte(p.Add(p, q).Bytes())
}

// around are the weights of a dealer and its holders, as an aggregator has them.
func around(t testing.TB, dealer shamir.Index, holders []shamir.Index) *shamir.Lagrange {
	t.Helper()
	all := append(slices.Clone(holders), dealer)
	slices.Sort(all)
	l, err := shamir.NewLagrange(1, all)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The points of what Split deals are accepted, for every threshold of a few holders, with distant indices, and of several secrets at
// once. They are refused for each lower threshold, and after a change of one point, of two points, or of the secret that a point is of.
// So the random polynomial has the right degree: with one degree less, polynomials of degree t would pass, and with one more honest
// dealers would be refused.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		dealer  shamir.Index
		holders []shamir.Index
	}{
		{1, []shamir.Index{2}}, {2, []shamir.Index{1, 3}}, {3, []shamir.Index{1, 2, 4, 5, 6, 7}}, {1 << 31, []shamir.Index{1, 5, 1<<32 - 1}}, {9, []shamir.Index{2, 4, 17, 30, 31}},
	} {
		l, k := around(t, c.dealer, c.holders), len(c.holders)
		for threshold := 1; threshold <= k; threshold++ {
			seeds, keys := pointsOf(t, drawnSecret(t), threshold, c.holders), pointsOf(t, drawnSecret(t), threshold, c.holders)
			check := func(what string, threshold int, want bool, secrets ...[][shamir.Size]byte) {
				t.Helper()
				if err := l.Verify(threshold, c.dealer, rand.Reader, secrets...); !errors.Is(err, map[bool]error{false: shamir.ErrDealt}[want]) {
					t.Errorf("%d holders, threshold %d, %s: %v, want good: %t", k, threshold, what, err, want)
				}
			}
			for other := 1; other <= k; other++ {
				check(fmt.Sprint("dealt with ", threshold), other, other >= threshold, seeds, keys)
			}
			check("one secret", threshold, true, seeds)
			one := drawnSecret(t).Point()
			for i := range seeds {
				for _, list := range [][][shamir.Size]byte{seeds, keys} {
					kept := list[i]
					list[i] = plus(t, kept, one)
					check(fmt.Sprintf("point %d changed", i), threshold, false, seeds, keys)
					list[i] = plus(t, kept, decoded(t, lowOrder[4]))
					check(fmt.Sprintf("point %d of mixed order", i), threshold, true, seeds, keys)
					list[i] = kept
				}
				if j := (i + 1) % len(seeds); i != j {
					changed := slices.Clone(seeds)
					changed[i], changed[j] = plus(t, changed[i], one), plus(t, changed[j], one)
					check("two points changed alike", threshold, threshold == 1 && k == 1, changed, keys)
					changed = slices.Clone(keys)
					changed[i] = seeds[i]
					check("a point of the other secret", threshold, false, seeds, changed)
				}
			}
		}
	}
}

// Verify says what does not belong together.
func TestVerifyErrors(t *testing.T) {
	holders := []shamir.Index{1, 2, 4}
	points, l := pointsOf(t, drawnSecret(t), 2, holders), around(t, 3, holders)
	for name, c := range map[string]struct {
		threshold int
		dealer    shamir.Index
		random    io.Reader
		points    [][shamir.Size]byte
		want      error
	}{
		"no threshold":             {0, 3, rand.Reader, points, shamir.ErrThreshold},
		"a threshold beyond":       {4, 3, rand.Reader, points, shamir.ErrThreshold},
		"a stranger deals":         {2, 5, rand.Reader, points, shamir.ErrMismatch},
		"the place of the secret":  {2, 0, rand.Reader, points, shamir.ErrMismatch},
		"a point is missing":       {2, 3, rand.Reader, points[1:], shamir.ErrMismatch},
		"a point too many":         {2, 3, rand.Reader, append(slices.Clone(points), points[0]), shamir.ErrMismatch},
		"a point of low order":     {2, 3, rand.Reader, append(slices.Clone(points[:3]), decoded(t, lowOrder[0])), shamir.ErrPoint},
		"randomness that runs out": {2, 3, bytes.NewReader(make([]byte, 127)), points, io.ErrUnexpectedEOF},
	} {
		if err := l.Verify(c.threshold, c.dealer, c.random, c.points); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Two secrets have the same in common from either side, whatever is added of low order: 8 times the point of their product. Points
// of low order, and bytes off the curve, are refused.
func TestCommonOfPoints(t *testing.T) {
	a, b := drawnSecret(t), drawnSecret(t)
	product := new(edwards25519.Scalar).Multiply(scalarOf(t, a), scalarOf(t, b))
	want := new(edwards25519.Point).ScalarBaseMult(product)
	want.MultByCofactor(want)
	for _, low := range lowOrder {
		more := decoded(t, low)
		if _, err := a.Common(more); !errors.Is(err, shamir.ErrPoint) {
			t.Errorf("%s of low order: %v", low, err)
		}
		for _, side := range [][2]shamir.Secret{{a, b}, {b, a}} {
			if got, err := side[0].Common(plus(t, side[1].Point(), more)); err != nil || !bytes.Equal(got[:], want.Bytes()) {
				t.Errorf("in common: %x, %v, want %x", got, err, want.Bytes())
			}
		}
	}
	if _, err := a.Common([shamir.Size]byte{2}); !errors.Is(err, shamir.ErrPoint) {
		t.Errorf("y = 2, which is on no point: %v", err)
	}
}

// A point is the public key of the same number in X25519, in the other form of the curve. The point of 1 is RFC 8032's base
// point.
func TestPoint(t *testing.T) {
	private := bytes.Repeat([]byte{0x42}, 32)
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	x, err := new(edwards25519.Scalar).SetBytesWithClamping(private)
	if err != nil {
		t.Fatal(err)
	}
	b := parsed(t, [shamir.Size]byte(x.Bytes())).Point()
	p, err := new(edwards25519.Point).SetBytes(b[:])
	if err != nil || !bytes.Equal(p.BytesMontgomery(), key.PublicKey().Bytes()) {
		t.Errorf("%x is %x on the Montgomery curve, X25519 has %x", b, p.BytesMontgomery(), key.PublicKey().Bytes())
	}
	// y = 4/5 (RFC 8032, section 5.1).
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	y := new(big.Int).ModInverse(big.NewInt(5), prime)
	y.Mod(y.Mul(y, big.NewInt(4)), prime)
	want := y.FillBytes(make([]byte, shamir.Size))
	slices.Reverse(want)
	one, err := shamir.ParseSecret(append([]byte{1}, make([]byte, 31)...))
	if got := one.Point(); err != nil || !bytes.Equal(got[:], want) {
		t.Errorf("1·B is %x, %v, want %x", got, err, want)
	}
}

// FuzzCommon: what is taken for a point is on the curve, and not of low order.
func FuzzCommon(f *testing.F) {
	for _, s := range lowOrder {
		b := decoded(f, s)
		f.Add(b[:])
	}
	point := drawnSecret(f).Point()
	f.Add(point[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != shamir.Size {
			return
		}
		common, err := parsed(t, [shamir.Size]byte{1}).Common([shamir.Size]byte(b))
		if err == nil && (common == decoded(t, lowOrder[0]) || plus(t, common, decoded(t, lowOrder[0])) != common) {
			t.Errorf("%x has %x in common with 1", b, common)
		}
	})
}
