// Package audit tests a stated ε by attacking it. It lets the parts of a simulation that add and
// take back noise release the same sums thousands of times, in two worlds: with the unit of
// privacy there, and with it empty. It plays the best attacker on everything that server and
// aggregator see. From the attacker's success it computes a lower bound on ε.
//
// A bound above the claim disproves the claim. A bound below the claim proves nothing: it says
// how far this attacker got with so many runs.
package audit

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/lab/internal/binomial"
	"github.com/fedsim/fedsim/protocol"
)

// AuditedEpsilon names the audited ε.
type AuditedEpsilon string

// The claims.
const (
	// Stated is the ε of the run's privacy statement.
	Stated AuditedEpsilon = "stated"
	// Published is the ε that the published analysis of replaced noise states for the same noise.
	Published AuditedEpsilon = "published"
)

// Config is an audit.
type Config struct {
	// Runs counts the times that all releases of the experiment are made in each of the two
	// worlds, at least 40. A learnt attack learns on half of them, and the other half measures it.
	Runs  int
	Claim AuditedEpsilon
	Seed  uint64
	// Workers make runs at once; the result does not depend on them.
	Workers protocol.Workers
	// Select, if set, audits the ε of a private search (fedsim tune --private) whose runs all have the experiment's settings.
	// Runs then counts searches. Of each, only the run with the best score is seen.
	Select *dp.Selection
	// Progress, if set, is told how many of the runs of both worlds are made.
	Progress func(done int)

	mutant mutant
}

// DefaultRuns returns the runs of an audit. Noise of 0.7 of its deviation at ε = 1 was found with as many or fewer in 20 of 20 audits of a
// family (audit.md). The steps of a party that noises its own training are many in a run, and are measured one by one.
func DefaultRuns(e *experiment.Experiment) int {
	if e.Schedule.Noise().Kind == protocol.PartyNoise {
		return 1000
	}
	return 4000
}

// fewest runs of a world: with fewer no bound of 95% says anything.
const fewest = 40

// Validate reports everything that makes the audit unusable.
func (c Config) Validate() error {
	var errs problems.List
	errs.If(c.Runs < fewest, "runs is %d; there must be at least %d", c.Runs, fewest)
	errs.If(c.Claim != Stated && c.Claim != Published, "claim is %q; it must be %s or %s", c.Claim, Stated, Published)
	if c.Select != nil {
		errs.If(c.Claim != Stated, "claim is %q; of a search the stated epsilon is audited", c.Claim)
		errs = append(errs, c.Select.Validate())
	}
	errs.If(c.Workers < 1, "workers is %d; there must be at least 1", c.Workers)
	return errors.Join(errs...)
}

// mutant holds faults of clients, for tests. The zero value changes nothing.
type mutant struct {
	plan      func(*protocol.Plan)                          // what clients are told to release, in place
	survivors func(p *protocol.Plan, told int) int          // how many survivors they are told of
	removal   func(noise, removal []int64)                  // what a client takes back of its noise, in place
	claim     func(*experiment.Experiment) (float64, error) // what is claimed
}

// worlds are the two data sets: in the first the unit is empty.
const worlds = 2

// Run audits an experiment. It returns a [config.Error] if the experiment cannot be audited.
func Run(ctx context.Context, e *experiment.Experiment, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	claim, err := claimed(e, c)
	if err != nil {
		return nil, err
	}
	a, err := newAuditor(ctx, e, c)
	if err != nil {
		return nil, err
	}
	if c.Select != nil {
		if a.search, err = a.newSearch(); err != nil {
			return nil, err
		}
		if c.mutant.claim == nil {
			claim = a.search.cost.Epsilon
		}
	}
	accepted, offered, err := a.offer()
	if err != nil {
		return nil, err
	}
	views, err := a.views(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Offered: offered, Accepted: accepted,
		Algorithm: e.About().Name, Claim: c.Claim, Claimed: claim, Delta: e.Privacy.Budget.Delta, Unit: algorithm.UnitOf(e.Config),
		Noise: a.noise, Clients: e.Cohort.Wanted(), Items: e.Data.Items, Colluders: e.Cohort.Colluding(), Dropout: algorithm.Dropout.Value(e.Config),
		Releases: a.released, Runs: c.Runs, Seed: c.Seed,
	}
	switch {
	case c.Select != nil:
		r.MeanRuns = c.Select.Runs()
		r.attack(views, []statistic{likelihoodRatio, learnt}, a.search.best.price(r.Delta), tail)
	case a.counted:
		r.attack(views, []statistic{likelihoodRatio, learnt}, family(e.Privacy.Run, r.Delta), learntTail)
		r.measure(&a.measured, e.Privacy.Run)
	default:
		r.attackNormal(views)
	}
	return r, nil
}

