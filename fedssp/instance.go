package fedssp

import (
	"errors"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// instance is one of the algorithms with its data. Every user is a client, and the server solves
// for the items from noisy sums.
type instance struct {
	setup  *algorithm.Setup
	params kernel.Params
}

func (f *family) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	if f.about.Features == algorithm.NeedsFeatures && s.Features == nil {
		return nil, config.Errorf("features: %s lists no genres or years; %s", s.Data.Name, f.about.NoFeatures)
	}
	if err := s.CheckRanges(); err != nil {
		return nil, err
	}
	x := &instance{setup: s, params: paramsOf(s)}
	steps, err := stage.Steps(x.params)
	if err != nil {
		return nil, config.Wrap(err)
	}
	if err = x.checkStart(); err != nil {
		return nil, err
	}
	if x.params.Solver.Traits().ByUser {
		if x.params.Shape, err = x.params.NewEncoder(); err != nil {
			return nil, config.Wrap(err)
		}
	}
	shares := make([][]float64, len(steps))
	s.Schedule = make(protocol.Schedule, len(steps))
	for i, step := range steps {
		shares[i] = step.Shares
		s.Schedule[i] = protocol.Step{Rounds: 1, Phase: step.Phase, Releases: step.Releases, Model: x.params.ModelSize(step.Phase)}
	}
	s.Schedule[len(steps)-1].Model = x.params.FinalSize() // the final model is broadcast too
	for _, r := range s.Schedule.All() {
		r.Scale = algorithm.Scale(*r) * solver.Of(&x.params).ScaleFactor(&x.params)
	}
	s.Schedule, shares = merged(s.Schedule, shares)
	if s.Private() {
		stage.Sampled(&x.params, s.Schedule)
	}
	return x, s.CalibrateSplit(shares)
}

// merged joins equal steps, and adds up their shares.
func merged(s protocol.Schedule, shares [][]float64) (protocol.Schedule, [][]float64) {
	var steps protocol.Schedule
	var kept [][]float64
	for i, step := range s {
		if last := len(steps) - 1; last >= 0 && steps[last].Alike(step) && slices.Equal(kept[last], shares[i]) {
			steps[last].Rounds += step.Rounds
			continue
		}
		steps, kept = append(steps, step), append(kept, shares[i])
	}
	return steps, kept
}

// Strategy returns the server's side, with a step for each round.
func (x *instance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	var steps []kernel.Step
	for _, s := range x.setup.Schedule {
		for range s.Rounds {
			steps = append(steps, kernel.Step{Phase: s.Phase, Releases: s.Releases})
		}
	}
	s, err := New(serving.StrategyParams{Params: x.params, Session: session, Cohort: x.setup.Cohort, Steps: steps, Donors: x.donors()})
	if err != nil || x.setup.Start == nil {
		return s, err
	}
	return s, x.startFrom(s)
}

// donors returns the trainers of the users whose ratings are public, with all their ratings. It returns nil if sums do not have
// these: the papers' forms take them for features alone, and so does a session that starts from the sums of earlier ones.
func (x *instance) donors() []serving.Donor {
	r := x.setup.Data.Raters
	if r == nil || !settings.Of(x.setup.Config).TakesDonors() {
		return nil
	}
	gave := algorithm.Setup{Train: r.ByUser()}
	users := NewUsers(&x.params, r.Users, gave.Sources())
	users[0].Open = true // and all others
	return lists.Map(model.Indices(r.Users), func(i int32) serving.Donor { return &users[i] })
}

func (x *instance) ClientSide() (algorithm.ClientSide, error) {
	kept := model.NewRowArena(x.setup.Data.Users, x.params.Width())
	return &parties{instance: x, kept: kept, users: user.New(&x.params, stage.ClientSides(&x.params), x.setup.Data.Users, x.setup.Sources(), kept)}, nil
}

func (x *instance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	user, err := l.UserOf(algorithm.Name.Of(x.setup.Config), which)
	if err != nil {
		return nil, err
	}
	r := l.Row(user)
	t := NewUser(&x.params, r)
	t.Timed = which.Timed
	id := l.IDs(user, which)
	return &algorithm.Party{Ratings: len(r.Items), Trainer: t, Result: func() []model.Embeddings {
		u := model.NewMatrix(1, x.params.Width())
		copy(u.Row(0), t.U)
		list := []model.Embeddings{{Named: model.Named{Name: "user_embeddings", Matrix: u}, IDs: id}}
		if x.params.Bias {
			list = append(list, model.Embeddings{Named: model.Named{Name: "user_bias", Matrix: column([]float64{t.Bias})}, IDs: id})
		}
		return list
	}}, nil
}

