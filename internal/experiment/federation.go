package experiment

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
)

// The types of package algorithm satisfy the roles' interfaces.
var (
	_ server.Durable = algorithm.Strategy(nil)
	_ client.Trainer = algorithm.Trainer(nil)
)

// ErrNoRatings is returned by what takes ratings, of an experiment that was opened from public facts.
var ErrNoRatings = errors.New("experiment: opened from public facts, it holds no ratings")

// Federation holds an experiment's strategy, parties and ledgers before any round, for one driver to run once.
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
	return lists.Map(f.Ledgers, func(l *dp.Ledger) client.Ledger { return l })
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
	f.Trainers = lists.Map(f.clients.Trainers(), func(t algorithm.Trainer) client.Trainer { return t })
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
	return e.Test.Measure(p, run), model.Failed(p)
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

// ListsOf returns which lists of recommendations a configuration asks for; none for a regression, which has one item.
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
		algorithm.Mode.Set(&v.Config, secagg.SemiHonest.String())
		algorithm.VerifyInputs.Set(&v.Config, "no")
	}
	v.DropoutStages = slices.Clone(e.DropoutStages)
	for i, s := range v.DropoutStages {
		if !algorithm.Flow(v.Config).Has(s) {
			v.DropoutStages[i] = protocol.StageUnmask
		}
	}
	if v.Alone = b.Alone; v.Alone {
		for _, k := range []config.NumberKey{algorithm.Dropout, algorithm.Leave, algorithm.Away} {
			k.Set(&v.Config, 0)
		}
	}
	return &v, v.prepare()
}

// WithWord returns the experiment with another word for a key, and with every open choice made anew for it. The error for a
// configuration that cannot be run is a [config.Error].
func (e *Experiment) WithWord(k *config.Key, word string) (*Experiment, error) {
	if e.Config.Text(k) == word {
		return e, nil
	}
	x := *e
	x.Config = e.Asked
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
	train, list := e.Split.Train, e.instance.Baselines()
	add := func(name, note string, predict func(protocol.Runner) model.Predictor) {
		list = append(list, algorithm.Baseline{Name: name, Note: note, Predict: func(run protocol.Runner) (model.Predictor, error) { return predict(run), nil }})
	}
	if e.Held != nil {
		add("popularity", "one list for all, not private", func(protocol.Runner) model.Predictor { return e.Test.Popularity() })
		return list
	}
	if train.Items > 1 { // else a regression: each user has one label
		add("user_mean", "each user's own mean", func(run protocol.Runner) model.Predictor {
			return eval.UserMean(e.Train, float64(e.Test.GlobalMean()), run)
		})
	}
	add("global_mean", "one mean for all, not private", func(protocol.Runner) model.Predictor { return e.Test.GlobalMean() })
	if train.Items > 1 {
		add("item_bias", "user and item biases, not private", func(run protocol.Runner) model.Predictor { return eval.ItemBias(train, run) })
	}
	return list
}

// DeriveSession derives the session's ID from the releases as they are now. The ID is public, as it must be,
// since every plan carries it. Runs of one seed with the same releases draw the same noise,
// and can be compared pair by pair. Runs that differ in the noise, the cohort or the shape
// draw their noise independently: no run can cancel the noise of another. (A reader who knows
// the seed knows the noise of a simulation anyway.)
//
// The ID is the first half of the SHA-256 of the transcript of the domain
// "fedsim/session/v1" with these items: the cohort ([protocol.Transcript.Cohort]), the number of steps
// of the schedule, and the steps. Steps that differ in the length of their models alone count as one step. Each step contributes its rounds, its phase, the number of its releases, and
// each release ([protocol.Transcript.Release]). Noise that parties add is in every step that they take,
// so any setting of theirs makes another session: see [Experiment.recordSettings]. Last comes the digest of what
// the session starts from, if it starts from anything: sessions in a row do not share noise.
func (e *Experiment) DeriveSession() protocol.SessionID {
	steps := asked(e.Schedule)
	t := protocol.NewTranscript("fedsim/session/v1").
		Cohort(e.Cohort).
		Uint(uint64(len(steps)))
	for _, step := range steps {
		t.Uint(uint64(step.Rounds)).Text(step.Phase).Uint(uint64(len(step.Releases)))
		for _, r := range step.Releases {
			t.Release(r)
		}
	}
	if !e.About().Federated() || e.Schedule.Noise().Kind == protocol.PartyNoise {
		e.recordSettings(t)
	}
	if e.Start != nil {
		t.Text("start-from").Bytes(e.Start.Digest[:])
	}
	sum := t.Sum()
	return protocol.SessionID(sum[:16])
}

