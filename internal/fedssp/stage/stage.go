// Package stage has the releases of a run, one file a stage: the bound and its proof, what a client
// contributes, and what the server makes of the sum. [Steps] is the schedule of all stages, and
// [Validate] checks their settings.
//
// It imports kernel, settings, both sides and solver, and never the registration of algorithms.
package stage

import (
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// schedule collects the releases of stages: those in the preparation, which comes first, and those
// in steps of their own.
type schedule struct {
	prepare kernel.Step
	steps   []kernel.Step
}

// Stage is one kind of release with everything that belongs to it. Each stage has one file: its
// settings and their ranges, the bound of its releases and the proof, the client's computation, and
// the server's use of the sum. [All] lists them.
type Stage interface {
	// Keys returns the keys that have an effect on the stage.
	Keys() []*config.Key
	// Read takes the stage's settings from a configuration in which nothing is open.
	Read(*kernel.Params, settings.Settings)
	// appendReleases adds the stage's releases and their shares of μ², if the settings have the stage.
	appendReleases(*kernel.Params, *schedule)
	// owns reports whether the release of a name belongs to this stage.
	owns(release string) bool
	user.Stage
	serving.Stage
}

// Undone scales sums over batches to all users: every statistic and its noise by 1/q. Weight counts
// cover all users already and stay.
func Undone(p *kernel.Params, r serving.Absorbed) serving.Absorbed {
	if !p.Batched() {
		return r
	}
	for name, x := range r.Values {
		if name != kernel.WeightCounts {
			r.Values[name], r.Noise[name] = dense.Scaled(x, 1/p.SamplingRate), r.Noise[name]/p.SamplingRate
		}
	}
	return r
}

// Sampled marks the releases that the coin decides on as sampled. Weight counts cover all users and
// stay.
func Sampled(p *kernel.Params, steps []protocol.Step) {
	for i := range steps {
		if !p.Batched() || steps[i].Phase != kernel.Statistics {
			continue
		}
		for k := range steps[i].Releases {
			if r := &steps[i].Releases[k]; kernel.InStatistics(r.Name) {
				r.Noise.SamplingRate = p.SamplingRate
			}
		}
	}
}

// Steps returns the schedule: at most one preparation, then the steps that each stage adds. Bounds
// of the releases hold by construction. Scale, width and noise are left to be set. An error lists
// the faults of the settings.
func Steps(p kernel.Params) ([]kernel.Step, error) {
	if err := Validate(p); err != nil {
		return nil, err
	}
	steps := stepsOf(&p)
	normalise(steps)
	return steps, nil
}

// stepsOf is Steps for valid settings, before shares are normalised.
func stepsOf(p *kernel.Params) []kernel.Step {
	to := &schedule{prepare: kernel.Step{Phase: kernel.Prepare}}
	for _, x := range All {
		x.appendReleases(p, to)
	}
	steps := to.steps
	if to.prepare.Releases != nil {
		steps = slices.Insert(steps, 0, to.prepare)
	}
	return steps
}

// normalise makes the shares of all releases add up to 1.
func normalise(steps []kernel.Step) {
	var sum float64
	for _, s := range steps {
		for _, x := range s.Shares {
			sum += x
		}
	}
	for _, s := range steps {
		for i := range s.Shares {
			s.Shares[i] /= sum
		}
	}
}

// All lists everything a run may release, in the order of the releases. The settings choose
// among them.
var All = []Stage{Counting{}, Averaging{}, Biasing{}, Ranking{}, Statistics{}}

// ServerSides lists the server's parts of all stages.
var ServerSides = lists.Map(All, func(x Stage) serving.Stage { return x })

// ClientSides returns the client's parts of the stages of a run with these settings, which must be
// valid.
func ClientSides(p *kernel.Params) user.Stages {
	lengths := map[string]int{}
	for _, step := range stepsOf(p) {
		for _, r := range step.Releases {
			lengths[r.Name] = r.Len
		}
	}
	return func(release string) (user.Stage, int) {
		return All[slices.IndexFunc(All, func(x Stage) bool { return x.owns(release) })], lengths[release]
	}
}

// Validate reports what makes the settings unusable with the data. A configuration is checked for
// everything else.
func Validate(p kernel.Params) error {
	var e problems.List
	e.If(p.TopItems < 0 || p.TopItems >= p.Items,
		"top-items are %d of %d items; there must be from 1 to %d, or 0 to train on all", p.TopItems, p.Items, p.Items-1)
	e.If(p.TopItems > 0 && !p.TakesSome(),
		"top-items are %d, and gradients, posteriors and weights of popularity are of all items; there must be 0", p.TopItems)
	e.If(float64(p.Trained())*float64(p.Rank)*float64(p.Rank+1)/2 > protocol.MaxLen,
		"%d items of rank %d make statistics of more than %d coordinates; lower the rank", p.Trained(), p.Rank, protocol.MaxLen)
	e.If(!(p.Min < p.Max) || math.IsInf(p.Min, 0) || math.IsInf(p.Max, 0),
		"the rating scale is %v to %v; it must be two finite numbers, the lower first", p.Min, p.Max)
	e.If(p.Rounds == 0 && !p.Bias && !p.OnlyPopularity(), "rounds is 0 and there is no bias stage; nothing would be learned")
	e.If(p.Tilt > 0 && !p.Tilts(),
		"statistics.bias-tilt is %v, and ratings of later sums cannot be weighed by popularity: it takes statistics.bias-rounds and statistics.user-popularity-weight, and no samples, statistics.normalise=global or least-ratings; or 0", p.Tilt)
	e.If(p.Rounds > maxSums/p.Resample, "%d rounds of %d sums are too many; there are at most %d sums", p.Rounds, p.Resample, maxSums)
	if sum := p.Split.Counts + p.Split.Mean + p.Split.Bias; !(sum < 1) && p.Rounds > 0 {
		e.Add("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
	if p.Encodes() {
		_, x := p.Solver.Encoder(&p)
		e = append(e, x.Validate(p.Rank))
	}
	solver.Of(&p).Check(&p, &e)
	return errors.Join(e...)
}

// Counting is the stage of private counts.
type Counting struct{}

func (Counting) Keys() []*config.Key {
	return []*config.Key{settings.Keys.CountCap.Key, settings.Keys.CountMargin.Key, settings.Keys.ShareCounts.Key}
}

func (Counting) Read(p *kernel.Params, s settings.Settings) {
	p.CountCap, p.Split.Counts = settings.Keys.CountCap.Int(s.Config), settings.Keys.ShareCounts.Value(s.Config)
	p.OfStages[settings.Keys.CountMargin.Name] = settings.Keys.CountMargin.Value(s.Config)
}

// appendReleases adds the counts: at most θ_c ones, so that the L1 norm is at most θ_c and the L2 norm √θ_c.
func (Counting) appendReleases(p *kernel.Params, to *schedule) {
	if !p.ReleasesCounts() {
		return
	}
	most := min(p.CountCap, p.Items)
	to.prepare.Add(protocol.Release{Name: kernel.Counts, Len: p.Items, L2: math.Sqrt(float64(most)), L1: float64(most), LInf: 1, MaxNonZero: most}, p.Split.Counts)
}

func (Counting) owns(release string) bool         { return release == kernel.Counts }
func (Counting) BeforeChoice(*kernel.Params) bool { return true }
func (Counting) Takes(phase string) bool          { return phase == kernel.Prepare }

// Contribute is 1 for each of at most θ_c items of the whole catalogue. Every rated item is equally
// likely to be among them.
func (Counting) Contribute(c *user.Contribution, _ protocol.Release) (protocol.Vector, error) {
	ratings := c.All
	places, each, err := c.Sampled(c.Params.CountCap, "sample-counts")
	if err != nil {
		return protocol.Vector{}, err
	}
	v := protocol.Vector{Index: make([]uint32, len(places)), Value: make([]float64, len(places))}
	for i, k := range places {
		v.Index[i], v.Value[i] = uint32(ratings.Items[k]), each
	}
	return v, nil
}

// Absorb keeps the counts, and chooses items by them.
func (Counting) Absorb(s *serving.Strategy, r serving.Absorbed, _ protocol.Runner) error {
	x := r.Values[kernel.Counts]
	if x == nil {
		return nil
	}
	n := s.Params.Total() / r.Users
	counts := dense.Scaled(x, n)
	if s.Current().Unchosen {
		if err := s.Adopt(kernel.MostRated(counts, s.All.TopItems)); err != nil {
			return err
		}
	}
	for j := range x { // multi-task paper, appendix B: an item must not gain weight because noise made its count small
		counts[j] += s.Params.OfStages[settings.Keys.CountMargin.Name] * r.Noise[kernel.Counts] * n
	}
	if s.Chosen != nil {
		counts = model.At(counts, s.Chosen.Items)
	}
	if s.Params.WithCounts() {
		s.Current().Counts = counts
	}
	return nil
}

// Ranking is the stage of implicit feedback without rounds. It learns only how popular items are.
type Ranking struct{}

func (Ranking) Keys() []*config.Key { return nil }

func (Ranking) Read(*kernel.Params, settings.Settings) {}

func (Ranking) appendReleases(p *kernel.Params, to *schedule) {
	if p.OnlyPopularity() {
		all := kernel.Step{Phase: kernel.Popularity}
		all.Add(weightCountsRelease(p), 1-p.Split.Counts)
		to.steps = append(to.steps, all)
	}
}

// owns says no: the release belongs to [Biasing].
func (Ranking) owns(string) bool                 { return false }
func (Ranking) BeforeChoice(*kernel.Params) bool { return false }
func (Ranking) Takes(phase string) bool          { return phase == kernel.Popularity }

func (Ranking) Contribute(c *user.Contribution, r protocol.Release) (protocol.Vector, error) {
	return Biasing{}.Contribute(c, r)
}

// Absorb uses weights as scores. Only the order of scores counts.
func (Ranking) Absorb(s *serving.Strategy, r serving.Absorbed, _ protocol.Runner) error {
	s.KeepWeights(r)
	s.Current().Bias = s.Weight
	return nil
}

// Averaging is the stage of the private mean.
type Averaging struct{}

func (Averaging) Keys() []*config.Key {
	return []*config.Key{settings.Keys.MeanCap.Key, settings.Keys.ShareMean.Key}
}

func (Averaging) Read(p *kernel.Params, s settings.Settings) {
	p.MeanCap, p.Split.Mean = settings.Keys.MeanCap.Int(s.Config), settings.Keys.ShareMean.Value(s.Config)
}

func (Averaging) appendReleases(p *kernel.Params, to *schedule) {
	if p.WithMean() {
		to.prepare.Add(protocol.Release{Name: kernel.Mean, Len: 2, L2: math.Sqrt2, L1: 2, LInf: 1, MaxNonZero: 2}, p.Split.Mean)
	}
}

func (Averaging) owns(release string) bool         { return release == kernel.Mean }
func (Averaging) BeforeChoice(*kernel.Params) bool { return true }
func (Averaging) Takes(phase string) bool          { return phase == kernel.Prepare }

// Contribute is Σ(y - mid)/(k·half), in [-1, 1], and min(n, k)/k, in [0, 1], over at most k
// ratings, all equally likely. Together their norm is at most √2.
func (Averaging) Contribute(c *user.Contribution, _ protocol.Release) (protocol.Vector, error) {
	p, ratings := c.Params, c.All
	places, each, err := c.Sampled(p.MeanCap, "sample-mean")
	if err != nil {
		return protocol.Vector{}, err
	}
	var sum float64
	for _, k := range places {
		sum += (float64(ratings.Values[k]) - p.Middle()) / ((p.Max - p.Min) / 2)
	}
	n := float64(p.MeanCap) / each
	return protocol.Vector{Value: []float64{dense.Clamp(sum/n, 1), float64(len(places)) / n}}, nil // rounding may pass 1
}

// Absorb sets the mean.
func (Averaging) Absorb(s *serving.Strategy, r serving.Absorbed, _ protocol.Runner) error {
	x := r.Values[kernel.Mean]
	if x == nil {
		return nil
	}
	sum, count, noise := s.Mean(r)
	if s.Before == nil { // the same numbers without a division
		sum, count, noise = x[0], x[1], r.Noise[kernel.Mean]
	}
	setMean(s, sum, count, noise)
	return nil
}

// Resume sets the mean by earlier sums.
func (Averaging) Resume(s *serving.Strategy, _ protocol.Runner) error {
	if x := s.Before.Mean; x != nil && s.Params.WithMean() && x.Precision[0] > 0 {
		setMean(s, x.Value[0], x.Value[1], 1/math.Sqrt(x.Precision[0]))
	}
	return nil
}

// setMean sets the mean by the sum of ratings' places on the scale and their number, with the deviation of the noise of both.
func setMean(s *serving.Strategy, sum, count, noise float64) {
	p := &s.Params.Params
	if p.Learned() && p.Pool.Held() {
		s.Current().Mean = serving.HeldMean(p, sum, count, noise)
		return
	}
	// A denominator below its noise says nothing: the middle of the scale stays.
	if count > noise && count > 0 {
		s.Current().Mean = p.Middle() + (p.Max-p.Min)/2*dense.Clamp(sum/count, 1)
	}
}
