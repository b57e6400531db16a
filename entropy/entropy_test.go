package entropy_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

// alpha is the false-alarm rate of every statistical test of this package.
const alpha = 1e-6

func Example() {
	seed, err := entropy.NewSeed(entropy.System(), "noise-seed", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A label gives the same bytes again, another label gives other bytes.
	var drawn [3][16]byte
	for i, label := range []string{"item-gradient", "item-gradient", "item-bias"} {
		if _, err := io.ReadFull(seed.Stream(label), drawn[i][:]); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(drawn[0] == drawn[1], drawn[0] == drawn[2])
	// Output: true false
}

func TestZeroSourceFails(t *testing.T) {
	var src entropy.Source
	buf := []byte{1, 2, 3}
	n, err := src.Stream("label", 1).Read(buf)
	if n != 0 || !errors.Is(err, entropy.ErrNone) {
		t.Errorf("Read of the zero Source: %d bytes, error %v; want 0 and ErrNone", n, err)
	}
	if !bytes.Equal(buf, []byte{1, 2, 3}) {
		t.Errorf("Read of the zero Source wrote %v", buf)
	}
	seed, err := entropy.NewSeed(src, "noise-seed", 1)
	if !errors.Is(err, entropy.ErrNone) || seed != (entropy.Seed{}) {
		t.Errorf("NewSeed of the zero Source: %x, %v; want a zero seed and ErrNone", seed, err)
	}
	if err != nil && !strings.Contains(err.Error(), "noise-seed") {
		t.Errorf("NewSeed's error %q does not name the seed", err)
	}
}

// The system's streams are fresh each time they are opened: two equal seeds of
// 256 bits have the probability 2^-256.
func TestSystemIsFresh(t *testing.T) {
	src := entropy.System()
	a, errA := entropy.NewSeed(src, "seed", 1)
	b, errB := entropy.NewSeed(src, "seed", 1)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if a == b || a == (entropy.Seed{}) {
		t.Errorf("seeds of one (label, n) are %x and %x; want two different ones", a, b)
	}
}

func counting() entropy.Seed {
	var s entropy.Seed
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

// The vectors were computed outside Go: HKDF with Python's hmac and hashlib,
// the keystream with openssl enc -aes-256-ctr, IV zero.
func TestSeedStreamGolden(t *testing.T) {
	for label, want := range map[string]string{
		"noise":    "066a7899562b6b1b879e43d38bfefc66b5ae1636c71a43fc33e7126cc0a9b108a38c68a84e5901a9",
		"thinning": "b4a6a21119afc270096e0efa1449e19b16ef56352b372b8216dfd96cf478a37f95868396d5eaf2e3",
		"":         "9e5a7f0d0e64d42851632dd3bbe86673c9bdcf3b6f9d05a7eb9de15b7d71d0742504668600bcddc7",
	} {
		if got := hex.EncodeToString(read(t, counting().Stream(label), 40)); got != want {
			t.Errorf("stream %q:\n got %s\nwant %s", label, got, want)
		}
	}
}

// Any seed and label against RFC 5869 and counter mode written out from HMAC
// and the bare block cipher.
func TestSeedStreamFromItsParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var seed entropy.Seed
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		label := strings.Repeat("x", rng.IntN(100))
		extract := hmac.New(sha256.New, make([]byte, sha256.Size))
		extract.Write(seed[:])
		expand := hmac.New(sha256.New, extract.Sum(nil))
		expand.Write([]byte("fedsim/entropy/seed/" + label + "\x01"))
		block, err := aes.NewCipher(expand.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for counter := range uint64(5) {
			b := binary.BigEndian.AppendUint64(make([]byte, 8, 16), counter)
			block.Encrypt(b, b)
			want = append(want, b...)
		}
		// Uneven pieces: how a stream is read must not matter.
		r := seed.Stream(label)
		got := append(read(t, r, 1), read(t, r, 30)...)
		got = append(got, read(t, r, 49)...)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %x, label of %d bytes:\n got %x\nwant %x", seed, len(label), got, want)
		}
	}
}

// Reading must overwrite the buffer, not mix the stream into it.
func TestKeyedIgnoresTheBuffer(t *testing.T) {
	key := make([]byte, 16)
	want := read(t, entropy.Keyed(key), 32)
	got := bytes.Repeat([]byte{0xff}, 32)
	if _, err := io.ReadFull(entropy.Keyed(key), got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("into a full buffer %x, into an empty one %x", got, want)
	}
	// AES-128 of the zero block under the zero key: H in test case 1 of the
	// GCM specification.
	if zero := "66e94bd4ef8a2c3b884cfa59ca342b2e"; hex.EncodeToString(want[:16]) != zero {
		t.Errorf("first block %x, want %s", want[:16], zero)
	}
}

// The oracle is crypto/cipher's own counter mode.
func TestKeyedIsCounterModeHoweverItIsRead(t *testing.T) {
	key := []byte("a key of 32 bytes for this test!")
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 200)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(want, want)
	for _, sizes := range [][]int{{200}, {8}, {0, 8, 0, 24, 0, 168}, {32, 168}, {31, 1, 1, 167}, {33, 167}, {7, 50, 143}, {16, 16, 16}} {
		k, got := entropy.Keyed(key), []byte(nil)
		for _, n := range sizes {
			p := make([]byte, n)
			if m, err := k.Read(p); m != n || err != nil {
				t.Fatalf("reading %d: %d, %v", n, m, err)
			}
			got = append(got, p...)
		}
		if !bytes.Equal(got, want[:len(got)]) {
			t.Errorf("read by %d: another stream than counter mode's", sizes)
		}
	}
}

