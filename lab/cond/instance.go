package cond

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// instance is a regression with its data: parties have users with their profiles and labels, and share the weights.
type instance struct {
	setup  *algorithm.Setup
	params *params
	bias   bool    // each user has a bias, which its party fits and keeps
	ridge  float64 // of the biases
	parts  split.Partition
}

// Open fixes the releases.
func (f *family) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	switch {
	case f.perceptron:
		return openMLP(s, f)
	case f.about.Clients == algorithm.Nobody:
		return openLabels(s, f)
	}
	x, err := newInstance(s)
	if err == nil {
		err = x.deal()
	}
	if err == nil {
		err = x.schedule(f)
	}
	return x, err
}

func newInstance(s *algorithm.Setup) (*instance, error) {
	p, err := newParams(s)
	return &instance{setup: s, params: p, bias: userBias.Is(s.Config, yes), ridge: userRidge.Value(s.Config)}, err
}

// deal divides the users among the parties.
func (x *instance) deal() (err error) {
	s := x.setup
	parties := algorithm.Parties.Int(s.Config)
	if parties == 1 {
		algorithm.Secagg.Set(&s.Config, "none")
	}
	if s.Public() { // the parties know who is with which party
		if parties > s.Data.Users {
			return config.Errorf("%w: %d for %d users", split.ErrParties, parties, s.Data.Users)
		}
		return nil
	}
	if x.parts, err = split.PartitionUsers(s.Data, parties, algorithm.Seed.Of(s.Config)); err != nil {
		return config.Wrap(err)
	}
	return nil
}

func newParams(s *algorithm.Setup) (*params, error) {
	items, err := newCatalogue(s)
	if err != nil {
		return nil, err
	}
	p := &params{items: items, middle: (s.Data.Min + s.Data.Max) / 2, deviation: (s.Data.Max - s.Data.Min) / 8, clip: clip.Value(s.Config), layout: layout{features: len(items.columns)}}
	if s.Data.Profile != nil {
		p.profile = len(s.Data.Profile.Columns)
	}
	if p.profile > mostColumns {
		return nil, config.Errorf("%s: profiles have %d columns, and conditioning takes the spectrum of at most %d", s.Data.Name, p.profile, mostColumns)
	}
	if itemIDs.Is(s.Config, yes) {
		p.ids = s.Data.Items
	}
	p.most = float64(s.Data.Users) * float64(s.Data.Items)
	p.longest = longestRow * math.Sqrt(float64(max(1, p.profile)))
	return p, nil
}

// longestRow limits the length of a profile's row in the moments, in roots of its columns.
// Standardised features hardly ever exceed it. It bounds a party's sums.
const longestRow = 4

// schedule has one round for public sums, then the gradients.
func (x *instance) schedule(f *family) error {
	s, p := x.setup, x.params
	rounds := algorithm.Rounds.Int(s.Config)
	until := 0 // the first gradient without conditioning
	switch {
	case f.conditioned && f.switches:
		until = int(math.Round(switchAt.Value(s.Config) * float64(rounds)))
	case f.conditioned:
		until = rounds
	}
	moments := p.momentsRelease(s)
	gradient := p.gradientRelease()
	s.Schedule = protocol.Schedule{{Rounds: 1, Phase: Moments, Releases: []protocol.Release{moments}}}
	for _, step := range []protocol.Step{
		{Rounds: until, Phase: Conditioned, Model: model.EncodedSize(p.len()+p.size(true), 1)},
		{Rounds: rounds - until, Phase: Plain, Model: model.EncodedSize(p.len()+p.size(false), 1)},
	} {
		if step.Rounds > 0 {
			step.Releases = []protocol.Release{gradient}
			s.Schedule = append(s.Schedule, step)
		}
	}
	shares := lists.Map(s.Schedule, func(protocol.Step) []float64 { return []float64{(1 - momentsShare) / float64(rounds)} })
	shares[0][0] = momentsShare
	return s.CalibrateSplit(shares)
}

// momentsShare is the share of μ² for the moments. No label moves them, so any share would be safe. They are noised, and charged
// for, since all releases of a private run are. Scaling them up makes their noise small.
const momentsShare = 0.01

// momentsRelease is the sum of public data. One label does not move it. A Sensitivity must be declared for there to be noise, and
// is 1. Messages are multiplied by [params.publish], so that the noise does not matter.
//
// A party's vector has at most the counts of all examples and, of each, the products of a row of
// the profile no longer than longest: an L2 norm of (1 + longest²)·publish·examples.
func (p *params) momentsRelease(s *algorithm.Setup) protocol.Release {
	r := protocol.Release{Name: Moments, Len: s.Data.Items + packed(p.profile), Sensitivity: 1}
	r.MaxNonZero = r.Len
	reach := p.most // a party may have all examples: the number is public only as a total
	if p.profile > 0 {
		reach *= 1 + p.longest*p.longest
	}
	r.Scale = math.Sqrt(float64(r.Len))
	const exact = 0x1p50 // integers that a float64 counts, with room for noise and all parties
	p.publish = exact / (reach * r.Scale)
	r.L2 = reach * p.publish
	return r
}

