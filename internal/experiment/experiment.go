// Package experiment opens an experiment: it turns a configuration with its data into
// everything that is fixed before training ([Experiment]). These parts are the split, the cohort, the
// schedule of releases with calibrated noise, and the parties of a simulation ([Federation]).
//
// It asks the algorithm for everything that differs between algorithms (package
// algorithm), and knows none by name. It knows neither the simulator nor a network: a
// driver runs its federation. Package forecast says what a run would do and cost, package
// agreement what the parties of a deployment agree on, package results what a run leaves.
package experiment

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Experiment is a configuration with its data: everything that is fixed before training.
// An experiment opened from public facts has no ratings: its Data only lists users and items,
// and methods that need ratings return [ErrNoRatings].
type Experiment struct {
	// Setup holds the input and the result of opening the algorithm. In its Config every
	// auto is replaced by the choice; workers and name stay as given.
	algorithm.Setup
	Split *split.Parts
	Test  eval.Test // what quality is measured on; empty without ratings

	Asked config.Config // the configuration as it was given, each auto still one

	// Search chose the settings by the same data; nil if none did.
	Search *dp.Search

	// Loading is the time that opening took, on the wall clock.
	Loading time.Duration

	DropoutStages []protocol.Stage // at which clients drop out
	Sums          []secagg.Cost    // of real sums, for each step of the schedule; nil of ideal ones

	instance algorithm.Instance
	session  protocol.SessionID
}

// Open loads the data, splits it, and chooses the settings that the configuration leaves
// open. progress, which may be nil, is called with how much of the data is read.
func Open(ctx context.Context, c config.Config, progress func(done, total int64)) (*Experiment, error) {
	return load(ctx, c, progress, false)
}

// OpenPacked is Open that leaves ratings packed ([dataset.Packed]) where the data come so and the algorithm works by user. The
// bits of a run are the same; it is for who asks for no rating but by row ([dataset.Rows]).
func OpenPacked(ctx context.Context, c config.Config, progress func(done, total int64)) (*Experiment, error) {
	return load(ctx, c, progress, algorithm.Of(c).About().ByUser)
}

func load(ctx context.Context, c config.Config, progress func(done, total int64), packed bool) (*Experiment, error) {
	start, in := time.Now(), inputOf(c)
	in.read.Progress, in.read.Packed = progress, packed
	set, err := in.open(ctx, algorithm.Data.Of(c))
	if err != nil {
		return nil, err
	}
	return openSet(c, in, set, start)
}

// OpenSet is Open with data that are there already.
func OpenSet(c config.Config, set *dataset.Set) (*Experiment, error) {
	return openSet(c, inputOf(c), set, time.Now())
}

// OpenRatings is Open with ratings that a program has in memory. The configuration must state the scale.
func OpenRatings(c config.Config, ratings []read.Rating) (*Experiment, error) {
	in := inputOf(c)
	set, err := read.FromRatings("ratings", ratings, in.read)
	if err != nil {
		return nil, refused(err)
	}
	return openSet(c, in, set, time.Now())
}

func openSet(c config.Config, in input, set *dataset.Set, start time.Time) (*Experiment, error) {
	if err := in.check(set); err != nil {
		return nil, err
	}
	set, err := in.prepare(set)
	if err != nil {
		return nil, err
	}
	parts, err := in.divide(set)
	if err != nil {
		return nil, err
	}
	e := &Experiment{Split: parts}
	e.Config, e.Data, e.Held, e.Ratings = c, set, parts.Held, parts.Train
	e.Train = parts.Train.ByUser()
	e.Test = eval.NewTest(parts, set.Min, set.Max, algorithm.EvalBuckets.Int(c))
	if err = e.readStart(); err == nil {
		err = e.derive()
	}
	e.Loading = time.Since(start)
	return e, err
}

// OpenPublic makes the experiment of a configuration and a set without ratings, for
// the parties of a deployment. The session must be given: it is stated, not derived. start holds what the session
// starts from; nil: nothing. Clients have it without the releases.
func OpenPublic(c config.Config, set *dataset.Set, features *dataset.ItemFeatures, session protocol.SessionID, start *algorithm.Start) (*Experiment, error) {
	none := set.Ratings
	e := &Experiment{Split: &split.Parts{Train: none, Validation: none, Test: none}, session: session}
	e.Config, e.Data, e.Features, e.Start = c, set, features, start
	if start != nil {
		if err := e.checkStart(); err != nil {
			return nil, err
		}
	}
	e.Test = eval.NewTest(e.Split, set.Min, set.Max, algorithm.EvalBuckets.Int(e.Config))
	return e, e.derive()
}