// asked joins steps that ask for the same, whatever the length of the model that comes with it.
func asked(s protocol.Schedule) (steps protocol.Schedule) {
	for _, step := range s {
		step.Model = 0
		if last := len(steps) - 1; last >= 0 && steps[last].Alike(step) {
			steps[last].Rounds += step.Rounds
			continue
		}
		steps = append(steps, step)
	}
	return steps
}

// recordSettings adds the size of the data, whether parties train alone, and every key that
// is not what it would be by itself, name and value. A key that is declared later, and left
// alone, changes no session. Keys that change nothing of the training are left out, so that
// a real sum, say, is of the same integers as the ideal one.
func (e *Experiment) recordSettings(t *protocol.Transcript) {
	alone := uint64(0)
	if e.Alone {
		alone = 1
	}
	t.Uint(uint64(e.Data.Users)).Uint(uint64(e.Data.Items)).Float(e.Data.Min).Float(e.Data.Max).Uint(alone)
	facts := algorithm.FactsOf(e.Data)
	for _, k := range e.About().Used() {
		if aside(k) || k == algorithm.SplitSeed.Key && algorithm.SplitSeedOf(e.Config) == algorithm.Seed.Of(e.Config) {
			continue // a split uses the run's seed anyway
		}
		left := e.Config
		left.Reset(k)
		left = left.Choose([]*config.Key{k}, facts)
		if e.Config.Text(k) != left.Text(k) {
			t.Text(k.Name).Text(e.Config.Text(k))
		}
	}
}

// aside reports whether a key leaves the training unchanged. Such keys decide how sums are computed, their
// connections, the measurements, the comparisons, or what belongs to each party alone. The seed
// keys the streams themselves.
func aside(k *config.Key) bool {
	return k.Scope == config.Own || k.Scope == config.Deployed || slices.Contains([]*config.Key{
		algorithm.Seed.Key, algorithm.ChosenBy.Key, algorithm.Secagg.Key, algorithm.Mode.Key, algorithm.VerifyInputs.Key, algorithm.NoiseDraw.Key, algorithm.Baselines.Key,
		algorithm.EvalTopK.Key, algorithm.EvalRelevant.Key, algorithm.EvalUsers.Key, algorithm.EvalNegatives.Key, algorithm.EvalBuckets.Key, algorithm.EvalDrift.Key,
		algorithm.Latency.Key, algorithm.Up.Key, algorithm.Down.Key, algorithm.Compute.Key, algorithm.Patience.Key,
	}, k)
}

// Session returns the session of the experiment: derived in a simulation, stated in a deployment.
func (e *Experiment) Session() protocol.SessionID { return e.session }

// Plan returns the plan of a round, except the model; nil if there is no such round.
func (e *Experiment) Plan(round uint64) *protocol.Plan {
	step := e.Schedule.At(round)
	if step == nil {
		return nil
	}
	return &protocol.Plan{Session: e.session, Round: round, Phase: step.Phase, Cohort: e.Cohort, Releases: slices.Clone(step.Releases)}
}

// Plans returns the plan of the first round of every step, except the model.
func (e *Experiment) Plans() []*protocol.Plan {
	list := make([]*protocol.Plan, len(e.Schedule))
	round := uint64(1)
	for i, step := range e.Schedule {
		list[i] = e.Plan(round)
		round += uint64(step.Rounds)
	}
	return list
}

// Draw returns the party that draws the noise of the ideal sum.
func (e *Experiment) Draw() secagg.Draw {
	if algorithm.NoiseDraw.Is(e.Config, "client") {
		return secagg.DrawClient
	}
	return secagg.DrawSum
}

// Real reports whether sums run the whole protocol of secure aggregation.
func (e *Experiment) Real() bool { return algorithm.Secagg.Is(e.Config, "real") }

// Mode returns the kind of attack that real sums defend against.
func (e *Experiment) Mode() secagg.Mode {
	if algorithm.Mode.Is(e.Config, secagg.Active.String()) {
		return secagg.Active
	}
	return secagg.SemiHonest
}

// VerifiesInputs reports whether clients of real sums prove that their vectors are within their bounds.
func (e *Experiment) VerifiesInputs() bool { return algorithm.VerifyInputs.Is(e.Config, "yes") }

// InputsWords returns what a line about sums adds if inputs are verified; "" if they are not.
func (e *Experiment) InputsWords() string {
	return map[bool]string{true: ", inputs are proved"}[e.VerifiesInputs()]
}

// SumParams returns the parameters of real sums among the clients of an enrolment list, given as
// their public keys by ClientID. In semi-honest mode nothing rests on the list.
func (e *Experiment) SumParams(enrolled []ed25519.PublicKey) secagg.Params {
	p := secagg.Params{Mode: e.Mode(), Rounds: e.Schedule.Rounds(), VerifyInputs: e.VerifiesInputs()}
	if p.Mode == secagg.Active {
		p.Identities = enrolled
	}
	return p
}
