package algorithm

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/strictjson"
	"github.com/fedsim/fedsim/model"
)

// Start holds what earlier sessions released, for a session that starts from it. A release stays private
// whatever is computed from it, so that using it costs nothing.
type Start struct {
	From   string   // the folder, for messages
	Digest [32]byte // of the file that holds all the rest

	Basis
	// Released holds matrices whose rows belong to ids. A row of an item or user that the last session did not have stays.
	// It is nil for a client of a deployment, who knows of the releases by their digest.
	Released []model.Embeddings
	// Sessions lists the sessions that Released depends on, the first one first.
	Sessions []PastSession
}

// Basis says what releases are of.
type Basis struct {
	Algorithm string  `json:"algorithm"`
	Feedback  string  `json:"feedback"`
	Rank      int     `json:"rank"`
	Min       float64 `json:"min"` // of the rating scale
	Max       float64 `json:"max"`
}

// PastSession states what a session has cost.
type PastSession struct {
	Session      string        `json:"session"`           // in hex
	Epsilon      *float64      `json:"epsilon"`           // of the session alone; nil without noise, or after a plain search
	Delta        float64       `json:"delta"`             // at which Epsilon holds
	Unit         dp.Unit       `json:"unit"`              // of privacy
	Accountant   dp.Accountant `json:"accountant"`        // that composes the events
	Events       []dp.Event    `json:"events"`            // upper bound on the releases that one unit was in
	SamplerError float64       `json:"sampler_error"`     // of all their noise, in total variation
	Skipped      int           `json:"skipped,omitempty"` // rounds that released nothing
	// Search chose the settings of the session by the same data; nil if none did. Epsilon and the cost of a private search
	// cover the run that won, and Events is empty for that run.
	Search *dp.Search `json:"search,omitempty"`
}

// plainSearch is the value of chosen-by for a plain search over an unknown number of candidates.
const plainSearch = "plain"

// SearchOf returns the search that chose the settings of a configuration by the same data; nil if none did. It returns an
// error if the value of chosen-by is no record of a search.
func SearchOf(c config.Config) (*dp.Search, error) {
	text := ChosenBy.Of(c)
	switch text {
	case "":
		return nil, nil
	case plainSearch:
		return &dp.Search{}, nil
	}
	s := new(dp.Search)
	if err := strictjson.Read([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%.80q is neither %s nor the record of a search, which fedsim tune writes", text, plainSearch)
	}
	return s, s.Validate()
}

// Recorder is an Instance of whose releases a later session can start.
type Recorder interface {
	// Record returns the releases of a session whose strategy has ended, and the releases of earlier sessions combined with
	// them. trained is the model that a simulation ends with; nil in a deployment.
	Record(s Strategy, trained *model.Trained) ([]model.Embeddings, error)
}

// Known reports whether the releases themselves are there. A nil Start has none.
func (s *Start) Known() bool { return s != nil && s.Released != nil }

// Matrix returns the released matrix of a name; false if there is none.
func (s *Start) Matrix(name string) (model.Embeddings, bool) {
	i := slices.IndexFunc(s.Released, func(x model.Embeddings) bool { return x.Name == name })
	if i < 0 {
		return model.Embeddings{}, false
	}
	return s.Released[i], true
}

// Rows returns the released matrix of a name with a row for each id. known tells which ids have a released row;
// the other rows are zero. Rows returns an error if the matrix is missing or has another number of columns.
func (s *Start) Rows(name string, ids []string, cols int) (m *model.Matrix, known []bool, err error) {
	x, ok := s.Matrix(name)
	if !ok || x.Matrix.Cols() != cols {
		return nil, nil, fmt.Errorf("%s has no released %s of %d columns", s.From, name, cols)
	}
	at := dataset.Places(x.IDs)
	m, known = model.NewMatrix(len(ids), cols), make([]bool, len(ids))
	for i, id := range ids {
		var row int32
		if row, known[i] = at[id]; known[i] {
			copy(m.Row(i), x.Matrix.Row(int(row)))
		}
	}
	return m, known, nil
}

// Kept returns a matrix with the released rows of the same name that it lacks behind its own, so that the record
// of items and users that are gone is not lost. change, which may be nil, alters each such row. A nil Start keeps nothing.
func (s *Start) Kept(x model.Embeddings, change func(row []float64)) model.Embeddings {
	if s == nil {
		return x
	}
	before, ok := s.Matrix(x.Name)
	if !ok || before.Matrix.Cols() != x.Matrix.Cols() {
		return x
	}
	has := dataset.Places(x.IDs)
	data, ids := slices.Clone(x.Matrix.Data()), slices.Clone(x.IDs)
	for i, id := range before.IDs {
		if _, ok := has[id]; ok {
			continue
		}
		row := slices.Clone(before.Matrix.Row(i))
		if change != nil {
			change(row)
		}
		data, ids = append(data, row...), append(ids, id)
	}
	return model.NewEmbeddings(x.Name, model.Wrap(len(ids), x.Matrix.Cols(), data), ids)
}
