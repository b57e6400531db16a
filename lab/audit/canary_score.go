package audit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/internal/heard"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// scoreModel scores canaries by how much better the final model predicts their ratings than the
// start did. Users and user parties fit their own part of the model to the shared part. The attacker has the
// ratings and does the same. Item parties publish their final part.
func scoreModel(full, run *experiment.Experiment, f *experiment.Federation, shared []byte, list []canary) error {
	workers := full.Workers()
	fitted := func(shared func(*experiment.Federation) []byte) (model.Predictor, error) {
		g, err := full.Federation()
		if err != nil {
			return nil, err
		}
		t, err := full.Final(g, shared(g), workers)
		if err != nil {
			return nil, err
		}
		return t.Predictor, nil
	}
	before, err := fitted(func(g *experiment.Federation) []byte { return g.Strategy.Model() })
	if err != nil {
		return err
	}
	var after model.Predictor
	if full.About().Clients == algorithm.ItemParties {
		var t *model.Trained
		if t, err = run.Final(f, shared, workers); err == nil {
			after = t.Predictor
		}
	} else {
		after, err = fitted(func(*experiment.Federation) []byte { return shared })
	}
	if err != nil {
		return err
	}
	for i := range list {
		c := &list[i]
		r := full.Row(c.user)
		if c.item >= 0 {
			r = r.Only(c.item)
		}
		c.score = model.MSE(before, c.user, r) - model.MSE(after, c.user, r)
	}
	return nil
}

// summed is a strategy that notes the attacker's view of every sum that it absorbs. The view holds the rest of the
// sum after everything known is taken out, and half of each canary's possible contribution.
type summed struct {
	server.Strategy
	shadows []algorithm.Trainer // of all users, with all their ratings
	place   []int               // of each user among the canaries; -1: none
	seed    uint64
	workers protocol.Workers
	arrived heard.Inputs
	events  []summedEvent
}

// summedEvent is a sum as the attacker sees it.
type summedEvent struct {
	left   []float64
	weight float64           // one over the variance of the noise
	sent   []protocol.Vector // by canary, if it is in; empty if its client was lost
}

func newSummed(full *experiment.Experiment, s server.Strategy, list []canary) (*summed, error) {
	side, err := full.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	x := &summed{Strategy: s, shadows: side.Trainers(), place: make([]int, full.Data.Users), seed: algorithm.Seed.Of(full.Config),
		workers: full.Workers(), arrived: make(heard.Inputs)}
	for u := range x.place {
		x.place[u] = -1
	}
	for i, c := range list {
		x.place[c.user] = i
	}
	return x, nil
}

// Absorb notes the attacker's view of the sums before the wrapped strategy absorbs them.
func (s *summed) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	sent := make([][]protocol.Vector, len(s.shadows))
	errs := make([]error, len(sent))
	s.workers.Each(len(sent), func(u int) {
		src := simulated.New(s.seed, fmt.Sprintf("audit/shadow/%d", u))
		sent[u], errs[u] = s.shadows[u].Contribute(p, src, protocol.Workers(1))
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	canaries := 0
	for _, k := range s.place {
		canaries = max(canaries, k+1)
	}
	for i, r := range p.Releases {
		ev := summedEvent{left: slices.Clone(sums.Values[i]), weight: r.Scale * r.Scale / r.Noise.Variance, sent: make([]protocol.Vector, canaries)}
		for k := range ev.sent {
			ev.sent[k].Index = []uint32{}
		}
		for u, vectors := range sent {
			if !s.arrived.Of(p.Round, u) {
				continue
			}
			known := 1.
			if k := s.place[u]; k >= 0 {
				known, ev.sent[k] = 0.5, vectors[i]
			}
			vectors[i].Each(func(j int, x float64) { ev.left[j] -= known * x })
		}
		s.events = append(s.events, ev)
	}
	return s.Strategy.Absorb(p, sums, run)
}

// rounds of conjugate gradients: canaries are far fewer than coordinates, so that more change no rank.
const solverSteps = 40

// scores returns for each canary the mean of its coin, ±1/2 of variance 1/4, given all sums, for normal noise.
// A score above 0 says that the canary is likelier in than out. scores solves (XWXᵀ + 4)β = XWr by conjugate
// gradients. The rows of X are the canaries' vectors, W is one over the variances, and r is the rest of the sums.
func (s *summed) scores() []float64 {
	n := len(s.events[0].sent)
	beta, direction := make([]float64, n), s.gather(func(e summedEvent) []float64 { return e.left })
	rest := slices.Clone(direction)
	was := model.Dot(rest, rest)
	for range solverSteps {
		if was == 0 {
			break
		}
		image := s.gather(func(e summedEvent) []float64 {
			sum := make([]float64, len(e.left))
			for k, v := range e.sent {
				v.Each(func(j int, x float64) { sum[j] += direction[k] * x })
			}
			return sum
		})
		for k := range image {
			image[k] += 4 * direction[k]
		}
		step := was / model.Dot(direction, image)
		for k := range beta {
			beta[k] += step * direction[k]
			rest[k] -= step * image[k]
		}
		is := model.Dot(rest, rest)
		for k := range direction {
			direction[k] = rest[k] + is/was*direction[k]
		}
		was = is
	}
	return beta
}

// gather is the weighted inner product of what each canary sends with something of each sum.
func (s *summed) gather(of func(summedEvent) []float64) []float64 {
	out := make([]float64, len(s.events[0].sent))
	for _, e := range s.events {
		values := of(e)
		s.workers.Each(len(out), func(k int) {
			e.sent[k].Each(func(j int, x float64) { out[k] += e.weight * values[j] * x })
		})
	}
	return out
}
