package stage

import (
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

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
