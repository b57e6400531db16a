package synthetic

import (
	"math"
	"math/bits"

	"github.com/fedsim/fedsim/dataset/internal/idhash"
)

// The generator promises the same bits on every machine. Go rounds + - * / and
// sqrt exactly, but it may fuse x*y + z where the processor can, and math.Exp
// and math.Log differ between architectures. So products that are summed are
// converted explicitly here, which forbids the fusion, and exp and log are our own.

// exp returns e^x for |x| < 700 with a relative error below 1e-15.
func exp(x float64) float64 {
	const ln2 = 0x1.62e42fefa39efp-1
	k := math.Round(x / ln2)
	r := x - float64(k*ln2)
	sum := 1.0
	for i := 16; i > 0; i-- { // Horner's form of the Taylor series, |r| <= ln2/2
		sum = 1 + float64(float64(sum*r)/float64(i))
	}
	return math.Ldexp(sum, int(k))
}

// log returns the natural logarithm of a positive, finite x with an absolute
// error below 1e-15 near 1.
func log(x float64) float64 {
	const ln2 = 0x1.62e42fefa39efp-1
	frac, k := math.Frexp(x) // 0.5 <= frac < 1
	if frac < math.Sqrt2/2 {
		frac, k = 2*frac, k-1
	}
	t := (frac - 1) / (frac + 1) // log(frac) = 2 atanh(t), |t| < 0.172
	tt := float64(t * t)
	sum := 0.0
	for i := 21; i > 0; i -= 2 {
		sum = 1/float64(i) + float64(sum*tt)
	}
	return float64(float64(k)*ln2) + float64(2*float64(t*sum))
}

// random is a seeded stream of public random numbers. Every number is made by integer arithmetic or
// exact rounding. It is the generator PCG-DXSM (O'Neill) of math/rand/v2, whose state the compiler does not keep in registers: most of
// the time of a generator goes into its draws.
type random struct{ hi, lo uint64 }

// newRandom returns stream n of a seed. The number is mixed, since PCG streams
// whose states differ little start out alike.
func newRandom(seed, n uint64) *random {
	return &random{hi: seed, lo: idhash.Mix(n)}
}

// next returns the state behind r: the state times a constant plus another, of 128 bits.
func (r random) next() random {
	const mulHi, mulLo, incHi, incLo = 2549297995355413924, 4865540595714422341, 6364136223846793005, 1442695040888963407
	hi, lo := bits.Mul64(r.lo, mulLo)
	hi += r.hi*mulLo + r.lo*mulHi
	lo, carry := bits.Add64(lo, incLo, 0)
	hi, _ = bits.Add64(hi, incHi, carry)
	return random{hi, lo}
}

// word returns the number of a state.
func (r random) word() uint64 {
	const mul = 0xda942042e4dd58b5
	x := r.hi ^ r.hi>>32
	x *= mul
	x ^= x >> 48
	return x * (r.lo | 1)
}

// uint64 returns 64 uniform bits.
func (r *random) uint64() uint64 {
	*r = r.next()
	return r.word()
}

// below returns a uniform integer of 0..n-1; the bias of n/2^64 does not matter here.
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.uint64(), uint64(n))
	return int(hi)
}

// uniform returns a uniform number of [0, 1).
func (r *random) uniform() float64 { return share(r.uint64()) }

// share returns the uniform number of [0, 1) that a word stands for.
func share(word uint64) float64 { return float64(int64(word>>11)) / (1 << 53) }

// normal returns a sum of twelve uniform numbers with mean 0 and variance 1.
// It is within 0.002 of the normal law in distribution and ends at +-6.
func (r *random) normal() float64 {
	a, b, c := r.uint64(), r.uint64(), r.uint64()
	return twelve(a, b, c)
}

// twelve returns the normal number of twelve uniform ones, which are 16 bits each of three words.
func twelve(a, b, c uint64) float64 {
	const low = 0x0000ffff0000ffff // two of the four 16-bit parts of a word
	sum := a&low + a>>16&low + b&low + b>>16&low + c&low + c>>16&low
	whole := int(sum>>32) + int(sum&math.MaxUint32)
	return float64(whole-6*math.MaxUint16) / (1 << 16)
}

func (r *random) normals(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = r.normal()
	}
	return out
}

func (r *random) shuffle(list []int) {
	for i := len(list) - 1; i > 0; i-- {
		j := r.below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// alias draws indices in proportion to weights in constant time (Vose 1991).
type alias []place

// place is an index that is drawn with the same probability as every other.
type place struct {
	keep  uint64 // a number of 53 bits below this one stays at the index drawn
	other int32  // else this one
}

// newAlias takes at least one weight; all must be positive.
func newAlias(weights []float64) alias {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	n := len(weights)
	keep, a := make([]float64, n), make(alias, n)
	var small, large []int32
	for i, w := range weights {
		keep[i] = w * float64(n) / sum
		a[i].other = int32(i)
		if keep[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a[s].other = l
		keep[l] -= 1 - keep[s]
		if keep[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) {
		keep[i] = 1 // what is left differs from 1 by rounding only
	}
	for i := range a {
		a[i].keep = uint64(math.Ceil(keep[i] * (1 << 53))) // a whole number is below keep exactly if it is below its ceiling
	}
	return a
}

// draw returns an index.
func (a alias) draw(r *random) int32 {
	x, y := r.uint64(), r.uint64()
	return a.at(x, y)
}

// at returns the index that two uniform words draw. It does not branch on the outcome.
func (a alias) at(x, y uint64) int32 {
	hi, _ := bits.Mul64(x, uint64(len(a)))
	i := int32(hi)
	p := &a[i]
	if y>>11 >= p.keep {
		i = p.other
	}
	return i
}
