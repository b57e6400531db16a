package stage

import (
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Counting is the stage of private counts.
type Counting struct{}

func (Counting) Keys() []*config.Key {
	return []*config.Key{settings.Keys.CountCap.Key, settings.Keys.CountMargin.Key, settings.Keys.ShareCounts.Key}
}

func (Counting) Read(p *kernel.Params, s settings.Settings) {
	p.CountsParams = kernel.CountsParams{CountCap: settings.Keys.CountCap.Int(s.Config), CountMargin: settings.Keys.CountMargin.Value(s.Config)}
	p.Split.Counts = settings.Keys.ShareCounts.Value(s.Config)
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
	places, err := user.Sample(len(ratings.Items), c.Params.CountCap, c.Source.Stream("sample-counts", c.Round))
	if err != nil {
		return protocol.Vector{}, err
	}
	v := protocol.Vector{Index: make([]uint32, len(places)), Value: make([]float64, len(places))}
	for i, k := range places {
		v.Index[i], v.Value[i] = uint32(ratings.Items[k]), 1
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
		counts[j] += s.Params.CountMargin * r.Noise[kernel.Counts] * n
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
	places, err := user.Sample(len(ratings.Items), p.MeanCap, c.Source.Stream("sample-mean", c.Round))
	if err != nil {
		return protocol.Vector{}, err
	}
	var sum float64
	for _, k := range places {
		sum += (float64(ratings.Values[k]) - p.Middle()) / ((p.Max - p.Min) / 2)
	}
	n := float64(p.MeanCap)
	return protocol.Vector{Value: []float64{dense.Clamp(sum/n, 1), float64(len(places)) / n}}, nil // rounding may pass 1
}

// Absorb sets the mean.
func (Averaging) Absorb(s *serving.Strategy, r serving.Absorbed, _ protocol.Runner) error {
	x := r.Values[kernel.Mean]
	if x == nil {
		return nil
	}
	sum, count, noise := s.Mean(r)
	if s.Before() == nil { // the same numbers without a division
		sum, count, noise = x[0], x[1], r.Noise[kernel.Mean]
	}
	setMean(s, sum, count, noise)
	return nil
}

// Resume sets the mean by earlier sums.
func (Averaging) Resume(s *serving.Strategy, _ protocol.Runner) error {
	if x := s.Before().Mean; x != nil && s.Params.WithMean() && x.Precision[0] > 0 {
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
