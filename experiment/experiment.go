package experiment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Experiment is a configuration with its data: everything that is fixed before
// anybody trains. Opened from what is public it has no ratings, Data but lists users
// and items, and what would take ratings returns [ErrNoRatings].
type Experiment struct {
	Config Config // every auto replaced by what was chosen; workers and name stay as given
	Data   *dataset.Set
	Split  *dataset.Split
	Params fedmf.Params // of algorithms that sum statistics size and scale alone
	Cohort protocol.Cohort
	// Steps are what the iterations release, noise included; of the federated
	// algorithms only.
	Steps   Schedule
	Privacy Privacy

	asked    Config // as it was given, each auto still one
	train    *dataset.Rows
	session  protocol.SessionID
	stages   []protocol.Stage // at which clients drop out
	sums     []secagg.Cost    // of real sums, for each of Steps; else nil
	silo     fedmf.SiloParams // where parties are organisations
	ssp      fedssp.Params    // where users sum statistics
	features *dataset.ItemFeatures
	held     *dataset.HoldOut  // with implicit feedback: who is held out, and the split is made of it
	Test     eval.Test         // what predictors are measured on
	parts    dataset.Partition // then: who owns which items, or users
	alone    bool              // parties train by themselves
	public   bool              // opened from what is public: there are no ratings
}

// Open loads the data, splits it, and chooses what the configuration leaves
// open. progress, which may be nil, hears how much of the data is read.
func Open(ctx context.Context, c Config, progress func(done, total int64)) (*Experiment, error) {
	set, err := c.openData(ctx, c.Data, progress)
	if err != nil {
		return nil, err
	}
	e := &Experiment{Config: c, Data: set}
	if err = e.settle(); err != nil {
		return nil, err
	}
	return e, nil
}

// openData opens a set on the rating scale of the configuration.
func (c Config) openData(ctx context.Context, data string, progress func(done, total int64)) (*dataset.Set, error) {
	o := dataset.Options{Progress: progress}
	if c.RatingMin.Given {
		o.Min = &c.RatingMin.Value
	}
	if c.RatingMax.Given {
		o.Max = &c.RatingMax.Value
	}
	set, err := dataset.Open(ctx, data, o)
	if errors.Is(err, dataset.ErrScale) {
		return nil, &ConfigError{fmt.Errorf("rating-min, rating-max: %w", err)}
	}
	return set, err
}

// settle splits the data and fixes everything that follows.
func (e *Experiment) settle() error {
	var err error
	if e.Split, e.held, err = e.Config.split(e.Data); err != nil {
		return err
	}
	return e.derive()
}

// split cuts a set as the configuration says: with implicit feedback, which ranks, by
// users, of whom some are held out. The parts are then what is trained on, and what is to
// be predicted.
func (c Config) split(set *dataset.Set) (*dataset.Split, *dataset.HoldOut, error) {
	if !c.ranks() {
		s, err := set.Split(c.splitParams())
		if err != nil {
			return nil, nil, &ConfigError{fmt.Errorf("%s: %w", set.Name, err)}
		}
		return s, nil, nil
	}
	h, err := set.HoldOut(c.holdOutParams(set.Max))
	if err != nil {
		return nil, nil, &ConfigError{fmt.Errorf("%s: %w", set.Name, err)}
	}
	return &dataset.Split{Train: h.Train, Validation: h.Validation.Target, Test: h.Test.Target, Digest: h.Digest}, h, nil
}

// ranks reports whether quality is that of rankings for held-out users.
func (c Config) ranks() bool { return c.Algorithm.statistical() && c.implicit() }

func (c Config) splitParams() dataset.SplitParams {
	return dataset.SplitParams{Test: c.Split.Test, Validation: c.Split.Validation, Seed: c.Seed}
}

// holdOutParams hold users out on a scale of the given top. What was liked counts as
// consumed: four stars of five, as Liang et al. have it.
func (c Config) holdOutParams(top float64) dataset.HoldOutParams {
	return dataset.HoldOutParams{Test: c.Split.Test, Validation: c.Split.Validation, Positive: c.Split.Positive.Or(0.8 * top), Seed: c.Seed}
}

// derive fixes everything that follows from configuration, data and split.
func (e *Experiment) derive() error {
	e.train = e.Split.Train.ByUser()
	e.Test = eval.NewTest(e.Split, e.held, e.Data.Min, e.Data.Max)
	if err := e.choose(); err != nil {
		return err
	}
	return e.prepare()
}

