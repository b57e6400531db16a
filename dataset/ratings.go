package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/internal/dataset/csr"
	"github.com/fedsim/fedsim/internal/lists"
)

// Ratings holds explicit ratings in columns: user User[k] gave item Item[k] Value[k] stars. Users and items are indices below the two
// counts; a part of a split keeps the indices and counts of its set.
//
// Ratings from packages read and split are sorted by user, then item, and hold no pair twice. Copies share the columns, which are read-only.
type Ratings struct {
	Users, Items int
	User, Item   []int32
	Value        []float32

	// Times are when they were given, if that was asked for (read.Options) and is in the source; else nil. They are in seconds where the
	// source gives dates, else in its unit.
	Times []float64

	// Packed, if not nil, holds the ratings in place of the columns, which are then empty. Only sets that were
	// asked for so (read.Options) and parts of them are packed. [Ratings.Each] and [Ratings.ByUser] read either.
	Packed Packed
}

// Len returns the number of ratings.
func (r Ratings) Len() int {
	if r.Packed != nil {
		return r.Packed.Len()
	}
	return len(r.Value)
}

// Mean returns the mean rating in stars, NaN when there is no rating.
func (r Ratings) Mean() float64 {
	var sum float64
	r.Each(func(_, _ int32, v float32) { sum += float64(v) })
	return sum / float64(r.Len())
}

// Validate reports every way in which hand-made Ratings are inconsistent: columns of different length, counts outside the int32 indices, an
// index that is not below its count, a value that is not finite. Of bad indices and values it names the first.
func (r Ratings) Validate() error {
	n := len(r.Value)
	if r.Packed != nil && n == 0 && len(r.User) == 0 && len(r.Item) == 0 {
		return nil // checked when it was opened
	}
	if len(r.User) != n || len(r.Item) != n {
		return fmt.Errorf("ratings: columns differ in length: %d users, %d items, %d values", len(r.User), len(r.Item), n)
	}
	var value, times error
	if k := slices.IndexFunc(r.Value, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }); k >= 0 {
		value = fmt.Errorf("ratings: value of rating %d is %v, want a finite number", k, r.Value[k])
	}
	if r.Times != nil && len(r.Times) != n {
		times = fmt.Errorf("ratings: %d timestamps for %d ratings, want one for each", len(r.Times), n)
	}
	return errors.Join(checkIndices("user", r.User, r.Users), checkIndices("item", r.Item, r.Items), value, times)
}

// checkIndices reports a count that int32 cannot index and the first index that is not below it.
func checkIndices(what string, index []int32, count int) error {
	if count < 0 || count > math.MaxInt32 {
		return fmt.Errorf("ratings: %d %ss, want 0 to %d", count, what, math.MaxInt32)
	}
	for k, i := range index {
		if i < 0 || int(i) >= count {
			return fmt.Errorf("ratings: %s index of rating %d is %d, want 0 to %d", what, k, i, count-1)
		}
	}
	return nil
}

// sorted reports whether the ratings ascend by user, then item.
func (r Ratings) sorted() bool {
	for k := 1; k < len(r.User); k++ {
		if c := cmp.Compare(r.User[k-1], r.User[k]); c > 0 || c == 0 && r.Item[k-1] > r.Item[k] {
			return false
		}
	}
	return true
}

// Gather returns the ratings in the order of perm, which may leave some out.
func (r Ratings) Gather(perm []int32) Ratings {
	out := NewRatings(r.Users, r.Items, len(perm))
	for k, p := range perm {
		out.User[k], out.Item[k], out.Value[k] = r.User[p], r.Item[p], r.Value[p]
	}
	if r.Times != nil {
		out.Times = lists.Map(perm, func(p int32) float64 { return r.Times[p] })
	}
	return out
}

// NewRatings returns n ratings to be filled in.
func NewRatings(users, items, n int) Ratings {
	return Ratings{Users: users, Items: items, User: make([]int32, n), Item: make([]int32, n), Value: make([]float32, n)}
}

// Rows is a compressed-rows (CSR) view of ratings: one row for each user. It is
// read-only and safe for concurrent use.
type Rows struct {
	of    Ratings // packed, or sorted
	start []int   // of rows in columns, the first ones or all: row u begins at start[u] and ends before start[u+1]
}

// ByUser returns the ratings grouped by user. Columns that are sorted already become the rows without a copy; others are sorted. The ratings
// must be valid (see [Ratings.Validate]). The view by item is the same function on exchanged columns.
func (r Ratings) ByUser() *Rows {
	if r.Packed != nil {
		return &Rows{of: r}
	}
	start := csr.Starts(r.User, r.Users)
	if !r.sorted() {
		r = r.Gather(csr.Order(r.User, r.Item, r.Items, start))
	}
	r.User = nil // the starts say it
	return &Rows{r, start}
}

// Len returns the number of rows, which is the number of users.
func (r *Rows) Len() int { return r.of.Users }

// Packed reports whether rows are unpacked as they are asked for, so that to keep one takes memory of its own.
func (r *Rows) Packed() bool { return r.of.Packed != nil }

// Row returns the items that user u rated, ascending, and the ratings of each in stars. They share the memory of the view, unless it is
// packed: do not write to them.
func (r *Rows) Row(u int) (items []int32, values []float32) {
	return r.Into(u, nil, nil)
}

