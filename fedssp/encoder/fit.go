package encoder

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

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
// Decay and epochs continue from part to part.
type Slice struct{ Index, Of int }

// Fit takes the gradient steps of a round (Algorithm 5 of the paper, lines 6 to 9). It takes
// Settings.Steps of them, from the present parameters.
// The round number determines the mini-batches. After [ErrDiverged] θ is back at the public
// start.
func (e *Encoder) Fit(o Objective, round uint64, run protocol.Runner) error {
	return e.FitPart(o, round, Slice{0, 1}, run)
}

// FitPart takes a part of the steps of a round, from where the last one ended. See [Encoder.Fit].
func (e *Encoder) FitPart(o Objective, round uint64, part Slice, run protocol.Runner) error {
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
		for _, x := range xs {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return e.diverged(round, fmt.Sprintf("the parameters hold %v after it", x))
			}
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
	e.turn()
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
