package audit

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/lab/internal/binomial"
	"github.com/fedsim/fedsim/lab/tune"
)

// Report holds the result of an audit.
type Report struct {
	Algorithm string  `json:"algorithm"`
	Noise     string  `json:"noise"`
	Unit      dp.Unit `json:"unit"`
	Clients   int     `json:"clients"`
	Items     int     `json:"items"`
	Colluders int     `json:"colluders"`
	Dropout   float64 `json:"dropout"`
	// Releases counts the vectors, or noised steps, of a run.
	Releases int `json:"releases"`
	Runs     int `json:"runs"` // of each of the two worlds
	// MeanRuns is the mean number of runs of a private search; Runs counts searches then. 0 of runs.
	MeanRuns float64 `json:"mean_runs,omitempty"`
	Seed     uint64  `json:"seed"`
	// Offered counts vectors beyond the bounds of releases that the client was given. Accepted lists those it did not refuse.
	Offered  int      `json:"offered"`
	Accepted []string `json:"accepted,omitempty"`

	Claim   AuditedEpsilon `json:"claim"`
	Claimed float64        `json:"claimed_epsilon"`
	Delta   float64        `json:"delta"`

	// Attack is the statistic that gave the bound.
	Attack string `json:"attack"`
	// LowerBound is the lower bound on ε at 95%. Point is the estimate without a margin. Distance is the distance between the
	// mean log-likelihood ratios of the two worlds, in standard deviations. Distance is 0 for steps on samples, which
	// have no normal curve.
	Bound    float64 `json:"bound"`
	Point    float64 `json:"point"`
	Distance float64 `json:"distance"`
	// Pairs counts the pairs of steps or releases that gave the bound; 0 of another attack.
	Pairs int `json:"pairs,omitempty"`
	// Event is the lower bound at 95% by one event, which assumes nothing of the mechanism.
	Event float64 `json:"event_bound"`
	// FalsePositives and TruePositives count the held-out empty and full runs that the threshold calls full. The threshold was
	// chosen on the other runs.
	FalsePositives int `json:"false_positives"`
	TruePositives  int `json:"true_positives"`
	HeldOut        int `json:"held_out"` // of each world
}

// tail is the chance at which a bound at 95% may be wrong. Of two attacks the learnt one has a tenth of it: it is there for gross
// mistakes, which need no tight bound.
const (
	tail       = 0.05
	learntTail = tail / 10
)

// attackNormal bounds the ε of noise summed over all coordinates. It takes the better of two attacks that share
// the tail: the log-likelihood ratio, which is not learnt, on all runs, and a learnt sum on runs that it has not seen.
func (r *Report) attackNormal(views *[worlds][]view) {
	r.attack(views, []statistic{learnt}, curve(r.Delta), learntTail)
	d := separated(apply(likelihoodRatio.learn(views), views), tail-learntTail)
	r.Distance = d.estimate
	if bound := gaussian(d.lower, r.Delta); bound >= r.Bound {
		r.Attack, r.Bound, r.Point = likelihoodRatio.name, bound, gaussian(d.estimate, r.Delta)
	}
}

// measure takes the bound by the noise and the shift of steps, if it is better. It shares the tail with the attack by counts.
func (r *Report) measure(m *measured, events []dp.Event) {
	if bound, point := m.epsilon(events, r.Delta, tail-learntTail); bound >= r.Bound {
		r.Attack, r.Bound, r.Point, r.Pairs = byPairs, bound, point, m.count
	}
}

// byPairs names the measure of pairs.
const byPairs = "noise and the unit's part measured in pairs of steps"

// attack chooses one of the statistics and a threshold on the first half of the runs, and measures them on the second half.
func (r *Report) attack(views *[worlds][]view, list []statistic, p price, wrong float64) {
	n := len(views[0]) / 2
	var first, second [worlds][]view
	for w, all := range views {
		first[w], second[w] = all[:n], all[n:]
	}
	var unseen *half
	var at, oneEvent float64
	best := math.Inf(-1)
	for _, s := range list {
		of := s.learn(&first)
		chosen := apply(of, &first)
		threshold, bound := chosen.choose(curve(r.Delta)) // which is quick, and near any
		if bound <= best {
			continue
		}
		unseen = apply(of, &second)
		best, r.Attack, at = bound, s.name, threshold
		oneEvent, _ = chosen.choose(event(r.Delta))
	}
	b := unseen.measure(at, p, wrong)
	r.Bound, r.Point = b.Epsilon, b.Point
	r.FalsePositives, r.TruePositives, r.HeldOut = b.FalsePositives, b.TruePositives, b.Runs
	r.Event = unseen.measure(oneEvent, event(r.Delta), tail).Epsilon
}

// Holds reports whether the bound stays below the claim, and the client refused every vector beyond its bounds.
func (r *Report) Holds() bool { return r.Bound < r.Claimed && len(r.Accepted) == 0 }

