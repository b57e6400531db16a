package noise

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"sync"
)

const (
	// weightBits is the size of the mode's weight while a table is built,
	// 2^170. A sum of 2^20 weights stays below 2^191, and a weight times the
	// 64-bit factors of its recurrence below 2^256.
	weightBits = 170
	// stopBits ends a recurrence: a weight of fewer bits than this is less
	// than 2^-140 of the mode's.
	stopBits = weightBits - 140
	// cutTail is 2^-120 in units of 2^-128: a tail of no more mass is given to
	// the table's first or last entry.
	cutTail = 1 << 8
	// maxTableMean is the largest mean of a Poisson that one table holds, and half the largest
	// count of a binomial: for either fewer than 2^20 weights are computed. An entry takes at most
	// 20 bytes with the guide.
	maxTableMean = 1 << 30
)

// table holds a distribution on a run of integers as cumulative probabilities in units of 2^-128. A
// uniform 128-bit integer U is mapped to the first entry k with U <= hi[k]<<64 | lo[k]; the last
// entry is 2^128 - 1.
//
// hi and lo are separate because draw reads only hi, except in about one draw in 2^50. So a cache
// line fits twice as many useful words.
type table struct {
	first  uint64   // the integer of entry 0
	hi, lo []uint64 // both never fall
	guide  []uint32 // guide[u>>shift]: the first entry not below u's bin
	shift  uint
}

// newTable builds a table from the mode outwards. up returns the weight of k+1 given the weight of
// k >= mode, and down the weight of k-1 given the weight of k <= mode. Both round down, never
// return more than they were given, and return zero where the support ends. variance is the
// distribution's. It only sets the initial room, 14 standard deviations on either side, because
// growing would copy many times.
//
// Distance in total variation from the exact distribution, with N < 2^20 weights computed:
//
//   - Rounding of the weights. A step adds an error below one unit, and ratios
//     of at most 1 do not enlarge earlier errors: below N units for a weight and
//     N^2 for all, of a sum of at least 2^170. Below 2^-130.
//   - Weights not computed. At distance d, where the weight is 2^-140 of the
//     mode's, log-concavity makes every further ratio at most 2^(-140/d), so the
//     rest of that side is at most 2^-140 (1 + d/97) of the mode's weight. Both
//     sides together are below 2^-125.
//   - Scaling to 2^-128. A cumulative probability loses less than 1.5 units,
//     half a unit to the reciprocal and one to rounding down. Below
//     0.75 N 2^-128 < 2^-108.
//   - Tails cut. At most 2^-120 on either side.
//
// Together less than 2^-107.
func newTable(mode uint64, variance float64, up, down func(k uint64, w uint256) uint256) *table {
	peak := uint256{weightBits / 64: 1 << (weightBits % 64)}
	weights := make([]uint256, 0, int(28*math.Sqrt(variance))+200)
	counts := func(w uint256) bool { return w[3]|w[2]|w[1]|w[0]>>(stopBits-1) != 0 } // has stopBits or more
	first := mode
	for w := down(mode, peak); counts(w); w = down(first, w) {
		weights = append(weights, w)
		first--
	}
	slices.Reverse(weights)
	weights = append(weights, peak)
	k := mode
	for w := up(mode, peak); counts(w); w = up(k, w) {
		weights = append(weights, w)
		k++
	}

	var sum uint256
	for i, w := range weights {
		sum = sum.add(w)
		weights[i] = sum
	}
	unit := reciprocal(sum)
	t := &table{first: first, hi: make([]uint64, 0, len(weights)), lo: make([]uint64, 0, len(weights))}
	for _, c := range weights {
		hi, lo := scale(c, unit)
		if c == sum || hi == math.MaxUint64 && lo > math.MaxUint64-cutTail {
			t.hi, t.lo = append(t.hi, math.MaxUint64), append(t.lo, math.MaxUint64)
			break
		}
		if hi == 0 && lo < cutTail {
			t.first++
			continue
		}
		// Entries are the largest U that belongs to them, hence the -1.
		lo, borrow := bits.Sub64(lo, 1, 0)
		t.hi, t.lo = append(t.hi, hi-borrow), append(t.lo, lo)
	}
	t.addGuide()
	return t
}

// reciprocal returns 2^320 / sum rounded down, for a sum from 2^170 to 2^191.
func reciprocal(sum uint256) uint256 {
	d := new(big.Int)
	for i := len(sum) - 1; i >= 0; i-- {
		d.Lsh(d, 64).Or(d, new(big.Int).SetUint64(sum[i]))
	}
	q := new(big.Int).Lsh(big.NewInt(1), 320)
	q.Div(q, d)
	var z uint256
	for i := range z {
		z[i] = q.Uint64()
		q.Rsh(q, 64)
	}
	return z
}

// addGuide adds an index by the top bits of U with at least half as many bins as entries. So a draw
// passes over two entries at most on average, and over fewer where most of the mass is.
func (t *table) addGuide() {
	width := max(1, bits.Len(uint(len(t.hi)))-1)
	t.shift = uint(64 - width)
	t.guide = make([]uint32, 1<<width)
	k := 0
	for j := range t.guide {
		for t.hi[k] < uint64(j)<<t.shift {
			k++
		}
		t.guide[j] = uint32(k)
	}
}

