package baselines

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// fcfName is the name of federated collaborative filtering.
const fcfName = "fcf"

// These constants are Adam's (Kingma and Ba 2015): how much of the earlier means of slopes and of their
// squares is kept, and what keeps a step finite.
const (
	fcfFirst  = 0.9
	fcfSecond = 0.999
	fcfLeast  = 1e-8
)

// fcf returns federated collaborative filtering: the objective of ials, with users solved for by their
// clients and items moved by the sum of the clients' slopes. Sums are exact and nothing is protected.
func fcf(ials *method, unobserved, ridge config.NumberKey) *method {
	passes := config.DeclareNumber(config.Key{
		Name: "fcf.passes", Kind: config.Whole, Default: "50", Range: config.AtLeast(1),
		Help: "Rounds of fcf. In each, all clients solve for their users, and the server moves the items once.",
	})
	rate := config.DeclareNumber(config.Key{
		Name: "fcf.rate", Kind: config.Real, Default: "0.01", Range: config.Positive(),
		Help: "Learning rate of the items, which Adam moves.",
	})
	return &method{
		about: about(fcfName, "federated collaborative filtering: ials with items moved by sums of clients' slopes, which nothing hides", "Ammad-ud-din et al. 2019, arXiv:1901.09888", factorRank,
			algorithm.Rank.Key, passes.Key, rate.Key, unobserved.Key, ridge.Key),
		passes: func(c config.Config) int { return passes.Int(c) },
		start: func(s *algorithm.Setup) (learner, error) {
			l, err := ials.start(s)
			if err != nil {
				return nil, err
			}
			x := l.(*implicit)
			n, d := x.items.Dims()
			return &federated{implicit: x, first: model.NewMatrix(n, d), second: model.NewMatrix(n, d), rate: rate.Value(s.Config)}, nil
		},
	}
}

// federated is FCF. Between two passes its users fit its items.
type federated struct {
	*implicit
	first, second *model.Matrix // Adam's means of slopes and of their squares
	rate          float64
}

// pass solves for all users, moves all items, and solves for all users again.
func (l *federated) pass(number int, run protocol.Runner) error {
	l.solveUsers(run)
	gram := l.gram(l.users)
	run.Each(l.items.Rows(), func(j int) {
		slope := make([]float64, l.items.Cols())
		l.slope(j, gram, slope)
		adam(l.items.Row(j), slope, l.first.Row(j), l.second.Row(j), number, l.rate)
	})
	l.itemGram = l.gram(l.items)
	l.solveUsers(run)
	return nil
}

// slope writes the derivative of the objective by an item's embedding. gram is unobserved times the
// users' Gramian, upper triangle.
func (l *federated) slope(j int, gram, to []float64) {
	v, d := l.items.Row(j), len(to)
	users, _ := l.byItem.Row(j)
	for _, u := range users {
		w := l.users.Row(int(u))
		off := model.Dot(w, v) - 1
		for c, x := range w {
			to[c] += 2 * off * x
		}
	}
	ridge := l.ridge * (float64(len(users)) + l.unobserved*float64(l.users.Rows()))
	for c := range d {
		to[c] += 2 * ridge * v[c]
		for k := range d {
			to[c] += 2 * gram[min(c, k)*d+max(c, k)] * v[k]
		}
	}
}

// adam moves numbers against their slopes, in a step that is counted from 1.
func adam(x, slope, first, second []float64, step int, rate float64) {
	a, b := 1-math.Pow(fcfFirst, float64(step)), 1-math.Pow(fcfSecond, float64(step))
	for i, g := range slope {
		first[i] = fcfFirst*first[i] + (1-fcfFirst)*g
		second[i] = fcfSecond*second[i] + (1-fcfSecond)*g*g
		x[i] -= rate * first[i] / a / (math.Sqrt(second[i]/b) + fcfLeast)
	}
}

func (l *federated) state() []byte {
	return slices.Concat(l.first.Encode(), l.second.Encode(), l.implicit.state())
}

func (l *federated) restore(state []byte) error {
	moments := factors{users: l.first, items: l.second}
	cut := min(len(state), 2*model.EncodedSize(l.first.Dims()))
	if err := moments.restore(state[:cut]); err != nil {
		return err
	}
	return l.implicit.restore(state[cut:])
}
