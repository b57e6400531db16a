package baselines

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// factorRank is the default length of embeddings. It is the largest of 32, 64 and 128 that gains on
// validation data of synthetic:ml-1m or MovieLens latest-small.
const factorRank = 64

// factors holds embeddings of users and items. The last column of items is a bias if biased.
type factors struct {
	users, items *model.Matrix
	train, known *dataset.Rows
	// fit sets a user's embedding by a history, given the items' embeddings.
	fit func(user int, history []int32, row []float64)
}

func newFactors(s *algorithm.Setup, userWidth, itemWidth int) factors {
	return factors{
		users: model.NewMatrix(s.Data.Users, userWidth), items: model.NewMatrix(s.Data.Items, itemWidth),
		train: s.Train, known: s.Held.Known(s.Ratings).ByUser(),
	}
}

// score writes the inner product with every item. An item's last number is added if a user's embedding is
// shorter by one.
func (f *factors) score(u []float64, out []float64) {
	for j := range out {
		out[j] = f.one(u, j)
	}
}

func (f *factors) one(u []float64, j int) float64 {
	v := f.items.Row(j)
	x := model.Dot(u, v)
	if len(v) > len(u) {
		x += v[len(u)]
	}
	return x
}

// Score takes the embedding of a user that training has seen, and fits any other user to the history.
func (f *factors) Score(user int, history []int32, _ []float32, out []float64) {
	f.score(f.embedding(user, history), out)
}

// embedding returns a user's embedding.
func (f *factors) embedding(user int, history []int32) []float64 {
	seen := false
	f.train.Lend(user, func(items []int32, _ []float32) { seen = len(items) > 0 })
	if seen {
		return f.users.Row(user)
	}
	u := make([]float64, f.users.Cols())
	f.fit(user, history, u)
	return u
}

// Predict writes scores, whose order alone counts.
func (f *factors) Predict(user int, items []int32, out []float64) {
	var u []float64
	f.known.Lend(user, func(history []int32, _ []float32) { u = f.embedding(user, history) })
	for i, j := range items {
		out[i] = f.one(u, int(j))
	}
}

func (f *factors) state() []byte { return encoded(f.users, f.items) }

func (f *factors) restore(state []byte) error { return decode(state, f.users, f.items) }

// encoded returns the rows of users, then the rows of items.
func encoded(users, items *model.Matrix) []byte {
	return model.AppendFloats(model.AppendFloats(nil, users.Data()...), items.Data()...)
}

// decode reads the output of encoded into matrices of the same sizes.
func decode(state []byte, users, items *model.Matrix) error {
	cut := min(len(state), 8*len(users.Data()))
	if err := errors.Join(model.ReadFloats(users.Data(), state[:cut]), model.ReadFloats(items.Data(), state[cut:])); err != nil {
		return fmt.Errorf("baselines: a state of other users or items: %w", err)
	}
	return nil
}

// matrices lists the embeddings, and fits the users that training has not seen.
func (f *factors) matrices(run protocol.Runner) []model.Named {
	users := f.users.Clone()
	run.Each(users.Rows(), func(u int) {
		f.known.Lend(u, func(history []int32, _ []float32) { copy(users.Row(u), f.embedding(u, history)) })
	})
	return []model.Named{{Name: itemsName, Matrix: f.items}, {Name: usersName, Matrix: users}}
}

const (
	itemsName    = "item_embeddings"
	usersName    = "user_embeddings"
	itemBiasName = "item_bias" // of als
	userBiasName = "user_bias"
)

// factorizer is a method whose finished runs can be asked for recommendations.
type factorizer struct{ *method }

// Load reads the embeddings. Items have one number more than users if they have biases.
func (x *factorizer) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	rank := int(algorithm.Rank.Or(c, factorRank))
	width := rank
	if x.about.Name == bprName {
		width++
	}
	items, err := files.Matrix(itemsName, set.Items, width)
	users, err2 := files.Matrix(usersName, set.Users, rank)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	f := &factors{users: users, items: items}
	return &algorithm.Saved{Items: items, Score: func(user int, out []float64) { f.score(users.Row(user), out) }}, nil
}

