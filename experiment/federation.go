package experiment

import (
	"context"
	"math"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Federation is an experiment's strategy, parties and ledgers, untouched: what
// a driver runs once.
type Federation struct {
	Session  protocol.SessionID
	Strategy *fedmf.LFL
	Users    []*fedmf.User
	Ledgers  []*dp.Ledger // nil without privacy
}

// Trainers are the users as the client role sees them.
func (f *Federation) Trainers() []client.Trainer {
	t := make([]client.Trainer, len(f.Users))
	for i, u := range f.Users {
		t[i] = u
	}
	return t
}

// ClientLedgers are the ledgers as the client role sees them; nil without privacy.
func (f *Federation) ClientLedgers() []client.Ledger {
	if f.Ledgers == nil {
		return nil
	}
	l := make([]client.Ledger, len(f.Ledgers))
	for i := range f.Ledgers {
		l[i] = f.Ledgers[i]
	}
	return l
}

// Federation makes the parties of the experiment.
func (e *Experiment) Federation() (*Federation, error) {
	strategy, err := fedmf.NewLFL(fedmf.LFLParams{
		Params: e.Params, Rounds: e.Config.Rounds, LearningRate: e.Config.Model.LearningRate.Value,
		Session: e.session, Cohort: e.Cohort, Release: e.Release,
	})
	if err != nil {
		return nil, err
	}
	f := &Federation{Session: e.session, Strategy: strategy, Users: make([]*fedmf.User, e.Data.Users)}
	for u := range f.Users {
		items, values := e.train.Row(u)
		f.Users[u] = fedmf.NewUser(&e.Params, fedmf.Ratings{Items: items, Values: values})
	}
	if !e.Config.Private() {
		return f, nil
	}
	f.Ledgers = make([]*dp.Ledger, len(f.Users))
	cache := new(dp.Cache)
	for i := range f.Ledgers {
		if f.Ledgers[i], err = dp.NewLedger(e.Privacy.Budget, cache); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Draw is who draws the noise of the ideal sum.
func (e *Experiment) Draw() secagg.Draw {
	if e.Config.NoiseDraw == "client" {
		return secagg.DrawClient
	}
	return secagg.DrawSum
}

// DropoutStages are the stages at which clients drop out.
func (e *Experiment) DropoutStages() []protocol.Stage { return stages[e.Config.DropoutAt] }

// Central trains on all ratings in one place; passed is called after each pass.
func (e *Experiment) Central(ctx context.Context, passed func(epoch int, f *baseline.Factors) error) (*baseline.Factors, error) {
	return baseline.Central(ctx, e.Split.Train, baseline.CentralParams{
		Params: e.Params, Epochs: e.Config.Model.Epochs, LearningRate: e.Config.Model.LearningRate.Value, Passed: passed,
	})
}

// NonPrivate is the same experiment without noise: the same data, start, local
// budget, parties and dropouts, at the learning rate that suits no noise.
func (e *Experiment) NonPrivate() (*Experiment, error) {
	n := *e
	n.Config.Epsilon, n.Config.Noise = Fixed(math.Inf(1)), "none"
	n.Config.Algorithm = FMFLFL
	n.Config.Model.LearningRate = Auto
	n.Privacy = Privacy{}
	return &n, n.prepare()
}
