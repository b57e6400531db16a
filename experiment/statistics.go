package experiment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// statistics is the form of sufficient statistics: every user is a client, and the
// server solves for the items from noisy sums.
type statistics struct{}

func (statistics) choose(e *Experiment) error {
	c := &e.Config
	c.chooseDraw(e.Real())
	if err := e.chooseFeatures(); err != nil {
		return err
	}
	if c.solver() == fedssp.CMF && e.features == nil {
		return &ConfigError{fmt.Errorf("features: %s factors features of the items beside the ratings, and there are none", c.Algorithm)}
	}
	if c.Encoder.Optimiser == "auto" {
		switch {
		case c.solver() == fedssp.Pooled:
			c.Encoder.Optimiser = exact
		case c.encodes():
			c.Encoder.Optimiser = string(encoder.Adam)
		}
	}
	if c.encodes() {
		c.Encoder.Steps = Fixed(c.encoderSteps())
	}
	e.chooseByNoise()
	c.Statistics = c.statistics()
	s, half := &c.Statistics, (e.Data.Max-e.Data.Min)/2
	idle := c.idleStatistics()
	for _, x := range []struct {
		key string
		n   *Number
		v   float64
	}{
		{"statistics.shares.bias", &s.Shares.Bias, biasShare(c.Epsilon.Value, e.Data.Users)},
		// A star of five: what biases and mean leave of a rating is seldom more, and the noise grows with
		// it. Without noise it bounds what one rating can do where priors are learned, and else nothing.
		{"statistics.clip-rating", &s.ClipRating, choose(c.Private() || c.solver() == fedssp.Pooled, 0.5, 2) * half},
		{"statistics.clip-bias", &s.ClipBias, choose(c.learns(), 0.875, 1) * half},
	} {
		if !slices.Contains(idle, x.key) {
			*x.n = Fixed(x.n.Or(x.v))
		}
	}
	return nil
}

// chooseFeatures reads the features of the items: those asked for, or with auto those
// that come with the set. A deployment has them from its facts, and a copy of an experiment from that.
func (e *Experiment) chooseFeatures() error {
	if !e.Config.Algorithm.usesFeatures() || e.public || e.features != nil {
		return nil
	}
	var err error
	e.features, e.Config.Features, err = e.Config.featuresOf(e.Data)
	return err
}

// featuresOf reads the features of a set's items, and says what they are called; nil for
// none. What cannot be read is a [ConfigError].
func (c Config) featuresOf(set *dataset.Set) (*dataset.ItemFeatures, string, error) {
	specs := []string{c.Features}
	if c.Features == "auto" {
		specs = []string{"genres,year", "genres", "year"}
	}
	if c.Features == "auto" && c.Algorithm != DPCMF {
		specs = append(specs, "none")
	}
	var err error
	for _, spec := range specs {
		var f *dataset.ItemFeatures
		if f, err = set.Features(spec); err == nil {
			return f, spec, nil
		}
		if !errors.Is(err, dataset.ErrNoFeatures) {
			break
		}
	}
	return nil, "", &ConfigError{fmt.Errorf("features: %w", err)}
}

func (statistics) prepare(e *Experiment) error {
	e.ssp = e.sspParams()
	steps, err := e.ssp.Steps()
	if err != nil {
		return &ConfigError{err}
	}
	shares := make([][]float64, len(steps))
	e.Steps = make(Schedule, len(steps))
	for i, s := range steps {
		shares[i] = s.Shares
		e.Steps[i] = protocol.Step{Iterations: 1, Phase: s.Phase, Releases: s.Releases, Model: e.ssp.ModelSize(s.Phase)}
	}
	e.Steps[len(steps)-1].Model = e.ssp.ModelSize(fedssp.Statistics) // the final one is broadcast too
	for _, r := range e.Steps.All() {
		r.Scale = scale(*r)
	}
	e.Steps, shares = merged(e.Steps, shares)
	if !e.Config.Private() {
		return nil
	}
	for {
		if err = e.calibrateSplit(shares); err == nil || !e.coarsen() {
			return err
		}
	}
}

