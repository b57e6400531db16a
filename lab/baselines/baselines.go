// Package baselines has the recommenders that a reader expects beside private ones: EASE,
// neighbours of items, alternating least squares of ratings and of clicks, and BPR. All ratings are in one place, and
// nothing is protected.
package baselines

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// method is a way to learn from all ratings.
type method struct {
	about  algorithm.About
	passes func(config.Config) int
	start  func(*algorithm.Setup) (learner, error)
}

// learner is a model in training. It predicts a number per item for a user that training has seen.
// A learner of rankings is an eval.Scorer too. It is safe for concurrent use between two passes.
type learner interface {
	model.Predictor
	// pass trains once more on all ratings. Passes count from 1.
	pass(number int, run protocol.Runner) error
	// state returns the state between two passes, and restore takes it back.
	state() []byte
	restore([]byte) error
	// matrices lists what is kept of the model, with rows for held-out users too.
	matrices(protocol.Runner) []model.Named
}

func init() {
	algorithm.MustRegister(als())
	for _, m := range []*method{ease(), itemKNN()} {
		algorithm.MustRegister(m)
	}
	exact, descends := ials()
	for _, m := range []*method{exact, descends, bpr()} {
		algorithm.MustRegister(&factorizer{m})
	}
}

// about describes a method that ranks by what users like.
func about(name, help, paper string, rank float64, keys ...*config.Key) algorithm.About {
	return algorithm.About{
		Name: name, Help: help + ", in one place, without privacy", Paper: paper, Clients: algorithm.Nobody, OnlyRanks: true,
		Units: []dp.Unit{dp.User}, OtherUnit: name + " protects nothing", Relation: dp.ZeroOut,
		Keys:   append([]*config.Key{algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key, algorithm.SplitUsers.Key}, keys...),
		Rounds: algorithm.Always(0),
		Rank:   algorithm.Always(rank),
		CheckFeedback: func(c config.Config) string {
			if algorithm.Feedback.Is(c, "explicit") {
				return fmt.Sprintf("%s ranks by what users like and predicts no ratings; leave feedback at implicit", name)
			}
			return ""
		},
	}
}

func (m *method) About() *algorithm.About { return &m.about }

func (m *method) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	l, err := m.start(s)
	return &instance{setup: s, method: m, learner: l}, err
}

// once is the number of passes of a method with a closed form.
func once(config.Config) int { return 1 }

type instance struct {
	algorithm.OnePlace
	setup   *algorithm.Setup
	method  *method
	learner learner
}

func (x *instance) Epochs() int { return x.method.passes(x.setup.Config) }

func (x *instance) Baselines() []algorithm.Baseline {
	return []algorithm.Baseline{algorithm.NonPrivate(x.setup, "", nil)}
}

func (x *instance) Train(ctx context.Context, run protocol.Runner, from algorithm.Passes, _ entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	l := x.learner
	if from.Done > 0 {
		if err := l.restore(from.State); err != nil {
			return nil, err
		}
	}
	for n := from.Done + 1; n <= x.Epochs(); n++ {
		if err := cmp.Or(l.pass(n, run), ctx.Err()); err != nil {
			return nil, err
		}
		if err := passed(algorithm.Epoch{Number: n, Model: l, Save: l.state}); err != nil {
			return nil, err
		}
	}
	t := &model.Trained{Predictor: l, Matrices: l.matrices(run)}
	if f, ok := l.(*alternating); ok {
		t.Mean = &f.mean
	}
	return t, nil
}

// atOnce is the part of a learner with a closed form: there is nothing between its passes.
type atOnce struct{}

func (atOnce) state() []byte { return nil }
func (atOnce) restore([]byte) error {
	return fmt.Errorf("baselines: a closed form has no state to continue from")
}
func (atOnce) matrices(protocol.Runner) []model.Named { return nil }

// turned returns ratings with users and items in each other's place, by item.
func turned(r dataset.Ratings) *dataset.Rows {
	return dataset.Ratings{Users: r.Items, Items: r.Users, User: r.Item, Item: r.User, Value: r.Value}.ByUser()
}

// predict writes the scores of some of n items for a user's history, whose order alone counts.
func predict(by eval.Scorer, known *dataset.Rows, n, user int, items []int32, out []float64) {
	scores := make([]float64, n)
	known.Lend(user, func(history []int32, values []float32) { by.Score(user, history, values, scores) })
	for i, j := range items {
		out[i] = scores[j]
	}
}

// scatter draws the first numbers of each row from a normal law.
func scatter(m *model.Matrix, width int, deviation float64, rng interface{ NormFloat64() float64 }) {
	for i := range m.Rows() {
		for c := range width {
			m.Row(i)[c] = deviation * rng.NormFloat64()
		}
	}
}

// bprName is the name of the method whose items have biases.
const bprName = "bpr-mf"

const (
	bprStart = 0.1 // deviation of an embedding's numbers at the start
	bprFolds = 30  // passes over the history of a user that training has not seen
)

