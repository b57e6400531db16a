package encoder

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/dense"
)

// A pass is cut up by these constants. The cuts depend on the problem alone, never on the number of
// workers. Sums across a cut are added up in a fixed order.
const (
	blockItems = 32   // that go through the dense layer at once; up to rank 64 too few for gonum to start goroutines
	maxShares  = 32   // of a batch; each has a gradient of the dense layer of its own
	spanCost   = 4096 // additions to coordinates that make a span of θ worth a worker's visit
)

// pass holds all buffers of a gradient step, so that a step allocates nothing.
type pass struct {
	all   []int32 // 0..items-1
	order []int32 // of the epoch
	place []int32 // for each item, its place in the batch; -1: not in it
	batch []int32
	out   []float64 // of Embed

	objective Objective
	scratch   []scratch // for each share of a batch
	back      []float64 // gradient of the batch's losses by the hidden layer, len(batch) x hidden
	turned    []float64 // the dense layer transposed, rank x hidden: its rows are added up on the way back
	grad      []float64 // by θ
	spans     []span

	embed, losses, update func(int) // methods bound once
}

// scratch belongs to one share of a batch.
type scratch struct {
	hidden []float64 // blockItems x hidden
	v, g   []float64 // blockItems x rank; dense only
	dense  []float64 // gradient by the dense layer, hidden x rank
	loss   float64
}

// span is a run of rows of θ: of a bag, or of the dense layer (bag -1).
type span struct{ bag, lo, hi int }

func (e *Encoder) preparePass() {
	p := &e.pass
	p.all, p.order, p.place = make([]int32, e.items), make([]int32, e.items), make([]int32, e.items)
	for j := range p.all {
		p.all[j], p.place[j] = int32(j), -1
	}
	p.back, p.grad = make([]float64, ((e.items-1)/e.batches()+1)*e.hidden), make([]float64, len(e.theta))
	p.batch = p.all
	p.scratch = make([]scratch, p.shares())
	for i := range p.scratch {
		s := &p.scratch[i]
		s.hidden = make([]float64, blockItems*e.hidden)
		if e.settings.Dense {
			s.v, s.g = make([]float64, blockItems*e.rank), make([]float64, blockItems*e.rank)
			s.dense = make([]float64, len(e.dense))
		}
	}
	p.turned = make([]float64, len(e.dense))
	for k := range e.bags {
		p.spans = e.bags[k].spans(p.spans, k, e.settings.Dim)
	}
	if e.settings.Dense {
		rows := max(1, spanCost/(e.rank*len(p.scratch)))
		for lo := 0; lo < e.hidden; lo += rows {
			p.spans = append(p.spans, span{-1, lo, min(lo+rows, e.hidden)})
		}
	}
	p.embed, p.losses, p.update = e.embedShare, e.lossShare, e.updateSpan
}

// spans appends the spans of the bag's embeddings. Spans have equal work, not equal length, because
// a common value is in many items.
func (b *bag) spans(spans []span, k, dim int) []span {
	lo, cost := 0, 0
	for f := range b.values() {
		cost += dim * (1 + int(b.byValue.start[f+1]-b.byValue.start[f]))
		if cost >= spanCost || f == b.values()-1 {
			spans = append(spans, span{k, lo, f + 1})
			lo, cost = f+1, 0
		}
	}
	return spans
}

// shares counts the shares that the batch is cut into.
func (p *pass) shares() int { return min(maxShares, (len(p.batch)+blockItems-1)/blockItems) }

// share returns the bounds of share i of the batch.
func (p *pass) share(i int) (lo, hi int) {
	n, m := len(p.batch), p.shares()
	return cut(n, i, m), cut(n, i+1, m)
}

// cut is where stretch i begins, of n things cut into parts whose lengths differ by at most one.
func cut(n, i, parts int) int { return i*(n/parts) + i*(n%parts)/parts }

// lossShare goes forward and back through a share of the batch. It computes the loss, the gradient
// by the dense layer, and the share's part of the gradient by the hidden layer.
func (e *Encoder) lossShare(i int) {
	p, s, d := &e.pass, &e.pass.scratch[i], e.rank
	s.loss = 0
	clear(s.dense)
	lo, hi := p.share(i)
	for at := lo; at < hi; at += blockItems {
		items := p.batch[at:min(at+blockItems, hi)]
		back := p.back[at*e.hidden : (at+len(items))*e.hidden]
		v, g := e.forward(s, items), back
		if e.settings.Dense {
			g = s.g[:len(items)*d]
		}
		for r, j := range items {
			s.loss += p.objective.Gradient(int(j), v[r*d:(r+1)*d], g[r*d:(r+1)*d])
		}
		if e.settings.Dense {
			e.backward(s, g, back, len(items))
		}
	}
}

// backward takes the gradient g by the embeddings of the block in the scratch back through the
// dense layer. It goes category by category, because gonum starts goroutines for wide matrices.
func (e *Encoder) backward(s *scratch, g, back []float64, items int) {
	dim, d := e.settings.Dim, e.rank
	outer := dense.General(g, items, d)
	for k := range e.bags {
		c := e.bags[k].column
		h := blas64.General{Rows: items, Cols: dim, Stride: e.hidden, Data: s.hidden[c:]}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, h, outer, 1, dense.General(s.dense[c*d:(c+dim)*d], dim, d))
		w := blas64.General{Rows: d, Cols: dim, Stride: e.hidden, Data: e.pass.turned[c:]}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, outer, w, 0,
			blas64.General{Rows: items, Cols: dim, Stride: e.hidden, Data: back[c:]})
	}
}

// turn transposes the dense layer for the way back.
func (e *Encoder) turn() {
	for r := range len(e.dense) / e.rank {
		for c, x := range e.dense[r*e.rank : (r+1)*e.rank] {
			e.pass.turned[c*e.hidden+r] = x
		}
	}
}

// updateSpan completes the gradient of a span of θ and takes its step. A value's gradient is
// gathered from the items of the batch that have it. No two workers write a row, and the order of
// additions is the order of items.
func (e *Encoder) updateSpan(i int) {
	p, b := &e.pass, e.pass.spans[i]
	width, first := e.settings.Dim, 0
	if b.bag < 0 {
		width, first = e.rank, len(e.theta)-len(e.dense)
	} else {
		first = e.bags[b.bag].first
	}
	lo, hi := first+b.lo*width, first+b.hi*width
	theta, grad := e.theta[lo:hi], p.grad[lo:hi]
	clear(grad)
	if b.bag < 0 {
		for k := range p.shares() {
			floats.Add(grad, p.scratch[k].dense[b.lo*width:b.hi*width])
		}
	} else {
		e.gather(grad, &e.bags[b.bag], b.lo, b.hi)
	}
	mean := 1 / float64(len(p.batch))
	for i, x := range theta {
		grad[i] = mean*grad[i] + e.settings.Ridge*x
	}
	e.opt.take(theta, grad, lo)
}

// gather adds to grad the batch's gradient by the embeddings lo to hi of a bag.
func (e *Encoder) gather(grad []float64, b *bag, lo, hi int) {
	p, dim := &e.pass, e.settings.Dim
	for f := lo; f < hi; f++ {
		g := grad[(f-lo)*dim : (f-lo+1)*dim]
		for q := b.byValue.start[f]; q < b.byValue.start[f+1]; q++ {
			if r := p.place[b.byValue.index[q]]; r >= 0 {
				floats.AddScaled(g, b.byValue.weight[q], p.back[int(r)*e.hidden+b.column:][:dim])
			}
		}
	}
}
