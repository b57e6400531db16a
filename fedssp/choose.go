package fedssp

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// declareChoice declares which items are trained on: see chosen.go.
func declareChoice() {
	keys.topItems = config.DeclareNumber(config.Key{
		Name: "statistics.top-items", Kind: config.Real, Default: "0", Range: config.AtLeast(0), Later: true, When: bySums.when(),
		Help: "Items that are trained on, those with the largest private counts: a share below 1, or how many; 0 trains on all. The others are scored by their features, or last.",
		Check: func(c config.Config) string {
			switch v := keys.topItems.Value(c); {
			case v >= 1 && v != math.Trunc(v):
				return fmt.Sprintf("%v is neither a share below 1 nor a whole number of items", v)
			case v > 0 && !keys.itemsFile.Is(c, ""):
				return "there is a statistics.items-file, which names the items; leave one of the two out"
			default:
				return ""
			}
		},
	})
	keys.itemsFile = config.DeclareText(config.Key{
		Name: "statistics.items-file", Kind: config.Text, Default: "", Scope: config.Simulated, When: bySums.when(),
		Help: "A public list of the items that are trained on, one id a line, in place of private counts. In a deployment the catalogue is such a list.",
	})
}

// chooses reports whether private counts say which items are trained on.
func (s settings) chooses() bool {
	return s.items() && !s.family().solver.descends() && keys.topItems.Value(s.Config) > 0
}

// ofSomeItems reports whether not all items are trained on.
func (s settings) ofSomeItems() bool { return s.chooses() || !keys.itemsFile.Is(s.Config, "") }

// topItems is how many of the items are trained on by their private counts; 0: all.
func (s settings) topItems(items int) int {
	if !s.chooses() {
		return 0
	}
	v := keys.topItems.Value(s.Config)
	if v < 1 {
		v = max(1, math.Round(v*float64(items)))
	}
	return int(min(v, math.MaxInt32))
}

// list takes the public list of items, if there is one.
func (p *Params) list(s *algorithm.Setup) error {
	path := keys.itemsFile.Of(s.Config)
	if path == "" || s.Public() || !bySums(settings{s.Config}) {
		return nil
	}
	listed, err := s.Data.ListedItems(path)
	if err != nil {
		return config.Errorf("statistics.items-file: %w", err)
	}
	p.Listed, p.TopItems = listed, len(listed)
	return nil
}