// bpr returns matrix factorization by Bayesian personalised ranking.
func bpr() *method {
	passes := config.DeclareNumber(config.Key{
		Name: "bpr.passes", Kind: config.Whole, Default: "50", Range: config.AtLeast(1),
		Help: "How many pairs of a liked and another item are drawn, for each training rating.",
	})
	rate := config.DeclareNumber(config.Key{
		Name: "bpr.rate", Kind: config.Real, Default: "0.05", Range: config.Positive(),
		Help: "Learning rate.",
	})
	ridge := config.DeclareNumber(config.Key{
		Name: "bpr.ridge", Kind: config.Real, Default: "0.01", Range: config.AtLeast(0),
		Help: "Ridge of the embeddings and biases of a pair.",
	})
	return &method{
		about:  about(bprName, "matrix factorization that puts liked items before others, pair by pair", "BPR: Rendle et al., UAI 2009", factorRank, algorithm.Rank.Key, passes.Key, rate.Key, ridge.Key),
		passes: func(c config.Config) int { return passes.Int(c) },
		start: func(s *algorithm.Setup) (learner, error) {
			d := int(algorithm.Rank.Chosen(s.Config))
			l := &pairwise{factors: newFactors(s, d, d+1), ratings: s.Ratings, rate: rate.Value(s.Config), ridge: ridge.Value(s.Config), seed: algorithm.Seed.Of(s.Config)}
			rng := entropy.Public(l.seed, "bpr/start")
			scatter(l.users, d, bprStart, rng)
			scatter(l.items, d, bprStart, rng)
			l.fit = l.fold
			return l, nil
		},
	}
}

// pairwise is BPR-MF. An item's row holds its embedding and, last, its bias.
type pairwise struct {
	factors
	ratings     dataset.Ratings
	rate, ridge float64
	seed        uint64
}

// pass takes as many steps as there are ratings. Steps follow one another, so workers do not matter.
func (l *pairwise) pass(number int, _ protocol.Runner) error {
	rng := entropy.Public(l.seed, fmt.Sprint("bpr/pass/", number))
	for range l.ratings.Len() {
		k := rng.IntN(l.ratings.Len())
		u := int(l.ratings.User[k])
		l.train.Lend(u, func(liked []int32, _ []float32) {
			if other, ok := otherThan(liked, l.items.Rows(), rng); ok {
				l.step(l.users.Row(u), l.items.Row(int(l.ratings.Item[k])), l.items.Row(other), true)
			}
		})
	}
	return nil
}

// otherThan draws an item that is not liked. It returns false if all are.
func otherThan(liked []int32, items int, rng interface{ IntN(int) int }) (item int, ok bool) {
	for len(liked) < items {
		j := rng.IntN(items)
		if _, is := slices.BinarySearch(liked, int32(j)); !is {
			return j, true
		}
	}
	return 0, false
}

// step moves a user's embedding, and the rows of a liked and another item if items move, up the slope of
//
//	ln σ(x) - ridge/2·(|u|² + |liked|² + |other|²)  with x = u·(liked - other) + bias(liked) - bias(other)
func (l *pairwise) step(u, liked, other []float64, items bool) {
	d := len(u)
	x := liked[d] - other[d]
	for c, v := range u {
		x += v * (liked[c] - other[c])
	}
	slope := 1 / (1 + math.Exp(x))
	for c, v := range u {
		a, b := liked[c], other[c]
		u[c] += l.rate * (slope*(a-b) - l.ridge*v)
		if items {
			liked[c] += l.rate * (slope*v - l.ridge*a)
			other[c] += l.rate * (-slope*v - l.ridge*b)
		}
	}
	if items {
		liked[d] += l.rate * (slope - l.ridge*liked[d])
		other[d] += l.rate * (-slope - l.ridge*other[d])
	}
}

// fold fits a user that training has not seen, by the same steps with the items as they are. The paper
// knows no such users.
func (l *pairwise) fold(user int, history []int32, row []float64) {
	rng := entropy.Public(l.seed, fmt.Sprint("bpr/user/", user))
	clear(row)
	for range bprFolds * len(history) {
		if other, ok := otherThan(history, l.items.Rows(), rng); ok {
			l.step(row, l.items.Row(int(history[rng.IntN(len(history))])), l.items.Row(other), false)
		}
	}
}

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
		about: about("fcf", "federated collaborative filtering: ials with items moved by sums of clients' slopes, which nothing hides", "Ammad-ud-din et al. 2019, arXiv:1901.09888", factorRank,
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
		floats.AddScaled(to, 2*(model.Dot(w, v)-1), w)
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
	return append(encoded(l.first, l.second), l.implicit.state()...)
}

func (l *federated) restore(state []byte) error {
	cut := min(len(state), 2*8*len(l.first.Data()))
	if err := decode(state[:cut], l.first, l.second); err != nil {
		return err
	}
	return l.implicit.restore(state[cut:])
}
