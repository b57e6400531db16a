package synthetic

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
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
// exact rounding.
type random struct{ rand.PCG }

// newRandom returns stream n of a seed. The number is mixed, since PCG streams
// whose states differ little start out alike.
func newRandom(seed, n uint64) *random { return &random{*rand.NewPCG(seed, idtext.Mix(n))} }

// below returns a uniform integer of 0..n-1; the bias of n/2^64 does not matter here.
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.Uint64(), uint64(n))
	return int(hi)
}

// uniform returns a uniform number of [0, 1).
func (r *random) uniform() float64 { return float64(int64(r.Uint64()>>11)) / (1 << 53) }

// normal returns a sum of twelve uniform numbers with mean 0 and variance 1.
// It is within 0.002 of the normal law in distribution and ends at +-6.
func (r *random) normal() float64 {
	a, b, c := r.Uint64(), r.Uint64(), r.Uint64() // each has four numbers of 16 bits
	const low = 0x0000ffff0000ffff                // two of the four
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

func shuffle[T any](r *random, list []T) {
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

func (a alias) draw(r *random) int32 {
	hi, _ := bits.Mul64(r.Uint64(), uint64(len(a)))
	i := int32(hi)
	if p := a[i]; r.Uint64()>>11 >= p.keep {
		return p.other
	}
	return i
}

const (
	meanRating = 3.58  // of MovieLens 1M, in stars, which the genre means are compared to
	agePremium = 0.006 // stars a film gains for each year of age: old films that are still rated are good
)

// catalog holds the items of a synthetic set, in columns.
type catalog struct {
	titles []string // public features of the items
	genres [][]string
	years  []int
	choice alias     // draws an item by popularity
	bias   []float64 // b_i of the model
	taste  []float64 // q_i: tasteRank numbers for each item
}

// makeCatalog draws the items: genres, year, title, popularity, bias and taste vector.
func (s shape) makeCatalog() *catalog {
	r := newRandom(generatorSeed, streamItems)
	scales := tasteScales()
	genreTaste := make([][]float64, len(genres))
	films := make([]float64, len(genres))
	for g := range genres {
		genreTaste[g] = r.normals(tasteRank)
		films[g] = float64(genres[g].films)
	}
	pickGenre := newAlias(films)

	weights := s.popularityWeights(r)
	spread := logSpread(weights)
	years, genreYears, knownTaste := s.turns()
	c := &catalog{choice: newAlias(weights), bias: make([]float64, s.Items), taste: make([]float64, 0, s.Items*tasteRank)}
	for i := range s.Items {
		of := drawGenres(r, pickGenre)
		year := s.drawYear(r)
		names := lists.Map(of, func(g int32) string { return genres[g].name })
		c.titles = append(c.titles, fmt.Sprintf("%s No. %d (%d)", names[0], i+1, year))
		c.genres, c.years = append(c.genres, names), append(c.years, year)
		own := math.Sqrt(1 - s.Featured - s.Dated - s.Known)
		shared := math.Sqrt(s.Featured / float64(len(of)))
		quality := 0.0
		for _, g := range of {
			quality += (genres[g].mean - meanRating) / float64(len(of))
		}
		premium := float64(agePremium * math.Min(float64(s.LastYear-year), 50))
		if s.Dated > 0 {
			quality, premium = 2*quality, yearEffect(float64(year))
		}
		c.bias[i] = quality + premium + float64(s.Liked*spread(weights[i])) + float64(s.ItemBias*r.normal())
		for k := range tasteRank {
			q := float64(own * r.normal())
			for _, g := range of {
				x := genreTaste[g][k]
				if s.Dated > 0 {
					x = float64(math.Sqrt(1-s.Turning)*x) + float64(math.Sqrt(s.Turning)*genreYears[g][year-s.FirstYear][k])
				}
				q += float64(shared * x)
			}
			if s.Dated > 0 {
				q += float64(math.Sqrt(s.Dated)*years[year-s.FirstYear][k]) + float64(math.Sqrt(s.Known)*spread(weights[i])*knownTaste[k])
			}
			c.taste = append(c.taste, float64(q*scales[k]))
		}
	}
	return c
}

// turns draws the taste vectors of years of release, of genres in each year, and of popularity; nothing for a shape without.
func (s shape) turns() (years [][]float64, genreYears [][][]float64, known []float64) {
	if s.Dated == 0 {
		return nil, nil, nil
	}
	// walk draws a vector for each year (a stationary autoregression). Two that are yearsAlike apart have the correlation 1/e.
	walk := func(n uint64) [][]float64 {
		const yearsAlike = 20
		r, like := newRandom(generatorSeed+n, streamItems), exp(-1./yearsAlike)
		all := [][]float64{r.normals(tasteRank)}
		for range s.LastYear - s.FirstYear {
			next := r.normals(tasteRank)
			for k, x := range all[len(all)-1] {
				next[k] = float64(like*x) + float64(math.Sqrt(1-float64(like*like))*next[k])
			}
			all = append(all, next)
		}
		return all
	}
	for g := range genres {
		genreYears = append(genreYears, walk(uint64(10+g)))
	}
	return walk(2), genreYears, newRandom(generatorSeed+3, streamItems).normals(tasteRank)
}

// yearEffect returns the effect of a film's year on its ratings, in stars, in MovieLens latest-small.
func yearEffect(year float64) float64 {
	years, effects := []float64{1900, 1972, 1990, 1998, 2005, 2018}, []float64{0.36, 0.36, -0.13, -0.15, 0, 0.11}
	k := 1
	for year > years[k] {
		k++
	}
	return effects[k-1] + float64((effects[k]-effects[k-1])*(year-years[k-1])/(years[k]-years[k-1]))
}

// tasteScales returns the scale of each taste dimension; their squares sum to 1.
func tasteScales() []float64 {
	scales := make([]float64, tasteRank)
	var squares float64
	for k, scale := 0, 1.0; k < tasteRank; k, scale = k+1, scale*tasteDecay {
		scales[k] = scale
		squares += float64(scale * scale)
	}
	for k := range scales {
		scales[k] /= math.Sqrt(squares)
	}
	return scales
}

// popularityWeights deals the popularity curve to items in random order.
func (s shape) popularityWeights(r *random) []float64 {
	weights := make([]float64, s.Items)
	for rank := range weights {
		weights[rank] = s.Popularity.at((float64(rank) + 0.5) / float64(s.Items))
	}
	shuffle(r, weights)
	return weights
}

// logSpread returns the function that maps a weight to its logarithm, standardized over all.
func logSpread(weights []float64) func(float64) float64 {
	n := float64(len(weights))
	var sum, squares float64
	for _, w := range weights {
		l := log(w)
		sum += l
		squares += float64(l * l)
	}
	mean := sum / n
	std := math.Sqrt(squares/n - float64(mean*mean))
	return func(w float64) float64 { return (log(w) - mean) / std }
}

// drawGenres draws one to three genres, ascending. Films of MovieLens 1M have 1.65 on average.
func drawGenres(r *random, pick alias) []int32 {
	count := 1
	switch u := r.uniform(); {
	case u < 0.14:
		count = 3
	case u < 0.51:
		count = 2
	}
	var of []int32
	for len(of) < count {
		if g := pick.draw(r); !slices.Contains(of, g) {
			of = append(of, g)
		}
	}
	slices.Sort(of)
	return of
}

// drawYear draws a year of release: most films are recent, with an exponential tail of 14 years. In latest-small most are of two
// decades ago, with two tails of 11.
func (s shape) drawYear(r *random) int {
	age := int(-14 * log(1-r.uniform()))
	if s.Dated > 0 {
		age = int(-11*log(1-r.uniform())) + int(-11*log(1-r.uniform()))
	}
	return max(s.LastYear-age, s.FirstYear)
}