// claimed returns the audited ε.
func claimed(e *experiment.Experiment, c Config) (float64, error) {
	switch {
	case e.Private() && !e.About().Federated():
		return 0, config.Errorf("%s runs in one place and sums nothing, and what is audited are sums and parties' steps; take an algorithm with clients", e.About().Name)
	case !e.Private():
		return 0, config.Errorf("%s with epsilon %v adds no noise, so there is no claim to audit; take a private algorithm and a finite epsilon",
			e.About().Name, algorithm.Epsilon.Value(e.Config))
	case c.mutant.claim != nil:
		return c.mutant.claim(e)
	case c.Claim == Published && e.Privacy.Claimed == 0:
		return 0, config.Errorf("claim published is about replaced noise, whose published analysis differs from what is stated; say noise replace, or claim stated")
	case c.Claim == Published:
		return e.Privacy.Claimed, nil
	}
	planned, err := e.Planned()
	return planned.Epsilon, err
}

// gaussian is the ε at δ of a mechanism that can be told apart as well as two normal laws of
// deviation 1 whose means are μ apart; 0 where they cannot be told apart.
func gaussian(mu, delta float64) float64 {
	if !(mu > 0) {
		return 0
	}
	return dp.GaussianEpsilon(mu, delta)
}

// bestOf is the law of the best of a random number of runs whose likelihood ratios are normal. A run's ratio has deviation mu, and mean
// mu²/2 with the unit or -mu²/2 without. The score of the best tells more, independently, as a normal number whose means are score deviations apart.
type bestOf struct {
	dp.Selection
	mu, score float64
	// first is a ratio: runs below it rank first, the lowest ratio before others. The other runs follow, the highest ratio first.
	first float64
}

// ahead reports whether a run with ratio l ranks before a run with ratio m.
func (b bestOf) ahead(l, m float64) bool {
	if l <= b.first || m <= b.first {
		return l < m
	}
	return l > m
}

// before returns the probability that a run ranks before a run with ratio l, in a world.
func (b bestOf) before(l float64, world int) float64 {
	if l <= b.first {
		return b.below(l, world)
	}
	return b.below(b.first, world) + b.below(-l, 1-world) // the worlds are mirror images
}

// below returns the probability that a run has a ratio of at most l.
func (b bestOf) below(l float64, world int) float64 {
	mean := (float64(world) - 0.5) * b.mu * b.mu
	return math.Erfc((mean-l)/(b.mu*math.Sqrt2)) / 2
}

// loss returns the logarithm of how much likelier a best run with ratio l is with the unit than without.
func (b bestOf) loss(l float64) float64 {
	slope := func(world int) float64 { return math.Log(b.Gamma + (1-b.Gamma)*b.before(l, world)) }
	return l + (1+b.Eta)*(slope(0)-slope(1))
}

// beaten returns the probability that some run ranks among a share p of the best: 1 - f(1-p), with f the probability
// generating function of the number of runs.
func (b bestOf) beaten(p float64) float64 {
	log := math.Log1p((1/b.Gamma - 1) * p)
	if b.Eta == 0 {
		return log / -math.Log(b.Gamma)
	}
	return math.Expm1(-b.Eta*log) / math.Expm1(b.Eta*math.Log(b.Gamma))
}

// scaled returns the law for runs and scores that tell so many times as much.
func (b bestOf) scaled(scale float64) bestOf {
	b.mu, b.score = b.mu*scale, b.score*scale
	b.first *= scale // the same share of a normal law's deviation
	return b
}

