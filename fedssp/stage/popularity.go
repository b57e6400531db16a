package stage

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/protocol"
)

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