// choose replaces every auto but the learning rates, which follow from the noise.
func (e *Experiment) choose() error {
	c := &e.Config
	e.asked = *c
	if strings.HasPrefix(e.Data.Name, "synthetic:") {
		c.Data = e.Data.Name
	}
	c.RatingMin, c.RatingMax = Fixed(e.Data.Min), Fixed(e.Data.Max)
	c.Epsilon, c.Unit, c.Accountant = Fixed(c.epsilon()), string(c.unit()), string(c.accountant())
	if c.Algorithm.Federated() {
		c.Dropout, c.Colluders = Fixed(c.dropout()), Fixed(c.colluders())
		if !c.biasOnly() {
			c.Rounds = Fixed(float64(c.rounds()))
		}
	}
	if c.Algorithm.Federated() && !c.Algorithm.statistical() {
		c.ClipNorm = Fixed(c.clipNorm())
	}
	if c.Noise == "auto" {
		c.Noise = string(c.noise())
	}
	if !c.Private() {
		c.Noise = "none"
	}
	e.stages = c.dropoutStages()
	if !c.biasOnly() {
		c.Rank = Fixed(float64(c.rank()))
	}
	c.Delta = Fixed(c.Delta.Or(dp.DefaultDelta(e.publicUnits())))
	if !c.Algorithm.statistical() {
		c.Model.StartMean = Fixed(c.startMean(e.Data.Max))
	}
	if c.ranks() {
		c.Split.Positive = Fixed(c.holdOutParams(e.Data.Max).Positive)
	}
	return c.Algorithm.form().choose(e)
}

// startMean is what everything is predicted to be before training.
func (c Config) startMean(top float64) float64 { return c.Model.StartMean.Or(startMeanShare * top) }

// publicUnits is as many, but public: noise follows from the default of δ, and δ
// from this. How many ratings there are is not public but for a published set;
// there are at most so many as users times items.
func (e *Experiment) publicUnits() int {
	if e.Config.unit() == dp.User {
		return e.Data.Users
	}
	if known, ok := publishedSet(e.Data.Name); ok {
		return known.Ratings
	}
	return e.Data.Users * e.Data.Items
}

// publishedSet finds a data set among those whose counts everybody knows.
func publishedSet(name string) (dataset.Entry, bool) {
	for _, known := range dataset.List() {
		if known.Name == name && known.Ratings > 0 {
			return known, true
		}
	}
	return dataset.Entry{}, false
}

// clients is N.
func (e *Experiment) clients() int {
	if e.Config.Algorithm.Organisations() {
		return e.Config.parties()
	}
	return e.Data.Users
}

