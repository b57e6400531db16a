package synthetic

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
	"github.com/fedsim/fedsim/dataset/pack"
)

// pack writes the set of a shape as it is generated.
func (s shape) pack(ctx context.Context, o Options, w io.Writer) (pack.Report, error) {
	p := s.population()
	set := &dataset.Set{Name: prefix + ":" + s.name, UserIDs: idtext.Numbered(s.users), ItemIDs: idtext.Numbered(s.items)}
	set.Min, set.Max = o.scale(s)
	if !s.bare {
		set.Titles, set.Genres, set.Years = p.catalog.titles, p.catalog.genres, p.catalog.years
	}
	set.Ratings = dataset.Ratings{Users: s.users, Items: s.items}
	out := pack.NewWriter(w, s.steps())
	d := dataset.NewDigester()
	d.Head(set, s.ratings)
	err := p.inOrder(ctx, o.Progress, func(from, to int, part dataset.Ratings) error {
		for u := from; u < to; u++ {
			row := rowsOf(part, p.start[u]-p.start[from], p.start[u+1]-p.start[from])
			if err := out.Record(row.Item, row.Value); err != nil {
				return err
			}
		}
		d.Columns(part)
		return nil
	})
	if err != nil {
		return pack.Report{}, err
	}
	d.Tail(set)
	set.Digest = d.Sum()
	return out.Close(set)
}

// rowsOf are the ratings from one place to before another.
func rowsOf(r dataset.Ratings, from, to int) dataset.Ratings {
	return dataset.Ratings{Users: r.Users, Items: r.Items, User: r.User[from:to], Item: r.Item[from:to], Value: r.Value[from:to]}
}

// steps are all ratings that a shape may give.
func (s shape) steps() []float32 {
	var list []float32
	for _, v := range s.levels {
		list = append(list, float32(v))
	}
	for v := 1; v <= int(s.plays.most); v++ {
		list = append(list, float32(v))
	}
	return list
}

// inOrder generates users block by block on all cores, and hands the blocks over in their order.
func (p *population) inOrder(ctx context.Context, progress func(done, total int64), take func(from, to int, part dataset.Ratings) error) error {
	type block struct {
		from, to int
		dataset.Ratings
	}
	blocks := make([]block, 8*runtime.GOMAXPROCS(0))
	for from := 0; from < p.users; {
		var group sync.WaitGroup
		n := 0
		for ; n < len(blocks) && from < p.users; n++ {
			b := &blocks[n]
			b.from, b.to = from, min(from+usersPerBlock, p.users)
			from = b.to
			group.Go(func() {
				b.Ratings = p.newRatings(p.start[b.to] - p.start[b.from])
				w := p.newWorker(b.Ratings, p.start[b.from])
				for u := b.from; u < b.to; u++ {
					w.rate(u)
				}
			})
		}
		group.Wait()
		for _, b := range blocks[:n] {
			if err := take(b.from, b.to, b.Ratings); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(p.start[from]), int64(p.ratings))
		}
	}
	return nil
}

// packedShape generates a shape in the packed form, in memory.
func (s shape) packedShape(ctx context.Context, o Options) (*dataset.Set, error) {
	var file bytes.Buffer
	file.Grow(3 * s.ratings) // it grows by at most half at a time beyond that
	if _, err := s.pack(ctx, o, &file); err != nil {
		return nil, err
	}
	return pack.FromBytes(ctx, file.Bytes(), pack.Options{Min: o.Min, Max: o.Max, Packed: true})
}

// Pack writes the set of a shape in the packed form as it is generated, and never holds it in memory
// as a whole. [IsShape] must know the spec.
func Pack(ctx context.Context, spec string, o Options, w io.Writer) (pack.Report, error) {
	s, err := o.shape(spec, nameOf(spec))
	if err != nil {
		return pack.Report{}, err
	}
	return s.pack(ctx, o, w)
}
