package read

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/csr"
	"github.com/fedsim/fedsim/dataset/internal/idtable"
	"github.com/fedsim/fedsim/internal/lists"
)

// partSize bounds the ratings that are put in order, and then hashed, at a time: few enough to stay in
// the cache in between.
const partSize = 1 << 14

// sort puts users, items, features and ratings into canonical order, of each pair one record.
// The name of the set remains to be filled in.
func (t *table) sort() (*dataset.Set, error) {
	t.users.Settle()
	t.items.Settle()
	userIDs, userRank := t.users.Canonical()
	itemIDs, itemRank := t.items.Canonical()
	if err := t.settleTimes(); err != nil {
		return nil, err
	}
	t.notifyAlike()
	t.notifyRows()
	t.notify(dataset.NoticeIDs, t.reread, "ratings have an id with spaces or a byte order mark around it, or with a decimal part of zeros, as 7.0 has; it is read without them")
	about := t.features.reorder(itemRank)
	set := &dataset.Set{
		Min: t.min, Max: t.max, Clicks: t.clicks, UserIDs: userIDs, ItemIDs: itemIDs,
		Titles: about.titles, Genres: about.genres, Years: about.years, Columns: about.columns,
		MaybeTimes: t.maybe && t.times != nil, Notices: t.notices, Findings: t.found,
	}
	t.ratings.Users, t.ratings.Items, t.ratings.Times = len(userIDs), len(itemIDs), t.times
	hashed := t.decode(set, t.users.Places(userRank), t.items.Places(itemRank))
	if hashed == nil {
		hashed = t.sortRows(set)
	}
	if hashed == nil {
		if err := t.mergeRows(set); err != nil {
			return nil, err
		}
		return set, nil
	}
	hashed.Tail(set)
	set.Digest = hashed.Sum()
	return set, nil
}

// decode replaces the codes of users and items by their indices. If the ratings are then in the order
// of a set, as in most published files, decode moves them to the set and returns their hash, else nil.
func (t *table) decode(set *dataset.Set, users, items idtable.Places) *dataset.Digester {
	r, n := t.ratings, t.ratings.Len()
	ascend := make([]bool, (n+partSize-1)/partSize)
	sorted := t.duplicates != DuplicatesCount
	d := dataset.NewDigester()
	d.Head(set, n)
	inOrder(len(ascend), func(part int) {
		from, to := partSize*part, min(partSize*(part+1), n)
		users.Decode(r.User[from:to])
		items.Decode(r.Item[from:to])
		ascend[part] = ascends(slice(r, from, to))
	}, func(part int) {
		from, to := partSize*part, min(partSize*(part+1), n)
		sorted = sorted && ascend[part] && ascends(slice(r, max(from-1, 0), min(from+1, n)))
		if sorted {
			d.Columns(slice(r, from, to))
		}
	})
	if !sorted {
		return nil
	}
	if cap(r.Value)-n > n/8 { // a set lives long
		r = slice(r, 0, n)
		r.User, r.Item, r.Value = slices.Clone(r.User), slices.Clone(r.Item), slices.Clone(r.Value)
	}
	set.Ratings = r
	if t.test > 0 {
		set.Tested = make([]bool, n)
		for k := t.test; k < n; k++ {
			set.Tested[k] = true
		}
	}
	return d
}

// sortRows sorts the ratings into the set and returns their hash. It returns nil if a pair occurs
// twice, or if the value of a pair counts its occurrences.
func (t *table) sortRows(set *dataset.Set) *dataset.Digester {
	if t.duplicates == DuplicatesCount {
		return nil
	}
	r, n := t.ratings, t.ratings.Len()
	start := csr.Starts(r.User, r.Users)
	positions, values := r.Times != nil || t.test > 0, r.Value
	if positions {
		values = nil
	}
	keys := csr.Pairs(r.User, r.Item, values, r.Items, start)
	out := dataset.NewRatings(r.Users, r.Items, n)
	if r.Times != nil {
		out.Times = make([]float64, n)
	}
	if t.test > 0 {
		set.Tested = make([]bool, n)
	}
	cuts := cutRows(start)
	var twice atomic.Bool
	d := dataset.NewDigester()
	d.Head(set, n)
	inOrder(len(cuts)-1, func(part int) {
		for u := cuts[part]; u < cuts[part+1]; u++ {
			last := int32(-1)
			for at := start[u]; at < start[u+1]; at++ {
				item, low := int32(keys[at]>>32), uint32(keys[at])
				if item == last {
					twice.Store(true)
				}
				last = item
				out.User[at], out.Item[at] = int32(u), item
				if !positions {
					out.Value[at] = math.Float32frombits(low)
					continue
				}
				out.Value[at] = r.Value[low]
				if out.Times != nil {
					out.Times[at] = r.Times[low]
				}
				if set.Tested != nil {
					set.Tested[at] = int(low) >= t.test
				}
			}
		}
	}, func(part int) {
		if !twice.Load() {
			d.Columns(slice(out, start[cuts[part]], start[cuts[part+1]]))
		}
	})
	if twice.Load() {
		set.Tested = nil
		return nil
	}
	set.Ratings = out
	return d
}

