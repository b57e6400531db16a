package synthetic

import "math"

// Products of taste vectors decide which items a user takes and which stars it gives. Nearly always a product in single precision
// decides the same as the exact one, and costs far less: its terms are added in any order. Where the two might differ, the exact
// product decides. So the same bits come out.

// roughTaste is the taste vector of an item in single precision, of the size of a cache line.
type roughTaste [16]float32

// rough is the taste vector of a user in single precision.
type rough struct {
	likes [tasteRank]float32
	doubt float64 // a rough product is off by less
}

// setRough rounds the taste vectors of the items.
func (c *catalog) setRough() {
	c.rough = make([]roughTaste, len(c.taste)/tasteRank)
	for i := range c.rough {
		for k, q := range c.taste[i*tasteRank : (i+1)*tasteRank] {
			c.rough[i][k] = float32(q)
			c.most = max(c.most, math.Abs(q))
		}
	}
}

// setTaste takes over the taste of the user at hand.
func (w *worker) setTaste() {
	w.rough.set(w.likes, w.catalog.most)
	w.near = int64(math.Ceil(w.selective * w.rough.doubt * (1 << 53)))
	w.byRange = w.table
	if w.taste*w.rough.doubt >= perRange {
		w.byRange = noLevels
	}
}

// set takes the taste vector of a user. Every number of an item's vector has at most the given magnitude.
func (r *rough) set(likes []float64, most float64) {
	var sum float64
	for k, like := range likes {
		r.likes[k] = float32(like)
		sum += math.Abs(like)
	}
	// A term takes at most tasteRank+2 roundings, each of at most 2^-24 of what is rounded; twice that holds their compounding too.
	r.doubt = 2 * (tasteRank + 2) * sum * most / (1 << 24)
}

// match returns about how well an item fits the taste.
func (r *rough) match(q *roughTaste) float64 {
	l := &r.likes
	a := q[0]*l[0] + q[4]*l[4] + q[8]*l[8]
	b := q[1]*l[1] + q[5]*l[5] + q[9]*l[9]
	c := q[2]*l[2] + q[6]*l[6] + q[10]*l[10]
	d := q[3]*l[3] + q[7]*l[7] + q[11]*l[11]
	return float64((a + b) + (c + d))
}

// takes is 1 if the user at hand takes candidate i, and else 0. The user takes it if a uniform whole number of 53 bits is below the
// chance; match is the rough product. It does not branch on the outcome, which no processor predicts.
func (w *worker) takes(i int, uniform int64, match float64) int {
	const one, least = 1 << 53, (1<<53)/20 + 1 // leastChance, rounded up
	under := uniform - int64(one*(0.5+w.selective*match))
	if uint64(under+w.near) <= uint64(2*w.near) {
		return w.surelyTakes(i, uniform)
	}
	return int(uint64(under)>>63 | uint64(uniform-least)>>63)
}

// surelyTakes is takes by the exact product.
func (w *worker) surelyTakes(i int, uniform int64) int {
	if float64(uniform)/(1<<53) < max(0.5+float64(w.selective*w.match(i)), leastChance) {
		return 1
	}
	return 0
}

// Latent ratings are cut by a table: of each of many equal ranges it holds the level of all of it, or unsure if a cut is near.
const (
	ranges    = 4096
	lowest    = -8.0 // latent rating
	perRange  = 16.0 / ranges
	perLatent = 1 / perRange
	unsure    = 255
)

// levelTable is the table of the ranges.
type levelTable [ranges]uint8

// noLevels is sure of nothing.
var noLevels = func() *levelTable {
	t := new(levelTable)
	for at := range t {
		t[at] = unsure
	}
	return t
}()

// levelTable makes the table of a shape. A cut is near if it is in the range, or in one beside it.
func (s shape) levelTable() *levelTable {
	if s.plays.most > 0 {
		return noLevels
	}
	t := new(levelTable)
	for at := range t {
		from, to := lowest+float64(at-1)*perRange, lowest+float64(at+2)*perRange
		t[at] = uint8(levelAt(s.cuts, from))
		if levelAt(s.cuts, to) != int(t[at]) {
			t[at] = unsure
		}
	}
	t[0], t[ranges-1] = unsure, unsure // they take all that is beyond, too
	return t
}
