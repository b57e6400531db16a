package audit

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/lab/tune"
)

// search is a private search over runs of an experiment, as an attacker arranges it.
type search struct {
	cost *tune.Cost
	best bestOf
}

// newSearch returns the search with the worst score that this audit knows.
//
// A score may depend on the model in any way, since other users choose what they want of it, and a large sum over them hides the
// score's noise. The worst score that is known here ranks first the runs that speak most against the unit, below a threshold, and
// then the runs that speak most for it. If a run of the second kind wins, no run of the first kind was there, and that is likelier with the unit.
func (a *auditor) newSearch() (*search, error) {
	if a.counted {
		return nil, config.Errorf("the search of %s cannot be audited: its run draws samples; take an algorithm whose clients are users, without a sampling rate", a.e.About().Name)
	}
	cost, err := tune.CostOf(*a.cfg.Select, a.e)
	if err != nil {
		return nil, err
	}
	if math.IsInf(cost.Epsilon, 1) {
		return nil, config.Errorf("a search with a mean of %.4g runs has no finite epsilon; take a smaller epsilon of one run", cost.Law.Runs())
	}
	s := &search{cost: cost, best: bestOf{Selection: cost.Law, mu: dp.GaussianMu(cost.Each, cost.Delta), score: 1 / cost.Multiplier}}
	s.best = s.best.worst(cost.Delta)
	return s, nil
}

// bestRun makes a search in both worlds, and returns the view of its best run and of the score.
func (a *auditor) bestRun(number int) (best [worlds]view, err error) {
	bits := noise.NewBits(simulated.New(a.cfg.Seed, fmt.Sprintf("audit/%d/search", number)).Stream("selection", 0))
	var scores [worlds]float64
	for k := range a.search.cost.Runs(bits) {
		pair, err := a.run(fmt.Sprintf("%d/%d", number, k))
		if err != nil {
			return best, err
		}
		drawn, err := a.search.cost.Score(0, 1, bits)
		if err != nil {
			return best, err
		}
		for w := range pair {
			if k == 0 || a.search.best.ahead(pair[w].likelihood, best[w].likelihood) {
				best[w], scores[w] = pair[w], float64(w)+drawn // the unit adds 1, or nothing
			}
		}
	}
	z := a.search.cost.Multiplier
	for w := range best {
		best[w].likelihood = a.search.best.loss(best[w].likelihood) + (2*scores[w]-1)/(2*z*z)
	}
	return best, bits.Err()
}

// price prices success by the least scale at which the best of a random number of runs could be told apart so well. Runs and scores have
// one scale. The price is the exact ε at δ of the search at this scale.
func (b bestOf) price(delta float64) price {
	return func(falsely, truly float64) float64 {
		if !(truly > falsely) {
			return 0
		}
		possible := func(scale float64) bool {
			at := b.scaled(scale)
			for _, d := range familyDeltas {
				if ratio := math.Exp(at.epsilon(d)); truly > ratio*falsely+d || 1-falsely > ratio*(1-truly)+d {
					return false
				}
			}
			return true
		}
		low, high := math.Log(1./16), math.Log(4.)
		for range familySteps {
			if mid := (low + high) / 2; possible(math.Exp(mid)) {
				high = mid
			} else {
				low = mid
			}
		}
		if low == math.Log(1./16) {
			return 0
		}
		return b.scaled(math.Exp(low)).epsilon(delta)
	}
}