// Find reports a file that the configuration names and that is not there. It reads none, and standard input is there.
func Find(ctx context.Context, c config.Config) error {
	in := inputOf(c)
	if err := read.Find(ctx, algorithm.Data.Of(c), in.read); err != nil {
		return err
	}
	named := map[string]string{algorithm.SplitTestFile.Name: in.read.Test, algorithm.PublicIDs.Name: in.public.file}
	for part := range strings.SplitSeq(algorithm.FeatureSpec.Of(c), ",") {
		if file, _, is := strings.Cut(strings.TrimSpace(part), ".csv"); is {
			named[algorithm.FeatureSpec.Name+" "+part] = file + ".csv"
		}
	}
	for _, key := range slices.Sorted(maps.Keys(named)) {
		if _, err := os.Stat(named[key]); err != nil && named[key] != "" && named[key] != "-" {
			return config.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// OpenData opens a set on the rating scale of the configuration, without its public users.
func OpenData(ctx context.Context, c config.Config, data string, progress func(done, total int64)) (*dataset.Set, error) {
	in := inputOf(c)
	in.read.Progress = progress
	set, err := in.open(ctx, data)
	if err != nil {
		return nil, err
	}
	return in.prepare(set)
}

// Divide splits a set as the configuration says: with implicit feedback into likes, of users held out or seen.
func Divide(c config.Config, set *dataset.Set) (*split.Parts, error) { return inputOf(c).divide(set) }

// derive fixes everything that follows from configuration, data and split.
func (e *Experiment) derive() error {
	e.Asked = e.Config
	if generated := "synthetic"; strings.HasPrefix(e.Data.Name, generated) && strings.HasPrefix(algorithm.Data.Of(e.Config), generated) {
		algorithm.Data.Set(&e.Config, e.Data.Name)
	}
	if err := e.readFeatures(); err != nil {
		return err
	}
	e.DropoutStages = algorithm.DropoutStages(e.Config)
	if err := e.prepare(); err != nil {
		return err
	}
	if err := e.readSearch(); err != nil {
		return err
	}
	return e.checkSearches()
}

// readFeatures reads the features of items where something is learned from them. A deployment has them from its facts.
func (e *Experiment) readFeatures() error {
	if e.About().Features == algorithm.NoFeatures || e.Public() {
		return nil
	}
	f, spec, err := algorithm.ReadFeatures(e.Config, e.Data)
	if err != nil {
		return err
	}
	e.Features = f
	algorithm.FeatureSpec.Set(&e.Config, spec)
	return nil
}

// About describes the algorithm.
func (e *Experiment) About() *algorithm.About { return algorithm.Of(e.Config).About() }

// Instance is the algorithm with its data.
func (e *Experiment) Instance() algorithm.Instance { return e.instance }

// prepare replaces every auto, and sets up the cohort, the algorithm with schedule and noise, and what follows.
func (e *Experiment) prepare() error {
	about := e.About()
	if err := e.takeRank(); err != nil {
		return err
	}
	e.Config = e.Config.Choose(about.Used(), algorithm.FactsOf(e.Data))
	if !e.Private() {
		algorithm.Noise.Set(&e.Config, "none")
	}
	c := e.Config
	e.Privacy = algorithm.Privacy{Budget: dp.Budget{Epsilon: math.Inf(1), Delta: algorithm.Delta.Value(c), Accountant: dp.Accountant(algorithm.Accountant.Of(c))}}
	if about.Federated() {
		if err := e.chooseCohort(); err != nil {
			return err
		}
		if err := e.checkDelta(); err != nil {
			return err
		}
	}
	e.Schedule = nil
	var err error
	if e.instance, err = algorithm.Of(c).Open(&e.Setup); err != nil {
		return err
	}
	if !about.Federated() {
		e.session = protocol.SessionID{}
		if e.Private() { // noise is bound to the run
			e.session = e.DeriveSession()
		}
		return e.checkNetwork() // of no messages
	}
	return e.settle()
}

// chooseCohort sets the clients of a round: all clients, or in turns a part of them. A round with turns asks more clients
// than it continues with.
func (e *Experiment) chooseCohort() error {
	c, n := e.Config, e.Data.Users
	if e.About().Clients.Organisations() {
		n = algorithm.Parties.Int(c)
	}
	e.Cohort = protocol.Cohort{Clients: n, Tolerance: algorithm.Tolerance.Value(c), Colluders: algorithm.Colluders.Value(c)}
	if size := algorithm.CohortSize.Int(c); size > 0 && e.About().Has(algorithm.CohortSize.Key) {
		if size >= n {
			return config.Errorf("%s: a cohort.size of %d of %d clients; it must be below, or 0 for all", e.Data.Name, size, n)
		}
		e.Cohort.Goal, e.Cohort.Enrolled = size, n
		e.Cohort.Clients = int(min(float64(n), math.Ceil(algorithm.CohortOver.Value(c)*float64(size)-1e-9)))
	}
	if err := e.Cohort.Validate(); err != nil {
		return config.Errorf("%s: %w", e.Data.Name, err)
	}
	return nil
}

// checkDelta refuses a δ that promises nothing.
func (e *Experiment) checkDelta() error {
	if !e.Private() {
		return nil
	}
	err := dp.CheckDelta(algorithm.Delta.Value(e.Config), e.units())
	if err == nil {
		return nil
	}
	if f := algorithm.FactsOf(e.Data); algorithm.UnitOf(e.Config) == dp.Rating && f.Published == 0 {
		err = fmt.Errorf("how many ratings there are is not public, there may be up to %d: %w", e.units(), err)
	}
	return config.Errorf("delta: %w", err)
}

// settle fixes ring and session, and refuses what no sum can be made of.
func (e *Experiment) settle() error {
	vectors, _ := e.Schedule.Vectors()
	for _, r := range e.Schedule.All() {
		var err error
		if r.Width, err = secagg.Width(e.Cohort, *r, vectors); err != nil {
			return config.Wrap(err)
		}
	}
	if err := e.checkSums(); err != nil || e.Public() {
		return err
	}
	e.session = e.DeriveSession()
	return e.checkNetwork()
}

// units returns an upper bound on the units of privacy that follows from public facts: δ must be below
// one over this number. The number of ratings is private unless the set is published. If δ were
// checked against that number, a refusal would tell one rating more from one less.
func (e *Experiment) units() int {
	return algorithm.PublicUnits(e.Config, algorithm.FactsOf(e.Data))
}

// Workers returns the number of goroutines that compute.
func (e *Experiment) Workers() protocol.Workers {
	return protocol.Workers(cmp.Or(algorithm.Workers.Int(e.Config), runtime.GOMAXPROCS(0)))
}

// checkSums refuses what no real sum can be made of, with the bound that fails.
func (e *Experiment) checkSums() error {
	e.Sums = nil
	if !e.Real() {
		return nil
	}
	e.Sums = make([]secagg.Cost, len(e.Schedule))
	enrolled := slices.Repeat([]ed25519.PublicKey{make(ed25519.PublicKey, ed25519.PublicKeySize)}, e.Cohort.Clients) // no keys yet
	for i, p := range e.Plans() {
		var err error
		if e.Sums[i], err = e.SumParams(enrolled).Cost(p); err != nil {
			return config.Errorf("secagg real: %w", err)
		}
	}
	return nil
}

// leastPatience is the shortest wait of the aggregator in a stage, in seconds, unless the setting gives another.
const leastPatience = 60

// checkNetwork has the aggregator wait long enough for the messages of the model. Where it is told how
// long, it refuses connections over which every stage would end before they arrive.
func (e *Experiment) checkNetwork() error {
	if !e.About().Federated() {
		return nil // no messages, and the key has no effect
	}
	slowest := e.slowestStage()
	patience := algorithm.Patience.Of(e.Config)
	if !patience.Given {
		algorithm.Patience.Set(&e.Config, max(leastPatience, math.Ceil(2*slowest)))
		return nil
	}
	if slowest >= patience.Value {
		return config.Errorf("network.stage-timeout-s: %v is too short: messages of this model take %.3g s; give more time or bandwidth", patience.Value, slowest)
	}
	return nil
}

// slowestStage returns the time of the slowest stage, in seconds, on the simulated connections.
func (e *Experiment) slowestStage() float64 {
	c := e.Config
	latency, compute := algorithm.Latency.Value(c)/1000, algorithm.Compute.Value(c)/1000
	up, down := 1e6*algorithm.Up.Value(c), 1e6*algorithm.Down.Value(c)
	slowest := 0.
	for i, p := range e.Plans() {
		slowest = max(slowest, latency+8*float64(p.PackedSize())/up)
		// The first stage holds the way of the model and the computation.
		slowest = max(slowest, 2*latency+compute+8*float64(e.Schedule[i].Model)/down)
		if e.Sums == nil {
			continue
		}
		// A stage takes its opening message, the computation, and the answer.
		for _, stage := range [][2]protocol.Kind{{protocol.KindDelivery, protocol.KindMaskedInput}, {protocol.KindSurvivors, protocol.KindUnmask}} {
			bytes := e.Sums[i].Bytes
			slowest = max(slowest, 2*latency+compute+8*float64(bytes[stage[0]])/down+8*float64(bytes[stage[1]])/up)
		}
	}
	return slowest
}