// merged joins steps that are alike, as their shares are.
func merged(s Schedule, shares [][]float64) (Schedule, [][]float64) {
	var steps Schedule
	var kept [][]float64
	for i, step := range s {
		if last := len(steps) - 1; last >= 0 && steps[last].Alike(step) && slices.Equal(kept[last], shares[i]) {
			steps[last].Iterations += step.Iterations
			continue
		}
		steps, kept = append(steps, step), append(kept, shares[i])
	}
	return steps, kept
}

// sspParams are the public settings of the algorithm, nothing left open.
func (e *Experiment) sspParams() fedssp.Params {
	c := e.Config
	s := c.Statistics
	p := fedssp.Params{
		Items: e.Data.Items, Rank: c.rank(), Min: min(e.Data.Min, float64(float32(e.Data.Min))), Max: e.Params.MaxRating,
		Feedback: fedssp.Feedback(c.Feedback), Solver: c.solver(), Gramian: fedssp.GramianForm(s.Gramian),
		Budgeting: fedssp.Budgeting(s.Budgeting), Exponent: s.Exponent.Value, PerUser: int(s.PerUser.Value),
		CountCap: int(s.CountCap.Value), MeanCap: int(s.MeanCap.Value), Bias: c.biases(s),
		ClipUser: s.ClipUser.Value, ClipRating: s.ClipRating.Value, ClipBias: s.ClipBias.Value,
		UserRidge: s.UserRidge.Value, UserBiasRidge: s.UserBiasRidge.Value, ItemRidge: s.ItemRidge.Value,
		ItemPrior: s.ItemPrior.Value, BiasRidge: s.BiasRidge.Value, Unobserved: s.Unobserved.Value,
		Rounds: c.rounds(), Resample: int(s.Resample.Or(1)), Seed: c.Seed, StartSpread: s.StartSpread.Value,
		Loss: fedssp.Loss(s.Loss), LossWidth: s.LossWidth.Value,
		CMF: fedssp.CMFParams{
			FeatureWeight: c.CMF.FeatureWeight.Value, FeatureRidge: c.CMF.FeatureRidge, Unobserved: c.CMF.Unobserved, Sweeps: c.CMF.Sweeps,
		},
		Pool:     fedssp.PoolParams{Iterations: int(choose(c.learns(), priorSteps, 0)), Memory: s.Memory.Value},
		Encoder:  c.Encoder.settings(),
		Features: e.features,
		Shares: fedssp.Shares{
			Counts: s.Shares.Counts.Value, Mean: s.Shares.Mean.Value, Bias: s.Shares.Bias.Value,
			WeightCounts: s.Shares.WeightCounts.Value, Gramian: s.Shares.Gramian.Value,
		},
	}
	p.Tastes = c.tastes(e.features)
	if c.biasOnly() { // all that is left is the biases', and nothing else is fitted
		p.Gramian, p.ClipUser, p.ClipRating, p.UserRidge, p.ItemPrior, p.StartSpread = fedssp.One, 1, 1, 1, 1, 1
		p.Shares.Bias = 1 - p.Shares.Counts - p.Shares.Mean
	}
	return p
}

func (x Encoder) settings() encoder.Settings {
	return encoder.Settings{
		Dim: x.Dim, Dense: x.Dense == yes, IDs: x.IDs == yes, StartNorm: x.StartNorm.Value, Optimiser: encoder.Optimiser(x.Optimiser),
		Rate: x.Rate.Value, Decay: encoder.Decay(x.Decay), Steps: int(x.Steps.Value), Batch: x.Batch, WarmStart: x.WarmStart == yes, Ridge: x.Ridge,
	}
}

