package fedssp

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// MeanParams holds the settings of the private mean of ratings.
type MeanParams struct {
	// MeanCap is k, the most ratings of a user that enter the mean. 0: nothing is released, and the
	// middle of the scale is used. Explicit feedback only.
	MeanCap int
}

// averaging is the stage of the private mean.
type averaging struct{}

func (averaging) keys() []*config.Key { return []*config.Key{keys.meanCap.Key, keys.shareMean.Key} }

func declareMean() {
	keys.meanCap = count("statistics.mean-cap", config.Between(0, 1e6), explicit, "50",
		"Ratings that a user counts for in the private mean, at most; 0 releases none and takes the middle of the scale.", value(50))
	// If the budget is small, no user bias makes up for the noise of the mean.
	keys.shareMean = share("mean", settings.averaged, "0.01 to 0.05, more where little can be learned", "Share of the budget for the private mean.",
		byFacts(func(s settings, f *config.Facts) float64 {
			if s.starved(f) {
				return starvedMean
			}
			if s.biases() {
				return meanShare(algorithm.Epsilon.Chosen(s.Config), f.Users)
			}
			return either(s.scarce(f), 0.03, leastMean)
		}))
}

func (averaging) read(p *Params, s settings) {
	p.MeanCap, p.Split.Mean = keys.meanCap.Int(s.Config), keys.shareMean.Value(s.Config)
}

func (p *Params) withMean() bool { return p.MeanCap > 0 && p.Feedback == Explicit }

func (averaging) check(p *Params, e *problems) {
	e.share("mean", p.Split.Mean, p.withMean())
	e.within(keys.meanCap, float64(p.MeanCap))
}

func (averaging) ask(p *Params, to *schedule) {
	if p.withMean() {
		to.prepare.add(protocol.Release{Name: Mean, Len: 2, L2: math.Sqrt2, L1: 2, LInf: 1, MaxNonZero: 2}, p.Split.Mean)
	}
}

func (averaging) answers(release string) bool { return release == Mean }
func (averaging) length(*Params, string) int  { return 2 }
func (averaging) beforeChoice(*Params) bool   { return true }
func (averaging) takes(phase string) bool     { return phase == Prepare }

// contribute is Σ(y - mid)/(k·half), in [-1, 1], and min(n, k)/k, in [0, 1], over at most k
// ratings, all equally likely. Together their norm is at most √2.
func (averaging) contribute(c *contribution, _ protocol.Release) (protocol.Vector, error) {
	p, ratings := c.params, c.all
	places, err := user.Sample(len(ratings.Items), p.MeanCap, c.src.Stream("sample-mean", c.round))
	if err != nil {
		return protocol.Vector{}, err
	}
	var sum float64
	for _, k := range places {
		sum += (float64(ratings.Values[k]) - p.middle()) / ((p.Max - p.Min) / 2)
	}
	n := float64(p.MeanCap)
	return protocol.Vector{Value: []float64{dense.Clamp(sum/n, 1), float64(len(places)) / n}}, nil // rounding may pass 1
}

// absorb sets the mean.
func (averaging) absorb(s *Strategy, r absorbed, _ protocol.Runner) error {
	x := r.values[Mean]
	if x == nil {
		return nil
	}
	p := &s.params.Params
	if p.learned() && p.Pool.held() {
		s.Current().Mean = p.heldMean(x[0], x[1], r.noise[Mean])
		return nil
	}
	// A denominator below its noise says nothing: the middle of the scale stays.
	if x[1] > r.noise[Mean] && x[1] > 0 {
		s.Current().Mean = p.middle() + (p.Max-p.Min)/2*dense.Clamp(x[0]/x[1], 1)
	}
	return nil
}