// ialsStart is the deviation of an embedding's length at the start (Rendle et al., section 4.4).
const ialsStart = 0.1

// ials returns implicit alternating least squares as Rendle et al. tuned it, and fcf, which shares its
// objective.
func ials() (exact, descends *method) {
	passes := config.DeclareNumber(config.Key{
		Name: "ials.passes", Kind: config.Whole, Default: "16", Range: config.AtLeast(1),
		Help: "How often ials solves for all users and then for all items.",
	})
	unobserved := config.DeclareNumber(config.Key{
		Name: "ials.unobserved", Kind: config.Real, Default: "0.1", Range: config.Positive(),
		Help: "Weight of an item that a user has not rated, beside 1 for an item that the user likes.",
	})
	ridge := config.DeclareNumber(config.Key{
		Name: "ials.ridge", Kind: config.Real, Default: "0.003", Range: config.AtLeast(0),
		Help: "Ridge of an embedding, for the total weight of its ratings.",
	})
	exact = &method{
		about: about("ials", "implicit alternating least squares, with a ridge that grows with the number of ratings", "Rendle, Krichene, Zhang, Koren, RecSys 2022; Hu, Koren, Volinsky 2008", factorRank,
			algorithm.Rank.Key, passes.Key, unobserved.Key, ridge.Key),
		passes: func(c config.Config) int { return passes.Int(c) },
		start: func(s *algorithm.Setup) (learner, error) {
			d := int(algorithm.Rank.Chosen(s.Config))
			l := &implicit{factors: newFactors(s, d, d), byItem: turned(s.Ratings), unobserved: unobserved.Value(s.Config), ridge: ridge.Value(s.Config)}
			rng := entropy.Public(algorithm.Seed.Of(s.Config), "ials/start")
			for _, m := range []*model.Matrix{l.users, l.items} {
				scatter(m, d, ialsStart/math.Sqrt(float64(d)), rng)
			}
			l.spaces.New = func() any { return &space{a: make([]float64, d*d)} }
			l.fit = l.solveUser
			return l, nil
		},
	}
	return exact, fcf(exact, unobserved, ridge)
}

// implicit is iALS: it minimises, over embeddings w of users and h of items,
//
//	Σ over liked (w·h - 1)² + unobserved·Σ over all (w·h)² + ridge·Σ N·|w|² + ridge·Σ N·|h|²
//
// where N of a user or item is its number of likes plus unobserved times all items or users.
type implicit struct {
	factors
	byItem            *dataset.Rows
	unobserved, ridge float64
	itemGram          []float64 // unobserved·Σ h hᵀ, upper triangle
	spaces            sync.Pool
}

// space is the working memory of one worker.
type space struct{ rows, products, a, b []float64 }

// pass solves for all users, then for all items, and for users again after the items have changed.
func (l *implicit) pass(_ int, run protocol.Runner) error {
	l.solveUsers(run)
	gram := l.gram(l.users)
	run.Each(l.items.Rows(), func(j int) {
		users, _ := l.byItem.Row(j)
		l.solve(l.items.Row(j), l.users, gram, users)
	})
	l.itemGram = l.gram(l.items)
	l.solveUsers(run)
	return nil
}

func (l *implicit) solveUsers(run protocol.Runner) {
	if l.itemGram == nil {
		l.itemGram = l.gram(l.items)
	}
	run.Each(l.users.Rows(), func(u int) {
		l.train.Lend(u, func(items []int32, _ []float32) { l.solveUser(u, items, l.users.Row(u)) })
	})
}

func (l *implicit) solveUser(_ int, history []int32, row []float64) {
	l.solve(row, l.items, l.itemGram, history)
}

// gram returns unobserved times the Gramian of embeddings.
func (l *implicit) gram(m *model.Matrix) []float64 {
	d := m.Cols()
	g := make([]float64, d*d)
	dense.AddOuter(g, d, m.Data(), d, d)
	floats.Scale(l.unobserved, g)
	return g
}

