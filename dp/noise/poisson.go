package noise

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"sync"
)

// ErrTooLarge is wrapped by the errors of constructors whose argument is valid but too
// large for tables of the promised precision.
var ErrTooLarge = errors.New("too large for a table of the promised precision")

// MaxMean is the largest mean of a Poisson distribution: 64 tables' worth.
const MaxMean = 64 * maxTableMean

// Poisson draws from a Poisson distribution. It is immutable, so any number of
// goroutines may share it, each with its own Bits.
type Poisson struct {
	mean  float64
	parts int // the mean is divided by this power of two, exactly
	table *table
}

// NewPoisson returns the Poisson distribution of the given mean. The mean is the dyadic rational of
// the float64, taken without rounding.
//
// A mean above 2^30 is divided by a power of two, and a draw is the sum of that many draws of the
// quotient, which has the same law. The mean must be positive and finite and at most MaxMean; above
// MaxMean the error wraps ErrTooLarge.
func NewPoisson(mean float64) (*Poisson, error) {
	if err := checkMean("mean", mean, MaxMean); err != nil {
		return nil, fmt.Errorf("noise: Poisson: %w", err)
	}
	return newPoisson(mean, fewestParts(mean)), nil
}

// newPoisson returns a Poisson with one table, of mean/parts; parts is a power of two.
func newPoisson(mean float64, parts int) *Poisson {
	part := mean / float64(parts)
	return &Poisson{mean: mean, parts: parts, table: tablesInUse.get(tableKey{mean: part}, func() *table { return poissonTable(part) })}
}

// fewestParts returns the least number of parts of a mean that each fit a table.
func fewestParts(mean float64) int {
	parts := 1
	for mean/float64(parts) > maxTableMean {
		parts *= 2
	}
	return parts
}

// partsFor returns the best number of parts of a mean for so many draws. A table of a large mean
// takes long to make, and more parts take longer to draw. The nanoseconds are of an EPYC of 2024;
// they decide on speed alone.
//
// A table of N weights is within 0.75 N 2^-128 + 2^-119 of the exact distribution (see newTable).
// All parts together have at most 2^27 weights, or are the fewest and have 2^26, and they are at
// most 2^16, so that a Poisson is within 2^-101.
func partsFor(mean float64, draws int) int {
	const entry, draw = 160, 12 // nanoseconds of a table's entry, and of drawing a part
	best, least := 0, math.Inf(1)
	for parts := fewestParts(mean); parts <= 1<<16; parts *= 2 {
		weights := float64(28*math.Sqrt(mean/float64(parts))) + 200
		if best > 0 && float64(parts)*weights > 1<<27 {
			break
		}
		if cost := float64(entry*weights) + float64(draw*float64(parts)*float64(draws)); cost < least {
			best, least = parts, cost
		}
	}
	return best
}

// Draw returns one draw. It is meaningless if b has failed; see [Bits.Err].
func (p *Poisson) Draw(b *Bits) uint64 {
	k := p.table.draw(b)
	for range p.parts - 1 {
		k += p.table.draw(b)
	}
	return k
}

// poissonTable returns the table of a mean of at most maxTableMean, from
// p(k+1) = p(k) mean/(k+1), with mean = m/2^s for integers m and s.
func poissonTable(mean float64) *table {
	frac, exp := math.Frexp(mean)
	m, s := uint64(math.Ldexp(frac, 53)), uint(53-exp)
	return newTable(uint64(mean), mean,
		func(k uint64, w uint256) uint256 { return w.mul(m).shr(s).div(k + 1) },
		// Below the mode the mean is at least 1, so s <= 52 and nothing
		// overflows: 171 bits of w, 31 of k, 52 of s.
		func(k uint64, w uint256) uint256 { return w.mul(k).mul(1 << s).div(m) })
}

// checkMean returns an error unless 0 < v <= limit; what names v.
func checkMean(what string, v, limit float64) error {
	switch {
	case !(v > 0) || math.IsInf(v, 1):
		return fmt.Errorf("%s is %v, must be positive and finite", what, v)
	case v > limit:
		return fmt.Errorf("%s is %v, must be at most %v: %w", what, v, limit, ErrTooLarge)
	}
	return nil
}

// ErrSharedStream is returned if a call needs two independent streams but got the same stream
// twice.
var ErrSharedStream = errors.New("noise: noise and thinning need two independent streams, got one for both")

// Skellam draws P - Q for independent P, Q ~ Poisson(variance/2): symmetric
// integer noise. It is immutable, so any number of goroutines may share it, each
// with its own Bits.
type Skellam struct {
	half *Poisson
}

// NewSkellam returns the Skellam distribution of mean 0 and the given variance. Half of the
// variance is the mean of either Poisson (exact in a float64, except for the smallest subnormal).
// The variance must be positive and finite and at most 2·MaxMean; above that the error wraps
// ErrTooLarge.
func NewSkellam(variance float64) (*Skellam, error) {
	if err := checkVariance(variance); err != nil {
		return nil, err
	}
	half, err := NewPoisson(variance / 2)
	if err != nil {
		return nil, fmt.Errorf("noise: Skellam of variance %v: %w", variance, err)
	}
	return &Skellam{half: half}, nil
}

