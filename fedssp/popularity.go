package fedssp

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// ranking is the stage of implicit feedback without rounds, in which how popular items are is all that is learned.
type ranking struct{}

func (ranking) keys() []*config.Key { return nil }

// popularity reports whether all that is learned is how popular items are: of implicit feedback without rounds.
func (p *Params) popularity() bool { return p.Feedback == Implicit && p.Rounds == 0 }

func (ranking) check(*Params, *problems) {}

func (ranking) ask(p *Params, to *schedule) {
	if p.popularity() {
		all := Step{Phase: Popularity}
		all.add(p.weightCountsRelease(), 1-p.Shares.Counts)
		to.steps = append(to.steps, all)
	}
}

// answers: the release is that of [biasing].
func (ranking) answers(string) bool        { return false }
func (ranking) length(*Params, string) int { return 0 }
func (ranking) beforeChoice(*Params) bool  { return false }
func (ranking) takes(phase string) bool    { return phase == Popularity }

func (ranking) contribute(c *contribution, r protocol.Release) (protocol.Vector, error) {
	return biasing{}.contribute(c, r)
}

// absorb takes weights for scores, of which only the order counts.
func (ranking) absorb(s *Strategy, r absorbed, _ protocol.Runner) error {
	s.keepWeights(r)
	s.model.Bias = s.weight
	return nil
}