// solve sets one embedding to the minimum, given the other side's embeddings and their Gramian.
func (l *implicit) solve(row []float64, others *model.Matrix, gram []float64, liked []int32) {
	w := l.spaces.Get().(*space)
	defer l.spaces.Put(w)
	d := len(row)
	w.rows = slices.Grow(w.rows[:0], d*len(liked))[:d*len(liked)]
	copy(w.a, gram)
	clear(row)
	for k, j := range liked {
		x := w.rows[k*d : (k+1)*d]
		copy(x, others.Row(int(j)))
		floats.Add(row, x)
	}
	dense.AddOuter(w.a, d, w.rows, d, d)
	ridge := l.ridge * (float64(len(liked)) + l.unobserved*float64(others.Rows()))
	for c := range d {
		w.a[c*d+c] += ridge
	}
	if !dense.SolveUpper(w.a, row, d) {
		clear(row)
	}
}

func (l *implicit) restore(state []byte) error {
	err := l.factors.restore(state)
	l.itemGram = nil
	return err
}

// central is alternating least squares with all ratings in one place and without privacy. It is the
// usual factorization where no data is private, and serves as a reference for the private
// algorithms.
type central struct{ *method }

func als() *central {
	return &central{&method{about: algorithm.About{
		Name: "als", Help: "alternating least squares with biases on all ratings in one place, without privacy: the usual method where data may be pooled",
		Paper: "Zhou, Wilkinson, Schreiber, Pan 2008", Clients: algorithm.Nobody,
		Units: []dp.Unit{dp.User}, OtherUnit: "als protects nothing", Relation: dp.ZeroOut,
		Keys:   []*config.Key{algorithm.Rank.Key, passesKey.Key},
		Rounds: algorithm.Always(0),
		Rank:   algorithm.Always(alsRank),
	}, passes: func(c config.Config) int { return passesKey.Int(c) }, start: func(s *algorithm.Setup) (learner, error) {
		return startALS(s.Ratings, int(algorithm.Rank.Chosen(s.Config)), algorithm.Seed.Of(s.Config)), nil
	}}}
}

// alsRank has the least validation error of the ranks 6, 8 and 10 at the other defaults, on
// synthetic:ml-1m and on MovieLens latest-small (one split each).
const alsRank = 8

// Ridges of als. With few ratings the constant one keeps embeddings and biases small.
const (
	alsRidge  = 0.05 // of an embedding, for each of its ratings
	alsShrink = 5    // of an embedding and a bias, whatever the number of ratings
)

var passesKey = config.DeclareNumber(config.Key{
	Name: "als.passes", Kind: config.Whole, Default: "15", Range: config.AtLeast(1),
	Help: "How often als solves for all users and then for all items.",
})

func (*central) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	rank := int(algorithm.Rank.Or(c, alsRank))
	items, err1 := files.Matrix(itemsName, set.Items, rank)
	users, err2 := files.Matrix(usersName, set.Users, rank)
	itemBias, err3 := files.Matrix(itemBiasName, set.Items, 1)
	userBias, err4 := files.Matrix(userBiasName, set.Users, 1)
	errs := problems.List{err1, err2, err3, err4}
	errs.If(files.Mean() == nil, "summary.json: there is no mean, which predictions of this model are on top of")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	f := &alternating{mean: *files.Mean(), users: joinBias(users, userBias), items: joinBias(items, itemBias)}
	unknown := lists.Map(itemBias.Data(), func(b float64) float64 { return f.mean + b })
	all := model.Indices(set.Items)
	return &algorithm.Saved{Items: items, Popularity: algorithm.PopularityOf(unknown), Score: func(user int, out []float64) { f.Predict(user, all, out) }}, nil
}

// alternating is a factorization in training. A user's or item's row holds its embedding and, last,
// its bias.
type alternating struct {
	mean         float64
	users, items *model.Matrix
	byUser       *dataset.Rows
	byItem       *dataset.Rows
	spaces       sync.Pool
}

