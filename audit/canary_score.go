package audit

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// scoreModel scores canaries by how much better the final model predicts their ratings than the
// start did. Users and user parties fit to the shared model what they keep: the attacker, who has the
// ratings, does the same. What item parties end with is published.
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
			r = only(r, c.item)
		}
		c.score = mse(before, c.user, r) - mse(after, c.user, r)
	}
	return nil
}

// only is one of a user's ratings.
func only(r model.Ratings, item int32) model.Ratings {
	for k, j := range r.Items {
		if j == item {
			return model.Ratings{Items: r.Items[k : k+1], Values: r.Values[k : k+1]}
		}
	}
	return model.Ratings{}
}

// mse is the mean squared error of predictions.
func mse(p model.Predictor, user int, r model.Ratings) float64 {
	out := make([]float64, len(r.Items))
	p.Predict(user, r.Items, out)
	var sum float64
	for k, x := range out {
		d := x - float64(r.Values[k])
		sum += d * d
	}
	return sum / float64(len(out))
}

// summed is a strategy that scores canaries by every sum that it absorbs: by what the sum has in the
// direction of what the canary sends, over the noise, after everything is taken out that is known,
// and of each canary half of what it sends.
type summed struct {
	server.Strategy
	shadows []algorithm.Trainer // of all users, with all their ratings
	place   []int               // of each user among the canaries; -1: none
	seed    uint64
	workers protocol.Workers
	scores  []float64
}

func newSummed(full *experiment.Experiment, s server.Strategy, list []canary) (*summed, error) {
	side, err := full.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	x := &summed{Strategy: s, shadows: side.Trainers(), place: make([]int, full.Data.Users), seed: algorithm.Seed.Of(full.Config),
		workers: full.Workers(), scores: make([]float64, len(list))}
	for u := range x.place {
		x.place[u] = -1
	}
	for i, c := range list {
		x.place[c.user] = i
	}
	return x, nil
}

// Absorb implements server.Strategy.
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
	for i, r := range p.Releases {
		left := append([]float64(nil), sums.Values[i]...)
		for u, vectors := range sent {
			known := 1.
			if s.place[u] >= 0 {
				known = 0.5
			}
			each(vectors[i], func(j int, x float64) { left[j] -= known * x })
		}
		for u, vectors := range sent {
			if k := s.place[u]; k >= 0 {
				var inner float64
				each(vectors[i], func(j int, x float64) { inner += left[j] * x })
				s.scores[k] += inner * r.Scale * r.Scale / r.Noise.Variance
			}
		}
	}
	return s.Strategy.Absorb(p, sums, run)
}

// each goes through the coordinates that a vector lists.
func each(v protocol.Vector, f func(coordinate int, x float64)) {
	block := max(1, v.Block)
	if v.Index == nil {
		for j, x := range v.Value {
			f(j, x)
		}
		return
	}
	for i, at := range v.Index {
		for a := range block {
			x := 0.
			if v.Factor != nil {
				x = v.Factor[i] * v.Value[a]
			} else {
				x = v.Value[i*block+a]
			}
			f(int(at)*block+a, x)
		}
	}
}
