package noise

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fedsim/fedsim/entropy"
)

func mustGaussian(t *testing.T, sigma float64) *Gaussian {
	t.Helper()
	g, err := NewGaussian(sigma)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// normals returns n draws of standard deviation sigma.
func normals(t *testing.T, sigma float64, n int, b *Bits) []float64 {
	t.Helper()
	x := make([]float64, n)
	if err := mustGaussian(t, sigma).Add(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}

// counting is the AES-256-CTR stream of the key 00 01 ... 1f.
func counting() io.Reader {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	return entropy.Keyed(key)
}

// TestGaussianGolden: against a program in another language (Python, with a ziggurat in 50 digits
// by mpmath and the key stream by openssl), which makes the same choices from the same words.
// 25,000 draws take 25,112 words there; 52 draws are in a wedge and one in the tail. A rounding of
// y = f(x) by 2^-53 and as much in its logarithm move x, where the layers are narrowest, x = 0.135,
// by 3e-14, relative.
func TestGaussianGolden(t *testing.T) {
	b := NewBits(counting())
	x := normals(t, 1, 25_000, b)
	for i, want := range map[int]float64{
		0: -0.7623750131985438, 1: 0.6020563193433093, 2: -1.6974922784019206, 3: -2.760174219767474,
		4: 0.20980180431952009, 5: 0.8928428219584652, 6: 0.049635586171630865, 7: 0.6133318728412688,
		// wedges
		261: 0.9725493983037007, 413: -1.6634934725643309, 863: -0.32884597094112855,
		1674: 0.21369802764005977, 2080: -2.0224256939776257,
		// the tail
		369: 4.056784332656521,
	} {
		if d := math.Abs(x[i] - want); d > 3e-14*math.Abs(want) {
			t.Errorf("draw %d is %v, want %v", i, x[i], want)
		}
	}
	rest := NewBits(counting())
	for range 25_112 {
		rest.Uint64()
	}
	if got, want := b.Uint64(), rest.Uint64(); got != want || b.Err() != nil {
		t.Errorf("the word after 25,000 draws is %#x (%v), want number 25,112, %#x", got, b.Err(), want)
	}
}

// TestGaussianBits: every last bit, on every architecture. The digest is a record of this code, not
// an independent value; a compiler or an edit that changes any rounding changes it.
func TestGaussianBits(t *testing.T) {
	x := make([]float64, 100_000)
	for i := range x {
		x[i] = float64(i%17) / 3
	}
	if err := mustGaussian(t, 1.7).Add(x, NewBits(counting())); err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, v := range x {
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
	}
	const want = "b8488ea8f2ccea345c90dcddb997a9b8b4b77b957e8d686ebe7c96969203ff53"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest of 100,000 sums %s, want %s", got, want)
	}
}

// TestGaussianCuts: neither the cuts between calls nor the reader's cuts change a draw, across many
// refills of the buffer.
func TestGaussianCuts(t *testing.T) {
	const n = 5000
	want := normals(t, 3, n, NewBits(counting()))
	for name, r := range map[string]io.Reader{
		"whole":    counting(),
		"13 bytes": chunks{counting()},
		"byte":     iotest.OneByteReader(counting()),
	} {
		b, got := NewBits(r), make([]float64, n)
		for i, size := 0, 0; i < n; i, size = i+size, (size*7+1)%400 {
			if err := mustGaussian(t, 3).Add(got[i:min(n, i+size)], b); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: draws in small calls differ from those of one call", name)
		}
	}
}

// TestGaussianScale: noise is a draw times sigma, added. This holds to the last bit for a power of
// two, for zero, and for sums that are exact. Consumption does not depend on sigma, or the draws
// would part after the first wedge.
func TestGaussianScale(t *testing.T) {
	const n = 5000
	one := normals(t, 1, n, stream(1))
	for _, sigma := range []float64{minSigma, 0x1p-30, 4, maxSigma} {
		for i, v := range normals(t, sigma, n, stream(1)) {
			if v != sigma*one[i] {
				t.Fatalf("sigma %g: draw %d is %v, want %v times %v", sigma, i, v, sigma, one[i])
			}
		}
	}
	sum := make([]float64, n)
	for i := range sum {
		sum[i] = float64(i) - 100
	}
	if err := mustGaussian(t, 1.3).Add(sum, stream(1)); err != nil {
		t.Fatal(err)
	}
	for i, v := range sum {
		noise := 1.3 * one[i]
		if want := float64(i) - 100 + noise; math.Abs(v-want) > 1e-12 {
			t.Fatalf("coordinate %d is %v, want %v", i, v, want)
		}
	}
}

func TestNewGaussianRefuses(t *testing.T) {
	for _, sigma := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 0x1p-901, 0x1.8p900} {
		g, err := NewGaussian(sigma)
		if g != nil || err == nil || !strings.Contains(err.Error(), fmt.Sprint(sigma)) {
			t.Errorf("NewGaussian(%v) = %v, %v; want an error that names the value", sigma, g, err)
		}
	}
	for _, sigma := range []float64{0x1p-900, 1, 0x1p900} {
		if got := mustGaussian(t, sigma).sigma; got != sigma {
			t.Errorf("Sigma() = %v, want %v", got, sigma)
		}
	}
}

