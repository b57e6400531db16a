// Package fmf has the algorithms that the FMF paper compares with, with all ratings in one place: SGD without privacy, objective
// perturbation and Private-GD-DR. They share the start, the fit of users and the bounds of embeddings with package fedmf.
package fmf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

type method struct {
	about algorithm.About
	open  func(*algorithm.Setup, kernel.Params) (algorithm.Instance, error)
	// users returns the embeddings of users of a finished run.
	users func(c config.Config, set *dataset.Set, files algorithm.Files, items *model.Matrix) (*model.Matrix, error)
}

func (m *method) About() *algorithm.About { return &m.about }

func (m *method) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	p, err := fedmf.ParamsOf(s)
	if err != nil {
		return nil, err
	}
	return m.open(s, p)
}

func (m *method) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	items, err := files.Matrix("item_embeddings", set.Items, algorithm.Rank.Int(c))
	if err != nil {
		return nil, err
	}
	users, err := m.users(c, set, files, items)
	if err != nil {
		return nil, err
	}
	return fedmf.Saved(items, users, func(int) *model.Matrix { return items }), nil
}

// writtenUsers returns the embeddings that the run wrote.
func writtenUsers(_ config.Config, set *dataset.Set, files algorithm.Files, items *model.Matrix) (*model.Matrix, error) {
	return files.Matrix("user_embeddings", set.Users, items.Cols())
}

// fittedUsers fits users to their ratings: the run wrote none.
func fittedUsers(c config.Config, set *dataset.Set, files algorithm.Files, items *model.Matrix) (*model.Matrix, error) {
	p, err := fedmf.ParamsOf(&algorithm.Setup{Config: c, Data: set})
	if err != nil {
		return nil, err
	}
	return kernel.FitUsers(p, files.Train(), items, protocol.Workers(1)).Users, nil
}

var (
	epochs = config.DeclareNumber(config.Key{
		Name: "model.epochs", Kind: config.Whole, Default: "30", Range: config.AtLeast(1),
		Help: "Passes of sgd-mf over all ratings: more overfit the small sets.",
	})
	itemRidge = config.DeclareNumber(config.Key{
		Name: "model.item-ridge", Kind: config.Real, Default: "auto", Auto: "such that the curvature of the objective takes a 20th of epsilon; 1 without noise", Range: config.Positive(),
		Help: "Weight of the start of an item's embedding in objective-perturbation, in ratings. A smaller weight costs more of epsilon.",
	})
	dimensions = config.DeclareNumber(config.Key{
		Name: "model.dimensions", Kind: config.Whole, Default: "auto", Auto: "a tenth of the items", Range: config.AtLeast(1),
		Help: "Rows that users of gd-dr project their gradients to, at most the items.",
	})
)

func init() {
	stepping := fedmf.Central("sgd-mf", "matrix factorization on all ratings in one place, without privacy: a reference for the others", "")
	stepping.Keys = append(stepping.Keys, fedmf.LearningRate.Key, epochs.Key)
	algorithm.MustRegister(&method{stepping, openCentral, writtenUsers})

	perturbed := fedmf.Central("objective-perturbation", "fits items to ratings and to noise that is drawn once, in one place: what VFL-SGDMF is compared with", "FMF, Figure 5; Hua, Xia, Zhong 2015")
	perturbed.Private, perturbed.Noise, perturbed.Rank = true, algorithm.ObjectiveNoise, algorithm.Always(1)
	perturbed.Keys = append(perturbed.Keys, fedmf.ClipRatings.Key, itemRidge.Key)
	perturbed.Units, perturbed.Relation, perturbed.OtherUnit = []dp.Unit{dp.Rating, dp.User}, dp.AddRemove, ""
	algorithm.MustRegister(&method{perturbed, openObjective, fittedUsers})

	responding := fedmf.Central("gd-dr", "matrix factorization from randomized signs of users, simulated in one place: what LFL-SGDMF is compared with", "FMF, Figure 10; Shin, Kim, Shin, Xiao 2018")
	responding.Private, responding.Noise, responding.Rank, responding.Rounds = true, algorithm.ResponseNoise, algorithm.Always(1), algorithm.Always(10)
	responding.Keys = append(responding.Keys, algorithm.Rounds.Key, fedmf.LearningRate.Key, dimensions.Key)
	responding.OtherUnit = "a message of gd-dr hides all ratings of the user who sends it: privacy is stated per user"
	algorithm.MustRegister(&method{responding, openResponse, writtenUsers})
}

