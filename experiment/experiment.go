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
	"github.com/fedsim/fedsim/fedmf"
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

// choose replaces every auto but the learning rate, which follows from the noise.
func (e *Experiment) choose() {
	c := &e.Config
	if strings.HasPrefix(e.Data.Name, "synthetic:") {
		c.Data = e.Data.Name
	}
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
	e.session = sessionOf(c.Rounds, e.Cohort, e.Release)
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

// sessionOf derives the session's ID from what is released: it is public, as it
// must be, since every plan carries it. Runs of one seed that release the same
// draw the same noise, and can be compared pair by pair; runs that differ in the
// noise, the cohort or the shape draw theirs independently, and cannot be used
// to cancel each other's.
func sessionOf(rounds int, c protocol.Cohort, r protocol.Release) protocol.SessionID {
	h := sha256.Sum256(fmt.Appendf(nil, "fedsim/session %d %+v %+v", rounds, c, r))
	return protocol.SessionID(h[:16])
}

// checkNetwork refuses connections over which every stage would end before its
// messages arrive.
func (e *Experiment) checkNetwork() error {
	n := e.Config.Network
	p := e.plan()
	slowest := n.LatencyMS/1000 + 8*float64(p.PackedSize())/(1e6*n.UpMbps)
	// The first stage holds the way of the model and the computation.
	slowest = max(slowest, 2*n.LatencyMS/1000+n.ComputeMS/1000+8*8*float64(e.Release.Len)/(1e6*n.DownMbps))
	if slowest >= n.StageTimeout {
		return &ConfigError{fmt.Errorf("network.stage-timeout-s: %v is too short: messages of this model take %.3g s; give more time or bandwidth", n.StageTimeout, slowest)}
	}
	return nil
}
