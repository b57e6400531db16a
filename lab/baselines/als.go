package baselines

import (
	"errors"
	"slices"
	"sync"

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

// alsSpace is the working memory of one worker.
type alsSpace struct{ rows, products, a, b []float64 }

func startALS(train dataset.Ratings, rank int, seed uint64) *alternating {
	d := rank + 1
	f := &alternating{
		mean: train.Mean(), byUser: train.ByUser(), byItem: turned(train),
		users: model.NewMatrix(train.Users, d), items: model.NewMatrix(train.Items, d),
	}
	rng := entropy.Public(seed, "als/start")
	for j := range train.Items {
		row := f.items.Row(j)
		for c := range rank {
			row[c] = 0.1 * rng.NormFloat64()
		}
	}
	f.spaces.New = func() any {
		return &alsSpace{products: make([]float64, (d+1)*(d+1)), a: make([]float64, d*d), b: make([]float64, d)}
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
	w := f.spaces.Get().(*alsSpace)
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
