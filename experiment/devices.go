package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// devices is the form of LFL: every user is a client.
type devices struct{}

func (devices) choose(e *Experiment) error {
	e.Config.chooseDraw(e.Real())
	return nil
}

// chooseDraw replaces the auto of who draws noise.
func (c *Config) chooseDraw(real bool) {
	if c.NoiseDraw == "auto" {
		c.NoiseDraw = "sum"
		if real {
			c.NoiseDraw = "client"
		}
	}
}

func (devices) prepare(e *Experiment) error {
	c := e.Config
	e.Params.Contribution, e.Params.Clip = fedmf.Contribution(c.Contribution), c.ClipNorm.Value
	if err := e.Params.Validate(); err != nil {
		return &ConfigError{err}
	}
	release := e.Params.Release()
	release.Scale = scale(release)
	e.Steps = e.uniformly(release, model.EncodedSize(e.Params.Items, e.Params.Rank))
	if c.Private() {
		if err := e.calibrateSplit(nil); err != nil {
			return err
		}
	}
	if !c.Model.LearningRate.Given {
		e.Config.Model.LearningRate = Fixed(e.learningRate())
	}
	return nil
}

// scale chooses the fixed point: rounding h coordinates to integers adds √h/2 to
// the sensitivity, and the noise grows by the same share of it. For a few
// coordinates a thousandth is had for nothing. For a vector that may be dense it
// would take integers, and noise on them, far beyond 32 bits: a hundredth then.
func scale(r protocol.Release) float64 {
	share := 1e-3
	if r.MaxNonZero > 1000 {
		share = 1e-2
	}
	return math.Sqrt(float64(r.MaxNonZero)) / (2 * share * r.L2)
}

func (devices) strategy(e *Experiment) (server.Durable, error) {
	return fedmf.NewLFL(fedmf.LFLParams{
		Params: e.Params, Rounds: e.Config.rounds(), LearningRate: e.Config.Model.LearningRate.Value,
		Session: e.session, Cohort: e.Cohort, Release: *e.Steps.First(),
	})
}

func (devices) parties(e *Experiment) ([]client.Trainer, parties, error) {
	users := make(users, e.Data.Users)
	trainers := make([]client.Trainer, len(users))
	for u := range users {
		items, values := e.train.Row(u)
		users[u] = fedmf.NewUser(&e.Params, model.Ratings{Items: items, Values: values})
		trainers[u] = users[u]
	}
	return trainers, users, nil
}

func (devices) party(e *Experiment, which Holding, h *atHand) (*Party, error) {
	user, err := e.deviceUser(which, h)
	if err != nil {
		return nil, err
	}
	r := h.row(user)
	t := fedmf.NewUser(&e.Params, r)
	return &Party{Ratings: len(r.Items), trainer: t, result: func() []model.Embeddings {
		u := model.NewMatrix(1, e.Params.Rank)
		copy(u.Row(0), t.Embedding())
		return []model.Embeddings{model.NewEmbeddings("user_embeddings", u, h.set.UserIDs[user:user+1])}
	}}, nil
}

// deviceUser is the index of the user whose device a party is.
func (e *Experiment) deviceUser(which Holding, h *atHand) (int, error) {
	user := slices.Index(h.set.UserIDs, which.User)
	switch users := h.set.Users; {
	case which.Part != 0:
		return 0, fmt.Errorf("%w: a party of %s is a user, and no part %d of any", ErrHolding, e.Config.Algorithm, which.Part)
	case which.User == "" && users != 1:
		return 0, fmt.Errorf("%w: they are of %d users; say whose the device is", ErrHolding, users)
	case which.User == "":
		return 0, nil
	case user < 0:
		return 0, fmt.Errorf("%w: there is no user %q in them", ErrHolding, which.User)
	}
	return user, nil
}

func (devices) before(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	return baseline.FitUsers(e.Params, e.train, e.Params.StartItems(), run), nil
}

func (devices) alone(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	return baseline.LocalOnly(e.Params, e.train, e.Config.rounds(), run), nil
}

// users are the parties of LFL.
type users []*fedmf.User

// interim has every user fine-tune against the model: what the run would end
// with if it ended here.
func (users) interim(e *Experiment, encoded []byte, run protocol.Runner) (model.Predictor, error) {
	b, err := model.NewBroadcast(encoded, e.Params.Items, e.Params.Rank)
	if err != nil {
		return nil, err
	}
	return baseline.FitUsers(e.Params, e.train, b.Matrix(), run), nil
}

// final takes the users' embeddings as their devices hold them after stage 3. A
// user who has left never got the model, and counts as if it opened the
// application once more and fetched it.
func (us users) final(e *Experiment, encoded []byte, run protocol.Runner) (*model.Trained, error) {
	b, err := model.NewBroadcast(encoded, e.Params.Items, e.Params.Rank)
	if err != nil {
		return nil, err
	}
	f := &model.Factors{Users: model.NewMatrix(len(us), e.Params.Rank), Items: b.Matrix()}
	if err = all(len(us), run, func(u int) error {
		if us[u].Finished() {
			return nil
		}
		return us[u].Finish(encoded, run)
	}); err != nil {
		return nil, err
	}
	for u, t := range us {
		copy(f.Users.Row(u), t.Embedding())
	}
	return model.OfFactors(f), nil
}
