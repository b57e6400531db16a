package experiment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Experiment is a configuration with its data: everything that is fixed before
// anybody trains.
type Experiment struct {
	Config Config // every auto replaced by what was chosen; workers and name stay as given
	Data   *dataset.Set
	Split  *dataset.Split
	Params fedmf.Params
	Cohort protocol.Cohort
	// Release is what each iteration releases, noise included; of the
	// federated algorithms only.
	Release protocol.Release
	Privacy Privacy

	train, test *dataset.Rows
	session     protocol.SessionID
}

// Privacy is what an experiment promises.
type Privacy struct {
	Budget  dp.Budget  // of each client; Epsilon +Inf without noise
	Planned []dp.Event // what one iteration costs a client at the most; none without noise
	Claimed float64    // with replaced noise: the ε that the published analysis would state; else 0
}

// Open loads the data, splits it, and chooses what the configuration leaves
// open. progress, which may be nil, hears how much of the data is read.
func Open(ctx context.Context, c Config, progress func(done, total int64)) (*Experiment, error) {
	o := dataset.Options{Progress: progress}
	if c.RatingMin.Given {
		o.Min = &c.RatingMin.Value
	}
	if c.RatingMax.Given {
		o.Max = &c.RatingMax.Value
	}
	set, err := dataset.Open(ctx, c.Data, o)
	if errors.Is(err, dataset.ErrScale) {
		return nil, &ConfigError{fmt.Errorf("rating-min, rating-max: %w", err)}
	}
	if err != nil {
		return nil, err
	}
	split, err := set.Split(dataset.SplitParams{Test: c.Split.Test, Validation: c.Split.Validation, Seed: c.Seed})
	if err != nil {
		return nil, &ConfigError{fmt.Errorf("%s: %w", set.Name, err)}
	}
	e := &Experiment{Config: c, Data: set, Split: split, train: split.Train.ByUser(), test: split.Test.ByUser()}
	e.choose()
	return e, e.prepare()
}

// choose replaces every auto.
func (e *Experiment) choose() {
	c := &e.Config
	c.RatingMin, c.RatingMax = Fixed(e.Data.Min), Fixed(e.Data.Max)
	c.Epsilon = Fixed(c.epsilon())
	if c.Noise == "auto" {
		c.Noise = "split"
	}
	if !c.Private() {
		c.Noise = "none"
	}
	c.Rank = Fixed(c.Rank.Or(float64(defaultRank(c.Algorithm))))
	c.Delta = Fixed(c.Delta.Or(dp.DefaultDelta(e.Data.Users)))
	c.Model.StartMean = Fixed(c.Model.StartMean.Or(startMeanShare * e.Data.Max))
}