func TestKeyedRefusesOtherLengths(t *testing.T) {
	for _, n := range []int{0, 15, 17, 33} {
		if k, err := entropy.Keyed(make([]byte, n)).Read(make([]byte, 8)); err == nil || k != 0 {
			t.Errorf("key of %d bytes: read %d bytes, error %v; want 0 and an error", n, k, err)
		}
	}
}

// Chi-square of draws below n, in classes that are equally likely. For
// n = 3·2^62 a draw without rejection would hit every third value twice as
// often, which the classes modulo 3 show.
func TestUniform(t *testing.T) {
	const draws = 30000
	for _, c := range []struct {
		n, classes uint64
		class      func(uint64) uint64
	}{
		{10, 10, func(x uint64) uint64 { return x }},
		{3 << 62, 3, func(x uint64) uint64 { return x % 3 }},
		{3 << 62, 6, func(x uint64) uint64 { return x >> 61 }},
		{1 << 63, 16, func(x uint64) uint64 { return x >> 59 }},
	} {
		stream := counting().Stream("uniform")
		counts := make([]float64, c.classes)
		for range draws {
			x, err := entropy.Uniform(stream, c.n)
			if err != nil {
				t.Fatal(err)
			}
			if x >= c.n {
				t.Fatalf("a draw below %d is %d", c.n, x)
			}
			counts[c.class(x)]++
		}
		want, chi := float64(draws)/float64(c.classes), 0.0
		for _, o := range counts {
			chi += (o - want) * (o - want) / want
		}
		if p := (distuv.ChiSquared{K: float64(c.classes - 1)}).Survival(chi); p < alpha {
			t.Errorf("below %d, %d classes: %v; p-value %.2g, limit %.2g", c.n, c.classes, counts, p, alpha)
		}
	}
}

// Lemire's map by hand: x·n / 2^64, and the draws that it must reject. Of
// n = 3·2^62 the word 0 is rejected (its low product 0 is below 2^64 mod n).
func TestUniformByHand(t *testing.T) {
	words := func(w ...uint64) io.Reader {
		var b []byte
		for _, x := range w {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return bytes.NewReader(b)
	}
	for _, c := range []struct {
		words   []uint64
		n, want uint64
	}{
		{[]uint64{0}, 1, 0},
		{[]uint64{1<<64 - 1}, 1, 0},
		{[]uint64{1<<64 - 1}, 1<<64 - 1, 1<<64 - 2},
		{[]uint64{1<<63 + 1}, 10, 5},
		{[]uint64{1 << 63, 1 << 62}, 10, 2}, // 10·2^63 is 0 modulo 2^64: rejected
		{[]uint64{1<<64 - 1}, 10, 9},
		{[]uint64{0, 1}, 3 << 62, 0},
		{[]uint64{0, 4, 2}, 3 << 62, 1},
	} {
		if got, err := entropy.Uniform(words(c.words...), c.n); err != nil || got != c.want {
			t.Errorf("words %v below %d: %d, %v; want %d", c.words, c.n, got, err, c.want)
		}
	}
}

func TestUniformErrors(t *testing.T) {
	if _, err := entropy.Uniform(counting().Stream("x"), 0); err == nil {
		t.Error("a draw below 0 gave no error")
	}
	if _, err := entropy.Uniform(bytes.NewReader(make([]byte, 7)), 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("stream of 7 bytes: %v, want io.ErrUnexpectedEOF", err)
	}
	if _, err := entropy.Uniform(bytes.NewReader(nil), 10); !errors.Is(err, io.EOF) {
		t.Errorf("empty stream: %v, want io.EOF", err)
	}
	if _, err := entropy.Uniform(entropy.Source{}.Stream("x", 1), 10); !errors.Is(err, entropy.ErrNone) {
		t.Errorf("zero Source: %v, want ErrNone", err)
	}
}

func TestPublic(t *testing.T) {
	draw := func(seed uint64, label string) [4]uint64 {
		r := entropy.Public(seed, label)
		return [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
	}
	// ChaCha8 under the hash written out.
	key := sha256.Sum256([]byte("fedsim/entropy/public\x00" + "\x00\x00\x00\x00\x00\x00\x01\x02" + "start"))
	c := rand.NewChaCha8(key)
	if got, want := draw(0x102, "start"), ([4]uint64{c.Uint64(), c.Uint64(), c.Uint64(), c.Uint64()}); got != want {
		t.Errorf("Public(0x102, start) draws %x, want %x", got, want)
	}
	if first, again := draw(1, "start"), draw(1, "start"); first != again {
		t.Error("the same seed and label do not repeat")
	}
	if draw(1, "start") == draw(2, "start") || draw(1, "start") == draw(1, "batch") {
		t.Error("another seed or label repeats")
	}
}

// A seed drawn from a simulated source is that source's first 32 bytes.
func TestNewSeedReadsItsStream(t *testing.T) {
	src := simulated.New(1, "client/0")
	seed, err := entropy.NewSeed(src, "noise-seed", 7)
	if err != nil {
		t.Fatal(err)
	}
	if want := read(t, src.Stream("noise-seed", 7), entropy.SeedSize); !bytes.Equal(seed[:], want) {
		t.Errorf("seed %x, the stream begins with %x", seed, want)
	}
}

func read(t *testing.T, r io.Reader, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return b
}