func checkVariance(variance float64) error {
	if err := checkMean("variance", variance, 2*MaxMean); err != nil {
		return fmt.Errorf("noise: Skellam: %w", err)
	}
	return nil
}

// Variance returns the variance.
func (s *Skellam) Variance() float64 {
	return 2 * s.half.mean
}

// Add adds an independent draw to every coordinate of dst. Sums beyond an int64
// wrap, as in the ring the vectors live in.
//
// If the stream fails, Add clears dst, so that nothing with too little noise can
// leave by mistake, and returns the stream's error.
func (s *Skellam) Add(dst []int64, b *Bits) error {
	for i := range dst {
		p := s.half.Draw(b)
		q := s.half.Draw(b)
		dst[i] += int64(p - q)
	}
	return checkStreams(dst, b)
}

// Removal writes to dst the vector that turns the noise of an earlier Add into its kept part. noise
// must yield the stream that Add read, from the same place. t thins both Poissons of a coordinate
// with fresh bits from thin. With
//
//	dst[i] = -((P - keptP) - (Q - keptQ)),
//
// the noise of Add plus dst is keptP - keptQ. With keep probability r the kept noise is Skellam of
// variance r·Variance(), the removed noise is Skellam of variance (1-r)·Variance(), and the two are
// independent.
//
// Equal streams give equal removals. Removal reads noise exactly as far as Add read its stream, so
// several vectors may follow each other on one stream. A client must answer with one removal: a
// second removal with fresh bits from thin would let the receiver average noise away.
//
// If a stream fails, Removal clears dst and returns that stream's error; if noise and thin are the
// same Bits, it returns ErrSharedStream.
func (s *Skellam) Removal(dst []int64, noise, thin *Bits, t *Thinning) error {
	if noise == thin {
		clear(dst)
		return ErrSharedStream
	}
	for i := range dst {
		p := s.half.Draw(noise)
		q := s.half.Draw(noise)
		keptP := t.Draw(p, thin)
		keptQ := t.Draw(q, thin)
		dst[i] = int64((q - keptQ) - (p - keptP))
	}
	return checkStreams(dst, noise, thin)
}

// checkStreams clears dst and returns the errors of the streams if any failed.
func checkStreams(dst []int64, streams ...*Bits) error {
	var err error
	for _, b := range streams {
		err = errors.Join(err, b.Err())
	}
	if err != nil {
		clear(dst)
	}
	return err
}

const (
	// MaxThinningMean is the largest mean of the counts of a Thinning: the largest mean of one
	// table.
	MaxThinningMean = maxTableMean
	// MaxRatio is the largest denominator of a keep probability in lowest
	// terms.
	MaxRatio = math.MaxUint32

	// drawCost is the cost of one more lookup per draw, in table entries: twice some 10 ns for each
	// coordinate of a few 10^5, against some 100 ns to build an entry.
	drawCost = 1 << 16
	// maxPower bounds the tables of powers of two: Binomial(2^maxPower) has as
	// many entries as the largest Poisson table.
	maxPower = 31
)

// Thinning keeps each of n points independently with a fixed probability
// num/den: it draws from Binomial(n, num/den), for counts n that vary from draw
// to draw around a mean known beforehand.
//
// A count is written as high·2^S + the digits of its low S bits. Every term has
// its table, and the sum of independent binomials of equal probability is the
// binomial of the sum, so a draw costs one lookup for each digit. Counts further
// than about eight standard deviations from the mean are split into powers of
// two instead, whose tables are built on first use.
//
// A Thinning is safe for concurrent use, each goroutine with its own Bits.
type Thinning struct {
	mean     float64
	num, den uint64 // in lowest terms; num == den keeps everything, without tables

	shift     uint     // S, the number of low bits
	highFirst uint64   // the first value of the high part with a table
	high      []*table // Binomial((highFirst+i)·2^S); entry nil for a count of 0
	low       []level  // the digits of the low bits, least significant first

	powers [maxPower + 1]lazyTable // Binomial(2^i)
}

// level holds the tables of one digit: tables[d] is Binomial(d·2^at), d > 0.
type level struct {
	at     uint
	tables []*table
}

type lazyTable struct {
	once  sync.Once
	table *table
}

