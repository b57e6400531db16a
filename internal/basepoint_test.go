package internal_test

import (
	"bytes"
	"crypto/ecdh"
	"math/rand/v2"
	"testing"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/secagg/basepoint"
)

func key(t *testing.T, private []byte) *basepoint.Key {
	t.Helper()
	k, err := basepoint.NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The keys of Alice and Bob in RFC 7748, section 6.1.
func TestRFC7748(t *testing.T) {
	alice := key(t, unhex(t, "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
	bob := key(t, unhex(t, "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
	for _, c := range []struct {
		got  [basepoint.Size]byte
		want string
	}{
		{alice.Common([]*basepoint.Key{bob})[0], "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"},
		{bob.Common([]*basepoint.Key{alice})[0], "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"},
	} {
		if !bytes.Equal(c.got[:], unhex(t, c.want)) {
			t.Errorf("%x, want %s", c.got, c.want)
		}
	}
}

// The oracle is crypto/ecdh.
func TestCommonOfKeys(t *testing.T) {
	n := 2000
	if effort.Long() {
		n = 100_000
	}
	r := rand.NewChaCha8([32]byte{1})
	private := make([][]byte, n)
	keys := make([]*basepoint.Key, n)
	for i := range keys {
		private[i] = make([]byte, basepoint.Size)
		_, _ = r.Read(private[i])
		switch i { // what carries run through
		case 0:
			clear(private[i])
		case 1:
			copy(private[i], bytes.Repeat([]byte{0xff}, basepoint.Size))
		case 2:
			copy(private[i], bytes.Repeat([]byte{0x80}, basepoint.Size))
		case 3:
			copy(private[i], bytes.Repeat([]byte{0x7f}, basepoint.Size))
		}
		keys[i] = key(t, private[i])
	}
	for first := range 8 { // each with an eighth of them
		got := keys[first].Common(keys[first*n/8 : (first+1)*n/8])
		own, err := ecdh.X25519().NewPrivateKey(private[first])
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range got {
			j := first*n/8 + i
			other, err := ecdh.X25519().NewPrivateKey(private[j])
			if err != nil {
				t.Fatal(err)
			}
			want, err := own.ECDH(other.PublicKey())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(c[:], want) {
				t.Fatalf("%x and %x have %x in common, want %x", private[first], private[j], c, want)
			}
		}
	}
}

// Two keys whose product is a number have its multiple of the base point in common. The oracle is filippo.io/edwards25519. Digits
// of a number are bytes with a carry, and these numbers have carries through all bytes, through none, and at the ends. A multiple
// by 1 is the base point, whose u is 9 (RFC 7748, section 4.1).
func TestCarries(t *testing.T) {
	var numbers []*edwards25519.Scalar
	for _, b := range []byte{0, 1, 0x7f, 0x80, 0x81, 0xff} {
		for _, first := range []byte{1, 0x7f, 0x80, 0xff} {
			number := bytes.Repeat([]byte{b}, basepoint.Size)
			number[0], number[31] = first, b&0x0f
			x, err := new(edwards25519.Scalar).SetUniformBytes(append(number, make([]byte, 32)...))
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, x, edwards25519.NewScalar().Negate(x))
		}
	}
	for i, x := range numbers {
		a, b := factors(t, x)
		got := a.Common([]*basepoint.Key{b})[0]
		want := new(edwards25519.Point).ScalarBaseMult(x).BytesMontgomery()
		if !bytes.Equal(got[:], want) || i == 0 && got != [basepoint.Size]byte{9} {
			t.Errorf("the multiple by %x is %x, want %x", x.Bytes(), got, want)
		}
	}
}

// factors returns two keys whose product is x, modulo the order ℓ of the base point. A key is a multiple of 8 from 2^254 to 2^255,
// and about half of all y are equal to a key modulo ℓ.
func factors(t *testing.T, x *edwards25519.Scalar) (a, b *basepoint.Key) {
	t.Helper()
	r := rand.NewChaCha8([32]byte{2})
	for {
		private := make([]byte, basepoint.Size)
		_, _ = r.Read(private)
		s, err := new(edwards25519.Scalar).SetBytesWithClamping(private)
		if err != nil {
			t.Fatal(err)
		}
		y := number(s.Multiply(x, s.Invert(s)).Bytes())
		for ; y.BitLen() < 256; y.Add(y, order) {
			if y.BitLen() == 255 && y.Bit(0)+y.Bit(1)+y.Bit(2) == 0 {
				return key(t, private), key(t, encode(y, basepoint.Size))
			}
		}
	}
}

// A key that was never made is 0, and a multiple by 0 is the neutral point, beside others or alone. X25519 gives zeros for it.
func TestNeutral(t *testing.T) {
	one, err := new(edwards25519.Scalar).SetCanonicalBytes(append([]byte{1}, make([]byte, 31)...))
	if err != nil {
		t.Fatal(err)
	}
	a, b := factors(t, one)
	got := a.Common([]*basepoint.Key{{}, b, {}})
	want := [][basepoint.Size]byte{{}, {9}, {}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("multiple %d is %x, want %x", i, got[i], want[i])
		}
	}
	if got := a.Common(nil); len(got) != 0 {
		t.Errorf("no keys have %d secrets in common", len(got))
	}
}

func TestNewKey(t *testing.T) {
	for _, n := range []int{0, 31, 33} {
		if _, err := basepoint.NewKey(make([]byte, n)); err == nil {
			t.Errorf("a private key of %d bytes is taken", n)
		}
	}
}

// BenchmarkCommon computes the secrets of a key with each of 60 others, by the table and by the
// ladder of crypto/ecdh.
func BenchmarkCommon(b *testing.B) {
	r := rand.NewChaCha8([32]byte{1})
	keys, public := make([]*basepoint.Key, 60), make([]*ecdh.PublicKey, 60)
	var own *ecdh.PrivateKey
	for i := range keys {
		private := make([]byte, basepoint.Size)
		_, _ = r.Read(private)
		var err error
		if keys[i], err = basepoint.NewKey(private); err != nil {
			b.Fatal(err)
		}
		if own, err = ecdh.X25519().NewPrivateKey(private); err != nil {
			b.Fatal(err)
		}
		public[i] = own.PublicKey()
	}
	b.Run("product", func(b *testing.B) {
		for b.Loop() {
			keys[0].Common(keys)
		}
	})
	b.Run("ladder", func(b *testing.B) {
		for b.Loop() {
			for _, p := range public {
				_, _ = own.ECDH(p)
			}
		}
	})
}