// gradientRelease is the sum of clipped gradients. Example e adds s_e·C x_e with |s_e|·‖C x_e‖ <=
// clip, and x_e and C are public. Another label changes s_e alone, so that a party's vector moves
// by at most 2·clip. The vector is no longer than clip times the party's examples.
func (p *params) gradientRelease() protocol.Release {
	r := protocol.Release{Name: Gradient, Len: p.len(), MaxNonZero: p.len(), L2: p.clip * p.most, Sensitivity: 2 * p.clip}
	r.Scale = algorithm.Scale(r)
	return r
}

func (x *instance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	c := x.setup.Config
	return newStrategy(strategyParams{params: x.params, Schedule: x.setup.Schedule.Clone(), Step: step.Value(c), Floor: floor.Value(c), Ridge: itemRidge.Of(c),
		Session: session, Cohort: x.setup.Cohort}), nil
}

func (x *instance) ClientSide() (algorithm.ClientSide, error) {
	p := &parties{instance: x}
	for _, users := range x.parts {
		rows := make([]model.Ratings, len(users))
		var profile []float64
		for i, u := range users {
			rows[i] = x.setup.Row(int(u))
			if x.params.profile > 0 {
				profile = append(profile, x.setup.Data.Profile.Row(int(u))...)
			}
		}
		p.parties = append(p.parties, newExamples(x.params, profile, rows))
	}
	return p, nil
}

func (x *instance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	users, rows, at, err := x.setup.PartyRows(which, l)
	if err != nil {
		return nil, err
	}
	var profile []float64
	if n := x.params.profile; n > 0 {
		own := l.Set.Profile
		if own == nil || len(own.Columns) != n {
			return nil, fmt.Errorf("%w: the experiment's examples have %d features, and these have others; name the same label and columns", algorithm.ErrPartyData, n)
		}
		for i, k := range at {
			if k < 0 {
				return nil, fmt.Errorf("%w: there is no row of the example %q, whose features are public", algorithm.ErrPartyData, which.IDs[users[i]])
			}
			profile = append(profile, own.Row(k)...)
		}
	}
	t := newExamples(x.params, profile, rows)
	return &algorithm.Party{Ratings: len(t.item), Trainer: t, Result: func() []model.Embeddings {
		if !x.bias {
			return nil
		}
		var d *dataset.Profile
		if x.params.profile > 0 {
			d = &dataset.Profile{Columns: x.setup.Data.Profile.Columns, X: profile}
		}
		scores, items := x.scores(len(rows), d, t.final)
		b := x.fit(rows, scores, items)
		return []model.Embeddings{{Named: model.Named{Name: biasName, Matrix: model.Wrap(len(b), 1, b)}, IDs: model.At(which.IDs, users)}}
	}}, nil
}

func (x *instance) Shared(shared []byte) ([]model.Embeddings, error) {
	b, err := model.NewBroadcast(shared, x.params.len(), 1)
	if err != nil {
		return nil, err
	}
	return []model.Embeddings{{Named: model.Named{Name: weightsName, Matrix: b.Matrix()}, IDs: x.names()}}, nil
}

// names returns the feature of each weight.
func (x *instance) names() []string {
	var names []string
	if x.params.profile > 0 {
		names = append(names, x.setup.Data.Profile.Columns...)
	}
	names = append(names, x.params.items.columns...)
	if x.params.ids > 0 {
		names = append(names, lists.Map(x.setup.Data.ItemIDs, func(id string) string { return "item=" + id })...)
	}
	return names
}

// Files of a model.
const (
	weightsName = "weights"
	biasName    = "user_biases"
)

func (x *instance) Baselines() []algorithm.Baseline { return nonPrivate(x.setup, step) }

// nonPrivate returns the same without noise, with rounds, a rate and a clip of its own.
func nonPrivate(s *algorithm.Setup, rate config.NumberKey) []algorithm.Baseline {
	return []algorithm.Baseline{algorithm.NonPrivate(s, "learning rate", func(c *config.Config) {
		algorithm.Rounds.SetAuto(c)
		rate.SetAuto(c)
		clip.SetAuto(c)
	})}
}

func (x *instance) Lost(s protocol.Step) string {
	if s.Phase == Moments {
		return "the round that sums what is public of the examples was skipped: nothing is conditioned to it, and steps are short"
	}
	return ""
}

func (x *instance) Words() algorithm.Words {
	w := algorithm.Words{Untrained: "the model predicts the middle of the scale"}
	if x.bias {
		w.Model = "with a bias of each user, which stays with its party"
	}
	return w
}

