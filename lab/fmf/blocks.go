package fmf

import (
	"cmp"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// mostStripes is the number of stripes of users, and of items. It does not depend on the machine, so
// neither do the results. The blocks of MovieLens 1M's shape fit into a core's cache.
const mostStripes = 32

// placed is one rating, beside its user and its item, so that a pass reads memory in order.
type placed struct {
	user, item int32
	value      float32
}

// blocks holds ratings in a grid of stripes of users and stripes of items. Two blocks that share no
// stripe share no embedding: their steps can be taken at the same time, and in any order, to the
// same bits (Gemulla et al. 2011).
type blocks struct {
	stripes int
	ratings []placed
	start   []int // of each block, stripe of users by stripe of items, and the end of the last
}

// mixer is the part of a random generator that puts things in a random order.
type mixer interface {
	Shuffle(n int, swap func(i, j int))
	Perm(n int) []int
}

// newBlocks deals users and items to stripes with about as many ratings each, and puts the ratings
// of each block in a random order.
func newBlocks(train dataset.Ratings, rng mixer) *blocks {
	b := &blocks{stripes: max(1, min(mostStripes, train.Users, train.Items))}
	users, items := dealt(train.User, train.Users, b.stripes), dealt(train.Item, train.Items, b.stripes)
	at := func(k int) int { return users[train.User[k]]*b.stripes + items[train.Item[k]] }
	b.start = make([]int, b.stripes*b.stripes+1)
	for k := range train.User {
		b.start[at(k)+1]++
	}
	for i := range b.stripes * b.stripes {
		b.start[i+1] += b.start[i]
	}
	b.ratings = make([]placed, train.Len())
	next := slices.Clone(b.start)
	for k, x := range train.Value {
		to := &next[at(k)]
		b.ratings[*to] = placed{train.User[k], train.Item[k], x}
		*to++
	}
	for i := range b.stripes * b.stripes {
		one := b.ratings[b.start[i]:b.start[i+1]]
		rng.Shuffle(len(one), func(x, y int) { one[x], one[y] = one[y], one[x] })
	}
	return b
}

// dealt returns the stripe of each of n rows. Rows are dealt there and back, those with the most
// ratings first.
func dealt(rows []int32, n, stripes int) []int {
	count, order, stripe := make([]int, n), kernel.Order(n), make([]int, n)
	for _, i := range rows {
		count[i]++
	}
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(count[y], count[x]) })
	for k, i := range order {
		s := k % stripes
		if k/stripes%2 == 1 {
			s = stripes - 1 - s
		}
		stripe[i] = s
	}
	return stripe
}

// pass takes a projected step for each rating. It goes from one diagonal of the grid to the next,
// in a random order, and takes the blocks of a diagonal at the same time.
func (b *blocks) pass(f *model.Factors, r, rate float64, rng mixer, run protocol.Runner) {
	u, v, rank := f.Users.Data(), f.Items.Data(), f.Users.Cols()
	for _, diagonal := range rng.Perm(b.stripes) {
		run.Each(b.stripes, func(i int) {
			at := i*b.stripes + (i+diagonal)%b.stripes
			inTurn(u, v, rank, b.ratings[b.start[at]:b.start[at+1]], r, rate)
		})
	}
}

// inTurn takes a projected step on u_i and v_j for each rating, in order.
func inTurn(u, v []float64, rank int, ratings []placed, r, rate float64) {
	for k := range ratings {
		x := &ratings[k]
		ui, vj := u[int(x.user)*rank:][:rank:rank], v[int(x.item)*rank:][:rank:rank]
		normU, normV := turn(ui, vj, float64(x.value), 2*rate)
		kernel.Shrink(ui, normU, r)
		kernel.Shrink(vj, normV, r)
	}
}