// NewThinning returns the thinning with keep probability keepNum/keepDen of counts that are Poisson
// with the given mean. The mean chooses the tables and so the speed alone: a draw is as exact for
// every other count.
//
// The mean must be positive, finite and at most MaxThinningMean; 0 < keepNum <= keepDen; in lowest
// terms keepDen is at most MaxRatio. The error reports every fault, and wraps ErrTooLarge for a
// value beyond a maximum.
func NewThinning(mean float64, keepNum, keepDen uint64) (*Thinning, error) {
	err := checkMean("mean", mean, MaxThinningMean)
	var num, den uint64
	if keepNum == 0 || keepNum > keepDen {
		err = errors.Join(err, fmt.Errorf("keep probability is %d/%d, must be above 0 and at most 1", keepNum, keepDen))
	} else {
		d := new(big.Int).GCD(nil, nil, new(big.Int).SetUint64(keepNum), new(big.Int).SetUint64(keepDen)).Uint64()
		num, den = keepNum/d, keepDen/d
		if den > MaxRatio {
			err = errors.Join(err, fmt.Errorf("keep probability is %d/%d in lowest terms, its denominator must be at most %d: %w",
				num, den, uint64(MaxRatio), ErrTooLarge))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("noise: Thinning: %w", err)
	}
	t := &Thinning{mean: mean, num: num, den: den}
	if num < den {
		t.build()
	}
	return t, nil
}

// Draw returns the number of kept points of n, from 0 to n. It is meaningless if b has failed; see
// [Bits.Err].
//
// The time of a draw does not depend on n around the mean; far above the mean it grows like n/2^31.
func (t *Thinning) Draw(n uint64, b *Bits) uint64 {
	if t.num == t.den {
		return n
	}
	i := n>>t.shift - t.highFirst // wraps below highFirst: out of range too
	if i >= uint64(len(t.high)) {
		return t.drawPowers(n, b)
	}
	var kept uint64
	if h := t.high[i]; h != nil {
		kept = h.draw(b)
	}
	for _, l := range t.low {
		if d := n >> l.at & uint64(len(l.tables)-1); d != 0 {
			kept += l.tables[d].draw(b)
		}
	}
	return kept
}

// drawPowers is Draw for counts without tables of their own.
func (t *Thinning) drawPowers(n uint64, b *Bits) uint64 {
	var kept uint64
	for ; n >= 2<<maxPower; n -= 1 << maxPower {
		kept += t.power(maxPower).draw(b)
	}
	for ; n != 0; n &= n - 1 {
		kept += t.power(bits.TrailingZeros64(n)).draw(b)
	}
	return kept
}

func (t *Thinning) power(i int) *table {
	p := &t.powers[i]
	p.once.Do(func() { p.table = t.tableOf(1 << i) })
	return p.table
}

// build makes the tables of the counts around the mean.
func (t *Thinning) build() {
	reach := 8*math.Sqrt(t.mean) + 16
	lo, hi := uint64(max(0, t.mean-reach)), uint64(t.mean+reach)
	shift, digits := t.layout(lo, hi)
	t.shift = shift
	t.highFirst = lo >> shift
	for h := t.highFirst; h <= hi>>shift; h++ {
		t.high = append(t.high, t.tableOf(h<<shift))
	}
	for i := range digits {
		at, end := digitAt(shift, i, digits), digitAt(shift, i+1, digits)
		l := level{at: at}
		for d := range uint64(1) << (end - at) {
			l.tables = append(l.tables, t.tableOf(d<<at))
		}
		t.low = append(t.low, l)
	}
}

// tableOf returns the table of Binomial(n), nil for n = 0.
func (t *Thinning) tableOf(n uint64) *table {
	if n == 0 {
		return nil
	}
	return tablesInUse.get(tableKey{n: n, num: t.num, den: t.den}, func() *table { return binomialTable(n, t.num, t.den) })
}

// layout chooses the number of low bits and of their digits for counts from lo
// to hi, weighing the size of the tables against the number of lookups.
func (t *Thinning) layout(lo, hi uint64) (shift uint, digits int) {
	best := math.Inf(1)
	for s := uint(0); s <= uint(bits.Len64(hi)); s++ {
		high := float64(hi>>s-lo>>s+1) * t.entries(hi)
		for n := int(s+7) / 8; n <= int(s); n++ {
			cost := high + float64(n)*drawCost
			for i := range n {
				at, end := digitAt(s, i, n), digitAt(s, i+1, n)
				count := uint64(1) << (end - at)
				cost += float64(count) * t.entries(count<<at/2)
			}
			if cost < best {
				best, shift, digits = cost, s, n
			}
		}
	}
	return shift, digits
}

// entries estimates the size of the table of Binomial(n): some 14 standard
// deviations either way.
func (t *Thinning) entries(n uint64) float64 {
	r := float64(t.num) / float64(t.den)
	return min(float64(n)+1, 28*math.Sqrt(float64(n)*r*(1-r))+40)
}

// digitAt returns where digit i of n starts when shift bits are divided among them as evenly as
// possible.
func digitAt(shift uint, i, n int) uint {
	return shift * uint(i) / uint(n)
}

// binomialTable returns the table of Binomial(n, num/den), 0 < num < den <=
// MaxRatio, 0 < n <= 2^31, from p(k+1) = p(k) (n-k)/(k+1) num/(den-num). Every
// product of two factors is below 2^64.
func binomialTable(n, num, den uint64) *table {
	hi, lo := bits.Mul64(n+1, num)
	mode, _ := bits.Div64(hi, lo, den)
	rest := den - num
	variance := float64(n) * float64(num) / float64(den) * float64(rest) / float64(den)
	return newTable(mode, variance,
		func(k uint64, w uint256) uint256 { return w.mul((n - k) * num).div((k + 1) * rest) },
		func(k uint64, w uint256) uint256 { return w.mul(k * rest).div((n - k + 1) * num) })
}
