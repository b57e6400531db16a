package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/lab/internal/binomial"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// CanaryReport holds how well one run of full size shows which units were in it. A coin decided for each unit:
// Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023).
type CanaryReport struct {
	Algorithm string  `json:"algorithm"`
	Data      string  `json:"data"`
	Unit      dp.Unit `json:"unit"`
	Canaries  int     `json:"canaries"`
	Included  int     `json:"included"`
	Seed      uint64  `json:"seed"`
	Claimed   float64 `json:"claimed_epsilon"`
	Delta     float64 `json:"delta"`
	// Attacks lists the attack that guesses from the model alone. If clients' vectors are summed, the attack that
	// guesses from all the sums follows.
	Attacks []CanaryAttack `json:"attacks"`
}

// CanaryAttack counts the guesses of an attacker, and bounds ε by them.
type CanaryAttack struct {
	From    string  `json:"from"`
	Guesses int     `json:"guesses"` // the others are not guessed
	Correct int     `json:"correct"`
	Bound   float64 `json:"bound"` // lower bound on ε at 95%
}

// canary is a unit whose coin decided whether the run had it.
type canary struct {
	user     int
	item     int32 // of a rating; -1: all of the user's
	included bool
	score    float64 // of an attack: the larger, the likelier it is included
}

// fewestCanaries is so many that a bound above 0 is possible at all shares that are guessed.
const fewestCanaries = 100

// Canaries audits an experiment by one run that leaves out each of n units with probability
// one half. The attackers know all ratings, and everything except the coins and the noise.
func Canaries(ctx context.Context, full *experiment.Experiment, n int) (*CanaryReport, error) {
	if n < fewestCanaries {
		return nil, config.Errorf("canaries is %d; there must be at least %d", n, fewestCanaries)
	}
	claim, err := claimed(full, Config{Claim: Stated})
	if err != nil {
		return nil, err
	}
	list, err := toss(full, n)
	if err != nil {
		return nil, err
	}
	run, err := experiment.OpenSet(full.Asked, leftOut(full, list))
	if err != nil {
		return nil, err
	}
	r := &CanaryReport{Algorithm: full.About().Name, Data: full.Data.Name, Unit: algorithm.UnitOf(full.Config), Canaries: n,
		Seed: algorithm.Seed.Of(full.Config), Claimed: claim, Delta: full.Privacy.Budget.Delta}
	for _, c := range list {
		if c.included {
			r.Included++
		}
	}
	f, err := run.Federation()
	if err != nil {
		return nil, err
	}
	cfg := training.Simulation(run, f, nil)
	var sums *summed
	if full.About().Noise == algorithm.DistributedNoise {
		if sums, err = newSummed(full, list); err != nil {
			return nil, err
		}
		cfg.Strategy, cfg.Sent = observe.Strategy{Strategy: cfg.Strategy, Told: sums.hear}, sums.arrived.Hear
	}
	out, err := sim.Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := scoreModel(full, run, f, out.Model, list); err != nil {
		return nil, err
	}
	r.attack("model", list)
	if sums != nil && len(sums.events) > 0 {
		for i, x := range sums.scores() {
			list[i].score = x
		}
		r.attack("sums", list)
	}
	return r, nil
}

