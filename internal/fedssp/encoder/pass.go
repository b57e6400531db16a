package encoder

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
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

// Objective is the loss that embeddings are fitted to: the mean over the items of a loss of each
// embedding.
type Objective interface {
	// Gradient writes to g, of length rank, the gradient at v of the loss of item j, and returns
	// the loss. For the statistics of SSP-c with a ridge λ of item j,
	//
	//	g = (A_j + λI)v - b_j, loss ½ vᵀ(A_j + λI)v - b_jᵀv,
	//
	// where A_j is positive semidefinite, or there is no minimum. Gradient must not keep or change
	// v. It is called concurrently for different items.
	//
	// The step averages over items. If losses are scaled such that the items' weights (c_j) are 1
	// on average, the same rate and ridge suit many items and few, dense ratings and sparse ones.
	Gradient(j int, v, g []float64) float64
}

// ErrDiverged is returned, wrapped, if the loss or θ is no longer finite.
var ErrDiverged = errors.New("encoder: the fit diverged")

// Slice is one of Of equal parts of a round's steps; Index counts them from 0. Each secure sum
// gets a part if a round draws noise several times (SSP-i and the forms between it and SSP-c).
// Rates and epochs continue from part to part.
type Slice struct{ Index, Of int }

// Fit takes a part of the gradient steps of a round (Algorithm 5 of the paper, lines 6 to 9), from where the
// last part ended. Together the parts take Settings.Steps. The round number determines the mini-batches. After
// [ErrDiverged] θ is back at the public start.
func (e *Encoder) Fit(o Objective, round uint64, part Slice, run protocol.Runner) error {
	steps := e.settings.Steps
	if part.Of < 1 || part.Of > steps || part.Index < 0 || part.Index >= part.Of {
		return fmt.Errorf("encoder: part %d of %d of %d steps; parts are counted from 0, of as many as there are steps at most",
			part.Index, part.Of, steps)
	}
	p := &e.pass
	p.objective = o
	defer func() { p.objective, p.batch = nil, nil }()
	first := cut(steps, part.Index, part.Of)
	for t := first; t < cut(steps, part.Index+1, part.Of); t++ {
		e.deal(round, t, t == first)
		if loss := e.step(t, run); math.IsNaN(loss) || math.IsInf(loss, 0) {
			return e.diverged(round, fmt.Sprintf("step %d of %d begins at a loss of %v", t+1, steps, loss))
		}
	}
	// No loss has seen the result of the last step yet.
	for _, xs := range [][]float64{e.theta, e.opt.mean, e.opt.sq} {
		if i := dense.NotFinite(xs); i >= 0 {
			return e.diverged(round, fmt.Sprintf("the parameters hold %v after it", xs[i]))
		}
	}
	return nil
}

// diverged puts θ back to the public start.
func (e *Encoder) diverged(round uint64, what string) error {
	e.start()
	return fmt.Errorf("%w in round %d: %s; lower the rate, which is %v, or the start norm, which is %v, and see that losses have a minimum",
		ErrDiverged, round, what, e.settings.Rate, e.settings.StartNorm)
}

// batches counts the batches of an epoch.
func (e *Encoder) batches() int {
	if e.settings.Batch == 0 {
		return 1
	}
	return (e.items-1)/e.settings.Batch + 1
}

// deal selects the batch of a step. In each epoch every item is in one batch, public and at random.
// anew says that the order of the epoch has yet to be drawn.
func (e *Encoder) deal(round uint64, step int, anew bool) {
	p, n := &e.pass, e.batches()
	if n == 1 {
		p.batch = p.all
		return
	}
	epoch, k := step/n, step%n
	if k == 0 || anew {
		copy(p.order, p.all)
		rng := entropy.Public(e.seed, fmt.Sprintf("fedssp/encoder/batches/%d/%d", round, epoch))
		rng.Shuffle(len(p.order), func(a, b int) { p.order[a], p.order[b] = p.order[b], p.order[a] })
	}
	p.batch = p.order[cut(e.items, k, n):cut(e.items, k+1, n)]
}

// step takes one gradient step on the batch and returns the mean loss before it, without the ridge.
func (e *Encoder) step(t int, run protocol.Runner) float64 {
	p := &e.pass
	for r := range len(e.dense) / e.rank { // transposed for the way back
		for c, x := range e.dense[r*e.rank : (r+1)*e.rank] {
			p.turned[c*e.hidden+r] = x
		}
	}
	run.Each(p.shares(), p.losses)
	loss := 0.0
	for k := range p.shares() {
		loss += p.scratch[k].loss
	}
	for r, j := range p.batch {
		p.place[j] = int32(r)
	}
	e.opt.begin(e.settings.rate(t))
	run.Each(len(p.spans), p.update)
	for _, j := range p.batch {
		p.place[j] = -1
	}
	return loss / float64(len(p.batch))
}