// units is how many units of privacy there are, or may be as far as anybody knows:
// δ must be well below one in so many.
func (e *Experiment) units() int {
	switch {
	case e.public:
		return e.publicUnits()
	case e.Config.unit() == dp.Rating:
		return e.Split.Train.Len()
	default:
		return e.Data.Users
	}
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

// prepare sets up the model, the cohort, the release with its noise, and what
// follows from that.
func (e *Experiment) prepare() error {
	c := e.Config
	e.Params = fedmf.Params{
		Items: e.Data.Items, Rank: c.rank(),
		// Ratings are float32, in which the top of the scale may round up.
		MaxRating: max(e.Data.Max, float64(float32(e.Data.Max))),
		Seed:      c.Seed,
		StartMean: c.startMean(e.Data.Max), Spread: c.Model.StartSpread,
		Fit: fedmf.Fit{Steps: c.Model.FitSteps, Ridge: c.Model.FitRidge},
	}
	if err := e.Params.Validate(); err != nil {
		return &ConfigError{err}
	}
	e.Privacy = Privacy{Budget: dp.Budget{Epsilon: math.Inf(1), Delta: c.Delta.Value, Accountant: dp.Accountant(c.Accountant)}}
	if !c.Algorithm.Federated() {
		return c.Algorithm.form().prepare(e)
	}
	e.Cohort = protocol.Cohort{Clients: e.clients(), Tolerance: c.Tolerance, Colluders: c.Colluders.Value}
	if err := e.Cohort.Validate(); err != nil {
		return &ConfigError{fmt.Errorf("%s: %w", e.Data.Name, err)}
	}
	if c.Private() {
		if err := dp.CheckDelta(c.Delta.Value, e.units()); err != nil {
			if e.public && c.unit() == dp.Rating {
				err = fmt.Errorf("how many ratings there are is not public, there may be up to %d: %w", e.units(), err)
			}
			return &ConfigError{fmt.Errorf("delta: %w", err)}
		}
	}
	if err := c.Algorithm.form().prepare(e); err != nil {
		return err
	}
	vectors, _ := e.Steps.Vectors()
	for _, r := range e.Steps.All() {
		var err error
		if r.Width, err = secagg.Width(e.Cohort, *r, vectors); err != nil {
			return &ConfigError{err}
		}
	}
	if err := e.checkSums(); err != nil || e.public {
		return err
	}
	e.session = e.sessionID()
	return e.checkNetwork()
}

// sessionID derives the session's ID from what is released: it is public, as it
// must be, since every plan carries it. Runs of one seed that release the same
// draw the same noise, and can be compared pair by pair; runs that differ in the
// noise, the cohort or the shape draw theirs independently, and cannot be used
// to cancel each other's. The noise of organisations is in every step, so any of
// their settings makes another session, where there is noise. (Whoever knows the
// seed knows the noise of a simulation anyway.)
func (e *Experiment) sessionID() protocol.SessionID {
	public := fmt.Appendf(nil, "fedsim/session %d %+v %s", e.Steps.Iterations(), e.Cohort, releaseText(*e.Steps.First()))
	if !e.Steps.Uniform() {
		for step, r := range e.Steps.All() {
			public = fmt.Appendf(public, " %d %s %s", step.Iterations, step.Phase, releaseText(*r))
		}
	}
	if n := e.Steps.Noise(); n.Kind == protocol.Own {
		c := e.Config
		n.Steps = e.silo.LocalSteps // those that follow the last iteration are in e.silo
		public = fmt.Appendf(public, " %+v %t %s %+v {Test:%v Validation:%v} %v %s %v %v %d", n, e.alone, c.Partition, e.silo, c.Split.Test, c.Split.Validation,
			c.Dropout.Value, c.DropoutAt, c.Leave, c.Away, c.AwayRounds)
		if c.SitOut > 0 {
			public = fmt.Appendf(public, " %v", c.SitOut)
		}
	}
	h := sha256.Sum256(public)
	return protocol.SessionID(h[:16])
}

// checkSums refuses what no real sum can be made of, with the bound that fails.
func (e *Experiment) checkSums() error {
	if !e.Real() {
		return nil
	}
	e.sums = make([]secagg.Cost, len(e.Steps))
	for i, p := range e.plans() {
		var err error
		if e.sums[i], err = e.sumParams().Cost(p); err != nil {
			return &ConfigError{fmt.Errorf("secagg real: %w", err)}
		}
	}
	return nil
}

// checkNetwork refuses connections over which every stage would end before its
// messages arrive.
func (e *Experiment) checkNetwork() error {
	n := e.Config.Network
	slowest := 0.
	for i, p := range e.plans() {
		slowest = max(slowest, n.LatencyMS/1000+8*float64(p.PackedSize())/(1e6*n.UpMbps))
		// The first stage holds the way of the model and the computation.
		slowest = max(slowest, 2*n.LatencyMS/1000+n.ComputeMS/1000+8*float64(e.Steps[i].Model)/(1e6*n.DownMbps))
		if e.sums == nil {
			continue
		}
		// What opens a stage, the computation, and the answer.
		for _, stage := range [][2]protocol.Kind{{protocol.KindDelivery, protocol.KindMaskedInput}, {protocol.KindSurvivors, protocol.KindUnmask}} {
			bytes := e.sums[i].Bytes
			slowest = max(slowest, 2*n.LatencyMS/1000+n.ComputeMS/1000+
				8*float64(bytes[stage[0]])/(1e6*n.DownMbps)+8*float64(bytes[stage[1]])/(1e6*n.UpMbps))
		}
	}
	if slowest >= n.StageTimeout {
		return &ConfigError{fmt.Errorf("network.stage-timeout-s: %v is too short: messages of this model take %.3g s; give more time or bandwidth", n.StageTimeout, slowest)}
	}
	return nil
}