// Into is Row, of a packed view in the memory of what it is given, as far as that is enough.
func (r *Rows) Into(u int, items []int32, values []float32) ([]int32, []float32) {
	if u+1 >= len(r.start) {
		return r.of.Packed.Row(u, items, values)
	}
	from, to := r.start[u], r.start[u+1]
	return r.of.Item[from:to:to], r.of.Value[from:to:to]
}

// Lend calls hear with what Row returns, which holds until hear returns: packed ratings are unpacked into memory that is used
// again. It is safe for concurrent use, and within hear.
func (r *Rows) Lend(u int, hear func(items []int32, values []float32)) {
	if u+1 < len(r.start) {
		hear(r.Row(u))
		return
	}
	b := lent.Get().(*unpackedRow)
	defer lent.Put(b)
	b.items, b.values = r.Into(u, b.items, b.values)
	hear(b.items, b.values)
}

// Unpacked returns the same rows. The first ones, with at most that many ratings in all, are in columns: a look at them unpacks nothing.
// Each of these ratings takes 8 bytes.
func (r *Rows) Unpacked(most int) *Rows {
	if !r.Packed() {
		return r
	}
	most = min(most, r.of.Len())
	out := &Rows{of: r.of, start: make([]int, 1, r.Len()+1)}
	out.of.Item, out.of.Value = make([]int32, 0, most), make([]float32, 0, most)
	var b unpackedRow
	for u := range r.Len() {
		if b.items, b.values = r.Into(u, b.items, b.values); len(out.of.Item)+len(b.items) > most {
			break
		}
		out.of.Item, out.of.Value = append(out.of.Item, b.items...), append(out.of.Value, b.values...)
		out.start = append(out.start, len(out.of.Item))
	}
	return out
}

// unpackedRow is a user's row that was unpacked.
type unpackedRow struct {
	items  []int32
	values []float32
}

var lent = sync.Pool{New: func() any { return new(unpackedRow) }}

// Times returns when user u gave the ratings of [Rows.Row]; nil where that is not known.
func (r *Rows) Times(u int) []float64 {
	if r.of.Times == nil {
		return nil
	}
	from, to := r.start[u], r.start[u+1]
	return r.of.Times[from:to:to]
}

// Packed holds ratings in the packed form (dataset/packed.md), in two to three bytes a rating. Package pack makes it. It is read-only
// and safe for concurrent use.
type Packed interface {
	// Len returns the number of ratings.
	Len() int
	// Size returns how many bytes their records take, in memory or of a file that is mapped.
	Size() int
	// Row returns the items that a user rated, ascending, and the ratings, in the memory of what it is given as far as that is enough.
	Row(user int, items []int32, values []float32) ([]int32, []float32)
	// Divide calls choose for every user to write the part of each of the items, 0 to 2, and returns a view of each part's ratings.
	// The view of part 0 takes one bit of memory for each rating, and 8 bytes for each user. The others are packed anew, in memory.
	Divide(choose func(user int, items []int32, parts []byte)) [3]Packed
}

// Unpack returns the ratings in columns: themselves, where they are not packed.
func (r Ratings) Unpack() Ratings {
	if r.Packed == nil {
		return r
	}
	out := NewRatings(r.Users, r.Items, r.Len())
	k := 0
	r.Each(func(user, item int32, value float32) {
		out.User[k], out.Item[k], out.Value[k] = user, item, value
		k++
	})
	return out
}

// Each calls hear with every rating, in the order of the columns; of packed ones by user, then item.
func (r Ratings) Each(hear func(user, item int32, value float32)) {
	if r.Packed == nil {
		for k, v := range r.Value {
			hear(r.User[k], r.Item[k], v)
		}
		return
	}
	var items []int32
	var values []float32
	for u := range r.Users {
		items, values = r.Packed.Row(u, items, values)
		for k, j := range items {
			hear(int32(u), j, values[k])
		}
	}
}

// Unpacked returns the set with its ratings in columns.
func (s *Set) Unpacked() *Set {
	if s.Packed == nil {
		return s
	}
	out := *s
	out.Ratings = s.Unpack()
	return &out
}

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

// Bin counts the ratings from Low to High stars. They are equal where each distinct rating has a bin; else High belongs to the next bin, if
// there is one.
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
		Clicks:    s.Clicks, ItemColumns: append([]string(nil), lists.Map(s.Columns, func(c ItemColumn) string { return c.Name })...),
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
	return lists.Map(slices.Sorted(maps.Keys(counts)), func(v float32) Bin {
		return Bin{Low: float64(v), High: float64(v), Count: counts[v]}
	})
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
	return Spread{
		Min: sorted[0], Q1: quantile(0.25), Median: quantile(0.5), Q3: quantile(0.75), Max: sorted[len(sorted)-1],
		Mean: float64(sum(sorted)) / float64(len(sorted)),
	}
}

// topShare returns the share of all ratings on the most rated 1/part of the items.
func topShare(sorted []int, part int) float64 {
	top := (len(sorted) + part - 1) / part
	return float64(sum(sorted[len(sorted)-top:])) / float64(sum(sorted))
}

func sum(list []int) (all int) {
	for _, n := range list {
		all += n
	}
	return all
}
