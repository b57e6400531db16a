package attack

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/internal/heard"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
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

// listener is a strategy that hears all released sums. The attacker knows all ratings, except whether targets
// are there. So it knows what every client sends, except the clients' random draws and the noise.
type listener struct {
	server.Strategy
	full, bare []algorithm.Trainer    // of all users, with all targets and without
	probes     [2][]algorithm.Trainer // as full: whether two say the same. Each trainer says one thing a round, since some keep what they did
	targets    []target
	place      []int // of each user among the targets; -1: none
	seed       uint64
	arrived    heard.Inputs
	// Of each target, the logarithm of how much likelier the sums are with it.
	scores []float64
}

// newListener listens for the attacker's targets.
func (a *attacker) newListener(s server.Strategy, run uint64) (*listener, error) {
	l := &listener{Strategy: s, targets: a.targets, place: make([]int, a.full.Data.Users), seed: run,
		arrived: make(heard.Inputs), scores: make([]float64, len(a.targets))}
	for u := range l.place {
		l.place[u] = -1
	}
	for i, t := range a.targets {
		l.place[t.user] = i
	}
	var err error
	for i := range l.probes {
		if l.probes[i], err = trainers(a.full); err != nil {
			return nil, err
		}
	}
	if l.full, err = trainers(a.full); err == nil && a.bare != nil {
		l.bare, err = trainers(a.bare)
	}
	return l, err
}

// trainers returns a new, untrained trainer for each user of an experiment.
func trainers(e *experiment.Experiment) ([]algorithm.Trainer, error) {
	side, err := e.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	return side.Trainers(), nil
}

// Absorb scores the targets by the sums of the round before the wrapped strategy absorbs them.
func (l *listener) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	if err := l.listen(p, sums); err != nil {
		return err
	}
	return l.Strategy.Absorb(p, sums, run)
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
	sum, squares := make(map[int]float64), make(map[int]float64)
	for _, vectors := range list {
		vectors[release].Each(func(j int, x float64) { sum[j] += x; squares[j] += x * x })
	}
	for j, x := range sum {
		b.left[j] -= sign * x / n
		b.variance[j] += sign * max(0, squares[j]/n-x*x/n/n) * factor
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
func (l *listener) listen(p *protocol.Plan, sums protocol.Sums) error {
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
	most := slices.Max(logs)
	var sum float64
	for _, x := range logs {
		sum += math.Exp(x - most)
	}
	return most + math.Log(sum/float64(len(list)))
}
