package attack

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/lab/internal/binomial"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/protocol"
)

// If clients draw part of what they send at random, the attacker simulates several draws. drawsOfOthers of each
// client that is no target give the mean and the spread. drawsOfTargets of a target give its possible vectors.
const (
	drawsOfOthers  = 8
	drawsOfTargets = 32
)

// sureEnough is as much as one release may say for or against a target: e^30 to 1. More only makes the
// normal laws of LiRA wider.
const sureEnough = 30

// listener hears all released sums. The attacker knows all ratings, except whether targets
// are there. So it knows what every client sends, except the clients' random draws and the noise.
type listener struct {
	full, bare []algorithm.Trainer    // of all users, with all targets and without
	probes     [2][]algorithm.Trainer // as full: whether two say the same. Each trainer says one thing a round, since some keep what they did
	targets    []target
	place      []int // of each user among the targets; -1: none
	seed       uint64
	arrived    observe.Inputs
	// Of each target, the logarithm of how much likelier the sums are with it.
	scores []float64
}

// newListener listens for the attacker's targets.
func (a *attacker) newListener(run uint64) (*listener, error) {
	l := &listener{targets: a.targets, place: slices.Repeat([]int{-1}, a.full.Data.Users), seed: run,
		arrived: make(observe.Inputs), scores: make([]float64, len(a.targets))}
	for i, t := range a.targets {
		l.place[t.user] = i
	}
	var err error
	for i := range l.probes {
		if l.probes[i], err = observe.Trainers(a.full); err != nil {
			return nil, err
		}
	}
	if l.full, err = observe.Trainers(a.full); err == nil && a.bare != nil {
		l.bare, err = observe.Trainers(a.bare)
	}
	return l, err
}

// sendings holds draws of the vectors that a client might send in a round: per draw, a vector for each release.
type sendings [][]protocol.Vector