// worst chooses the threshold with the largest ε at δ.
func (b bestOf) worst(delta float64) bestOf {
	chosen, most := b, -1.
	for _, deviations := range []float64{-3, -2.5, -2, -1.75, -1.5, -1.25, -1, -0.75, -0.5, -0.25, 0, 0.5} {
		b.first = deviations * b.mu
		if lost := b.lost(); lost(most) > delta { // else its ε is below
			chosen, most = b, b.epsilon(delta)
		}
	}
	return chosen
}

// cells of the ratios of a run, from eight deviations below the lower mean to eight above the higher.
const cells = 600

// lost returns δ by ε of the best run and its score. Ratios fall into cells, so that it errs on the low side.
func (b bestOf) lost() func(epsilon float64) float64 {
	var losses [cells]float64
	var chance [worlds][cells]float64
	width := (16*b.mu + b.mu*b.mu) / cells
	for i := range cells {
		low := -8*b.mu - b.mu*b.mu/2 + width*float64(i)
		for w := range chance {
			chance[w][i] = max(0, b.within(low, low+width, w))
		}
		losses[i] = math.Log(chance[1][i] / chance[0][i])
	}
	return func(epsilon float64) float64 {
		var with, without float64
		for i, l := range losses {
			if !math.IsNaN(l) && !math.IsInf(l, 0) {
				with += chance[1][i] * normalDelta(epsilon-l, b.score)
				without += chance[0][i] * normalDelta(epsilon+l, b.score)
			}
		}
		return max(with, without)
	}
}

// epsilon returns the least ε at δ.
func (b bestOf) epsilon(delta float64) float64 {
	lost, low, high := b.lost(), 0., 1.
	for lost(high) > delta && high < 1e3 {
		low, high = high, 2*high
	}
	low, _ = binomial.Halve(low, high, 20, func(epsilon float64) bool { return lost(epsilon) > delta })
	return low
}

// normalDelta is the δ at ε of two normal laws whose means are μ deviations apart, at a negative ε too.
func normalDelta(epsilon, mu float64) float64 {
	if epsilon >= 0 {
		return dp.GaussianDelta(epsilon, mu)
	}
	return -math.Expm1(epsilon) + math.Exp(epsilon)*dp.GaussianDelta(-epsilon, mu)
}

// within returns the probability that the best run has a ratio from low to high.
func (b bestOf) within(low, high float64, world int) float64 {
	switch {
	case high <= b.first:
		return b.beaten(b.below(high, world)) - b.beaten(b.below(low, world))
	case low < b.first: // a cell that holds the threshold
		return b.within(low, b.first, world) + b.within(math.Nextafter(b.first, math.Inf(1)), high, world)
	}
	return b.beaten(b.before(low, world)) - b.beaten(b.before(high, world))
}

// LowerBound holds an attacker's success on runs that it has not seen, and the ε that this success implies.
type LowerBound struct {
	// Of the runs with the empty unit and with the full one, how many the attacker called
	// full.
	FalsePositives, TruePositives, Runs int
	// Epsilon is the lower bound, and Point the estimate by the counts themselves.
	Epsilon, Point float64
}

// half is the runs that choose an attack, or measure it: a number for each, in both worlds.
type half [worlds][]float64

// called counts the runs of a world whose number is above a threshold.
func (h *half) called(w int, threshold float64) int {
	n := 0
	for _, x := range h[w] {
		if x > threshold {
			n++
		}
	}
	return n
}

// price returns the ε that the rates of an attack imply: the share of empty runs called full, and of full runs.
type price func(falsely, truly float64) float64

// thresholds is the number of thresholds to try. They range from far below to far above the middle of both worlds.
const thresholds = 199