// parties holds the clients of a simulation.
type parties struct {
	*instance
	parties []*Examples
}

func (p *parties) Trainers() []algorithm.Trainer {
	return lists.Map(p.parties, func(t *Examples) algorithm.Trainer { return t })
}

func (p *parties) Interim(shared []byte, run protocol.Runner) (model.Predictor, error) {
	return p.predictor(shared)
}

func (p *parties) Final(shared []byte, _ protocol.Runner) (*model.Trained, error) {
	f, err := p.predictor(shared)
	if err != nil {
		return nil, err
	}
	m := &model.Trained{Predictor: f, Matrices: []model.Named{{Name: weightsName, Matrix: model.Wrap(len(f.weights), 1, f.weights)}},
		Rows: map[string][]string{weightsName: p.names()}}
	if p.bias {
		m.Matrices = append(m.Matrices, model.Named{Name: biasName, Matrix: model.Wrap(len(f.biases), 1, f.biases)})
	}
	return m, nil
}

// weightsOf returns the plain weights of a broadcast: the model, or the broadcast of a plan.
func (p *params) weightsOf(shared []byte) ([]float64, error) {
	n, transform := p.len(), 0 // numbers of each
	for _, conditioned := range []bool{false, true} {
		if size := p.size(conditioned); len(shared) == model.EncodedSize(n+size, 1) {
			transform = size
		}
	}
	b, err := model.NewBroadcast(shared, n+transform, 1)
	if err != nil {
		return nil, err
	}
	v := b.Matrix().Data()
	if transform == 0 {
		return v, nil
	}
	return readTransform(p.layout, v[n:]).apply(p.layout, v[:n]), nil
}

// predictor returns predictions by plain weights and, if users have them, biases.
func (p *parties) predictor(shared []byte) (*predictor, error) {
	weights, err := p.params.weightsOf(shared)
	if err != nil {
		return nil, err
	}
	s := p.setup
	f := &predictor{weights: weights}
	f.users, f.items = p.scores(s.Data.Users, s.Data.Profile, f.weights)
	if p.bias {
		f.biases = p.fit(s.Rows(), f.users, f.items)
		for u, v := range f.biases {
			f.users[u] += v
		}
	}
	return f, nil
}

// scores returns the score of plain weights for each user's profile and for each item, the middle of the scale included.
func (x *instance) scores(n int, profile *dataset.Profile, weights []float64) (users, items []float64) {
	p := x.params
	users, items = make([]float64, n), make([]float64, p.items.rows.Rows())
	if p.profile > 0 {
		for u := range users {
			users[u] = model.Dot(profile.Row(u), weights[:p.profile])
		}
	}
	for j := range items {
		items[j] = p.middle + model.Dot(p.items.rows.Row(j), weights[p.profile:p.profile+p.features])
		if p.ids > 0 {
			items[j] += weights[p.profile+p.features+j]
		}
	}
	return users, items
}

// fit returns each user's bias: the mean of the user's own labels less their predictions, drawn towards zero.
func (x *instance) fit(rows []model.Ratings, users, items []float64) []float64 {
	out := make([]float64, len(rows))
	for u, r := range rows {
		var sum float64
		for k, j := range r.Items {
			sum += float64(r.Values[k]) - users[u] - items[j]
		}
		out[u] = sum / (float64(len(r.Items)) + x.ridge)
	}
	return out
}

type predictor struct {
	weights, biases []float64
	users, items    []float64
}

func (f *predictor) Predict(user int, items []int32, out []float64) {
	for k, j := range items {
		out[k] = f.users[user] + f.items[j]
	}
}

func (f *family) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	if set.Profile != nil {
		return nil, errors.New("cond: a regression has one item, its label, and nothing to recommend")
	}
	if f.perceptron {
		return loadMLP(c, set, files)
	}
	s := &algorithm.Setup{Config: c, Data: set, Features: files.Features()}
	if s.Features == nil {
		var err error
		if s.Features, _, err = algorithm.ReadFeatures(c, set); err != nil {
			return nil, err
		}
	}
	x, err := newInstance(s)
	if err != nil {
		return nil, err
	}
	w, err := files.Matrix(weightsName, x.params.len(), 1)
	if err != nil {
		return nil, err
	}
	users, items := x.scores(set.Users, nil, w.Data())
	if x.bias && files.Has(biasName) {
		b, err := files.Matrix(biasName, set.Users, 1)
		if err != nil {
			return nil, err
		}
		users = b.Data()
	}
	return &algorithm.Saved{Items: x.params.items.rows, Popularity: algorithm.PopularityOf(items), Score: func(user int, out []float64) {
		for j, v := range items {
			out[j] = users[user] + v
		}
	}}, nil
}
