package baselines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
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
		train: s.Train, known: histories(s),
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

func (f *factors) state() []byte { return slices.Concat(f.users.Encode(), f.items.Encode()) }

func (f *factors) restore(state []byte) error {
	cut := min(len(state), model.EncodedSize(f.users.Dims()))
	u, err := model.NewBroadcast(state[:cut], f.users.Rows(), f.users.Cols())
	v, err2 := model.NewBroadcast(state[cut:], f.items.Rows(), f.items.Cols())
	if err = errors.Join(err, err2); err != nil {
		return fmt.Errorf("baselines: a state of other users or items: %w", err)
	}
	u.Into(f.users)
	v.Into(f.items)
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
	itemsName = "item_embeddings"
	usersName = "user_embeddings"
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
