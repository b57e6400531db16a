package settings

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// declareChoice declares the keys that choose the items to train on: see kernel/choice.go.
func declareChoice() {
	Keys.TopItems = Number("statistics.top-items", config.AtLeast(0), BySums, "of a wide catalogue (more than 20000 items) where weights choose them a sixth of ε times users, from 1000 to 5000; 2000 in rankings of dpals, ada-dpals and dp-cmf; else 0",
		"Number of items that are trained on, or a share of them below 1; 0 trains on all. Private counts or weights choose the items with most ratings. The others are scored by their biases and features, or last.",
		ByFacts(Settings.most))
	Keys.TopItems.Check = func(c config.Config) string {
		switch v := Keys.TopItems.Value(c); {
		case v >= 1 && v != math.Trunc(v):
			return fmt.Sprintf("%v is neither a share below 1 nor a whole number of items", v)
		case v > 0 && !Keys.ItemsFile.Is(c, ""):
			return "there is a statistics.items-file, which names the items; leave one of the two out"
		default:
			return ""
		}
	}
	Keys.ChooseBy = Word("statistics.choose-by", []string{ByCounts, ByWeights}, Settings.chooses, "weights of a wide catalogue (more than 20000 items) whose biases come first, else counts",
		"How items to train on are chosen: by private counts before all else, or by the weights that come with biases of all items. With weights the other items keep their biases.",
		wordByFacts(func(s Settings, f *config.Facts) string {
			if s.wide(f) && s.problemOfWeights() == "" {
				return ByWeights
			}
			return ByCounts
		}))
	Keys.ChooseBy.Check = func(c config.Config) string {
		if s := Of(c); Keys.ChooseBy.Is(c, ByWeights) && s.chooses() {
			return s.problemOfWeights()
		}
		return ""
	}
	Keys.Broadcast = Word("statistics.broadcast", []string{Double, Single}, Settings.Broadcasts, "single of a wide catalogue (more than 20000 items), else double",
		"Precision of the models that are broadcast: numbers of 64 bits, or of 32 and without what a round does not look at.",
		wordByFacts(func(s Settings, f *config.Facts) string {
			if s.wide(f) {
				return Single
			}
			return Double
		}))
	Keys.StartDecay = config.DeclareNumber(config.Key{
		Name: "statistics.start-decay", Kind: config.Real, Default: "0.8", Range: config.Between(0, 1), When: func(c config.Config) bool { return Of(c).form().Starts && !algorithm.StartFrom.Is(c, "") },
		Help: "Weight of the sums of the session that this one starts from, relative to sums of this session with the same noise. It falls by this factor with each session of age. 1: old sums count in full.",
	})
	Keys.ItemsFile = config.DeclareText(config.Key{
		Name: "statistics.items-file", Kind: config.Text, Default: "", Scope: config.Simulated, When: BySums.When(),
		Help: "A public list of the items that are trained on, one id a line, in place of private counts. In a deployment the catalogue is such a list.",
	})
}

// choosesByWeights reports whether weights choose the items, before and after every auto is
// replaced.
func (s Settings) choosesByWeights(f *config.Facts) bool {
	some := s.most(f) > 0
	if Keys.TopItems.Of(s.Config).Given {
		some = s.chooses()
	}
	return some && (Keys.ChooseBy.Is(s.Config, ByWeights) || Keys.ChooseBy.Is(s.Config, "auto") && s.wide(f) && s.problemOfWeights() == "")
}

// UsersOfBiases is the number of users that the share of biases is computed from. If weights choose
// items of a wide catalogue without features, it is as if the catalogue were not wide, with as many
// users for each item.
func (s Settings) UsersOfBiases(f *config.Facts) float64 {
	if !s.choosesByWeights(f) || !s.Featureless() {
		return float64(f.Users)
	}
	return float64(f.Users) * min(1, wideFrom/float64(f.Items))
}

// These constants set the number of items of a wide catalogue that are trained on. It is ε·users/6,
// because few items beyond have more than noise in the statistics. The maximum keeps a client's
// upload below 3 MB in a run of 160,000 items.
const (
	mostItems  = 5000
	leastItems = 1000
	eachItem   = 6
)

// rankedItems is the number of items that rankings train on in a wide catalogue, if counts choose
// them and each item is solved for by itself. With more items most have only noise
// (experiments/results.md, "Wide catalogues").
const rankedItems = 2000

// most is the default number of items that are trained on.
func (s Settings) most(f *config.Facts) float64 {
	switch {
	case s.wide(f) && s.Private() && s.Implicit() && s.Items() && s.traits().ByItem && Keys.ItemsFile.Is(s.Config, "") && !Keys.ChooseBy.Is(s.Config, ByWeights):
		return rankedItems
	case !s.wide(f), !s.Private(), !s.pooled(), s.Variational(), s.problemOfWeights() != "", Keys.ChooseBy.Is(s.Config, ByCounts), !Keys.ItemsFile.Is(s.Config, ""), Keys.PopularityWeight.Or(s.Config, 0) > 0:
		return 0
	}
	return min(max(math.Round(algorithm.Epsilon.Chosen(s.Config)*float64(f.Users)/eachItem), leastItems), mostItems)
}

// TopItems is the number of items that private counts choose; 0: all.
func (s Settings) TopItems(items int) int {
	if !s.chooses() {
		return 0
	}
	v := Keys.TopItems.Value(s.Config)
	if v < 1 {
		v = max(1, math.Round(v*float64(items)))
	}
	return int(min(v, math.MaxInt32))
}
