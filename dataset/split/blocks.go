package split

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fedsim/fedsim/dataset"
)

// perBlock counts the ratings that one goroutine takes at a time.
const perBlock = 1 << 16

// inBlocks calls f for every block of n ratings, which begins at from and ends before to, on all cores. f must write to places
// of its own only.
func inBlocks(n int, f func(block, from, to int)) {
	count := blocksOf(n)
	if count < 2 {
		f(0, 0, n)
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), count) {
		group.Go(func() {
			for block := int(next.Add(1)) - 1; block < count; block = int(next.Add(1)) - 1 {
				f(block, block*perBlock, min((block+1)*perBlock, n))
			}
		})
	}
	group.Wait()
}

func blocksOf(n int) int { return (n + perBlock - 1) / perBlock }

// countOf counts how many ratings are of one part.
func countOf(parts []byte, part byte) int { return bytes.Count(parts, []byte{part}) }

// partByChance writes the part of every rating as [Divide] draws it.
func partByChance(s *dataset.Set, p Params, parts []byte) {
	if p.Folds != 0 {
		draw := draws(s, p.Seed)
		inBlocks(len(parts), func(_, from, to int) {
			for k := from; k < to; k++ {
				parts[k] = p.part(draw(k))
			}
		})
		return
	}
	c := newCut(s, p)
	inBlocks(len(parts), func(_, from, to int) {
		items, drawn := s.Item[from:to], parts[from:to]
		for k, u := range s.User[from:to] {
			drawn[k] = c.of(int(u), items[k])
		}
	})
}

// pick returns the ratings of one part. count is the number of them.
func pick(r dataset.Ratings, parts []byte, part byte, count int) dataset.Ratings {
	out := dataset.NewRatings(r.Users, r.Items, count)
	if r.Times != nil {
		out.Times = make([]float64, count)
	}
	if count == 0 {
		return out
	}
	start := make([]int, blocksOf(len(parts))+1) // block b writes from start[b]
	for from := 0; from < len(parts); from += perBlock {
		b := from / perBlock
		start[b+1] = start[b] + countOf(parts[from:min(from+perBlock, len(parts))], part)
	}
	inBlocks(len(parts), func(block, from, to int) {
		n := start[block]
		for k := from; k < to; k++ {
			if parts[k] != part {
				continue
			}
			out.User[n], out.Item[n], out.Value[n] = r.User[k], r.Item[k], r.Value[k]
			if r.Times != nil {
				out.Times[n] = r.Times[k]
			}
			n++
		}
	})
	return out
}
