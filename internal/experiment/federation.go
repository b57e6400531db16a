package experiment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
	"github.com/fedsim/fedsim/server"
)

// The types of package algorithm satisfy the roles' interfaces.
var (
	_ server.Durable = algorithm.Strategy(nil)
	_ client.Trainer = algorithm.Trainer(nil)
)

// ErrNoRatings is returned where an experiment that was opened from what is public is
// asked for something that takes ratings.
var ErrNoRatings = errors.New("experiment: opened from public facts, it holds no ratings")

// Federation holds an experiment's strategy, parties and ledgers before any round. A driver
// runs it once.
type Federation struct {
	Session  protocol.SessionID
	Strategy server.Strategy
	Trainers []client.Trainer
	Ledgers  []*dp.Ledger // nil without privacy

	clients algorithm.ClientSide
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
	if e.Public() {
		return nil, ErrNoRatings
	}
	f := &Federation{Session: e.session}
	var err error
	if f.Strategy, err = e.Strategy(); err != nil {
		return nil, err
	}
	if f.clients, err = e.instance.ClientSide(); err != nil {
		return nil, err
	}
	trainers := f.clients.Trainers()
	f.Trainers = make([]client.Trainer, len(trainers))
	for i, t := range trainers {
		f.Trainers[i] = t
	}
	if !e.Private() {
		return f, nil
	}
	f.Ledgers, err = dp.NewLedgers(e.Privacy.Budget, len(f.Trainers))
	return f, err
}

// Strategy makes the server's side, before its first round.
func (e *Experiment) Strategy() (server.Durable, error) {
	if e.Start != nil && !e.Start.Known() {
		return nil, fmt.Errorf("experiment: %w", ErrNoReleases)
	}
	return e.instance.Strategy(e.session)
}

// MeasureInterim is the quality of the shared model between two rounds: for
// users and parties as they stand, and with users fine-tuned to it.
func (e *Experiment) MeasureInterim(f *Federation, shared []byte, run protocol.Runner) (eval.Quality, error) {
	p, err := f.clients.Interim(shared, run)
	if err != nil {
		return eval.Quality{}, err
	}
	q := e.Test.Measure(p, run)
	return q, model.Failed(p)
}

// MeasureLists returns the quality of the lists of recommendations that the configuration asks for. It returns
// nil if the configuration asks for none, if no user wants an item of the test part, and for a regression, which has one item.
func (e *Experiment) MeasureLists(p model.Predictor, run protocol.Runner) (*eval.ListQuality, error) {
	params, err := ListsOf(e.Config, e.Data)
	if err != nil || params.Cutoffs == nil {
		return nil, err
	}
	q := e.Test.Lists(p, params, run)
	if q != nil && q.Relevant != nil {
		q.Relevant = new(algorithm.EvalRelevant.Value(e.Config)) // on the scale of the data
	}
	return q, nil
}

// ListsOf returns which lists of recommendations a configuration asks for on a set; none for a
// regression, which has one item.
func ListsOf(c config.Config, set *dataset.Set) (eval.ListParams, error) {
	if set.Profile != nil {
		return eval.ListParams{}, nil
	}
	cutoffs, err := algorithm.Cutoffs(c)
	return eval.ListParams{Cutoffs: cutoffs, Relevant: algorithm.EvalRelevant.Value(c) + set.Shift, MostUsers: algorithm.EvalUsers.Int(c)}, err
}

// MeasureSampled returns the quality of rankings among sampled items, if the configuration asks for
// it; otherwise nil, as where [Experiment.MeasureLists] returns nil.
func (e *Experiment) MeasureSampled(p model.Predictor, run protocol.Runner) (*eval.SampledQuality, error) {
	params, err := ListsOf(e.Config, e.Data)
	if err != nil {
		return nil, err
	}
	return e.Test.Sampled(p, eval.SampledParams{ListParams: params, Negatives: algorithm.EvalNegatives.Int(e.Config), Seed: algorithm.Seed.Of(e.Config)}, run), nil
}

// Final is the model that the run ends with, after stage 3.
func (e *Experiment) Final(f *Federation, shared []byte, run protocol.Runner) (*model.Trained, error) {
	return f.clients.Final(shared, run)
}

// Vary returns the experiment of a baseline: with the configuration changed, and summed
// without the cryptography, since the integers are the same. The result is only measured, and
// protects no user. It loses the same clients: a client that drops out at a stage that the
// result does not have is lost at unmask, and survives there too.
func (e *Experiment) Vary(b algorithm.Baseline) (*Experiment, error) {
	if e.Public() {
		return nil, ErrNoRatings
	}
	v := *e
	v.Start = nil // it is of this algorithm with its noise
	algorithm.StartFrom.Set(&v.Config, "")
	b.Vary(&v.Config)
	if v.About().Features == algorithm.NoFeatures {
		v.Features = nil
	}
	if e.Real() {
		algorithm.Secagg.Set(&v.Config, "ideal")
		algorithm.Mode.Set(&v.Config, graph.SemiHonest.String())
	}
	v.stages = slices.Clone(e.stages)
	for i, s := range v.stages {
		if !algorithm.Flow(v.Config).Has(s) {
			v.stages[i] = protocol.StageUnmask
		}
	}
	if v.Alone = b.Alone; v.Alone {
		for _, k := range []config.NumberKey{algorithm.Dropout, algorithm.Leave, algorithm.Away} {
			k.Set(&v.Config, 0)
		}
	}
	return &v, v.prepare()
}

// WithWord returns the experiment with another word for a key. Every choice that the configuration leaves open is
// made anew for that word. WithWord returns a [config.Error] if the changed configuration
// cannot be run.
func (e *Experiment) WithWord(k *config.Key, word string) (*Experiment, error) {
	if e.Config.Text(k) == word {
		return e, nil
	}
	x := *e
	x.Config = e.asked
	if err := x.Config.Set(k.Name, word); err != nil {
		return nil, config.Wrap(err)
	}
	algorithm.FeatureSpec.Set(&x.Config, algorithm.FeatureSpec.Of(e.Config)) // they have been read
	if list := x.Config.Problems(); len(list) > 0 {                          // the first says enough
		return nil, config.Wrap(list[0])
	}
	return &x, x.prepare()
}

// Baselines lists the comparisons of a run: the algorithm's baselines, then means and biases
// or, for rankings, popularity. Without ratings the list is empty.
func (e *Experiment) Baselines() []algorithm.Baseline {
	if e.Public() {
		return nil
	}
	list := e.instance.Baselines()
	for _, b := range eval.Plain(e.Split.Train, e.Train, e.Held != nil) {
		list = append(list, algorithm.Baseline{Name: b.Name, Note: b.Note, Predict: func(run protocol.Runner) (model.Predictor, error) { return b.Predictor(run), nil }})
	}
	return list
}