// draw has a client say n times what it might send.
func (l *listener) draw(t algorithm.Trainer, p *protocol.Plan, user, n int) (sendings, error) {
	list := make(sendings, n)
	for k := range list {
		var err error
		src := simulated.New(l.seed, fmt.Sprintf("audit/attack/%d/%d", user, k))
		if list[k], err = t.Contribute(p, src, protocol.Workers(1)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// draws reports whether clients draw some of what they send in a round.
func (l *listener) draws(p *protocol.Plan) (bool, error) {
	drawn := false
	for _, t := range l.targets {
		var two [2][]protocol.Vector
		for i, probe := range l.probes {
			src := simulated.New(l.seed, fmt.Sprintf("audit/attack/%d/%d", t.user, i))
			var err error
			if two[i], err = probe[t.user].Contribute(p, src, protocol.Workers(1)); err != nil {
				return true, err
			}
		}
		drawn = drawn || !reflect.DeepEqual(two[0], two[1])
	}
	return drawn, nil
}

// background is the normal law of a released sum without some of the clients. It holds what is left of the sum,
// and the variance of the unknown part of that: at least quantum, the variance of rounding once.
type background struct {
	left, variance []float64
	quantum        float64
}

// moments takes the mean of what a client might send out of the sum, and adds the variance of it times a
// factor; with sign -1 it undoes that.
func (b *background) moments(list sendings, release int, sign, factor float64) {
	n := float64(len(list))
	sums := make(map[int][2]float64, 64) // of values and of squares
	for _, vectors := range list {
		vectors[release].Each(func(j int, x float64) { sums[j] = [2]float64{sums[j][0] + x, sums[j][1] + x*x} })
	}
	for j, x := range sums {
		b.left[j] -= sign * x[0] / n
		b.variance[j] += sign * max(0, x[1]/n-x[0]*x[0]/n/n) * factor
	}
}

// add takes a client out of the sum of whom the attacker knows all ratings.
func (b *background) add(list sendings, release int) {
	if n := float64(len(list)); n > 1 {
		b.moments(list, release, 1, (n+1)/(n-1)) // of a sample, and its mean is one of a sample too
		return
	}
	list[0][release].Each(func(j int, x float64) {
		b.left[j] -= x
		if x != 0 {
			b.variance[j] += b.quantum
		}
	})
}

// listen adds what the sums of one round say of each target.
func (l *listener) listen(p *protocol.Plan, sums *protocol.Sums) error {
	drawn, err := l.draws(p)
	if err != nil {
		return err
	}
	ofOthers, ofTargets := 1, 1
	if drawn {
		ofOthers, ofTargets = drawsOfOthers, drawsOfTargets
	}
	others := make([]sendings, len(l.full))
	with, without := make([]sendings, len(l.targets)), make([]sendings, len(l.targets))
	for u, t := range l.full {
		k := l.place[u]
		if k < 0 {
			others[u], err = l.draw(t, p, u, ofOthers)
		} else if with[k], err = l.draw(t, p, u, ofTargets); err == nil {
			without[k], err = l.draw(l.bare[u], p, u, ofTargets)
		}
		if err != nil {
			return err
		}
	}
	for i, r := range p.Releases {
		b := newBackground(r, p.Cohort, sums.Values[i])
		for u := range l.full {
			if !l.arrived.Of(p.Round, u) {
				continue
			}
			if k := l.place[u]; k >= 0 { // in or out, at odds of 1 to 1
				b.moments(slices.Concat(with[k], without[k]), i, 1, 1)
			} else {
				b.add(others[u], i)
			}
		}
		for k, t := range l.targets {
			if !l.arrived.Of(p.Round, t.user) {
				continue
			}
			both := slices.Concat(with[k], without[k])
			b.moments(both, i, -1, 1)
			l.scores[k] += min(max(b.likelihood(with[k], i)-b.likelihood(without[k], i), -sureEnough), sureEnough)
			b.moments(both, i, 1, 1)
		}
	}
	return nil
}

// newBackground returns the law of a whole sum with its noise; no client is taken out yet.
func newBackground(r protocol.Release, c protocol.Cohort, sum []float64) background {
	quantum := 1 / (12 * r.Scale * r.Scale) // the variance of rounding
	noise := quantum
	if r.Noise.Distributed() {
		noise += r.Noise.Target(c) / (r.Scale * r.Scale)
	}
	return background{left: slices.Clone(sum), variance: slices.Repeat([]float64{noise}, r.Len), quantum: quantum}
}

// likelihood is the logarithm of how likely what is left is if it holds one of the sendings, each as likely,
// over how likely it is if it holds nothing.
func (b *background) likelihood(list sendings, release int) float64 {
	logs := make([]float64, len(list))
	for k, vectors := range list {
		vectors[release].Each(func(j int, x float64) {
			if x != 0 {
				logs[k] += x * (b.left[j] - x/2) / max(b.variance[j], b.quantum)
			}
		})
	}
	return floats.LogSumExp(logs) - math.Log(float64(len(list)))
}

// falseAlarms is the rate of false alarms at which attacks are compared.
const falseAlarms = 0.01

// resamples of a bootstrap: its ends are within some thousandths.
const resamples = 400

// Interval is a measured value with an interval of 95%.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// score is an attacker's verdict on a target in a run: the larger the value, the likelier the target is in.
type score struct {
	run   int
	in    bool
	value float64
}

type scored []score

// sortedAUC returns the chance that a target in the run scores higher than a target outside it, of scores that ascend; a
// tie counts half. It is the statistic of Mann and Whitney. Each score counts as often as its run has weight; nil: once.
func (s scored) sortedAUC(weight []int) float64 {
	var below, won, in float64 // out so far, in times out below it, in so far
	for i := 0; i < len(s); {
		var ins, outs float64
		j := i
		for ; j < len(s) && s[j].value == s[i].value; j++ {
			w := 1.
			if weight != nil {
				w = float64(weight[s[j].run])
			}
			if s[j].in {
				ins += w
			} else {
				outs += w
			}
		}
		won += ins * (below + outs/2)
		below += outs
		in += ins
		i = j
	}
	if in == 0 || below == 0 {
		return math.NaN()
	}
	return won / in / below
}

// area returns the AUC with the interval of a bootstrap over runs, since the targets of a run share their noise.
// If the AUC is 0 or 1 in every sample, area returns the interval of Clopper and Pearson instead. Its number of
// trials is the number of disjoint pairs of a target in the run and a target outside it.
func (s scored) area(seed uint64, runs int) Interval {
	sorted := slices.Clone(s)
	slices.SortFunc(sorted, func(a, b score) int { return cmp.Compare(a.value, b.value) })
	random := entropy.Public(seed, "audit/attack/bootstrap")
	var all []float64
	for range resamples {
		weight := make([]int, runs)
		for range runs {
			weight[random.IntN(runs)]++
		}
		if v := sorted.sortedAUC(weight); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	x := percentiles(sorted.sortedAUC(nil), all)
	in, out := s.counts()
	pairs := min(in, out)
	switch {
	case x.Low == 1:
		x.Low = binomial.Lower(pairs, pairs, binomial.Tail)
	case x.High == 0:
		x.High = binomial.Upper(0, pairs, binomial.Tail)
	}
	return x
}

// percentiles is a value with the middle 95% of samples of it.
func percentiles(v float64, samples []float64) Interval {
	slices.Sort(samples)
	at := func(share float64) float64 {
		return samples[min(len(samples)-1, int(share*float64(len(samples))))]
	}
	return Interval{Value: v, Low: min(v, at(binomial.Tail)), High: max(v, at(1-binomial.Tail))}
}

// counts returns the numbers of scores of targets in and out of their run.
func (s scored) counts() (in, out int) {
	for _, x := range s {
		if x.in {
			in++
		}
	}
	return in, len(s) - in
}

// Rates is a point of a curve: the shares that a threshold calls in, of the targets outside (False) and in the run (True).
type Rates struct {
	False float64 `json:"false"`
	True  float64 `json:"true"`
}

// Curve lists the share found at each rate of false alarms, ascending.
type Curve []Rates

// at is the most that the curve has with at most a rate of false alarms.
func (c Curve) at(rate float64) float64 {
	most := 0.
	for _, x := range c {
		if x.False <= rate {
			most = max(most, x.True)
		}
	}
	return most
}

// points are the rates at all thresholds, false ones ascending, as counts.
func (s scored) points() (falsely, truly []int) {
	sorted := slices.Clone(s)
	slices.SortFunc(sorted, func(a, b score) int { return cmp.Compare(b.value, a.value) })
	f, t := 0, 0
	falsely, truly = []int{0}, []int{0}
	for i, x := range sorted {
		if x.in {
			t++
		} else {
			f++
		}
		if i+1 == len(sorted) || sorted[i+1].value != x.value {
			falsely, truly = append(falsely, f), append(truly, t)
		}
	}
	return falsely, truly
}

// at returns the most that is found with false alarms of at most a rate, with the interval of Clopper and Pearson.
// The threshold is chosen on the same scores: the rate of false alarms holds for these scores, not for others.
func (s scored) at(rate float64) (falsely float64, truly Interval) {
	in, out := s.counts()
	fs, ts := s.points()
	best := 0
	for i := range fs {
		if float64(fs[i]) <= rate*float64(out) {
			best = i
		}
	}
	k := ts[best]
	return float64(fs[best]) / float64(out), Interval{Value: float64(k) / float64(in), Low: binomial.Lower(k, in, binomial.Tail), High: binomial.Upper(k, in, binomial.Tail)}
}

// roc is the curve, thinned to what a logarithmic picture shows.
func (s scored) roc() Curve {
	in, out := s.counts()
	fs, ts := s.points()
	var list Curve
	const step = 1.08
	for i := range fs {
		last := i+1 == len(fs)
		if !last && fs[i+1] == fs[i] {
			continue // the most that is found with as many false alarms
		}
		x := Rates{False: float64(fs[i]) / float64(out), True: float64(ts[i]) / float64(in)}
		if n := len(list); last || n == 0 || x.False >= step*list[n-1].False {
			list = append(list, x)
		}
	}
	return list
}

// Limit holds the most that (ε, δ) allows any attack that decides between with and without.
type Limit struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
	AUC     float64 `json:"auc"`
	TPR     float64 `json:"tpr"` // at the rate of false alarms at which attacks are compared
}

// newLimit computes it from the region of Kairouz, Oh and Viswanath (2015): the true rate t and the false rate f
// have t <= e^ε f + δ and 1-f <= e^ε (1-t) + δ. The border is straight from (0, δ) to (x, 1-x), with
// x = (1-δ)/(1+e^ε), to (1-δ, 1); the area below it is the area of three trapezia.
func newLimit(epsilon, delta float64) *Limit {
	x := (1 - delta) / (1 + math.Exp(epsilon))
	l := &Limit{Epsilon: epsilon, Delta: delta, AUC: x*(delta+1-x)/2 + (1-delta-x)*(2-x)/2 + delta}
	l.TPR = l.allows(falseAlarms)
	return l
}

// allows is the largest true rate at a false rate.
func (l *Limit) allows(falsely float64) float64 {
	e := math.Exp(l.Epsilon)
	return min(1, e*falsely+l.Delta, 1-max(0, 1-falsely-l.Delta)/e)
}
