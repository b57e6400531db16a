package dataset

import (
	"cmp"
	"math"
	"slices"
)

// maxHistogram is the largest number of bins of a rating histogram.
const maxHistogram = 20

// Info describes a set. It reads all ratings, private ones included: it is for a person who may see
// the data, not for release.
type Info struct {
	Name       string  `json:"name"`
	Users      int     `json:"users"`
	Items      int     `json:"items"`
	RatedItems int     `json:"rated_items"` // items with at least one rating
	Ratings    int     `json:"ratings"`
	Density    float64 `json:"density"` // ratings / (users * items)

	Min       float64 `json:"min"`  // of the public range, in stars
	Max       float64 `json:"max"`  // of the public range, in stars
	Mean      float64 `json:"mean"` // in stars
	Std       float64 `json:"std"`  // of the population, in stars
	Histogram []Bin   `json:"histogram"`

	PerUser Spread `json:"per_user"` // ratings of a user
	PerItem Spread `json:"per_item"` // ratings of an item, over all items: those without any count as 0

	Top1Percent  float64 `json:"top_1_percent"`  // share of ratings on the most rated 1% of all items, rounded up
	Top10Percent float64 `json:"top_10_percent"` // likewise 10%

	Times *TimeSpan `json:"times,omitempty"` // when the ratings were given; nil if that is not known or was not read

	HasTitles bool `json:"has_titles"`
	HasGenres bool `json:"has_genres"`
	HasYears  bool `json:"has_years"`

	Clicks      bool     `json:"clicks,omitempty"`       // there is no column of ratings
	ItemColumns []string `json:"item_columns,omitempty"` // features that an items.csv has beyond these

	Findings []Finding `json:"findings,omitempty"`
	Notices  []Notice  `json:"notices,omitempty"`

	Digest string `json:"digest"`
}

// TimeSpan describes the times of ratings, which are in seconds since 1970 unless they could not be read as such.
type TimeSpan struct {
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
	Without int     `json:"without,omitempty"` // ratings without a time
}

// Bin counts the ratings from Low to High stars. The two are equal where every
// distinct rating has its own bin; where they differ, High belongs to the next bin,
// and to this one only in the last.
type Bin struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Count int     `json:"count"`
}

// Spread describes how many ratings users or items have. Quartiles between two
// of them are interpolated.
type Spread struct {
	Min    int     `json:"min"`
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	Q3     float64 `json:"q3"`
	Max    int     `json:"max"`
}

// Info describes the set. A hand-made set must have valid ratings (see
// [Ratings.Validate]); of one without ratings only the names and counts are filled in.
func (s *Set) Info() Info {
	if s.Len() == 0 {
		return Info{Name: s.Name, Users: s.Users, Items: s.Items, Min: s.Min, Max: s.Max, Digest: s.Digest}
	}
	s = s.Unpacked()
	perUser, perItem := make([]int, s.Users), make([]int, s.Items)
	mean := s.Mean()
	var squares float64
	for k, v := range s.Value {
		perUser[s.User[k]]++
		perItem[s.Item[k]]++
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	slices.Sort(perUser)
	slices.Sort(perItem)
	zeros, _ := slices.BinarySearch(perItem, 1)
	var columns []string
	for _, c := range s.Columns {
		columns = append(columns, c.Name)
	}
	return Info{
		Name: s.Name, Users: s.Users, Items: s.Items, RatedItems: len(perItem) - zeros, Ratings: s.Len(),
		Density: float64(s.Len()) / (float64(s.Users) * float64(s.Items)),
		Min:     s.Min, Max: s.Max, Mean: mean, Std: math.Sqrt(squares / float64(s.Len())),
		Histogram: s.histogram(),
		PerUser:   spread(perUser), PerItem: spread(perItem),
		Top1Percent: topShare(perItem, 100), Top10Percent: topShare(perItem, 10),
		Times:     timeSpan(s.Times),
		HasTitles: slices.ContainsFunc(s.Titles, func(t string) bool { return t != "" }),
		HasGenres: slices.ContainsFunc(s.Genres, func(g []string) bool { return len(g) > 0 }),
		HasYears:  slices.ContainsFunc(s.Years, func(y int) bool { return y != 0 }),
		Clicks:    s.Clicks, ItemColumns: columns,
		Findings: s.Findings, Notices: s.Notices, Digest: s.Digest,
	}
}

// timeSpan describes times; nil if there is none.
func timeSpan(times []float64) *TimeSpan {
	span := &TimeSpan{First: math.Inf(1), Last: math.Inf(-1)}
	for _, at := range times {
		if math.IsNaN(at) {
			span.Without++
			continue
		}
		span.First, span.Last = min(span.First, at), max(span.Last, at)
	}
	if span.First > span.Last {
		return nil
	}
	return span
}

// histogram counts each distinct rating, or, when there are too many, ratings
// in bins of equal width over the public range.
func (s *Set) histogram() []Bin {
	counts := make(map[float32]int)
	for _, v := range s.Value {
		counts[v]++
		if len(counts) > maxHistogram {
			return s.equalBins()
		}
	}
	bins := make([]Bin, 0, len(counts))
	for v, n := range counts {
		bins = append(bins, Bin{Low: float64(v), High: float64(v), Count: n})
	}
	slices.SortFunc(bins, func(a, b Bin) int { return cmp.Compare(a.Low, b.Low) })
	return bins
}

func (s *Set) equalBins() []Bin {
	width := (s.Max - s.Min) / maxHistogram
	bins := make([]Bin, maxHistogram)
	for i := range bins {
		bins[i].Low, bins[i].High = s.Min+float64(i)*width, s.Min+float64(i+1)*width
	}
	for _, v := range s.Value {
		i := int((float64(v) - s.Min) / width)
		bins[min(max(i, 0), maxHistogram-1)].Count++
	}
	return bins
}

// spread describes sorted counts; there must be at least one.
func spread(sorted []int) Spread {
	quantile := func(q float64) float64 {
		at := q * float64(len(sorted)-1)
		i := int(at)
		j := min(i+1, len(sorted)-1)
		return float64(sorted[i]) + (at-float64(i))*float64(sorted[j]-sorted[i])
	}
	sum := 0
	for _, n := range sorted {
		sum += n
	}
	return Spread{
		Min: sorted[0], Q1: quantile(0.25), Median: quantile(0.5), Q3: quantile(0.75), Max: sorted[len(sorted)-1],
		Mean: float64(sum) / float64(len(sorted)),
	}
}

// topShare returns the share of all ratings on the most rated 1/part of the items.
func topShare(sorted []int, part int) float64 {
	top := (len(sorted) + part - 1) / part
	all, best := 0, 0
	for i, n := range sorted {
		all += n
		if i >= len(sorted)-top {
			best += n
		}
	}
	return float64(best) / float64(all)
}