// Err says by how much the audit disproves the claim. It returns nil if the claim holds.
func (r *Report) Err() error {
	if r.Holds() {
		return nil
	}
	if len(r.Accepted) > 0 {
		return fmt.Errorf("the %s epsilon of %s does not hold: %s", r.Claim, number(r.Claimed), strings.Join(r.Accepted, "; "))
	}
	return fmt.Errorf("the %s epsilon of %s does not hold: at least %.4g at delta %s, with 95%% confidence", r.Claim, number(r.Claimed), r.Bound, dp.RoundUp(r.Delta, 3))
}

// Refused counts the offered vectors that the client refused.
func (r *Report) Refused() int { return r.Offered - len(r.Accepted) }

// Print writes what was tried, the bound, what the client refused, and the claim.
func (r *Report) Print(w io.Writer) error { return printed(w, "worlds", r) }

//go:embed print.tmpl
var formText string

var forms = template.Must(template.New("audit").Funcs(template.FuncMap{
	"count":       units.Count,
	"g":           func(x float64) string { return fmt.Sprintf("%.4g", x) },
	"up":          dp.RoundUp,
	"pairs":       func() string { return byPairs },
	"likelihoods": func() string { return likelihoodRatio.name },
}).Parse(formText))

// printed writes a report by its part of print.tmpl.
func printed(w io.Writer, name string, report any) error {
	var b strings.Builder
	if err := forms.ExecuteTemplate(&b, name, report); err != nil {
		return err
	}
	return screen.Print(w, b.String())
}

// number writes a claim no smaller than it is.
func number(x float64) string { return dp.RoundUp(x, 4) }

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
		low, _ := binomial.Halve(math.Log(1./16), math.Log(4.), familySteps, func(log float64) bool {
			lost := b.scaled(math.Exp(log)).lost()
			return !possible(falsely, truly, func(epsilon, d float64) bool { return lost(epsilon) >= d })
		})
		if low == math.Log(1./16) {
			return 0
		}
		return b.scaled(math.Exp(low)).epsilon(delta)
	}
}

// statistic is a number by which an attacker tells runs apart: the larger it is, the likelier the unit is there.
type statistic struct {
	name string
	// learn makes the number's function from runs.
	learn func(*[worlds][]view) func(view) float64
}

// likelihoodRatio is the ratio of likelihoods by the stated law, which needs no learning.
var likelihoodRatio = statistic{"attack by the ratio of likelihoods", func(*[worlds][]view) func(view) float64 {
	return func(v view) float64 { return v.likelihood }
}}

// learnt is a weighted sum of everything seen. It finds noise that does not follow its law, and removals that betray what stays.
var learnt = statistic{"attack by a learnt sum of all that is seen", func(runs *[worlds][]view) func(view) float64 {
	weights := discriminant(runs)
	return func(v view) float64 { return dense.Dot(weights[:], v.feature[:]) }
}}

// apply computes a number for the runs of both worlds.
func apply(of func(view) float64, views *[worlds][]view) *half {
	var h half
	for w, all := range views {
		for _, v := range all {
			h[w] = append(h[w], of(v))
		}
	}
	return &h
}

// discriminant is Fisher's: the inverse of the covariance within worlds times the difference
// of their means. A feature that never varies gets no weight.
func discriminant(views *[worlds][]view) [features]float64 {
	var mean [worlds][features]float64
	for w, all := range views {
		for _, v := range all {
			for k, x := range v.feature {
				mean[w][k] += x / float64(len(all))
			}
		}
	}
	var covariance [features * features]float64
	for w, all := range views {
		for _, v := range all {
			for i := range features {
				for j := range features {
					covariance[i*features+j] += (v.feature[i] - mean[w][i]) * (v.feature[j] - mean[w][j]) / float64(worlds*len(all))
				}
			}
		}
	}
	var weights [features]float64
	for i := range features {
		variance := &covariance[i*features+i]
		if weights[i] = mean[1][i] - mean[0][i]; *variance == 0 {
			*variance, weights[i] = 1, 0
		}
		*variance *= 1 + 1e-9 // sums may depend on one another
	}
	dense.SolveUpper(covariance[:], weights[:], features)
	return weights
}

// steps watches all noised steps of a run, of parties that noise their own training. Everything
// that leaves a party follows from these steps.
func (a *auditor) steps(world int, sources func(party string) entropy.Source) (view, error) {
	var v view
	n := a.e.Schedule.Noise()
	watcher := a.e.Instance().(algorithm.StepWatcher)
	parties := 1
	if n.Spread {
		parties = a.e.Cohort.Clients
	}
	for k, kind := range watcher.LocalSteps() {
		for p := range parties {
			next, err := watcher.Watch(k, world == 1, sources(fmt.Sprintf("party/%d/%d", k, p)))
			if err != nil {
				return v, err
			}
			for range kind.Count {
				x, err := next()
				if err != nil {
					return v, err
				}
				v.likelihood += sampledRatio(x, n.Multiplier, n.SamplingRate)
				v.feature[inputs] += x
				v.pulls = append(v.pulls, pull{x, n.Multiplier, n.SamplingRate})
			}
		}
	}
	return v, nil
}

// sampledRatio is the logarithm of how much likelier x is with the unit there, which is 1 in a
// share q of the samples, than without, under normal noise of deviation z.
func sampledRatio(x, z, q float64) float64 {
	return math.Log1p(q * math.Expm1((2*x-1)/(2*z*z)))
}
