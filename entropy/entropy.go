// Package entropy separates secret randomness from public randomness, by type.
//
// Everything that protects a user (masks, shares, noise, the choice of a sampled rating) takes a
// [Source]. [System] reads the operating system's randomness, and is the only Source that another
// program can get. A Source that is repeatable from a seed comes from internal/entropy/simulated,
// which import rules admit to the simulator, its audit and tests alone. So a repeatable stream
// cannot reach a deployment.
//
// Randomness that may be public and repeatable (the start of a model, the server's mini-batches)
// comes from [Public], which returns another type, so that the two cannot be confused.
package entropy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	mathrand "math/rand/v2"

	"github.com/fedsim/fedsim/internal/entropy/source"
)

// Source opens named streams of random bytes; its method is
//
//	Stream(label string, n uint64) io.Reader
//
// The zero Source fails every read.
type Source = source.Source

// ErrNone is returned by reads from a stream of the zero Source.
var ErrNone = source.ErrNone

// System returns the operating system's cryptographic randomness (crypto/rand). A deployment can
// reach no other Source.
func System() Source {
	return source.New(func(string, uint64) io.Reader { return rand.Reader })
}

// SeedSize is the length of a Seed in bytes.
const SeedSize = 32

// Seed is a secret from which the same stream can be drawn again. For example, a client draws the
// noise of a round twice: to add it and to remove the surplus.
type Seed [SeedSize]byte

// NewSeed draws a seed from the stream (label, n) of src.
func NewSeed(src Source, label string, n uint64) (Seed, error) {
	var s Seed
	if _, err := io.ReadFull(src.Stream(label, n), s[:]); err != nil {
		return Seed{}, fmt.Errorf("entropy: drawing the seed %q: %w", label, err)
	}
	return s, nil
}

// Stream expands the seed to an endless stream named label: AES-256-CTR under HKDF-SHA-256(seed,
// info = label). Streams of different labels are independent, and the same label gives the same
// bytes.
func (s Seed) Stream(label string) io.Reader {
	key, _ := hkdf.Key(sha256.New, s[:], nil, "fedsim/entropy/seed/"+label, 32) // without a key the stream fails
	return Keyed(key)
}

// Keyed returns the AES-CTR keystream of a key of 16, 24 or 32 bytes, counter from zero: one key,
// one stream. A key of another length gives a stream that fails.
func Keyed(key []byte) io.Reader {
	block, err := aes.NewCipher(key)
	if err != nil {
		return failing{err}
	}
	return &keystream{block: block}
}

// keystream is AES-CTR. Most streams of a simulation give only a number or two. Their blocks are
// computed one by one, since a cipher.Stream takes half a kilobyte.
type keystream struct {
	block cipher.Block
	few   [2 * aes.BlockSize]byte // the first blocks, once the stream has been read
	read  int                     // bytes read of few
	ctr   cipher.Stream           // of the later blocks; nil before they are read
}

func (k *keystream) Read(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	if k.ctr == nil {
		for i := 0; k.read == 0 && i < len(k.few); i += aes.BlockSize { // the cipher of the counters 0, 1, ..., big-endian
			block := k.few[i : i+aes.BlockSize]
			block[aes.BlockSize-1] = byte(i / aes.BlockSize)
			k.block.Encrypt(block, block)
		}
		taken := copy(p, k.few[k.read:])
		clear(k.few[k.read : k.read+taken]) // bytes already given out are not kept
		k.read += taken
		if p = p[taken:]; len(p) == 0 {
			return n, nil
		}
		counter := [aes.BlockSize]byte{aes.BlockSize - 1: byte(len(k.few) / aes.BlockSize)}
		k.ctr = cipher.NewCTR(k.block, counter[:])
	}
	clear(p)
	k.ctr.XORKeyStream(p, p)
	return n, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Uniform draws an integer below n, each equally likely, from a stream (Lemire's method: a rejected
// draw takes eight more bytes). It fails if n is zero or the stream fails.
func Uniform(r io.Reader, n uint64) (uint64, error) {
	if n == 0 {
		return 0, fmt.Errorf("entropy: a draw below 0 was asked for; the bound must be at least 1")
	}
	var b [8]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return 0, fmt.Errorf("entropy: %w", err)
		}
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(b[:]), n)
		if lo >= n || lo >= -n%n {
			return hi, nil
		}
	}
}

// Public returns a repeatable stream for public choices, such as the start of a model or the
// server's mini-batches. Never use it for a secret.
func Public(seed uint64, label string) *mathrand.Rand {
	h := sha256.New()
	h.Write([]byte("fedsim/entropy/public\x00"))
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	h.Write([]byte(label))
	return mathrand.New(mathrand.NewChaCha8([32]byte(h.Sum(nil))))
}
