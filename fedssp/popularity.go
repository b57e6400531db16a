package fedssp

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// ranking is the stage of implicit feedback without rounds. It learns only how popular items are.
type ranking struct{}

func (ranking) keys() []*config.Key { return nil }

// popularity reports whether the run learns only how popular items are: implicit feedback without
// rounds.
func (p *Params) popularity() bool { return p.Feedback == Implicit && p.Rounds == 0 }

func declareRanking() {
	keys.learn = config.DeclareText(config.Key{
		Name: "statistics.learn", Kind: config.Word, Default: "auto", Auto: "popularity where rankings have little to learn from, else embeddings", Words: []string{embeddings, popularity},
		When: condition(func(s settings) bool { return s.implicit() && s.ranked() && s.form().learnsItems }).when(),
		Help: "Content of rankings: embeddings of items, or only how popular items are, by private counts.",
		ChooseWord: func(c config.Config, f *config.Facts) string {
			if f == nil {
				return "auto"
			}
			return settingsOf(c).ranksBy(f)
		},
	})
}

func (ranking) read(*Params, settings) {}

func (ranking) check(*Params, *problems) {}

func (ranking) ask(p *Params, to *schedule) {
	if p.popularity() {
		all := Step{Phase: Popularity}
		all.add(p.weightCountsRelease(), 1-p.Split.Counts)
		to.steps = append(to.steps, all)
	}
}

// answers says no: the release belongs to [biasing].
func (ranking) answers(string) bool        { return false }
func (ranking) length(*Params, string) int { return 0 }
func (ranking) beforeChoice(*Params) bool  { return false }
func (ranking) takes(phase string) bool    { return phase == Popularity }

func (ranking) contribute(c *contribution, r protocol.Release) (protocol.Vector, error) {
	return biasing{}.contribute(c, r)
}

// absorb uses weights as scores. Only the order of scores counts.
func (ranking) absorb(s *Strategy, r absorbed, _ protocol.Runner) error {
	s.keepWeights(r)
	s.Current().Bias = s.weight
	return nil
}
