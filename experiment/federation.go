package experiment

import (
	"context"
	"crypto/ed25519"
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
	"github.com/fedsim/fedsim/server"
)

// Federation is an experiment's strategy, parties and ledgers, untouched: what
// a driver runs once.
type Federation struct {
	Session  protocol.SessionID
	Strategy server.Strategy
	Trainers []client.Trainer
	Ledgers  []*dp.Ledger // nil without privacy

	parties parties
}

// parties are the trainers as whoever measures quality sees them.
type parties interface {
	// interim predicts by the shared model between two iterations.
	interim(e *Experiment, encoded []byte, run protocol.Runner) (model.Predictor, error)
	// final is what the run ends with, after stage 3.
	final(e *Experiment, encoded []byte, run protocol.Runner) (*model.Trained, error)
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

// Federation makes the parties of the experiment, all in one place.
func (e *Experiment) Federation() (*Federation, error) {
	if e.public {
		return nil, ErrNoRatings
	}
	f := &Federation{Session: e.session}
	var err error
	if f.Strategy, err = e.Config.Algorithm.form().strategy(e); err != nil {
		return nil, err
	}
	if f.Trainers, f.parties, err = e.Config.Algorithm.form().parties(e); err != nil {
		return nil, err
	}
	if !e.Config.Private() {
		return f, nil
	}
	f.Ledgers = make([]*dp.Ledger, len(f.Trainers))
	cache := new(dp.Cache)
	for i := range f.Ledgers {
		if f.Ledgers[i], err = dp.NewLedger(e.Privacy.Budget, cache); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Session is that of the experiment: derived in a simulation, stated in a deployment.
func (e *Experiment) Session() protocol.SessionID { return e.session }

// Strategy makes the server's side, before its first iteration.
func (e *Experiment) Strategy() (server.Durable, error) { return e.Config.Algorithm.form().strategy(e) }

// Draw is who draws the noise of the ideal sum.
func (e *Experiment) Draw() secagg.Draw {
	if e.Config.NoiseDraw == "client" {
		return secagg.DrawClient
	}
	return secagg.DrawSum
}

// Real reports whether sums run the whole protocol of secure aggregation.
func (e *Experiment) Real() bool { return e.Config.Secagg == "real" }

// Mode is what real sums defend against.
func (e *Experiment) Mode() graph.Mode {
	if e.Config.Mode == graph.Active.String() {
		return graph.Active
	}
	return graph.SemiHonest
}

// SumParams are those of real sums among the clients of an enrolment list, given as
// their public keys by ClientID. In semi-honest mode nothing rests on the list.
func (e *Experiment) SumParams(enrolled []ed25519.PublicKey) secagg.Params {
	p := secagg.Params{Mode: e.Mode(), Iterations: e.Steps.Iterations()}
	if p.Mode == graph.Active {
		p.Identities = enrolled
	}
	return p
}

// sumParams are those of a real sum, as far as anything follows from them: the
// enrolment list has the right size, and no keys yet.
func (e *Experiment) sumParams() secagg.Params {
	if e.Mode() != graph.Active {
		return e.SumParams(nil)
	}
	var unknown [ed25519.PublicKeySize]byte
	return e.SumParams(slices.Repeat([]ed25519.PublicKey{unknown[:]}, e.Cohort.Clients))
}

// DropoutStages are the stages at which clients drop out.
func (e *Experiment) DropoutStages() []protocol.Stage { return e.stages }

// NonPrivate is the same experiment without noise: the same data, start, local
// budget, parties and dropouts, at the learning rate that suits no noise.
func (e *Experiment) NonPrivate() (*Experiment, error) {
	if e.public {
		return nil, ErrNoRatings
	}
	n := *e
	n.Config.Epsilon, n.Config.Noise = Fixed(math.Inf(1)), "none"
	n.compare()
	n.Config.Model.LearningRate, n.Config.Model.UserRate, n.Config.Model.ItemRate = Auto, Auto, Auto
	return &n, n.prepare()
}

// PrivateItemBias is what a private bias of every item reaches at the same budget,
// spent on nothing else, with the same dropouts; nil where the algorithm does not sum
// statistics of ratings on a scale, or is that itself.
func (e *Experiment) PrivateItemBias() (*Experiment, error) {
	if e.public {
		return nil, ErrNoRatings
	}
	if !e.Config.Algorithm.statistical() || e.Config.biasOnly() || e.Config.implicit() {
		return nil, nil
	}
	b := *e
	b.Config.Algorithm, b.Config.Statistics, b.features = PrivateItemBias, Defaults().Statistics, nil
	b.compare()
	if err := (statistics{}).choose(&b); err != nil {
		return nil, err
	}
	return &b, b.prepare()
}

// compare makes a variant that is only measured, and protects nobody. It is summed
// without the cryptography: the integers are the same. It loses the same clients: who
// drops out at a stage that it does not have is lost at unmask, and survives there too.
func (e *Experiment) compare() {
	if e.Real() {
		e.Config.Secagg, e.Config.Mode, e.sums = "ideal", graph.SemiHonest.String(), nil
	}
	e.stages = slices.Clone(e.stages)
	for i, s := range e.stages {
		if !e.Config.course().Has(s) {
			e.stages[i] = protocol.StageUnmask
		}
	}
}

// LocalOnly is the experiment in which every party trains by itself, with the
// same steps and noise, at the learning rates that suit that noise where nobody
// averages it, and nobody drops out; nil where that needs no run through the
// roles, and Baselines measures it.
func (e *Experiment) LocalOnly() (*Experiment, error) {
	if e.public {
		return nil, ErrNoRatings
	}
	if !e.Config.Algorithm.vertical() {
		return nil, nil
	}
	l := *e
	l.alone = true
	l.compare()
	l.Config.Dropout, l.Config.Leave, l.Config.Away = Fixed(0), 0, 0
	if e.Config.Private() {
		l.Config.Model.UserRate, l.Config.Model.ItemRate = Auto, Auto
	}
	return &l, l.prepare()
}

// all runs f(0) to f(n-1) and joins their errors.
func all(n int, run protocol.Runner, f func(i int) error) error {
	errs := make([]error, n)
	run.Each(n, func(i int) { errs[i] = f(i) })
	return errors.Join(errs...)
}

// central is the form of sgd-mf: no parties, all ratings in one place.
type central struct{}

func (central) choose(*Experiment) error { return nil }

func (central) prepare(e *Experiment) error {
	e.Config.Model.LearningRate = Fixed(e.Config.Model.LearningRate.Or(centralLearningRate))
	return nil
}

// errCentral is returned where a federation is asked for that there is not.
var errCentral = errors.New("experiment: sgd-mf has no federation")

func (central) strategy(*Experiment) (server.Durable, error) { return nil, errCentral }

func (central) parties(*Experiment) ([]client.Trainer, parties, error) { return nil, nil, errCentral }

func (central) party(*Experiment, Holding, *atHand) (*Party, error) { return nil, errCentral }

func (central) before(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	return devices{}.before(e, run)
}

func (central) alone(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	return devices{}.alone(e, run)
}

// Central trains on all ratings in one place; passed is called after each pass.
func (e *Experiment) Central(ctx context.Context, passed func(epoch int, f *model.Factors) error) (*model.Trained, error) {
	f, err := baseline.Central(ctx, e.Split.Train, baseline.CentralParams{
		Params: e.Params, Epochs: e.Config.Model.Epochs, LearningRate: e.Config.Model.LearningRate.Value, Passed: passed,
	})
	if err != nil {
		return nil, err
	}
	return model.OfFactors(f), nil
}