// strategySteps is the schedule as the strategy has it: a step for each iteration.
func (e *Experiment) strategySteps() []fedssp.Step {
	var steps []fedssp.Step
	for _, s := range e.Steps {
		for range s.Iterations {
			steps = append(steps, fedssp.Step{Phase: s.Phase, Releases: s.Releases})
		}
	}
	return steps
}

func (statistics) strategy(e *Experiment) (server.Durable, error) {
	return fedssp.New(fedssp.StrategyParams{Params: e.ssp, Session: e.session, Cohort: e.Cohort, Steps: e.strategySteps()})
}

func (statistics) parties(e *Experiment) ([]client.Trainer, parties, error) {
	users := make(sspUsers, e.Data.Users)
	trainers := make([]client.Trainer, len(users))
	for u := range users {
		users[u] = fedssp.NewUser(&e.ssp, e.sspRatings(u))
		trainers[u] = users[u]
	}
	return trainers, users, nil
}

// sspRatings are a user's ratings in the training part.
func (e *Experiment) sspRatings(u int) model.Ratings {
	items, values := e.train.Row(u)
	return model.Ratings{Items: items, Values: values}
}

func (statistics) party(e *Experiment, which Holding, h *atHand) (*Party, error) {
	user, err := e.deviceUser(which, h)
	if err != nil {
		return nil, err
	}
	r := h.row(user)
	t := fedssp.NewUser(&e.ssp, model.Ratings(r))
	id := h.set.UserIDs[user : user+1]
	return &Party{Ratings: len(r.Items), trainer: t, result: func() []model.Embeddings {
		u, bias := model.NewMatrix(1, e.sspWidth()), model.NewMatrix(1, 1)
		copy(u.Row(0), t.Embedding())
		bias.Row(0)[0] = t.Bias()
		list := []model.Embeddings{model.NewEmbeddings("user_embeddings", u, id)}
		if e.ssp.Bias {
			list = append(list, model.NewEmbeddings("user_bias", bias, id))
		}
		return list
	}}, nil
}

// before is the public start, fitted by each device to its own ratings.
func (statistics) before(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	start, err := e.ssp.Start()
	if err != nil {
		return nil, err
	}
	return e.fitted(start, run), nil
}

// alone is what before is: a device that trains by itself has nothing to learn items
// from but its own ratings, against a public start.
func (statistics) alone(*Experiment, protocol.Runner) (model.Predictor, error) { return nil, nil }

// sspModel predicts by a model and what users' devices fitted to it.
type sspModel struct {
	*fedssp.Model
	params *fedssp.Params
	users  *model.Matrix
	bias   []float64
}

// Score implements eval.Scorer: a user whom training has not seen is fitted to the history.
func (m *sspModel) Score(_ int, history []int32, values []float32, out []float64) {
	u, bias := m.params.FitUser(m.Model, model.Ratings{Items: history, Values: values})
	for j := range out {
		out[j] = m.Model.Predict(u, bias, j)
	}
}

// Predict implements model.Predictor.
func (m *sspModel) Predict(user int, items []int32, out []float64) {
	u := m.users.Row(user)
	for i, j := range items {
		out[i] = m.Model.Predict(u, m.bias[user], int(j))
	}
}

// sspModel predicts by a model, and as yet by nothing of users.
func (e *Experiment) sspModel(m *fedssp.Model) *sspModel {
	return &sspModel{Model: m, params: &e.ssp, users: model.NewMatrix(e.Data.Users, e.sspWidth()), bias: make([]float64, e.Data.Users)}
}

// fitHeldOut fits users who did not train to their histories, for whoever asks a finished
// run what they might like.
func (e *Experiment) fitHeldOut(m *sspModel, run protocol.Runner) {
	for _, part := range []dataset.HeldOut{e.held.Validation, e.held.Test} {
		rows := part.History.ByUser()
		run.Each(len(part.Users), func(i int) {
			user := int(part.Users[i])
			items, values := rows.Row(user)
			u, bias := e.ssp.FitUser(m.Model, model.Ratings{Items: items, Values: values})
			copy(m.users.Row(user), u)
			m.bias[user] = bias
		})
	}
}

