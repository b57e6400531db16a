package noise

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
)

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
		d := gcd(keepNum, keepDen)
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

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