// Workers is how many goroutines compute.
func (e *Experiment) Workers() int {
	if e.Config.Workers > 0 {
		return e.Config.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// startMeanShare of the scale's top is what everything is predicted to be
// before training: 3.5 of 5 stars.
const startMeanShare = 0.7

// prepare sets up the model, the cohort, and the release with its noise.
func (e *Experiment) prepare() error {
	c := e.Config
	e.Params = fedmf.Params{
		Items: e.Data.Items, Rank: int(c.Rank.Value),
		// Ratings are float32, in which the top of the scale may round up.
		MaxRating: max(e.Data.Max, float64(float32(e.Data.Max))),
		Seed:      c.Seed,
		StartMean: c.Model.StartMean.Value, Spread: c.Model.StartSpread,
		Fit:          fedmf.Fit{Steps: c.Model.FitSteps, Ridge: c.Model.FitRidge},
		Contribution: fedmf.Contribution(c.Contribution), Clip: c.ClipNorm,
	}
	if err := e.Params.Validate(); err != nil {
		return &ConfigError{err}
	}
	e.Privacy.Budget = dp.Budget{Epsilon: math.Inf(1), Delta: c.Delta.Value, Accountant: dp.Accountant(c.Accountant)}
	if !c.federated() {
		e.Config.Model.LearningRate = Fixed(c.Model.LearningRate.Or(centralLearningRate))
		return nil
	}
	e.Cohort = protocol.Cohort{Clients: e.Data.Users, Tolerance: c.Tolerance, Colluders: c.Colluders}
	if err := e.Cohort.Validate(); err != nil {
		return &ConfigError{fmt.Errorf("%s: %w", e.Data.Name, err)}
	}
	e.Release = e.Params.Release()
	e.Release.Scale = scale(e.Release)
	if c.Private() {
		if err := e.calibrate(); err != nil {
			return err
		}
	}
	var err error
	if e.Release.Width, err = secagg.Width(e.Cohort, e.Release, c.Rounds); err != nil {
		return &ConfigError{err}
	}
	if !c.Model.LearningRate.Given {
		e.Config.Model.LearningRate = Fixed(e.learningRate())
	}
	e.session = sessionOf(e.Config)
	return e.checkNetwork()
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

// sessionOf derives the session's ID from the resolved configuration, all of
// which is public: every plan carries it, so it must not depend on a rating. The
// same experiment has the same one, which lets outcomes be compared byte for
// byte; another one has another, and so its simulated noise is independent.
func sessionOf(c Config) protocol.SessionID {
	c.Workers, c.Out, c.Name = 0, "", ""
	h := sha256.Sum256(append([]byte("fedsim/session\x00"), c.YAML()...))
	return protocol.SessionID(h[:16])
}

// calibrate finds the least noise with which all attempts together keep ε.
func (e *Experiment) calibrate() error {
	c := e.Config
	units := e.Data.Users
	if err := dp.CheckDelta(c.Delta.Value, units); err != nil {
		return &ConfigError{fmt.Errorf("delta: %w", err)}
	}
	b := &e.Privacy.Budget
	b.SamplerError = dp.SamplerError(e.Cohort.Clients, e.Release.Len, c.Rounds)
	d2, d1 := e.Release.Bounds()
	variance, reached, err := dp.SkellamVariance(
		dp.Target{Epsilon: c.Epsilon.Value, Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError},
		dp.Skellam(1, d2, d1).Times(c.Rounds))
	if err != nil {
		return &ConfigError{fmt.Errorf("epsilon %v over %d rounds: %w", c.Epsilon.Value, c.Rounds, err)}
	}
	e.Release.Noise = protocol.Noise{Kind: protocol.Split, Variance: variance}
	b.Epsilon = c.Epsilon.Value
	if c.Noise == "replace" {
		e.Release.Noise.Kind = protocol.Replace
		e.Privacy.Claimed = reached.Epsilon
	}
	p := protocol.Plan{Cohort: e.Cohort, Releases: []protocol.Release{e.Release}}
	if e.Privacy.Planned, err = p.Charges(); err != nil {
		return err
	}
	if c.Noise == "replace" {
		// The clients agreed to what the scheme really costs at the worst.
		// At the edge of gdp-skellam's region more noise is charged more, so the
		// most that a view may hold must be inside for the worst case to be one.
		widest := variance * float64(e.Cohort.Honest(e.Cohort.Clients)) / float64(e.Cohort.Honest(e.Cohort.Required()))
		if b.Accountant == dp.GDPSkellam && widest > dp.CertifiedMaxVariance {
			return &ConfigError{fmt.Errorf("accountant gdp-skellam is certified up to a variance of %g, and a view of replaced noise may have %.3g; use rdp", dp.CertifiedMaxVariance, widest)}
		}
		worst, err := e.spent(e.Privacy.Planned, c.Rounds)
		if err != nil {
			return err
		}
		if math.IsInf(worst.Epsilon, 1) {
			return &ConfigError{fmt.Errorf("epsilon %v with replaced noise really costs more than the samplers' error can bear at delta %v; lower epsilon", c.Epsilon.Value, b.Delta)}
		}
		b.Epsilon = worst.Epsilon
	}
	return e.checkSamplers()
}

// checkSamplers refuses noise that the samplers could not draw later.
func (e *Experiment) checkSamplers() error {
	n := e.Release.Noise
	largest, limit := e.Cohort.FinalVariance(n.Variance, e.Cohort.Clients, 0), 2.*noise.MaxMean
	if e.Draw() == secagg.DrawClient {
		largest, limit = e.Cohort.ShareVariance(n.Variance), 2.*noise.MaxThinningMean
	}
	if largest > limit {
		return &ConfigError{fmt.Errorf("epsilon %v over %d coordinates needs noise of variance %.3g in integers, and samplers go up to %.3g; take a larger epsilon or a smaller rank",
			e.Config.Epsilon.Value, e.Release.Len, largest, limit)}
	}
	return nil
}

// spent is what the events of one iteration cost, n times.
func (e *Experiment) spent(events []dp.Event, n int) (dp.Result, error) {
	var all []dp.Event
	if n > 0 {
		for _, ev := range events {
			all = append(all, ev.Times(n))
		}
	}
	return e.epsilon(all)
}

// epsilon is what events cost at the experiment's δ.
func (e *Experiment) epsilon(events []dp.Event) (dp.Result, error) {
	b := e.Privacy.Budget
	return dp.Problem{Events: events, Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}.Epsilon()
}

// checkNetwork refuses connections over which every stage would end before its
// messages arrive.
func (e *Experiment) checkNetwork() error {
	n := e.Config.Network
	p := protocol.Plan{Releases: []protocol.Release{e.Release}}
	slowest := n.LatencyMS/1000 + 8*float64(p.PackedSize())/(1e6*n.UpMbps)
	// The first stage holds the way of the model and the computation.
	slowest = max(slowest, 2*n.LatencyMS/1000+n.ComputeMS/1000+8*8*float64(e.Release.Len)/(1e6*n.DownMbps))
	if slowest >= n.StageTimeout {
		return &ConfigError{fmt.Errorf("network.stage-timeout-s: %v is too short: messages of this model take %.3g s; give more time or bandwidth", n.StageTimeout, slowest)}
	}
	return nil
}

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
