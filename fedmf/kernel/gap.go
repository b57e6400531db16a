package kernel

import (
	"math"
)

// gapOf returns the geometric gap of 64 random bits. perLog is 1/log(1-q): the gap is at least g
// with probability (1-q)^g.
func gapOf(x uint64, perLog float64) float64 {
	// Small u are the short gaps, where float64 is finest.
	u := (float64(x) + 0.5) * 0x1p-64
	return math.Floor(math.Log1p(-u) * perLog)
}

const (
	logBits = 8 // bits of a mantissa that choose the entry of logs
	// quickError bounds the difference between the logarithms of quickGap and gapOf, if x is at
	// most mostQuick. Then 1-u is at least 2^-12 and its logarithm at most 8.4.
	//
	// The difference is below half of quickError. gapOf rounds u by 2^-53 at most, which is 4.6e-13
	// in the logarithm. The other parts are a fiftieth of that: 1e-16 for the bits of x that
	// quickGap leaves out, 6e-15 for the series from the fifth term, and some 1e-15 for each
	// rounded sum or logarithm.
	quickError = 1e-12
	mostQuick  = math.MaxUint64 - 1<<52
)

// logs has, for each beginning of a mantissa, the reciprocal of the middle of its interval, and the
// negative logarithm of that reciprocal.
var logs = func() (table [1 << logBits]struct{ reciprocal, log float64 }) {
	for i := range table {
		middle := 1 + (float64(i)+0.5)/(1<<logBits)
		table[i].reciprocal = 1 / middle
		table[i].log = -math.Log(table[i].reciprocal)
	}
	return table
}()

// quickGap computes gapOf in less time, or reports that it is not sure. It takes the logarithm from
// a table and four terms of a series, and is sure if no whole number is within its error. So it
// changes no gap, and gaps keep the law of gapOf.
func quickGap(x uint64, perLog float64) (gap float64, sure bool) {
	if x > mostQuick {
		return 0, false
	}
	b := math.Float64bits(float64(int64(^x>>1)) + 0.5) // of 2^63·(1-u)
	entry := &logs[b>>(52-logBits)%(1<<logBits)]
	mantissa := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	r := mantissa*entry.reciprocal - 1 // at most 2^-9 either way
	log := float64(int(b>>52)-1023-63)*math.Ln2 + (entry.log + r*(1-r*(0.5-r*(1./3-r/4))))
	g := log * perLog
	// The product is rounded here and in gapOf, half a unit in the last place each.
	within := -quickError*perLog + 0x1p-51*g
	gap = math.Floor(g - within)
	return gap, gap == math.Floor(g+within)
}
