package dataset

import (
	"sync"

	"github.com/fedsim/fedsim/dataset/internal/csr"
)

// Rows is a compressed-rows (CSR) view of ratings: one row for each user. It is
// read-only and safe for concurrent use.
type Rows struct {
	start []int // row u is item[start[u]:start[u+1]]
	item  []int32
	value []float32
	times []float64 // nil: there are none

	packed Packed // in place of all three, with so many users
	users  int
}

// ByUser returns the ratings grouped by user. Columns that are sorted already,
// as all of this package are, become the rows without a copy; others are
// sorted. The ratings must be valid (see [Ratings.Validate]).
//
// The view by item is the same function on exchanged columns:
//
//	Ratings{Users: r.Items, Items: r.Users, User: r.Item, Item: r.User, Value: r.Value}.ByUser()
func (r Ratings) ByUser() *Rows {
	if r.Packed != nil {
		return &Rows{packed: r.Packed, users: r.Users}
	}
	start := csr.Starts(r.User, r.Users)
	if r.sorted() {
		return &Rows{start: start, item: r.Item, value: r.Value, times: r.Times}
	}
	sorted := r.Gather(csr.Order(r.User, r.Item, r.Items, start))
	return &Rows{start: start, item: sorted.Item, value: sorted.Value, times: sorted.Times}
}

// Len returns the number of rows, which is the number of users.
func (r *Rows) Len() int {
	if r.packed != nil {
		return r.users
	}
	return len(r.start) - 1
}

// Packed reports whether rows are unpacked as they are asked for, so that to keep one takes memory of its own.
func (r *Rows) Packed() bool { return r.packed != nil }

// Row returns the items that user u rated, ascending, and the ratings of each
// in stars. The slices have one length, are empty for a user without ratings,
// and share the memory of the view, unless it is packed: do not write to them.
func (r *Rows) Row(u int) (items []int32, values []float32) {
	if r.packed != nil {
		return r.packed.Row(u, nil, nil)
	}
	from, to := r.start[u], r.start[u+1]
	return r.item[from:to:to], r.value[from:to:to]
}

// Into is Row, of a packed view in the memory of what it is given, as far as that is enough: what is returned holds until that
// memory is used again. Of another view it is Row, and what it is given stays as it is.
func (r *Rows) Into(u int, items []int32, values []float32) ([]int32, []float32) {
	if r.packed != nil {
		return r.packed.Row(u, items, values)
	}
	return r.Row(u)
}

// Lend calls hear with what Row returns, which holds until hear returns: packed ratings are unpacked into memory that is used
// again. It is safe for concurrent use, and within hear.
func (r *Rows) Lend(u int, hear func(items []int32, values []float32)) {
	if r.packed == nil {
		hear(r.Row(u))
		return
	}
	b := lent.Get().(*unpackedRow)
	defer lent.Put(b)
	b.items, b.values = r.packed.Row(u, b.items, b.values)
	hear(b.items, b.values)
}

// unpackedRow is a user's row that was unpacked.
type unpackedRow struct {
	items  []int32
	values []float32
}

var lent = sync.Pool{New: func() any { return new(unpackedRow) }}

// Times returns when user u gave the ratings of [Rows.Row]; nil where that is not known.
func (r *Rows) Times(u int) []float64 {
	if r.times == nil {
		return nil
	}
	from, to := r.start[u], r.start[u+1]
	return r.times[from:to:to]
}
