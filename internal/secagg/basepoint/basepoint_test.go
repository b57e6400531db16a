package basepoint

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/effort"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func key(t *testing.T, private []byte) *Key {
	t.Helper()
	k, err := NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// publicOf returns the public key of each key.
func publicOf(keys []*Key) [][Size]byte {
	scalars := make([]edwards25519.Scalar, len(keys))
	for i, k := range keys {
		scalars[i] = k.s
	}
	return multiples(scalars)
}

// The keys of Alice and Bob in RFC 7748, section 6.1.
func TestRFC7748(t *testing.T) {
	alice := key(t, unhex(t, "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
	bob := key(t, unhex(t, "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
	public := publicOf([]*Key{alice, bob})
	for _, c := range []struct {
		got  [Size]byte
		want string
	}{
		{public[0], "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"},
		{public[1], "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"},
		{alice.Common([]*Key{bob})[0], "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"},
		{bob.Common([]*Key{alice})[0], "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"},
	} {
		if !bytes.Equal(c.got[:], unhex(t, c.want)) {
			t.Errorf("%x, want %s", c.got, c.want)
		}
	}
}

// The oracle is crypto/ecdh.
func TestCommon(t *testing.T) {
	n := 2000
	if effort.Long() {
		n = 100_000
	}
	r := rand.NewChaCha8([32]byte{1})
	private := make([][]byte, n)
	keys := make([]*Key, n)
	for i := range keys {
		private[i] = make([]byte, Size)
		_, _ = r.Read(private[i])
		switch i { // what carries run through
		case 0:
			clear(private[i])
		case 1:
			copy(private[i], bytes.Repeat([]byte{0xff}, Size))
		case 2:
			copy(private[i], bytes.Repeat([]byte{0x80}, Size))
		case 3:
			copy(private[i], bytes.Repeat([]byte{0x7f}, Size))
		}
		keys[i] = key(t, private[i])
	}
	public := publicOf(keys)
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
			if !bytes.Equal(public[j][:], other.PublicKey().Bytes()) {
				t.Fatalf("the public key of %x is %x, want %x", private[j], public[j], other.PublicKey().Bytes())
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

// A multiple by 0 is the neutral point, beside others or alone. X25519 gives zeros for it.
func TestNeutral(t *testing.T) {
	one, err := new(edwards25519.Scalar).SetCanonicalBytes(append([]byte{1}, make([]byte, 31)...))
	if err != nil {
		t.Fatal(err)
	}
	got := multiples([]edwards25519.Scalar{{}, *one, {}})
	want := [][Size]byte{{}, {9}, {}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("multiple %d is %x, want %x", i, got[i], want[i])
		}
	}
	if got := multiples(nil); len(got) != 0 {
		t.Errorf("no scalars have %d multiples", len(got))
	}
}

func TestNewKey(t *testing.T) {
	for _, n := range []int{0, 31, 33} {
		if _, err := NewKey(make([]byte, n)); err == nil {
			t.Errorf("a private key of %d bytes is taken", n)
		}
	}
}

// BenchmarkCommon computes the secrets of a key with each of 60 others, by the table and by the
// ladder of crypto/ecdh.
func BenchmarkCommon(b *testing.B) {
	r := rand.NewChaCha8([32]byte{1})
	keys, public := make([]*Key, 60), make([]*ecdh.PublicKey, 60)
	var own *ecdh.PrivateKey
	for i := range keys {
		private := make([]byte, Size)
		_, _ = r.Read(private)
		var err error
		if keys[i], err = NewKey(private); err != nil {
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