// draw returns one integer of the distribution. It compares the first 64 bits of U with the table
// and fetches the other 64 only if these decide.
func (t *table) draw(b *Bits) uint64 {
	u := b.Uint64()
	k := int(t.guide[u>>(t.shift&63)])
	// Two steps without a branch: whether a step is due is a coin that no processor predicts. The
	// last entry is the largest word, and no step leads beyond it.
	_, step := bits.Sub64(t.hi[k], u, 0)
	k += int(step)
	_, step = bits.Sub64(t.hi[k], u, 0)
	k += int(step)
	for u > t.hi[k] {
		k++
	}
	if u == t.hi[k] {
		k = t.breakTie(k, b.Uint64())
	}
	return t.first + uint64(k)
}

// breakTie continues a draw whose first word equals hi[k] with its second, v.
func (t *table) breakTie(k int, v uint64) int {
	for u := t.hi[k]; t.hi[k] == u && v > t.lo[k]; {
		k++
	}
	return k
}

// Tables keeps the latest samplers. A sampler's table covers some twenty standard deviations and
// depends on public numbers only, so that the rounds and the clients of a process share one
// Tables. It is safe for concurrent use; the zero value is ready.
type Tables struct {
	// Keep is the number of samplers of a kind to keep; 0 means 16, enough for eight releases of
	// a plan, each with two parts of its noise. A larger number serves many runs of one schedule. A
	// sampler takes up to 20 MB.
	Keep int

	mu       sync.Mutex
	skellam  cache[*Skellam]
	thinning cache[*Thinning]
}

// Skellam is NewSkellam.
func (t *Tables) Skellam(variance float64) (*Skellam, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skellam.get(t.Keep, tableKey{mean: variance}, func() (*Skellam, error) { return NewSkellam(variance) })
}

// SkellamFor is NewSkellam for about so many draws. For few draws a Poisson is the sum of many
// Poissons of a smaller mean, whose table is made sooner: the same law, but other draws of the same
// stream.
func (t *Tables) SkellamFor(variance float64, draws int) (*Skellam, error) {
	if err := checkVariance(variance); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := partsFor(variance/2, 2*draws)
	return t.skellam.get(t.Keep, tableKey{mean: variance, n: uint64(parts)}, func() (*Skellam, error) {
		return &Skellam{half: newPoisson(variance/2, parts)}, nil
	})
}

// Thinning is NewThinning.
func (t *Tables) Thinning(mean float64, keepNum, keepDen uint64) (*Thinning, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.thinning.get(t.Keep, tableKey{mean: mean, num: keepNum, den: keepDen}, func() (*Thinning, error) { return NewThinning(mean, keepNum, keepDen) })
}

// cache keeps the latest values made, the oldest first. There are few: finding one takes less time than a draw.
type cache[V any] []made[V]

// made is a value with its parameters.
type made[V any] struct {
	key   tableKey
	value V
}

func (c *cache[V]) get(keep int, k tableKey, build func() (V, error)) (V, error) {
	if i := slices.IndexFunc(*c, func(m made[V]) bool { return m.key == k }); i >= 0 {
		return (*c)[i].value, nil
	}
	v, err := build()
	if err != nil {
		return v, err
	}
	if len(*c) == cmp.Or(keep, 16) {
		*c = slices.Delete(*c, 0, 1)
	}
	*c = append(*c, made[V]{k, v})
	return v, nil
}

const (
	layerBits = 10
	layers    = 1 << layerBits

	// baseEdge and layerArea solve, for 1,024 layers, the two equations of the
	// ziggurat: with f(x) = exp(-x²/2) the base layer has
	//	layerArea = baseEdge·f(baseEdge) + ∫ f from baseEdge to ∞,
	// and rectangles of that area stacked on it end at f(0) = 1. (More layers
	// leave fewer draws to the slow paths; 256 take 15% longer. Beyond 1,024 the
	// table leaves the fastest cache.)
	baseEdge  = 4.038849846109504522714423
	layerArea = 0.001226324646353088072885371
)

// zig is the ziggurat of the standard normal distribution. It is computed once
// and not changed.
var zig = newZiggurat()

// ziggurat covers the right half of the curve f(x) = exp(-x²/2) by layers of equal area. Layer i >
// 0 is the rectangle from 0 to x[i] and from y[i] to y[i+1], where y[i] = f(x[i]). Layer 0 is the
// area under y[1], tail included. It is drawn as if it were a rectangle of width x[0], with the
// tail in place of the part beyond x[1] = baseEdge.
type ziggurat struct {
	layers [layers]layer
	y      [layers + 1]float64
}

// layer holds everything that a draw inside of it needs.
type layer struct {
	limit uint64  // even; abscissas below are under the curve at any height
	width float64 // x[i] / 2^54
}

// inside reports whether -limit < j < limit, for odd j.
func (l *layer) inside(j int64) bool {
	return uint64(j)+l.limit < 2*l.limit
}

// at returns the position of the abscissa j.
func (l *layer) at(j int64) float64 {
	return float64(float64(j) * l.width)
}

func newZiggurat() ziggurat {
	const one = 1 << (64 - layerBits) // the abscissa of a layer's right end
	var z ziggurat
	z.y[1] = density(baseEdge)
	z.y[layers] = 1
	x, next := layerArea/z.y[1], baseEdge
	lost := 0.0 // to rounding, so far (Kahan's summation)
	for i := range z.layers {
		z.layers[i] = layer{
			limit: uint64(float64(next/x*one)) &^ 1,
			width: x / one,
		}
		x = next
		if i+2 >= layers { // the topmost layer ends at zero
			next = 0
			continue
		}
		height := layerArea/x - lost
		z.y[i+2] = z.y[i+1] + height
		lost = z.y[i+2] - z.y[i+1] - height
		next = math.Sqrt(-2 * log(z.y[i+2]))
	}
	return z
}

// density returns exp(-x²/2).
func density(x float64) float64 {
	return exp(float64(-x * x / 2))
}
