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