// fitted has every device fit its user to a model.
func (e *Experiment) fitted(m *fedssp.Model, run protocol.Runner) *sspModel {
	out := e.sspModel(m)
	run.Each(e.Data.Users, func(u int) {
		x, bias := e.ssp.FitUser(m, e.sspRatings(u))
		copy(out.users.Row(u), x)
		out.bias[u] = bias
	})
	return out
}

// sspUsers are the parties of sums of statistics.
type sspUsers []*fedssp.User

// interim has every user fit to the model: what the run would end with if it ended
// here.
func (sspUsers) interim(e *Experiment, encoded []byte, run protocol.Runner) (model.Predictor, error) {
	m, err := fedssp.DecodeModel(encoded, &e.ssp)
	if err != nil {
		return nil, err
	}
	return e.fitted(m, run), nil
}

// final takes users as their devices hold them after the last fit. A user who has left
// never got the model, and counts as if it came back to fetch it.
func (us sspUsers) final(e *Experiment, encoded []byte, run protocol.Runner) (*model.Trained, error) {
	m, err := fedssp.DecodeModel(encoded, &e.ssp)
	if err != nil {
		return nil, err
	}
	out := e.sspModel(m)
	if err = all(len(us), run, func(u int) error {
		if !us[u].Finished() {
			if failed := us[u].Finish(encoded, run); failed != nil {
				return failed
			}
		}
		copy(out.users.Row(u), us[u].Embedding())
		out.bias[u] = us[u].Bias()
		return nil
	}); err != nil {
		return nil, err
	}
	if e.held != nil {
		e.fitHeldOut(out, run)
	}
	t := &model.Trained{Predictor: out, Mean: &m.Mean}
	t.Matrices = append(sspMatrices(m, &e.ssp), model.Named{Name: "user_embeddings", Matrix: out.users})
	if e.ssp.Bias {
		t.Matrices = append(t.Matrices, model.Named{Name: "user_bias", Matrix: column(out.bias)})
	}
	return t, nil
}

// tastes are what devices weigh for their users; nil: nothing.
func (c Config) tastes(f *dataset.ItemFeatures) *fedssp.Tastes {
	if !c.canTaste() {
		return nil
	}
	return fedssp.NewTastes(f, c.Statistics.TasteWeight.Value)
}

// sspWidth is the length of embeddings, those of users with tastes and of items with the features
// that they are for.
func (e *Experiment) sspWidth() int { return e.ssp.Rank + e.ssp.Tastes.Width() }

// sspMatrices are those of the shared model.
func sspMatrices(m *fedssp.Model, p *fedssp.Params) []model.Named {
	items := model.NewMatrix(p.Items, p.Rank+p.Tastes.Width())
	copy(items.Data(), m.Extended(p))
	list := []model.Named{{Name: "item_embeddings", Matrix: items}}
	if p.Bias {
		bias := model.NewMatrix(p.Items, 1)
		copy(bias.Data(), m.Bias) // zeros where the biases were skipped
		list = append(list, model.Named{Name: "item_bias", Matrix: bias})
	}
	return list
}

// column is a vector as a matrix with one number in each row.
func column(x []float64) *model.Matrix {
	m := model.NewMatrix(len(x), 1)
	copy(m.Data(), x)
	return m
}

// sharedModel is what [Experiment.Shared] says.
func (e *Experiment) sharedModel(encoded []byte) ([]model.Embeddings, error) {
	m, err := fedssp.DecodeModel(encoded, &e.ssp)
	if err != nil {
		return nil, err
	}
	list := []model.Embeddings{model.NewEmbeddings("mean", column([]float64{m.Mean}), []string{"mean"})}
	for _, x := range sspMatrices(m, &e.ssp) {
		list = append(list, model.Embeddings{Named: x, IDs: e.Data.ItemIDs})
	}
	return list, nil
}
