package read

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// Rating is one rating of a set that is made in memory.
type Rating struct {
	User, Item string  // ids: any text in UTF-8 that a file of ratings may hold
	Value      float64 // stars
	Time       float64 // seconds since 1970, or a number as of [ParseTime]; where all are 0 there are none
}

// FromRatings makes a set of ratings in memory, in any order. The set is the same as one
// read from a file of them. Options must say the rating scale, which is public: it is
// never read off the ratings. Errors name a rating by its number, from 1, as a line.
func FromRatings(name string, list []Rating, o Options) (*dataset.Set, error) {
	t := &table{format: records.Format{User: "user", Item: "item"}, file: name, duplicates: o.Duplicates, maybe: o.MaybeTimes && !o.Times}
	var err error
	if o.Min == nil || o.Max == nil {
		return nil, fmt.Errorf("%s: %w: ratings in memory have none of their own; say rating-min and rating-max", name, dataset.ErrScale)
	}
	switch {
	case o.Test != "":
		return nil, fmt.Errorf("%s: ratings in memory have no test file", name)
	case o.Duplicates == DuplicatesCount:
		return nil, fmt.Errorf("%s: %w: count is for clicks, and these are ratings", name, ErrDuplicates)
	}
	if t.min, t.max, err = dataset.ScaleOr(o.Min, o.Max, *o.Min, *o.Max); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for k, r := range list {
		if err = t.take(r, k+1); err != nil {
			return nil, &dataset.FileError{File: name, Line: k + 1, Err: err}
		}
	}
	if (o.Times || o.MaybeTimes) && slices.ContainsFunc(list, func(r Rating) bool { return r.Time != 0 }) {
		for _, r := range list {
			t.times = append(t.times, r.Time)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w", name, dataset.ErrNoRatings)
	}
	set, err := t.sort()
	if err != nil {
		return nil, err
	}
	set.Name = name
	return set, nil
}

// take appends a rating.
func (t *table) take(r Rating, number int) error {
	if math.IsNaN(r.Value) || r.Value < t.min || r.Value > t.max {
		return records.OffScale("rating %v is outside the range %v to %v; correct it, or set the scale by rating-min and rating-max", r.Value, t.min, t.max)
	}
	return t.push([]byte(r.User), []byte(r.Item), r.Value, number)
}
