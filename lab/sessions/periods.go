// Package sessions studies a federation over time: sessions in a row, each on the ratings that were there by then and
// tested on the ratings of the next period. It compares sessions that start from the releases before with sessions that
// start from nothing at the same total ε, and with one session.
package sessions

import (
	"cmp"
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
)

// Period is the data of a session.
type Period struct {
	// Train has the ratings before the session. Its items are all that appear before the next session.
	Train *dataset.Set
	// Measured also has the ratings until the next session. Tested marks the later half of each user's ratings in the
	// period. The earlier half is on the user's device when the later half is predicted; a user without an earlier rating is not tested.
	Measured *dataset.Set
	// New marks the items of both without a rating before the session.
	New []bool
}

// Cut divides a set with times into n sessions and what comes before the first. The n + 1 parts have about the same number of ratings.
func Cut(set *dataset.Set, n int) ([]Period, error) {
	set = set.Unpacked()
	switch {
	case set.Profile != nil || set.Raters != nil:
		return nil, config.Errorf("sessions: %s has public users or examples; sessions are of users with ratings on a scale", set.Name)
	case set.Times == nil || slices.ContainsFunc(set.Times, math.IsNaN):
		return nil, config.Errorf("sessions: %s does not say when each rating was given; use data with a column of timestamps, or synthetic:moving", set.Name)
	}
	times := slices.Sorted(slices.Values(set.Times))
	cuts := make([]float64, n+1)
	for s := range cuts {
		cuts[s] = math.Inf(1)
		if s < n {
			cuts[s] = times[len(times)*(s+1)/(n+1)]
		}
		if s > 0 && !(cuts[s] > cuts[s-1]) || cuts[s] == times[0] {
			return nil, config.Errorf("sessions: the ratings of %s are of too few moments for %d sessions; study fewer", set.Name, n)
		}
	}
	first := make([]float64, set.Items) // when an item was first rated
	for i := range first {
		first[i] = math.Inf(1)
	}
	for k, i := range set.Item {
		first[i] = min(first[i], set.Times[k])
	}
	periods := make([]Period, n)
	for s := range periods {
		from, to := cuts[s], cuts[s+1]
		items := func(i int) bool { return first[i] < to && !math.IsInf(first[i], 1) }
		p := &periods[s]
		p.Train = part(set, items, from)
		p.Measured = part(set, items, to)
		p.Measured.Tested = tested(p.Measured, from)
		for i := range set.Items {
			if items(i) {
				p.New = append(p.New, first[i] >= from)
			}
		}
		p.Measured.Digest = p.Measured.ComputeDigest()
		if !slices.Contains(p.Measured.Tested, true) {
			return nil, config.Errorf("sessions: nothing can be tested after session %d of %d; study fewer", s+1, n)
		}
	}
	return periods, nil
}

// part returns the ratings before a moment, with the users who gave any, and with some of the items.
func part(set *dataset.Set, items func(i int) bool, before float64) *dataset.Set {
	there := make([]bool, set.Users)
	for k, u := range set.User {
		there[u] = there[u] || set.Times[k] < before
	}
	out := *set
	out.Ratings, out.Tested, out.Notices, out.Findings = dataset.Ratings{}, nil, nil, nil
	var userAt, itemAt []int32
	out.UserIDs, userAt = picked(set.UserIDs, func(u int) bool { return there[u] })
	out.ItemIDs, itemAt = picked(set.ItemIDs, items)
	out.Titles, _ = picked(set.Titles, items)
	out.Genres, _ = picked(set.Genres, items)
	out.Years, _ = picked(set.Years, items)
	out.Columns = slices.Clone(set.Columns)
	for c := range out.Columns {
		out.Columns[c].Values, _ = picked(set.Columns[c].Values, items)
	}
	out.Users, out.Items = len(out.UserIDs), len(out.ItemIDs)
	for k, at := range set.Times {
		if at < before {
			out.User, out.Item = append(out.User, userAt[set.User[k]]), append(out.Item, itemAt[set.Item[k]])
			out.Value, out.Times = append(out.Value, set.Value[k]), append(out.Times, at)
		}
	}
	out.Digest = out.ComputeDigest()
	return &out
}

// picked returns some of a list, and the place of each element among them; nil stays nil.
func picked[T any](list []T, keep func(i int) bool) (out []T, place []int32) {
	for i, x := range list {
		place = append(place, int32(len(out)))
		if keep(i) {
			out = append(out, x)
		}
	}
	return out, place
}

// tested marks the later half of each user's ratings from a moment on.
func tested(set *dataset.Set, from float64) []bool {
	out := make([]bool, set.Len())
	for k := 0; k < set.Len(); {
		end := k
		var later []int
		for ; end < set.Len() && set.User[end] == set.User[k]; end++ {
			if set.Times[end] >= from {
				later = append(later, end)
			}
		}
		slices.SortStableFunc(later, func(a, b int) int { return cmp.Compare(set.Times[a], set.Times[b]) })
		known := len(later) / 2
		if known == 0 && end-k == len(later) {
			known = len(later)
		}
		for _, at := range later[known:] {
			out[at] = true
		}
		k = end
	}
	return out
}
