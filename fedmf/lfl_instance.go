package fedmf

import (
	"errors"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// usersInstance is LFL with its data: every user is a client.
type usersInstance struct {
	sharedRows

	params kernel.Params
}

// sharedRows is the matrix that all parties of an instance share.
type sharedRows struct {
	setup *algorithm.Setup
	name  string
	ids   []string
}

func (x *sharedRows) Shared(shared []byte) ([]model.Embeddings, error) {
	b, err := model.NewBroadcast(shared, len(x.ids), algorithm.Rank.Int(x.setup.Config))
	if err != nil {
		return nil, err
	}
	return []model.Embeddings{model.NewEmbeddings(x.name, b.Matrix(), x.ids)}, nil
}

// Record returns the shared embeddings, with the rows of earlier sessions that they lack.
func (x *sharedRows) Record(s algorithm.Strategy, _ *model.Trained) ([]model.Embeddings, error) {
	list, err := x.Shared(s.Model())
	for i := range list {
		list[i] = x.setup.Start.Kept(list[i], nil)
	}
	return list, err
}

func openUsers(s *algorithm.Setup, p kernel.Params) (*usersInstance, error) {
	c := s.Config
	p.Contribution, p.Clip = kernel.Contribution(contribution.Of(c)), clipNorm.Value(c)
	release := p.Release()
	release.Scale = algorithm.Scale(release)
	s.Schedule = algorithm.UniformSchedule(algorithm.Rounds.Int(c), release, model.EncodedSize(p.Items, p.Rank))
	if err := s.CalibrateSplit(nil); err != nil {
		return nil, err
	}
	if !LearningRate.Of(c).Given {
		LearningRate.Set(&s.Config, chooseRate(s, p))
	}
	return &usersInstance{sharedRows{s, "item_embeddings", s.Data.ItemIDs}, p}, nil
}

func (x *usersInstance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	s := x.setup
	return kernel.NewLFL(x.params, LearningRate.Value(s.Config), modelserver.Server{Schedule: s.Schedule, Cohort: s.Cohort, Session: session}), nil
}

func (x *usersInstance) ClientSide() (algorithm.ClientSide, error) {
	kept := model.NewRowArena(x.setup.Data.Users, x.params.Rank)
	return &userParties{usersInstance: x, kept: kept, users: kernel.NewUsers(&x.params, x.setup.Data.Users, x.setup.Sources(), kept)}, nil
}

func (x *usersInstance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	user, err := l.UserOf(algorithm.Name.Of(x.setup.Config), which)
	if err != nil {
		return nil, err
	}
	r := l.Row(user)
	t := kernel.NewUser(&x.params, r)
	return &algorithm.Party{Ratings: len(r.Items), Trainer: t, Result: func() []model.Embeddings {
		u := model.NewMatrix(1, x.params.Rank)
		copy(u.Row(0), t.U)
		return []model.Embeddings{{Named: model.Named{Name: "user_embeddings", Matrix: u}, IDs: l.IDs(user, which)}}
	}}, nil
}

func (x *usersInstance) Baselines() []algorithm.Baseline {
	return append(StartBaselines(x.setup, x.params, x.setup.Schedule.Rounds()), withoutNoise(x.setup))
}

// StartBaselines returns the baselines of users without cooperation.
func StartBaselines(s *algorithm.Setup, p kernel.Params, steps int) []algorithm.Baseline {
	return []algorithm.Baseline{
		{Name: "before_cooperation", Note: "each client alone, from this start", Predict: func(run protocol.Runner) (model.Predictor, error) {
			return kernel.FitUsers(p, s.Train, p.StartItems(), run), nil
		}},
		{Name: "local_only", Note: "each user trains alone", Predict: func(run protocol.Runner) (model.Predictor, error) {
			return kernel.LocalOnly(p, s.Train, steps, run), nil
		}},
	}
}

// withoutNoise returns the baseline with the same data, start, local budget, parties and dropouts,
// at the learning rate that suits no noise.
func withoutNoise(s *algorithm.Setup) algorithm.Baseline {
	return algorithm.NonPrivate(s, "learning rate", func(c *config.Config) {
		for _, k := range []config.NumberKey{LearningRate, userRate, itemRate} {
			k.SetAuto(c)
		}
	})
}

// userParties are the clients of LFL.
type userParties struct {
	*usersInstance
	kept  *model.RowArena // holds the users' embeddings
	users []kernel.User
}

func (p *userParties) Trainers() []algorithm.Trainer {
	return algorithm.Trainers(len(p.users), func(i int) algorithm.Trainer { return &p.users[i] })
}

// Interim fine-tunes every user against the model, as if the run ended here.
func (p *userParties) Interim(shared []byte, run protocol.Runner) (model.Predictor, error) {
	b, err := model.NewBroadcast(shared, p.params.Items, p.params.Rank)
	if err != nil {
		return nil, err
	}
	return kernel.FitUsers(p.params, p.setup.Train, b.Matrix(), run), nil
}

// Final takes the users' embeddings that their clients hold after stage 3.
func (p *userParties) Final(shared []byte, run protocol.Runner) (*model.Trained, error) {
	b, err := model.NewBroadcast(shared, p.params.Items, p.params.Rank)
	if err != nil {
		return nil, err
	}
	f := &model.Factors{Users: p.kept.Rows(), Items: b.Matrix()} // usually their own place
	if err = finish(p, shared, run); err != nil {
		return nil, err
	}
	for u := range p.users {
		copy(f.Users.Row(u), p.users[u].U)
	}
	return model.OfFactors(f), nil
}

// finish runs stage 3 of the parties that have not run it.
func finish(clients algorithm.ClientSide, shared []byte, run protocol.Runner) error {
	parties := clients.Trainers()
	errs := make([]error, len(parties))
	run.Each(len(parties), func(i int) {
		if t := parties[i].(interface{ Finished() bool }); !t.Finished() {
			errs[i] = parties[i].Finish(shared, run)
		}
	})
	return errors.Join(errs...)
}

func (f *family) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	rank := algorithm.Rank.Int(c)
	items, err := files.Matrix("item_embeddings", set.Items, rank)
	users, err2 := files.Matrix("user_embeddings", set.Users, rank)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	of := func(int) *model.Matrix { return items }
	if f.about.Clients == algorithm.UserParties {
		of, err = partyItems(c, set, files, rank)
	}
	return Saved(items, users, of), err
}

// Saved returns a model of embeddings. The function of returns the items' embeddings for a user.
func Saved(items, users *model.Matrix, of func(user int) *model.Matrix) *algorithm.Saved {
	return &algorithm.Saved{Items: items, Score: func(user int, out []float64) {
		u, v := users.Row(user), of(user)
		for j := range out {
			out[j] = model.Dot(u, v.Row(j))
		}
	}}
}

// partyItems returns the item embeddings of each user's own party.
func partyItems(c config.Config, set *dataset.Set, files algorithm.Files, rank int) (func(user int) *model.Matrix, error) {
	parts, err := split.PartitionUsers(set, int(algorithm.Parties.Chosen(c)), algorithm.Seed.Of(c))
	if err != nil {
		return nil, err
	}
	of := make([]*model.Matrix, set.Users)
	for k, users := range parts {
		m, err := files.Matrix(partyItemsName(k), set.Items, rank)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			of[u] = m
		}
	}
	return func(user int) *model.Matrix { return of[user] }, nil
}
