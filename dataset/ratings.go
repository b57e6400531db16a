package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Ratings holds explicit ratings in columns: rating k was given by user User[k]
// to item Item[k] and is Value[k] stars. Users and items are dense indices,
// 0..Users-1 and 0..Items-1; a part of a split keeps the indices and the two
// counts of the set it was cut from.
//
// Ratings from packages read and split are sorted by user, then item,
// and hold no pair twice. The columns are shared between copies: treat them as
// read-only.
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

// Validate reports every way in which hand-made Ratings are inconsistent:
// columns of different length, counts outside the int32 indices, an index
// outside 0..Users-1 or 0..Items-1, a value that is not finite. Of bad indices
// and values it names the first. Ratings from packages read and split are valid.
func (r Ratings) Validate() error {
	n := len(r.Value)
	if r.Packed != nil && n == 0 && len(r.User) == 0 && len(r.Item) == 0 {
		return nil // checked when it was opened
	}
	if len(r.User) != n || len(r.Item) != n {
		return fmt.Errorf("ratings: columns differ in length: %d users, %d items, %d values", len(r.User), len(r.Item), n)
	}
	isFinite := func(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
	value := error(nil)
	if k := slices.IndexFunc(r.Value, func(v float32) bool { return !isFinite(v) }); k >= 0 {
		value = fmt.Errorf("ratings: value of rating %d is %v, want a finite number", k, r.Value[k])
	}
	times := error(nil)
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
		out.Times = make([]float64, len(perm))
		for k, p := range perm {
			out.Times[k] = r.Times[p]
		}
	}
	return out
}

// NewRatings returns n ratings to be filled in.
func NewRatings(users, items, n int) Ratings {
	return Ratings{Users: users, Items: items, User: make([]int32, n), Item: make([]int32, n), Value: make([]float32, n)}
}
