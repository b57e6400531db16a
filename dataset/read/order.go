package read

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/csr"
	"github.com/fedsim/fedsim/internal/dataset/records"
	"github.com/fedsim/fedsim/internal/lists"
)

// sort puts users, items, features and ratings into canonical order, of each pair one record.
func (t *table) sort(name string) (*dataset.Set, error) {
	userIDs, userRank := t.users.Canonical()
	itemIDs, itemRank := t.items.Canonical()
	if err := t.settleTimes(); err != nil {
		return nil, err
	}
	t.notifyAlike()
	t.notifyRows()
	t.notify(dataset.NoticeIDs, t.reread, "ratings have an id with spaces or a byte order mark around it, or with a decimal part of zeros, as 7.0 has; it is read without them")
	set := &dataset.Set{
		Name: name, Min: t.min, Max: t.max, Clicks: t.clicks, UserIDs: userIDs, ItemIDs: itemIDs,
		MaybeTimes: t.MaybeTimes && t.times != nil, Notices: t.notices, Findings: t.found,
	}
	t.features.describe(set, itemRank)
	t.ratings.Users, t.ratings.Items, t.ratings.Times = len(userIDs), len(itemIDs), t.times
	for k, u := range t.ratings.User {
		t.ratings.User[k], t.ratings.Item[k] = userRank[u], itemRank[t.ratings.Item[k]]
	}
	if err := t.sortRows(set); err != nil {
		return nil, err
	}
	set.Digest = set.ComputeDigest()
	return set, nil
}

// sortRows sorts the ratings into the set. It merges the records of each pair into one, or returns an error that names a repeated pair.
func (t *table) sortRows(set *dataset.Set) error {
	r := t.ratings
	perm := csr.Order(r.User, r.Item, r.Items, csr.Starts(r.User, r.Users))
	repeated, err := t.checkPairs(perm, set.UserIDs, set.ItemIDs)
	if err != nil {
		return err
	}
	if repeated {
		perm = t.merge(r, perm)
	}
	if merged := t.ratings.Len() - len(perm); merged > 0 && t.Skipped == nil && t.Duplicates != DuplicatesCount {
		set.Notices = append(set.Notices, dataset.Notice{Kind: dataset.NoticeDuplicates, Count: merged, Text: fmt.Sprintf("%d ratings are of a user and item that the file has again; of each pair the %s counts", merged, t.Duplicates)})
	}
	set.Ratings = t.ratings.Gather(perm)
	if t.test > 0 {
		set.Tested = lists.Map(perm, func(p int32) bool { return int(p) >= t.test })
	}
	return nil
}

// Duplicates says what becomes of several records of one user and one item.
type Duplicates string

// Rules for duplicates. The zero value is DuplicatesError.
const (
	// DuplicatesError refuses the file.
	DuplicatesError Duplicates = "error"
	// DuplicatesLast keeps the last in the file.
	DuplicatesLast Duplicates = "last"
	// DuplicatesMean makes one rating of the mean of all.
	DuplicatesMean Duplicates = "mean"
	// DuplicatesCount is for clicks: their number, up to the top of the scale, is the value of
	// each pair.
	DuplicatesCount Duplicates = "count"
)

// merge makes one record of all records of a pair. perm sorts the ratings. merge returns perm with
// only the last record in the file of each pair. The rule t.Duplicates sets that record's value. With
// DuplicatesMean and DuplicatesCount the rule also gives it the latest time of the pair. If a record
// of a pair is in the test file, so is the pair's last record: test records come last.
func (t *table) merge(r dataset.Ratings, perm []int32) []int32 {
	var out []int32
	for from := 0; from < len(perm); {
		to := from + 1
		for to < len(perm) && r.User[perm[to]] == r.User[perm[from]] && r.Item[perm[to]] == r.Item[perm[from]] {
			to++
		}
		last := perm[to-1]
		switch same := perm[from:to]; {
		case t.Duplicates == DuplicatesMean && len(same) > 1:
			r.Value[last] = mean(r.Value, same)
		case t.Duplicates == DuplicatesCount:
			r.Value[last] = float32(min(float64(len(same)), t.max))
		}
		if t.times != nil && (t.Duplicates == DuplicatesMean || t.Duplicates == DuplicatesCount) {
			for _, k := range perm[from:to] {
				if at := t.times[k]; !(at <= t.times[last]) && !math.IsNaN(at) { // a missing time is no latest one
					t.times[last] = at
				}
			}
		}
		out = append(out, last)
		from = to
	}
	return out
}

// mean does not depend on the order of the values.
func mean(value []float32, which []int32) float32 {
	values := lists.Map(which, func(k int32) float64 { return float64(value[k]) })
	slices.Sort(values)
	var sum float64
	for _, v := range values {
		sum += v
	}
	return float32(sum / float64(len(values)))
}

// checkPairs reports whether pairs may be there twice. It is an error that says which if they must not. perm sorts the ratings.
func (t *table) checkPairs(perm []int32, userIDs, itemIDs []string) (repeated bool, err error) {
	if t.Duplicates != "" && t.Duplicates != DuplicatesError {
		return true, nil
	}
	r := t.ratings
	again := func(k, other int32, format string) *dataset.FileError {
		where := fmt.Sprintf("line %d", t.lines.at(other))
		if t.fileOf(k) != t.fileOf(other) {
			where += " of " + t.fileOf(other)
		}
		return &dataset.FileError{File: t.fileOf(k), Line: t.lines.at(k), Err: fmt.Errorf(format,
			t.format.Columns[records.User], userIDs[r.User[k]], t.format.Columns[records.Item], itemIDs[r.Item[k]], where)}
	}
	first := -1 // where the first repeated record of the file stands in perm
	for k := 1; k < len(perm); k++ {
		a, b := perm[k-1], perm[k]
		if r.User[a] != r.User[b] || r.Item[a] != r.Item[b] {
			continue
		}
		if t.Skipped != nil {
			repeated = true
			t.Skipped(again(a, b, "%s %q rates %s %q again on %s, which counts"))
		} else if first < 0 || b < perm[first] {
			first = k
		}
	}
	if first < 0 {
		return repeated, nil
	}
	return true, again(perm[first], perm[first-1], "%s %q has rated %s %q on %s already; keep one of the two, or choose with --duplicates last")
}