func startALS(train dataset.Ratings, rank int, seed uint64) *alternating {
	d := rank + 1
	f := &alternating{
		mean: train.Mean(), byUser: train.ByUser(), byItem: turned(train),
		users: model.NewMatrix(train.Users, d), items: model.NewMatrix(train.Items, d),
	}
	scatter(f.items, rank, 0.1, entropy.Public(seed, "als/start"))
	f.spaces.New = func() any {
		return &space{products: make([]float64, (d+1)*(d+1)), a: make([]float64, d*d), b: make([]float64, d)}
	}
	return f
}

// pass solves for all users, then for all items. Each row is solved independently, so the result
// does not depend on the number of workers.
func (f *alternating) pass(_ int, run protocol.Runner) error {
	run.Each(f.users.Rows(), func(u int) { f.solve(f.users.Row(u), f.items, f.byUser, u) })
	run.Each(f.items.Rows(), func(j int) { f.solve(f.items.Row(j), f.users, f.byItem, j) })
	return nil
}

// solve sets one row to the minimum of the squared error of its ratings against the other side's
// rows, plus two ridges. The ridge on the embedding grows with the number of ratings (Zhou et al.
// 2008). The ridge on embedding and bias is constant. A row without ratings is 0.
func (f *alternating) solve(row []float64, others *model.Matrix, ratings *dataset.Rows, i int) {
	at, values := ratings.Row(i)
	if len(at) == 0 {
		clear(row)
		return
	}
	w := f.spaces.Get().(*space)
	defer f.spaces.Put(w)
	d := len(row)
	line := d + 1 // a row and, last, its target
	w.rows = slices.Grow(w.rows[:0], line*len(at))[:line*len(at)]
	for k, j := range at {
		x := w.rows[k*line : (k+1)*line]
		copy(x, others.Row(int(j)))
		x[d] = float64(values[k]) - f.mean - x[d-1]
		x[d-1] = 1
	}
	clear(w.products)
	dense.AddOuter(w.products, line, w.rows, line, line)
	for c := range d {
		copy(w.a[c*d+c:(c+1)*d], w.products[c*line+c:])
		w.b[c] = w.products[c*line+d]
	}
	for c := range d {
		w.a[c*d+c] += alsShrink
		if c < d-1 {
			w.a[c*d+c] += alsRidge * float64(len(at))
		}
	}
	if dense.SolveUpper(w.a, w.b, d) {
		copy(row, w.b)
	}
}

func (f *alternating) Predict(user int, items []int32, out []float64) {
	u := f.users.Row(user)
	d := len(u) - 1
	for i, j := range items {
		v := f.items.Row(int(j))
		out[i] = f.mean + model.Dot(u[:d], v) + u[d] + v[d]
	}
}

// splitBias splits a matrix into embeddings and biases.
func splitBias(m *model.Matrix) (embeddings, bias *model.Matrix) {
	rows, d := m.Rows(), m.Cols()-1
	part := func(from, to int) *model.Matrix {
		return model.Wrap(rows, to-from, mat.DenseCopyOf(mat.NewDense(rows, d+1, m.Data()).Slice(0, rows, from, to)).RawMatrix().Data)
	}
	return part(0, d), part(d, d+1)
}

// joinBias is the inverse of splitBias.
func joinBias(embeddings, bias *model.Matrix) *model.Matrix {
	rows, d := embeddings.Dims()
	var m mat.Dense
	m.Augment(mat.NewDense(rows, d, embeddings.Data()), mat.NewDense(rows, 1, bias.Data()))
	return model.Wrap(rows, d+1, m.RawMatrix().Data)
}

func (f *alternating) state() []byte { return encoded(f.users, f.items) }

func (f *alternating) restore(state []byte) error { return decode(state, f.users, f.items) }

func (f *alternating) matrices(protocol.Runner) []model.Named {
	users, userBias := splitBias(f.users)
	items, itemBias := splitBias(f.items)
	return []model.Named{
		{Name: itemsName, Matrix: items}, {Name: itemBiasName, Matrix: itemBias}, {Name: usersName, Matrix: users}, {Name: userBiasName, Matrix: userBias},
	}
}
