// Package model holds what a trained recommender is made of, whatever trained it:
// one user's ratings, matrices of embeddings, and what predicts ratings from them.
// It knows no algorithm, so that algorithms, metrics and files can share it.
package model

// Ratings are one user's: Values[k] is what the user gave to Items[k], in stars.
// Items are indices into the catalogue, or into the part of it that a party owns,
// each at most once. Families that need them ascending say so.
type Ratings struct {
	Items  []int32
	Values []float32
}

// Predictor predicts ratings.
type Predictor interface {
	// Predict writes what it expects user to give items[i], in stars, to out[i]. It is
	// safe for concurrent use for different users.
	Predict(user int, items []int32, out []float64)
}

// Factors predict the inner product of a user's and an item's embedding.
type Factors struct {
	Users, Items *Matrix // users x rank and items x rank
}

// Predict implements Predictor.
func (f *Factors) Predict(user int, items []int32, out []float64) {
	u := f.Users.Row(user)
	for i, j := range items {
		out[i] = Dot(u, f.Items.Row(int(j)))
	}
}

// Trained is what a run ends with: what predicts, and what is kept of it.
type Trained struct {
	Predictor
	Matrices []Named
	// Shared predicts without what parties tuned for themselves alone; nil
	// where they tune nothing but users' embeddings.
	Shared Predictor
	// Mean, in stars, is what predictions are on top of; nil of a model without one.
	Mean *float64
}

// OfFactors is a model of user and item embeddings for all.
func OfFactors(f *Factors) *Trained {
	return &Trained{Predictor: f, Matrices: []Named{{"item_embeddings", f.Items}, {"user_embeddings", f.Users}}}
}

// Named is a matrix with the name of its file, without extension.
type Named struct {
	Name string
	*Matrix
}

// Embeddings are a matrix that a party ends with, with the ids of whom or what its
// rows are about.
type Embeddings struct {
	Named
	IDs []string // one for each row
}

// NewEmbeddings names a matrix and its rows, of which there are as many as ids.
func NewEmbeddings(name string, m *Matrix, ids []string) Embeddings {
	return Embeddings{Named{name, m}, ids}
}
