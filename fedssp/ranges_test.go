package fedssp

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/opened"
)

// A number that is out of the range of its key makes no run, also if a rule chose it: bounds and noise follow from these numbers. The
// declaration of each key states its range.
func TestNumbersOutOfRange(t *testing.T) {
	for _, c := range []struct {
		key config.NumberKey
		bad float64
	}{
		{settings.Keys.ClipUser, 0}, {settings.Keys.ClipUser, math.NaN()}, {settings.Keys.ClipRating, math.Inf(1)}, {settings.Keys.ShareGramian, 1},
		{settings.Keys.ShareBias, math.NaN()}, {settings.Keys.UserRidge, -1}, {settings.Keys.NormItems, -1},
	} {
		s := opened.Experiment(t, "algorithm=ssp-c").Setup
		c.key.Set(&s.Config, c.bad)
		if _, err := algorithm.Of(s.Config).Open(&s); err == nil || !strings.Contains(err.Error(), c.key.Name) {
			t.Errorf("%s %v: %v", c.key.Name, c.bad, err)
		}
	}
}
