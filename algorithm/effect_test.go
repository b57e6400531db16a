package algorithm_test

import (
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
)

// texts holds values of keys whose declaration does not list what they may be.
var texts = map[string][]string{
	"data": {"synthetic:small"}, "features": {"genres", "none"}, "columns": {"user=visitor"}, "separator": {";"}, "encoding": {"latin1"}, "member": {"mine.csv"}, "unrated": {"0"}, "public-ids": {"ids.txt"},
	"split.time": {"2024-05-31"}, "split.fold": {"2/3"}, "split.test-file": {"test.csv"}, "out": {"elsewhere"}, "start-from": {"there"}, "chosen-by": {"plain"}, "name": {"first"},
	"eval.top-k": {"3", "none"}, "accountant": {"best", "rdp", "pld", "gdp-skellam", "pure", "shuffling"},
	"regression.hidden": {"32-16"},
}

// others lists settings of a key other than its default.
func others(k *config.Key) []config.Setting {
	values := texts[k.Name]
	switch k.Kind {
	case config.Word:
		values = k.Words
	case config.Seed:
		values = []string{"7"}
	case config.Text: // texts has them
	case config.Real, config.Whole:
		values = []string{"2", "0.01", "0.2", "1", "0", "20", "60", "inf"}
	}
	var list []config.Setting
	for _, v := range values {
		var c config.Config
		if c.Set(k.Name, v) == nil && !c.IsDefault(k) {
			list = append(list, config.Setting{Key: k.Name, Value: v})
		}
	}
	return list
}

// switches lists the settings on which effects of other keys may depend.
func switches(about *algorithm.About) [][]config.Setting {
	var single []config.Setting
	for _, k := range about.Used() {
		if k.Kind == config.Word && k != algorithm.Name.Key {
			single = append(single, others(k)...)
		}
	}
	for _, text := range []string{"epsilon=inf", "features=none", "start-from=there", "public-users=5", "cohort.size=5", "parties=1", "parties=3", "statistics.exponent=0.1", "statistics.top-items=6", "rounds=3", "split.validation=0.2", "away=0.5", "dropout=0.3", "model.item-rate=0.1"} {
		s := set(text)[0]
		if slices.Contains(about.Used(), config.Find(s.Key)) {
			single = append(single, s)
		}
	}
	list := [][]config.Setting{nil}
	if slices.Contains(about.Used(), algorithm.VerifyInputs.Key) { // of several parties that may lie
		list = append(list, set("secagg=real mode=active"), set("parties=3 secagg=real mode=active"))
	}
	for _, s := range single {
		list = append(list, []config.Setting{s})
	}
	for i, s := range single {
		for _, o := range single[i+1:] {
			if s.Key != o.Key {
				list = append(list, []config.Setting{s, o})
			}
		}
	}
	return list
}

// with is a configuration of an algorithm with settings; false if it is refused.
func with(name string, settings ...config.Setting) (config.Config, bool) {
	var c config.Config
	algorithm.Name.Set(&c, name)
	for _, s := range settings {
		if c.Set(s.Key, s.Value) != nil {
			return c, false
		}
	}
	return c, len(c.Problems()) == 0
}

// withoutEffect lists the keys of an algorithm that no accepted configuration makes effective.
func withoutEffect(about *algorithm.About) []*config.Key {
	left := slices.DeleteFunc(about.Used(), func(k *config.Key) bool { return k == algorithm.Name.Key })
	for _, given := range switches(about) {
		if len(left) == 0 {
			return nil
		}
		c, ok := with(about.Name, given...)
		if !ok {
			continue
		}
		idle := algorithm.KeysWithoutEffect(c)
		left = slices.DeleteFunc(left, func(k *config.Key) bool {
			return !slices.Contains(idle, k) && (slices.ContainsFunc(given, func(s config.Setting) bool { return s.Key == k.Name }) ||
				slices.ContainsFunc(others(k), func(s config.Setting) bool {
					c, ok := with(about.Name, append(slices.Clone(given), s)...)
					return ok && !slices.Contains(algorithm.KeysWithoutEffect(c), k)
				}))
		})
	}
	return left
}

// Every key that the page lists for an algorithm has an effect there: some configuration that is accepted sets it to another value than its
// default, and no warning calls it without effect. The configurations come from the words of all keys, two at a time.
func TestListedKeysHaveEffect(t *testing.T) {
	effort.NotShort(t, "a run for each key")
	t.Parallel()
	for _, name := range algorithm.Names() {
		for _, k := range withoutEffect(algorithm.Find(name).About()) {
			t.Errorf("%s is listed for %s, where no setting gives it an effect", k.Name, name)
		}
	}
}