// central is SGD matrix factorization with embedding clipping on all ratings in one place: one projected step on u_i and v_j for
// each rating of a pass. Ratings are in blocks, which each pass takes in a new seeded random order, on all workers of the runner
// and to the same bits for any number of them. It is the ceiling for federations of the same model, and not private.
type central struct {
	algorithm.OnePlace
	setup  *algorithm.Setup
	params kernel.Params
	epochs int
	rate   float64 // of the first 80% of the passes falling to a tenth
}

// centralLearningRate is the step of sgd-mf for one rating.
const centralLearningRate = 0.01

func openCentral(s *algorithm.Setup, p kernel.Params) (algorithm.Instance, error) {
	fedmf.LearningRate.Set(&s.Config, fedmf.LearningRate.Or(s.Config, centralLearningRate))
	return &central{setup: s, params: p, epochs: epochs.Int(s.Config), rate: fedmf.LearningRate.Value(s.Config)}, nil
}

func (x *central) Epochs() int { return x.epochs }

// Train saves the embeddings of users, then the embeddings of items, with every bit, and continues from these.
func (x *central) Train(ctx context.Context, run protocol.Runner, from algorithm.Passes, _ entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	train, p := x.setup.Ratings, x.params
	f := &model.Factors{Users: p.StartUsers(train.Users), Items: p.StartItems()}
	users, items := f.Users.Data(), f.Items.Data()
	rng := entropy.Public(p.Seed, "baseline/central")
	p.Scatter(f.Users, rng)
	if from.Done > 0 {
		cut := min(len(from.State), 8*len(users))
		if err := errors.Join(model.ReadFloats(users, from.State[:cut]), model.ReadFloats(items, from.State[cut:])); err != nil {
			return nil, fmt.Errorf("fmf: a state of other users or items: %w", err)
		}
	}
	grid := newBlocks(train, rng)
	for epoch := from.Done + 1; epoch <= x.epochs; epoch++ {
		order := entropy.Public(p.Seed, fmt.Sprint("baseline/central/pass/", epoch))
		grid.pass(f, p.MaxRating, kernel.Schedule(x.rate, epoch, x.epochs), order, run)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		save := func() []byte { return model.AppendFloats(model.AppendFloats(nil, users...), items...) }
		if err := passed(algorithm.Epoch{Number: epoch, Model: f, Save: save}); err != nil {
			return nil, err
		}
	}
	return model.OfFactors(f), nil
}

func (x *central) Baselines() []algorithm.Baseline {
	return append(fedmf.StartBaselines(x.setup, x.params, alone), algorithm.NonPrivate(x.setup, "", nil))
}

// mostStripes is the number of stripes of users, and of items. It does not depend on the machine, so
// neither do the results. The blocks of MovieLens 1M's shape fit into a core's cache.
const mostStripes = 32

// placed is one rating, beside its user and its item, so that a pass reads memory in order.
type placed struct {
	user, item int32
	value      float32
}

// blocks holds ratings in a grid of stripes of users and stripes of items. Two blocks that share no stripe share no embedding:
// their steps can be taken at the same time, and in any order, to the same bits (Gemulla et al. 2011).
type blocks struct {
	stripes int
	ratings []placed
	start   []int // of each block, stripe of users by stripe of items, and the end of the last
}

// mixer is the part of a random generator that puts things in a random order.
type mixer interface {
	Shuffle(n int, swap func(i, j int))
	Perm(n int) []int
}

// newBlocks deals users and items to stripes with about as many ratings each, and puts the ratings of each block in a random order.
func newBlocks(train dataset.Ratings, rng mixer) *blocks {
	b := &blocks{stripes: max(1, min(mostStripes, train.Users, train.Items))}
	users, items := dealt(train.User, train.Users, b.stripes), dealt(train.Item, train.Items, b.stripes)
	at := func(k int) int { return users[train.User[k]]*b.stripes + items[train.Item[k]] }
	b.start = make([]int, b.stripes*b.stripes+1)
	for k := range train.User {
		b.start[at(k)+1]++
	}
	for i := range b.stripes * b.stripes {
		b.start[i+1] += b.start[i]
	}
	b.ratings = make([]placed, train.Len())
	next := slices.Clone(b.start)
	for k, x := range train.Value {
		to := &next[at(k)]
		b.ratings[*to] = placed{train.User[k], train.Item[k], x}
		*to++
	}
	for i := range b.stripes * b.stripes {
		one := b.ratings[b.start[i]:b.start[i+1]]
		rng.Shuffle(len(one), func(x, y int) { one[x], one[y] = one[y], one[x] })
	}
	return b
}