// toss draws n canaries among the units that are trained on, and a coin for each.
func toss(e *experiment.Experiment, n int) ([]canary, error) {
	random := entropy.Public(algorithm.Seed.Of(e.Config), "audit/canaries")
	var all []canary
	train := e.Split.Train
	if algorithm.UnitOf(e.Config) == dp.Rating {
		for k, u := range train.User {
			all = append(all, canary{user: int(u), item: train.Item[k]})
		}
	} else {
		for u := range e.Data.Users {
			if items, _ := e.Train.Row(u); len(items) > 0 {
				all = append(all, canary{user: u, item: -1})
			}
		}
	}
	if n > len(all) {
		return nil, config.Errorf("canaries is %d; there are %d of the unit %s in the training part", n, len(all), algorithm.UnitOf(e.Config))
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	list := slices.Clone(all[:n])
	for i := range list {
		list[i].included = random.IntN(2) == 1
	}
	return list, nil
}

// leftOut is the data without the canaries whose coins say so. Their users are still there.
func leftOut(e *experiment.Experiment, list []canary) *dataset.Set {
	gone := make(map[[2]int32]bool)
	for _, c := range list {
		if !c.included {
			gone[[2]int32{int32(c.user), c.item}] = true
		}
	}
	return e.Data.Where(func(user, item int32) bool { return !gone[[2]int32{user, -1}] && !gone[[2]int32{user, item}] })
}

// shares of the canaries that are guessed: half of them as included, half as left out. Each has a
// third of the error rate of 5%.
var shares = []float64{0.05, 0.25, 1}

// attack guesses by the scores and keeps the best of the bounds.
func (r *CanaryReport) attack(from string, list []canary) {
	ranked := slices.Clone(list)
	slices.SortStableFunc(ranked, func(a, b canary) int { return cmp.Compare(a.score, b.score) })
	best := CanaryAttack{From: from, Bound: -1}
	for _, share := range shares {
		half := int(share * float64(len(ranked)) / 2)
		a := CanaryAttack{From: from, Guesses: 2 * half}
		for i := range half {
			if !ranked[i].included {
				a.Correct++
			}
			if ranked[len(ranked)-1-i].included {
				a.Correct++
			}
		}
		a.Bound = guessed(len(ranked), a.Guesses, a.Correct, r.Delta, 2*binomial.Tail/float64(len(shares)))
		if a.Bound > best.Bound {
			best = a
		}
	}
	r.Attacks = append(r.Attacks, best)
}

// guessed is the largest ε that v or more correct of r guesses about m canaries disprove at an
// error rate: 0 where they disprove none.
func guessed(m, r, v int, delta, rate float64) float64 {
	const most = 50
	share, _ := binomial.Halve(0, 1, 60, func(x float64) bool { return chance(m, r, v, most*x, delta) < rate })
	if share < 1e-9 {
		return 0
	}
	return most * share
}

// chance bounds the probability of v or more correct of r guesses about m canaries under
// (ε, δ): theorem 5.2 of the paper and its appendix D. With δ = 0 guesses are no better than coins that
// fall right with probability e^ε/(1+e^ε).
func chance(m, r, v int, epsilon, delta float64) float64 {
	q := 1 / (1 + math.Exp(-epsilon))
	if v == 0 {
		return 1
	}
	alpha, sum := 0., 0.
	for i := 1; i <= v && delta > 0; i++ {
		sum += binomial.Mass(v-i, r, q) // that from v-i to v-1 are right
		alpha = max(alpha, sum/float64(i))
	}
	return min(1, binomial.AtLeast(v, r, q)+2*float64(m)*delta*alpha)
}

// Err names the largest bound. It returns nil if all bounds are below the claim.
func (r *CanaryReport) Err() error {
	worst := slices.MaxFunc(r.Attacks, func(a, b CanaryAttack) int { return cmp.Compare(a.Bound, b.Bound) })
	if worst.Bound < r.Claimed {
		return nil
	}
	return fmt.Errorf("the stated epsilon of %s does not hold: from the %s it is at least %.4g at delta %s, with 95%% confidence", number(r.Claimed), worst.From, worst.Bound, dp.RoundUp(r.Delta, 3))
}

// Print writes three lines: what was tried, the bounds and the claim.
func (r *CanaryReport) Print(w io.Writer) error { return printed(w, "canaries", r) }

// scoreModel scores canaries by how much better the final model predicts their ratings than the
// start did. Users and user parties fit their own part of the model to the shared part. The attacker has the
// ratings and does the same. Item parties publish their final part.
func scoreModel(full, run *experiment.Experiment, f *experiment.Federation, shared []byte, list []canary) error {
	start, err := full.Strategy()
	if err != nil {
		return err
	}
	before, err := observe.Fitted(full, start.Model(), full.Workers())
	if err != nil {
		return err
	}
	var after *model.Trained
	if full.About().Clients == algorithm.ItemParties {
		after, err = run.Final(f, shared, full.Workers())
	} else {
		after, err = observe.Fitted(full, shared, full.Workers())
	}
	if err != nil {
		return err
	}
	for i := range list {
		c := &list[i]
		r := observe.Only(full.Row(c.user), c.item)
		c.score = observe.MSE(before, c.user, r) - observe.MSE(after, c.user, r)
	}
	return nil
}

// summed notes the attacker's view of every sum. The view holds the rest of the
// sum after everything known is taken out, and half of each canary's possible contribution.
type summed struct {
	shadows []algorithm.Trainer // of all users, with all their ratings
	place   []int               // of each user among the canaries; -1: none
	number  int                 // of canaries
	seed    uint64
	workers protocol.Workers
	arrived observe.Inputs
	events  []summedEvent
}

// summedEvent is a sum as the attacker sees it.
type summedEvent struct {
	left   []float64
	weight float64           // one over the variance of the noise
	sent   []protocol.Vector // by canary, if it is in; empty if its client was lost
}

func newSummed(full *experiment.Experiment, list []canary) (*summed, error) {
	shadows, err := observe.Trainers(full)
	if err != nil {
		return nil, err
	}
	x := &summed{shadows: shadows, number: len(list), place: slices.Repeat([]int{-1}, full.Data.Users), seed: algorithm.Seed.Of(full.Config),
		workers: full.Workers(), arrived: make(observe.Inputs)}
	for i, c := range list {
		x.place[c.user] = i
	}
	return x, nil
}

// hear notes the attacker's view of the sums of a round.
func (s *summed) hear(p *protocol.Plan, sums *protocol.Sums) error {
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
		ev := summedEvent{left: slices.Clone(sums.Values[i]), weight: r.Scale * r.Scale / r.Noise.Variance, sent: make([]protocol.Vector, s.number)}
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
	return nil
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
		floats.AddScaled(image, 4, direction)
		step := was / model.Dot(direction, image)
		floats.AddScaled(beta, step, direction)
		floats.AddScaled(rest, -step, image)
		is := model.Dot(rest, rest)
		floats.AddScaledTo(direction, rest, is/was, direction)
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
