package secagg_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/secagg/internal/kdf"
)

// The oracle is crypto/hkdf, for infos short and longer than what is kept on the stack.
func TestKey(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	for n := range 1500 {
		var secret [kdf.Size]byte
		_, _ = r.Read(secret[:])
		if n%10 == 0 {
			secret = [kdf.Size]byte{}
		}
		info := make([]byte, n)
		_, _ = r.Read(info)
		got := kdf.Key(secret, info)
		for _, size := range []int{16, kdf.Size} {
			want, err := hkdf.Key(sha256.New, secret[:], nil, string(info), size)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got[:size], want) {
				t.Fatalf("of an info of %d bytes the key is %x, want %x", n, got[:size], want)
			}
		}
	}
}

func BenchmarkKey(b *testing.B) {
	info := make([]byte, 200)
	b.Run("kdf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			kdf.Key([kdf.Size]byte{}, info)
		}
	})
	b.Run("hkdf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = hkdf.Key(sha256.New, make([]byte, kdf.Size), nil, string(info), kdf.Size)
		}
	})
}
