package fedssp

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/stage"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// NewUser returns the trainer of a user with the given ratings, which it keeps and does not change.
// A user may have none. Items must ascend and be within the settings, and values be on the scale.
// For other ratings Contribute returns an error, to the owner only.
func NewUser(p *kernel.Params, r model.UserRatings) *user.User {
	return &NewUsers(p, 1, model.Alone(r))[0]
}

// NewUsers returns the trainers of many users of one process.
func NewUsers(p *kernel.Params, n int, all model.RatingsByUser) []user.User {
	return user.New(p, stage.ClientSides(p), n, all, model.NewRowArena(n, p.Width()))
}

// New returns a strategy with the model at its start.
func New(p serving.StrategyParams) (*serving.Strategy, error) {
	want, err := stage.Steps(p.Params)
	errs := problems.List{err, p.Cohort.Validate()}
	if err == nil {
		errs = append(errs, checkSteps(p.Steps, want))
	}
	if err = errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	return serving.New(p, stage.ServerSides)
}

// checkSteps checks that the steps match the settings' schedule, and are complete.
func checkSteps(got, want []kernel.Step) error {
	if len(got) != len(want) {
		return fmt.Errorf("there are %d steps; the settings make %d", len(got), len(want))
	}
	var errs problems.List
	for i, s := range got {
		if s.Phase != want[i].Phase || len(s.Releases) != len(want[i].Releases) {
			return fmt.Errorf("step %d is %q with %d releases; it must be %q with %d", i+1, s.Phase, len(s.Releases), want[i].Phase, len(want[i].Releases))
		}
		for k, r := range s.Releases {
			bare := r
			bare.Scale, bare.Width, bare.Noise = 0, 0, protocol.Noise{}
			errs.If(bare != want[i].Releases[k],
				"step %d: release %q has other bounds than the settings make; set scale, width and noise only", i+1, r.Name)
			errs = append(errs, r.Validate())
		}
	}
	return errors.Join(errs...)
}

func (f *family) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	s := settings.Of(c)
	width, err := savedWidth(s, set, files.Features())
	if err != nil {
		return nil, err
	}
	if _, missing := files.Matrix("item_embeddings", set.Items, width); missing != nil && s.WeighsPopularity() {
		width-- // a run from before popularity was weighed
	}
	m := saved{lastUnknown: s.Implicit() && s.OfSomeItems()}
	read := func(name string, rows, cols int) *model.Matrix {
		x, readErr := files.Matrix(name, rows, cols)
		err = errors.Join(err, readErr)
		return x
	}
	m.items, m.users = read("item_embeddings", set.Items, width), read("user_embeddings", set.Users, width)
	if s.Biases() || files.Has("item_bias") {
		m.itemBias = read("item_bias", set.Items, 1)
	}
	if s.Biases() || files.Has("user_bias") {
		m.userBias = read("user_bias", set.Users, 1)
	}
	if err != nil {
		return nil, err
	}
	if files.Mean() == nil {
		return nil, errors.New("summary.json: there is no mean, which predictions of this model are on top of")
	}
	m.mean = *files.Mean()
	if s.Loss().Logits {
		if m.logistic, err = m.logits(set, width); err != nil {
			return nil, err
		}
	}
	out := &algorithm.Saved{Items: m.items, Popularity: m.popularity(), Score: m.score}
	if err = m.order(out, c, set, files); err != nil {
		return nil, err
	}
	return out, nil
}

// order makes a saved model order lists as the run did. With implicit feedback scores are that order.
func (m *saved) order(out *algorithm.Saved, c config.Config, set *dataset.Set, files algorithm.Files) error {
	s := settings.Of(c)
	weight := s.OrderWeight()
	if weight == 0 || !files.Has(algorithm.ItemCounts) {
		return nil
	}
	counts, err := files.Matrix(algorithm.ItemCounts, set.Items, 1)
	if err != nil {
		return err
	}
	f := files.Features()
	if f == nil && s.TakesFeatures() {
		if f, _, err = algorithm.ReadFeatures(c, set); err != nil {
			return err
		}
	}
	order := kernel.NewOrder(counts.Data(), f, weight)
	if !s.Implicit() {
		out.Order = order.Rank
		return nil
	}
	rows := files.Train()
	out.Score = func(user int, to []float64) {
		m.score(user, to)
		rows.Lend(user, func(items []int32, _ []float32) { order.Rank(items, to) })
	}
	if out.Popularity = make([]float64, set.Items); len(out.Popularity) > 0 {
		order.Rank(nil, out.Popularity)
	}
	return nil
}

// savedWidth is the length of the embeddings of a run, with features that were agreed on, or nil.
func savedWidth(s settings.Settings, set *dataset.Set, f *dataset.ItemFeatures) (int, error) {
	rank := int(algorithm.Rank.Or(s.Config, s.Rank()))
	if !s.Items() {
		rank = 1
	}
	if s.WeighsPopularity() {
		rank++
	}
	if !s.WeighsFeatures() {
		return rank, nil
	}
	if f == nil {
		var err error
		if f, _, err = algorithm.ReadFeatures(s.Config, set); err != nil {
			return 0, err
		}
	}
	return rank + s.UserFeatures(f).Width(), nil
}

// saved is a model that was read. With biases, each bias matrix has one number in each row.
type saved struct {
	users, items       *model.Matrix
	userBias, itemBias *model.Matrix // nil in a model without biases
	mean               float64
	logistic           *kernel.Model // the model if its predictions are logits, else nil
	lastUnknown        bool          // an item without an embedding was not trained on, and comes last
}

// logits assembles a model whose predictions are logits.
func (m *saved) logits(set *dataset.Set, width int) (*kernel.Model, error) {
	l := &kernel.Model{Mean: m.mean, Items: m.items.Data()}
	if m.itemBias != nil {
		l.Bias = m.itemBias.Data()
	}
	return kernel.DecodeModel(l.Encode(), &kernel.Params{Items: set.Items, Rank: width, Min: set.Min, Max: set.Max, SolverParams: kernel.SolverParams{Solver: solver.ALS, Logits: true}})
}

// popularity returns the predictions for a user of whom nothing is known: mean and item biases. It is
// nil for a model without biases.
func (m *saved) popularity() []float64 {
	if m.itemBias == nil {
		return nil
	}
	unknown := *m
	unknown.users, unknown.userBias = model.NewMatrix(1, m.items.Cols()), nil
	out := make([]float64, m.items.Rows())
	unknown.score(0, out)
	return algorithm.PopularityOf(out)
}

// score predicts a user's rating of every item.
func (m *saved) score(user int, out []float64) {
	u, own := m.users.Row(user), 0.
	if m.userBias != nil {
		own = m.userBias.Row(user)[0]
	}
	for j := range out {
		if m.logistic != nil {
			out[j] = m.logistic.Predict(u, own, j)
			continue
		}
		if m.lastUnknown && kernel.Nothing(m.items.Row(j)) {
			out[j] = math.NaN()
			continue
		}
		out[j] = m.mean + model.Dot(u, m.items.Row(j))
		if m.itemBias != nil {
			out[j] += m.itemBias.Row(j)[0]
		}
		out[j] += own
	}
}
