package read

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
)

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
// only the last record in the file of each pair, and sets that record's value by the rule
// t.duplicates. Its time becomes the latest time of the pair, except with DuplicatesLast. If any
// record of a pair is in the test file, its last record is, because test records come last.
func (t *table) merge(r dataset.Ratings, perm []int32) []int32 {
	var out []int32
	for from := 0; from < len(perm); {
		to := from + 1
		for to < len(perm) && r.User[perm[to]] == r.User[perm[from]] && r.Item[perm[to]] == r.Item[perm[from]] {
			to++
		}
		last := perm[to-1]
		switch same := perm[from:to]; {
		case t.duplicates == DuplicatesMean && len(same) > 1:
			r.Value[last] = mean(r.Value, same)
		case t.duplicates == DuplicatesCount:
			r.Value[last] = float32(min(float64(len(same)), t.max))
		}
		if t.times != nil && t.duplicates != DuplicatesLast {
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
	values := make([]float64, len(which))
	for i, k := range which {
		values[i] = float64(value[k])
	}
	slices.Sort(values)
	var sum float64
	for _, v := range values {
		sum += v
	}
	return float32(sum / float64(len(values)))
}

// unique is perm, which sorts the ratings, with one record of each pair; or says which pair is there
// twice.
func (t *table) unique(r dataset.Ratings, perm []int32, userIDs, itemIDs []string) ([]int32, error) {
	if t.duplicates != "" && t.duplicates != DuplicatesError {
		return t.merge(r, perm), nil
	}
	twice := repeated(r, perm)
	if len(twice) == 0 {
		return perm, nil
	}
	again := func(k, other int32, format string) *dataset.FileError {
		where := fmt.Sprintf("line %d", t.lines.at(other))
		if t.fileOf(k) != t.fileOf(other) {
			where += " of " + t.fileOf(other)
		}
		return &dataset.FileError{File: t.fileOf(k), Line: t.lines.at(k), Err: fmt.Errorf(format,
			t.format.User, userIDs[r.User[k]], t.format.Item, itemIDs[r.Item[k]], where)}
	}
	if t.skipped == nil {
		p := slices.MinFunc(twice, func(a, b [2]int32) int { return cmp.Compare(a[1], b[1]) })
		return nil, again(p[1], p[0], "%s %q has rated %s %q on %s already; keep one of the two, or choose with --duplicates last")
	}
	for _, p := range twice {
		t.skipped(again(p[0], p[1], "%s %q rates %s %q again on %s, which counts"))
	}
	return lastOfEach(r, perm), nil
}

// repeated lists the neighbours in perm, which sorts the ratings, that are of one pair: where
// each of the two stands.
func repeated(r dataset.Ratings, perm []int32) (twice [][2]int32) {
	for k := 1; k < len(perm); k++ {
		if a, b := perm[k-1], perm[k]; r.User[a] == r.User[b] && r.Item[a] == r.Item[b] {
			twice = append(twice, [2]int32{a, b})
		}
	}
	return twice
}

// lastOfEach is perm, which sorts the ratings, with the last one of each pair only.
func lastOfEach(r dataset.Ratings, perm []int32) []int32 {
	var out []int32
	for k, a := range perm {
		if k+1 < len(perm) && r.User[a] == r.User[perm[k+1]] && r.Item[a] == r.Item[perm[k+1]] {
			continue
		}
		out = append(out, a)
	}
	return out
}