// layerWord is a word whose draw lies in layer i at the share of its width, rounded.
func layerWord(i uint64, share float64) []byte {
	const shift = layerBits - 1
	return binary.LittleEndian.AppendUint64(nil, uint64(int64(share*0x1p54)|1)<<shift&^(layers-1)|i)
}

// TestGaussianFailure: a stream that ends or breaks anywhere, also within a draw
// that takes several words, gives an error and no noise.
func TestGaussianFailure(t *testing.T) {
	broken := errors.New("broken")
	inside, wedge, tail := layerWord(5, 0.25), layerWord(5, -0.99999), layerWord(0, 0.99)
	high := bytes.Repeat([]byte{0xff}, 8) // rejects: the upper end of a layer
	for _, c := range []struct {
		name  string
		words [][]byte
		n     int
	}{
		{"at once", nil, 1},
		{"after a draw", [][]byte{inside}, 2},
		{"within a word", [][]byte{inside, inside[:7]}, 2},
		{"before the height of a wedge", [][]byte{inside, wedge}, 2},
		{"after a rejection", [][]byte{inside, wedge, high}, 2},
		{"in the tail", [][]byte{inside, tail}, 2},
		{"in the tail's second word", [][]byte{inside, tail, high}, 2},
		{"after a rejection in the tail", [][]byte{inside, tail, layerWord(0, 0), high}, 2},
	} {
		data := bytes.Join(c.words, nil)
		for _, end := range []struct {
			r    io.Reader
			want error
		}{
			{bytes.NewReader(data), io.ErrUnexpectedEOF},
			{io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)), broken},
		} {
			dst := []float64{7, 7, 7}[:c.n]
			b := NewBits(end.r)
			err := mustGaussian(t, 1).Add(dst, b)
			if !errors.Is(err, end.want) || slices.Max(dst) != 0 || slices.Min(dst) != 0 {
				t.Errorf("stream ends %s: %v, error %v; want zeros and %v", c.name, dst, err, end.want)
			}
			if again := mustGaussian(t, 1).Add(nil, b); !errors.Is(again, end.want) {
				t.Errorf("stream ends %s: the next call returns %v, want the same error", c.name, again)
			}
		}
	}
	if err := mustGaussian(t, 1).Add([]float64{1}, NewBits(nil)); err == nil {
		t.Error("a nil stream gives no error")
	}
	// The words that a draw needs are enough.
	dst := make([]float64, 3)
	enough := bytes.Join([][]byte{inside, wedge, layerWord(0, 0), inside}, nil)
	if err := mustGaussian(t, 1).Add(dst, NewBits(bytes.NewReader(enough))); err != nil || slices.Contains(dst, 0) {
		t.Errorf("4 words for 3 draws, one in a wedge: %v, error %v", dst, err)
	}
}

// TestUnit: the ends, by hand; neither zero, whose logarithm is infinite, nor one.
func TestUnit(t *testing.T) {
	for word, want := range map[uint64]float64{0: 0x1p-53, 1<<12 - 1: 0x1p-53, 1 << 12: 3 * 0x1p-53, 1 << 63: 0.5 + 0x1p-53, math.MaxUint64: 1 - 0x1p-53} {
		if got := unit(word); got != want {
			t.Errorf("unit(%#x) = %v, want %v", word, got, want)
		}
	}
}