// In DP-SGD the gradient by θ does not come from statistics of items. Clients compute it with
// [Encoder.Gradient], and the server takes the steps with [Encoder.Descend].

// Theta returns the parameters: embeddings category by category and value by value, then the dense
// layer, hidden x rank, row by row. Not a copy.
func (e *Encoder) Theta() []float64 { return e.theta }

// Gradient adds to grad the gradient, at the given θ, of the sum of losses of single items'
// embeddings: lines 6 to 8 of Algorithm 6 of the paper. Loss k belongs to item items[k]. slope
// writes its gradient by the item's embedding v to g, both of length rank. Gradient reads only the
// fixed layout that New made, and changes nothing, so clients may share an encoder and call it
// concurrently.
func (e *Encoder) Gradient(theta []float64, items []int32, slope func(k int, v, g []float64), grad []float64) {
	dim, d := e.settings.Dim, e.rank
	h, v, g := make([]float64, e.hidden), make([]float64, d), make([]float64, d)
	back := g
	at := len(theta) - len(e.dense)
	layer, byLayer := theta[at:], grad[at:]
	if e.settings.Dense {
		back = make([]float64, e.hidden)
	} else {
		v = h
	}
	for k, j := range items {
		clear(h)
		for i := range e.bags {
			b := &e.bags[i]
			for p := b.byItem.start[j]; p < b.byItem.start[j+1]; p++ {
				floats.AddScaled(h[b.column:b.column+dim], b.byItem.weight[p], theta[b.first+int(b.byItem.index[p])*dim:][:dim])
			}
		}
		if e.settings.Dense {
			blas64.Gemv(blas.Trans, 1, dense.General(layer, e.hidden, d), dense.Vector(h), 0, dense.Vector(v))
		}
		slope(k, v, g)
		if e.settings.Dense {
			blas64.Ger(1, dense.Vector(h), dense.Vector(g), dense.General(byLayer, e.hidden, d))
			blas64.Gemv(blas.NoTrans, 1, dense.General(layer, e.hidden, d), dense.Vector(g), 0, dense.Vector(back))
		}
		for i := range e.bags {
			b := &e.bags[i]
			for p := b.byItem.start[j]; p < b.byItem.start[j+1]; p++ {
				floats.AddScaled(grad[b.first+int(b.byItem.index[p])*dim:][:dim], b.byItem.weight[p], back[b.column:b.column+dim])
			}
		}
	}
}

// Descend takes a step, counted from 0 to Settings.Steps - 1, against a gradient by θ. It adds the
// ridge to grad. If θ is no longer finite, θ returns to the public start, and the error is an
// [ErrDiverged].
func (e *Encoder) Descend(grad []float64, step int) error {
	floats.AddScaled(grad, e.settings.Ridge, e.theta)
	e.opt.begin(e.settings.rate(step))
	e.opt.take(e.theta, grad, 0)
	if i := dense.NotFinite(e.theta); i >= 0 {
		return e.diverged(uint64(step+1), fmt.Sprintf("the parameters hold %v after it", e.theta[i]))
	}
	return nil
}

// These are the constants of Adam (Kingma & Ba, section 2).
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// optimiser takes the steps of θ, a stretch of it at a time, so that workers can take stretches in
// parallel.
type optimiser struct {
	kind  Optimiser
	steps uint64    // taken so far; Adam only
	mean  []float64 // running mean of the gradient; Adam only
	sq    []float64 // running mean of its square; Adam only

	rate, meanScale, sqScale float64 // of the step that is being taken
}

// begin opens a step at a learning rate.
func (o *optimiser) begin(rate float64) {
	o.rate = rate
	if o.kind == Adam {
		o.steps++
		o.meanScale = 1 / (1 - math.Pow(beta1, float64(o.steps)))
		o.sqScale = 1 / (1 - math.Pow(beta2, float64(o.steps)))
	}
}

// take moves the stretch of theta that begins at first against its gradient.
func (o *optimiser) take(theta, grad []float64, first int) {
	if o.kind == SGD {
		for i, g := range grad {
			theta[i] -= o.rate * g
		}
		return
	}
	mean, sq := o.mean[first:first+len(grad)], o.sq[first:first+len(grad)]
	for i, g := range grad {
		mean[i] = beta1*mean[i] + (1-beta1)*g
		sq[i] = beta2*sq[i] + (1-beta2)*g*g
		theta[i] -= o.rate * (mean[i] * o.meanScale) / (math.Sqrt(sq[i]*o.sqScale) + epsilon)
	}
}