// dealt returns the stripe of each of n rows. Rows are dealt there and back, those with the most ratings first.
func dealt(rows []int32, n, stripes int) []int {
	count, order, stripe := make([]int, n), model.Indices(n), make([]int, n)
	for _, i := range rows {
		count[i]++
	}
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(count[y], count[x]) })
	for k, i := range order {
		s := k % stripes
		if k/stripes%2 == 1 {
			s = stripes - 1 - s
		}
		stripe[i] = s
	}
	return stripe
}

// pass takes a projected step for each rating. It goes from one diagonal of the grid to the next,
// in a random order, and takes the blocks of a diagonal at the same time.
func (b *blocks) pass(f *model.Factors, r, rate float64, rng mixer, run protocol.Runner) {
	u, v, rank := f.Users.Data(), f.Items.Data(), f.Users.Cols()
	for _, diagonal := range rng.Perm(b.stripes) {
		run.Each(b.stripes, func(i int) {
			at := i*b.stripes + (i+diagonal)%b.stripes
			inTurn(u, v, rank, b.ratings[b.start[at]:b.start[at+1]], r, rate)
		})
	}
}

// inTurn takes a projected step on u_i and v_j for each rating, in order.
func inTurn(u, v []float64, rank int, ratings []placed, r, rate float64) {
	for k := range ratings {
		x := &ratings[k]
		ui, vj := u[int(x.user)*rank:][:rank:rank], v[int(x.item)*rank:][:rank:rank]
		normU, normV := turn(ui, vj, float64(x.value), 2*rate)
		kernel.Shrink(ui, normU, r)
		kernel.Shrink(vj, normV, r)
	}
}

// turn takes the gradient step of a rating on u_i and v_j, sets negative coordinates to zero, and returns the squared norms. It
// takes four coordinates at a time. Sums are of four parts, so that no addition waits for the addition before it.
func turn(ui, vj []float64, value, rate float64) (normU, normV float64) {
	step := rate * (value - dot(ui, vj))
	var u0, u1, v0, v1 float64
	c := 0
	for ; c+4 <= len(ui); c += 4 {
		a, b := (*[4]float64)(ui[c:]), (*[4]float64)(vj[c:])
		x0, x1, x2, x3 := a[0], a[1], a[2], a[3]
		y0, y1, y2, y3 := b[0], b[1], b[2], b[3]
		p0, p1, p2, p3 := positive(x0+step*y0), positive(x1+step*y1), positive(x2+step*y2), positive(x3+step*y3)
		a[0], a[1], a[2], a[3] = p0, p1, p2, p3
		u0 += p0*p0 + p2*p2
		u1 += p1*p1 + p3*p3
		p0, p1, p2, p3 = positive(y0+step*x0), positive(y1+step*x1), positive(y2+step*x2), positive(y3+step*x3)
		b[0], b[1], b[2], b[3] = p0, p1, p2, p3
		v0 += p0*p0 + p2*p2
		v1 += p1*p1 + p3*p3
	}
	for ; c < len(ui); c++ {
		x, y := ui[c], vj[c]
		p, q := positive(x+step*y), positive(y+step*x)
		ui[c], vj[c] = p, q
		u0 += p * p
		v0 += q * q
	}
	return u0 + u1, v0 + v1
}

// dot is the inner product, as the sum of four parts.
func dot(x, y []float64) float64 {
	var s0, s1, s2, s3 float64
	c := 0
	for ; c+4 <= len(x); c += 4 {
		a, b := (*[4]float64)(x[c:]), (*[4]float64)(y[c:])
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
	}
	for ; c < len(x); c++ {
		s0 += x[c] * y[c]
	}
	return (s0 + s1) + (s2 + s3)
}

// positive is x, or 0 if x is negative.
func positive(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}