// mergeRows merges the records of each pair into one, or returns an error that names a repeated pair.
func (t *table) mergeRows(set *dataset.Set) error {
	r := t.ratings
	perm, err := t.unique(r, csr.Order(r.User, r.Item, r.Items, csr.Starts(r.User, r.Users)), set.UserIDs, set.ItemIDs)
	if err != nil {
		return err
	}
	if merged := t.ratings.Len() - len(perm); merged > 0 && t.skipped == nil && t.duplicates != DuplicatesCount {
		set.Notices = append(set.Notices, dataset.Notice{Kind: dataset.NoticeDuplicates, Count: merged, Text: fmt.Sprintf("%d ratings are of a user and item that the file has again; of each pair the %s counts", merged, t.duplicates)})
	}
	set.Ratings = t.ratings.Gather(perm)
	if t.test > 0 {
		set.Tested = make([]bool, len(perm))
		for k, p := range perm {
			set.Tested[k] = int(p) >= t.test
		}
	}
	set.Digest = set.ComputeDigest()
	return nil
}

// slice are some of the ratings, which share their memory.
func slice(r dataset.Ratings, from, to int) dataset.Ratings {
	r.User, r.Item, r.Value = r.User[from:to], r.Item[from:to], r.Value[from:to]
	if r.Times != nil {
		r.Times = r.Times[from:to]
	}
	return r
}

// cutRows cuts users into parts of partSize ratings or a little more: the first of each, and their number.
func cutRows(start []int) []int {
	cuts := []int{0}
	users := len(start) - 1
	for u := range users {
		if start[u+1]-start[cuts[len(cuts)-1]] >= partSize || u == users-1 {
			cuts = append(cuts, u+1)
		}
	}
	return cuts
}

// inOrder does the work on all parts, on all processors, and what comes then on one part after another, in order, as soon as
// the work on it is done.
func inOrder(parts int, work, then func(part int)) {
	workers := min(runtime.GOMAXPROCS(0)-1, parts)
	if workers < 1 || parts < 2 {
		for part := range parts {
			work(part)
			then(part)
		}
		return
	}
	done := make([]chan struct{}, parts)
	for part := range done {
		done[part] = make(chan struct{})
	}
	var next atomic.Int64
	for range workers {
		go func() {
			for part := int(next.Add(1)) - 1; part < parts; part = int(next.Add(1)) - 1 {
				work(part)
				close(done[part])
			}
		}()
	}
	for part := range parts {
		<-done[part]
		then(part)
	}
}

// ascends reports whether the ratings ascend by user, then item, and hold no pair twice.
func ascends(r dataset.Ratings) bool {
	last := int64(-1)
	for k, u := range r.User {
		pair := int64(u)<<32 | int64(r.Item[k])
		if pair <= last {
			return false
		}
		last = pair
	}
	return true
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
// only the last record in the file of each pair. The rule t.duplicates sets that record's value. With
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
		case t.duplicates == DuplicatesMean && len(same) > 1:
			r.Value[last] = mean(r.Value, same)
		case t.duplicates == DuplicatesCount:
			r.Value[last] = float32(min(float64(len(same)), t.max))
		}
		if t.times != nil && (t.duplicates == DuplicatesMean || t.duplicates == DuplicatesCount) {
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
	return t.merge(r, perm), nil // the times of a pair are as of its last record
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