// Shared returns the embeddings of all items and, for a model with biases, the item biases and the
// mean.
func (x *instance) Shared(shared []byte) ([]model.Embeddings, error) {
	m, err := kernel.DecodeModel(shared, &x.params)
	if err != nil {
		return nil, err
	}
	list := []model.Embeddings{{Named: model.Named{Name: "mean", Matrix: column([]float64{m.Mean})}, IDs: []string{"mean"}}}
	ofItems := func(n model.Named) model.Embeddings { return model.Embeddings{Named: n, IDs: x.setup.Data.ItemIDs} }
	return append(list, lists.Map(x.matrices(m), ofItems)...), nil
}

// Baselines includes what each client learns alone: it can learn items only from its own ratings,
// against a public start.
func (x *instance) Baselines() []algorithm.Baseline {
	list := []algorithm.Baseline{
		{Name: "before_cooperation", Note: "each client alone, from this start", Predict: func(run protocol.Runner) (model.Predictor, error) {
			if x.setup.Start != nil { // the model that earlier sessions' sums make
				s, err := x.Strategy(protocol.SessionID{})
				if err != nil {
					return nil, err
				}
				return x.fitted(&x.params, s.Model(), run)
			}
			all := x.params
			all.TopItems, all.ByWeights = 0, false
			start, err := all.Start()
			if err != nil {
				return nil, err
			}
			return x.fitted(&all, start.Encode(), run)
		}},
	}
	list = append(list, x.itemBias())
	// Only the factorization has learning rates; the noise chooses nothing here.
	return append(list, algorithm.NonPrivate(x.setup, "", nil))
}

// itemBias is the baseline that spends the whole budget on a private bias of every item or, without
// a scale of ratings, on the popularity of items by private counts.
func (x *instance) itemBias() algorithm.Baseline {
	s := settings.Of(x.setup.Config)
	b := algorithm.Baseline{Name: "private_item_bias", Note: "a bias for each item, for the same ε", Itself: !s.Items()}
	if s.Implicit() {
		b.Name, b.Note = "private_popularity", "one list for all, by private counts"
	}
	b.Vary = func(c *config.Config) {
		algorithm.Name.Set(c, biasOnly)
		for _, k := range config.Keys() {
			if k.Section() == "statistics" {
				c.Reset(k)
			}
		}
	}
	return b
}

// Lost describes the effect of a lost round. One round releases the weight of each item's ratings.
func (x *instance) Lost(step protocol.Step) string {
	if slices.ContainsFunc(step.Releases, func(r protocol.Release) bool { return r.Name == kernel.WeightCounts }) {
		if x.params.BiasRounds > 1 {
			return "a round that tells how much each item was rated was skipped: less is known of items, and nothing if all of them are"
		}
		return "the round that tells how much each item was rated was skipped: nothing is learned of items without it"
	}
	return ""
}

// Forms returns the key and the values of the two forms of second-order statistics.
func (x *instance) Forms() (*config.Key, []string) {
	if !settings.BySums(settings.Of(x.setup.Config)) {
		return nil, nil
	}
	return settings.Keys.Gramian.Key, []string{string(kernel.PerItem), string(kernel.One)}
}

// matrices returns the matrices of the shared model.
func (x *instance) matrices(m *kernel.Model) []model.Named {
	list := []model.Named{{Name: "item_embeddings", Matrix: model.Wrap(x.params.Items, x.params.Width(), m.Extended(&x.params))}}
	if x.params.Bias || x.params.OnlyPopularity() {
		list = append(list, model.Named{Name: "item_bias", Matrix: column(m.BiasesOf(x.params.Items))}) // zeros if the biases were skipped
	}
	if counts := m.CountsOf(x.params.Items); counts != nil && x.params.Orders() {
		list = append(list, model.Named{Name: algorithm.ItemCounts, Matrix: column(counts)})
	}
	return list
}

// column is a vector as a matrix with one number in each row.
func column(x []float64) *model.Matrix { return model.Wrap(len(x), 1, x) }

// predictor predicts from a model and the users that clients fitted to it.
type predictor struct {
	*kernel.Model
	users *model.Matrix
	bias  []float64
	order *kernel.Order // nil: predictions order lists
}

// Order turns predictions into the scores of a list.
func (m *predictor) Order(history []int32, scores []float64) {
	if m.order != nil {
		m.order.Rank(history, scores)
	}
}