// choose finds the threshold that gives the best bound on the runs that choose.
func (h *half) choose(p price) (threshold, bound float64) {
	pooled := slices.Concat(h[0], h[1])
	slices.Sort(pooled)
	var list []float64
	for i := range thresholds {
		list = append(list, pooled[(i+1)*len(pooled)/(thresholds+1)])
	}
	bound = math.Inf(-1)
	for _, t := range slices.Compact(list) { // fewer runs than thresholds give some twice
		if b := h.measure(t, p, tail).Epsilon; b > bound {
			threshold, bound = t, b
		}
	}
	return threshold, bound
}

// measure prices an attack on these runs. The lower bound is wrong with probability at most wrong.
func (h *half) measure(threshold float64, p price, wrong float64) LowerBound {
	n := len(h[0])
	b := LowerBound{FalsePositives: h.called(0, threshold), TruePositives: h.called(1, threshold), Runs: n}
	b.Epsilon = p(binomial.Upper(b.FalsePositives, n, wrong/2), binomial.Lower(b.TruePositives, n, wrong/2))
	// Half a run more on either side keeps what never happened from being impossible.
	rate := func(k int) float64 { return (float64(k) + 0.5) / (float64(n) + 1) }
	b.Point = p(rate(b.FalsePositives), rate(b.TruePositives))
	return b
}

// event prices one event and its complement, for any mechanism. It returns the least ε at which each is at most
// e^ε times as likely in one world as in the other, plus δ.
func event(delta float64) price {
	return func(falsely, truly float64) float64 {
		e := math.Log((truly - delta) / falsely)
		if c := math.Log((1 - falsely - delta) / (1 - truly)); c > e || math.IsNaN(e) {
			e = c
		}
		if math.IsNaN(e) {
			return 0
		}
		return max(0, e)
	}
}

// curve prices success at one threshold by the normal curve of trade-offs through it, which
// says what success at the others, and so ε at a small δ, is.
func curve(delta float64) price {
	return func(falsely, truly float64) float64 { return gaussian(quantile(truly)-quantile(falsely), delta) }
}

// distance is the distance between the means of a number in the two worlds, in its standard deviations, with a lower bound.
type distance struct{ estimate, lower float64 }

// separated measures the distance μ from pairs: run i of one world and run i of the other. Pairs are independent of each other. The two
// runs of a pair may depend on each other in any way, since μ depends on the law of each world alone. If both draw the same noise,
// their difference d hardly varies, and the error of the estimate mean(d)/sd is almost only the error of sd.
//
// To first order the error of the estimate is the mean over pairs of d' - μ(q-1)/2. There d' is the deviation of d from its mean, in
// units of sd, and q averages the squared deviations of the pair in units of sd². The margin takes the larger of two variances.
// The first is the sample variance of these terms, which holds for any law and any dependence. The second is var(d)/sd² + μ²/2,
// which is at least the variance of these terms for jointly normal pairs. Of a normal pair d and q are uncorrelated and q has variance 1 + ρ², at most 2. The value 2 counts the degrees
// of freedom of one world only. The second variance keeps the level in few runs, where the sample variance of squares tends to be low.
// The bound is wrong with probability wrong.
func separated(h *half, wrong float64) distance {
	mean := [worlds]float64{stat.Mean(h[0], nil), stat.Mean(h[1], nil)}
	n := float64(len(h[0]))
	var squares, differences float64
	for i := range h[0] {
		empty, full := h[0][i]-mean[0], h[1][i]-mean[1]
		squares += empty*empty + full*full
		differences += (full - empty) * (full - empty)
	}
	apart := mean[1] - mean[0]
	switch {
	case apart == 0:
		return distance{}
	case squares == 0:
		return distance{math.Inf(1), math.Inf(1)}
	}
	variance := squares / (2*n - 2)
	sd := math.Sqrt(variance)
	mu := apart / sd
	var errors float64
	for i := range h[0] {
		empty, full := (h[0][i]-mean[0])/sd, (h[1][i]-mean[1])/sd
		e := full - empty - mu*((empty*empty+full*full)/2-1)/2
		errors += e * e
	}
	spread := max(errors/(n-1), differences/(n-1)/variance+mu*mu/2)
	return distance{mu, mu - quantile(1-wrong)*math.Sqrt(spread/n)}
}

// quantile is the quantile function of the standard normal law.
func quantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }
