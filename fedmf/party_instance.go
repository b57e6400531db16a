package fedmf

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// partyInstance is the common part of VFL and HFL: clients are organisations, which noise their own
// training.
type partyInstance struct {
	sharedRows

	params   kernel.PartyParams
	ownItems bool            // parties own items and not users
	parts    split.Partition // each party's items or users; nil if they are private
}

// openParties sets up parties that share embeddings.
func openParties(s *algorithm.Setup, p kernel.Params, f *family, parts split.Partition) (*partyInstance, error) {
	if algorithm.Parties.Value(s.Config) == 1 {
		algorithm.Secagg.Set(&s.Config, "none")
	}
	ownItems := f.about.Clients == algorithm.ItemParties
	x := &partyInstance{sharedRows{s, "item_embeddings", s.Data.ItemIDs}, partyParamsOf(s, p, ownItems), ownItems, parts}
	if ownItems {
		x.sharedRows = sharedRows{s, "user_embeddings", s.Data.UserIDs}
	}
	rows := len(x.ids)
	calibrate := s.CalibrateParty
	if f.langevin {
		calibrate = s.CalibrateByComposition
		x.params.Prior = prior.Value(s.Config)
	}
	spread := ownItems && algorithm.UnitOf(s.Config) == dp.User // a unit may be in the data of all parties
	noise, err := calibrate(x.params.Rounds*x.params.LocalSteps+x.params.ItemSteps, x.params.LocalSteps, x.params.SamplingRate, spread)
	if err != nil {
		return nil, err
	}
	chooseRates(s, &x.params, ownItems, noise.Multiplier)
	if err := x.params.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	release := x.params.Release(rows)
	if x.params.Gradients {
		release = x.params.GradientRelease(s.Data.Users/s.Cohort.Clients, noise.Multiplier)
	}
	release.Noise = noise
	s.Schedule = algorithm.UniformSchedule(x.params.Rounds, release, model.EncodedSize(rows, p.Rank))
	if more := x.params.ItemSteps; s.Private() && more > 0 {
		s.Schedule.EndWith(noise.Steps + more)
	}
	return x, nil
}

// Strategy makes the server's side, with the shared embeddings at their start.
func (x *partyInstance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	start := x.params.StartItems()
	if x.ownItems {
		start = x.params.StartUsers(len(x.ids))
	}
	run := modelserver.Server{Schedule: x.setup.Schedule, Cohort: x.setup.Cohort, Session: session}
	return kernel.NewAverage(x.params, start, run), nil
}

// LocalSteps returns the noised steps of a party: where it owns items on users and items, and then on items alone.
func (x *partyInstance) LocalSteps() []algorithm.LocalSteps {
	list := []algorithm.LocalSteps{{Count: x.params.Rounds * x.params.LocalSteps, Sensitivity: x.params.Sensitivity(x.ownItems)}}
	if more := x.params.ItemSteps; more > 0 {
		list = append(list, algorithm.LocalSteps{Count: more, Sensitivity: x.params.Sensitivity(false)})
	}
	return list
}

// Watch prepares the steps of a party, of the given kind among its LocalSteps.
func (x *partyInstance) Watch(kind int, full bool, src entropy.Source) (func() (float64, error), error) {
	return x.params.Watch(x.ownItems && kind == 0, full, x.setup.Schedule.Noise(), src)
}

// apart predicts by parties that have embeddings of their own, for all users and items.
type apart struct {
	party  []int32 // of a user, or of an item
	byItem bool
	of     []*model.Factors
}

func (a *apart) Predict(user int, items []int32, out []float64) {
	if !a.byItem {
		a.of[a.party[user]].Predict(user, items, out)
		return
	}
	for i, j := range items {
		a.of[a.party[j]].Predict(user, items[i:i+1], out[i:i+1])
	}
}

// ParamsOf returns the settings of a factorization, with its start.
func ParamsOf(s *algorithm.Setup) (kernel.Params, error) {
	c := s.Config
	p := kernel.Params{
		Items: s.Data.Items, Rank: algorithm.Rank.Int(c), MaxRating: s.Top(), Seed: algorithm.Seed.Of(c),
		StartMean: startMean * s.Data.Max, Spread: startSpread,
		Fit: kernel.Fit{Steps: fitSteps.Int(c), Ridge: fitRidge.Value(c)},
	}
	if err := p.Validate(); err != nil || !s.Start.Known() {
		return p, config.Wrap(err)
	}
	err := startFrom(&p, s) // before p is copied
	return p, err
}

// partyParamsOf returns the settings of parties, except the learning rates.
func partyParamsOf(s *algorithm.Setup, p kernel.Params, ownItems bool) kernel.PartyParams {
	c := s.Config
	out := kernel.PartyParams{
		Params: p, Users: s.Data.Users, Unit: dp.Unit(algorithm.Unit.Of(c)), Clipping: clippingOf(c),
		Rounds: algorithm.Rounds.Int(c), LocalSteps: localSteps.Int(c),
		SamplingRate: samplingRate.Value(c), Density: density.Value(c), ClipRatings: ClipRatings.Int(c),
		TrainUsers: train.Is(c, trainBoth), RandomUsers: !pretrains(c), Gradients: gradients(c), FineTune: fineTune.Int(c), FineTuneRate: fineTuneRate,
	}
	if ownItems {
		out.ItemSteps = itemSteps.Int(c)
	}
	out.Clip = clipNorm.Value(c)
	return out
}

// chooseRate chooses η ([kernel.NewLFL]) by the noise: a small η learns little, a large η mostly noise.
// All its inputs are public, so the choice costs no privacy. Its constants were fitted at ε from 1
// to inf on splits of other seeds than the reported ones, on the synthetic sets and, for
// all-ratings, on MovieLens latest-small too.
func chooseRate(s *algorithm.Setup, p kernel.Params) float64 {
	r := s.Schedule.First()
	sigma := math.Sqrt(r.Noise.Target(s.Cohort)) / r.Scale // of the summed gradient
	scale := math.Sqrt(p.StartMean) / float64(s.Cohort.Wanted())
	m := float64(p.Items)
	if p.Contribution == kernel.AllRatings {
		// Two figures count: how far one user can move V, g = η·m·C, and the noise that a
		// prediction gains in a round at g = 1. With g beyond 185, items that half of the
		// users rated overshoot.
		const still, linear, square = 1. / 185, 6, 450
		kappa := scale * sigma / p.Clip
		return 1 / (m * p.Clip * (still + linear*kappa + square*kappa*kappa))
	}
	// With one rating the sum's signal for an item falls with the number of items. So η itself
	// counts, and the noise that a prediction gains at η = 1. Without noise popular items overshoot
	// beyond 0.03. If items outnumber users, a single rating overshoots when it takes its item more
	// than a sixth of the way.
	const linear, square = 5.6, 0.21
	still := max(1/0.03, 6*2*p.StartMean*m/float64(s.Cohort.Wanted()))
	kappa := scale * m * sigma
	return 1 / (still + linear*kappa + square*kappa*kappa)
}

// chooseRates chooses the learning rates of organisations that were given none. Without noise a
// rate is as large as the users and items allow that have far more ratings than their even share.
// With noise, the noise of all steps together moves a prediction by a fixed part of a star: less
// learns too little, more drowns it. All its inputs are public.
func chooseRates(s *algorithm.Setup, p *kernel.PartyParams, ownItems bool, z float64) {
	userNoise, itemNoise := 0.45, 0.4 // stars of five
	userStill, itemStill := 0.4, 0.1  // in units of the density, of predictions that start at 3.5
	steps := float64(p.Rounds * p.LocalSteps)
	// sway returns how far the noise of all steps moves a prediction at a rate of 1.
	sway := func(both bool, columns, averaged float64) float64 {
		return z * p.Sensitivity(both) * math.Sqrt(p.StartMean*steps/averaged) / (p.SamplingRate * p.Density * columns)
	}
	users, items := float64(p.Users), float64(p.Items)
	parties := algorithm.Parties.Value(s.Config)
	userSway, itemSway := 0., 0.
	if ownItems {
		averaged := parties
		if s.Alone {
			averaged, userNoise = 1, 0.2 // no averaging reduces its own mistakes
		}
		userSway, itemSway = sway(true, items/parties, averaged), sway(true, users, 1)
	} else {
		itemSway = sway(false, users/parties, parties)
		itemNoise, itemStill = 0.6, 0.5 // users do not move along
	}
	// On a longer scale a prediction may sway more, and steps are steeper.
	rate := func(still, noise, sway float64) float64 {
		return 1 / (1/(still*p.Density*(3.5/p.StartMean)) + sway/(noise*(p.MaxRating/5)))
	}
	userRate.Set(&s.Config, userRate.Or(s.Config, rate(userStill, userNoise, userSway)))
	itemRate.Set(&s.Config, itemRate.Or(s.Config, rate(itemStill, itemNoise, itemSway)))
	p.UserRate, p.ItemRate = userRate.Value(s.Config), itemRate.Value(s.Config)
}

// startFrom sets the start to the embeddings that an earlier session released. An item or user that the session did not
// have starts at the mean of all released ones. The mean is of released numbers, too, and so costs nothing. Items that
// parties own follow by startItems.
func startFrom(p *kernel.Params, s *algorithm.Setup) error {
	name, ids, to := "item_embeddings", s.Data.ItemIDs, &p.FromItems
	if algorithm.Of(s.Config).About().Clients == algorithm.ItemParties {
		name, ids, to = "user_embeddings", s.Data.UserIDs, &p.FromUsers
	}
	m, known, err := s.Start.Rows(name, ids, p.Rank)
	if err != nil {
		return config.Errorf("start-from: %w", err)
	}
	if !complete(s, m, known, model.Indices(len(ids)), *p) {
		return unknownIDs(s, name, ids)
	}
	*to = m
	return nil
}

func unknownIDs(s *algorithm.Setup, name string, ids []string) error {
	return config.Errorf("start-from: %s knows none of these %d ids of %s; start from another folder", s.Start.From, len(ids), name)
}

// complete sets the unknown ones of some rows to the mean of the known ones, and makes all of these rows feasible. It
// returns false, and changes nothing, if none of them is known.
func complete(s *algorithm.Setup, m *model.Matrix, known []bool, rows []int32, p kernel.Params) bool {
	count, mean := 0.0, make([]float64, p.Rank)
	for _, i := range rows {
		if known[i] {
			count++
			dense.Axpy(mean, 1, m.Row(int(i)))
		}
	}
	if count == 0 {
		return false
	}
	for c := range mean {
		mean[c] /= count
	}
	for _, i := range rows {
		if !known[i] {
			copy(m.Row(int(i)), mean)
		}
		clippingOf(s.Config).Project(m.Row(int(i)), p.MaxRating)
	}
	return true
}

// startItems sets the start of items that parties own, from the embeddings that the parties kept. A party knows no others: an
// item that is new to it starts at the mean of its own, and a party that kept none has the common start. any reports whether
// one of them kept some.
func startItems(p *kernel.Params, s *algorithm.Setup, kept *algorithm.Start, parts ...[]int32) (any bool, err error) {
	common := p.StartItems()
	m, known, err := kept.Rows("item_embeddings", s.Data.ItemIDs, p.Rank)
	if err != nil {
		return false, config.Errorf("start-from: %w", err)
	}
	for _, part := range parts {
		if complete(s, m, known, part, *p) {
			any = true
			continue
		}
		for _, j := range part {
			copy(m.Row(int(j)), common.Row(int(j)))
		}
	}
	p.FromItems = m
	return any, nil
}