// Score predicts for a user whom training has not seen, after fitting the user to the history.
func (m *predictor) Score(_ int, history []int32, values []float32, out []float64) {
	u, bias := user.Fit(m.Model, model.Ratings{Items: history, Values: values})
	for j := range out {
		out[j] = m.Model.Predict(u, bias, j)
	}
	m.Order(history, out)
}

func (m *predictor) Predict(user int, items []int32, out []float64) {
	m.PredictAll(m.users.Row(user), m.bias[user], items, out)
}

// newPredictor predicts from a model, with users' embeddings and room for their biases.
func newPredictor(shared []byte, p *kernel.Params, users *model.Matrix) (*predictor, error) {
	m, err := kernel.DecodeModel(shared, p)
	return &predictor{Model: m, users: users, bias: make([]float64, users.Rows())}, err
}

// ordered adds the order of lists, if the model is final and says how often items are rated.
func (x *instance) ordered(m *predictor) *predictor {
	if counts := m.CountsOf(x.setup.Data.Items); counts != nil && x.params.Orders() {
		m.order = kernel.NewOrder(counts, x.params.Features, x.params.OrderWeight)
	}
	return m
}

// fit fits a user and holds the result.
func (m *predictor) fit(at int, r model.Ratings) {
	u, bias := user.Fit(m.Model, r)
	copy(m.users.Row(at), u)
	m.bias[at] = bias
}

// fitHeldOut fits users who did not train to their histories, so that a finished run can recommend
// items to them.
func (x *instance) fitHeldOut(m *predictor, run protocol.Runner) {
	for _, part := range []split.HeldOut{x.setup.Held.Validation, x.setup.Held.Test} {
		rows := part.History.ByUser()
		run.Each(len(part.Users), func(i int) {
			at := int(part.Users[i])
			rows.Lend(at, func(items []int32, values []float32) { m.fit(at, model.Ratings{Items: items, Values: values}) })
		})
	}
}

// fitted makes every client fit its user to a model of some settings.
func (x *instance) fitted(p *kernel.Params, shared []byte, run protocol.Runner) (model.Predictor, error) {
	out, err := newPredictor(shared, p, model.NewMatrix(x.setup.Data.Users, x.params.Width()))
	if err != nil {
		return nil, err
	}
	run.Each(x.setup.Data.Users, func(u int) {
		x.setup.Lend(u, func(r model.Ratings) { out.fit(u, r) })
	})
	return out, nil
}

type parties struct {
	*instance
	kept  *model.RowArena // where users keep embeddings
	users []user.User
}

func (p *parties) Trainers() []algorithm.Trainer {
	return algorithm.Trainers(len(p.users), func(i int) algorithm.Trainer { return &p.users[i] })
}

// Interim fits users to the model. It gives the result of a run that ends here.
func (p *parties) Interim(shared []byte, _ protocol.Runner) (model.Predictor, error) {
	of, err := user.Measure(p.users, shared)
	if err != nil {
		return nil, err
	}
	return fitting{p.ordered(&predictor{Model: of.Model}), p, of}, nil
}

// fitting predicts by fitting a user at each request. Users keep their fits for the next round.
type fitting struct {
	*predictor
	parties *parties
	of      *user.Measured
}

func (f fitting) Predict(user int, items []int32, out []float64) {
	f.parties.setup.Lend(user, func(r model.Ratings) {
		u, bias := f.parties.users[user].FitTo(f.of, r)
		f.PredictAll(u, bias, items, out)
	})
}

// Final takes users as their clients hold them after the last fit.
func (p *parties) Final(shared []byte, run protocol.Runner) (*model.Trained, error) {
	out, err := newPredictor(shared, &p.params, p.kept.Rows()) // most embeddings are there already
	if err != nil {
		return nil, err
	}
	m := p.ordered(out).Model
	errs := make([]error, len(p.users))
	run.Each(len(p.users), func(u int) {
		t := &p.users[u]
		if !t.Finished {
			if errs[u] = t.Finish(shared, run); errs[u] != nil {
				return
			}
		}
		copy(out.users.Row(u), t.U)
		out.bias[u] = t.Bias
	})
	if err = errors.Join(errs...); err != nil {
		return nil, err
	}
	if p.setup.Held != nil && !p.setup.Held.Seen {
		p.fitHeldOut(out, run)
	}
	t := &model.Trained{Predictor: out, Mean: &m.Mean}
	t.Matrices = append(p.matrices(m), model.Named{Name: "user_embeddings", Matrix: out.users})
	if p.params.Bias {
		t.Matrices = append(t.Matrices, model.Named{Name: "user_bias", Matrix: column(out.bias)})
	}
	return t, nil
}
