package synthetic

import (
	"fmt"
	"math"
	"slices"
)

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

	rough []roughTaste // q_i in single precision
	most  float64      // largest magnitude of a number of any q_i
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
	c := &catalog{choice: newAlias(weights), bias: make([]float64, s.items), taste: make([]float64, 0, s.items*tasteRank)}
	for i := range s.items {
		of := drawGenres(r, pickGenre)
		year := s.drawYear(r)
		c.addFeatures(i, of, year)
		own := math.Sqrt(1 - s.featured)
		shared := math.Sqrt(s.featured / float64(len(of)))
		quality := 0.0
		for _, g := range of {
			quality += (genres[g].mean - meanRating) / float64(len(of))
		}
		age := math.Min(float64(s.lastYear-year), 50)
		c.bias[i] = quality + float64(agePremium*age) + float64(s.liked*spread(weights[i])) + float64(s.itemBias*r.normal())
		for k := range tasteRank {
			q := float64(own * r.normal())
			for _, g := range of {
				q += float64(shared * genreTaste[g][k])
			}
			c.taste = append(c.taste, float64(q*scales[k]))
		}
	}
	c.setRough()
	return c
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
	ranks := make([]int, s.items)
	for i := range ranks {
		ranks[i] = i
	}
	r.shuffle(ranks)
	weights := make([]float64, s.items)
	for i, rank := range ranks {
		weights[i] = s.popularity.at((float64(rank) + 0.5) / float64(s.items))
	}
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

// drawYear draws a year of release: most films are recent, with an exponential tail of 14 years.
func (s shape) drawYear(r *random) int {
	age := int(-14 * log(1-r.uniform()))
	return max(s.lastYear-age, s.firstYear)
}

// addFeatures writes the public features of item i.
func (c *catalog) addFeatures(i int, of []int32, year int) {
	names := make([]string, len(of))
	for k, g := range of {
		names[k] = genres[g].name
	}
	c.titles = append(c.titles, fmt.Sprintf("%s No. %d (%d)", names[0], i+1, year))
	c.genres = append(c.genres, names)
	c.years = append(c.years, year)
}
