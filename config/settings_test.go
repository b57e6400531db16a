package config_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/opened"
)

// text is the value of a key by its name.
func text(c config.Config, name string) string { return c.Text(config.Find(name)) }

// names lists the names of keys.
func names(keys []*config.Key) []string {
	var list []string
	for _, k := range keys {
		list = append(list, k.Name)
	}
	return list
}

// held returns the value of a key through its handle.
func held(c config.Config, name string) any {
	switch k := config.Find(name); k.Kind {
	case config.Text, config.Word:
		return config.TextKey{Key: k}.Of(c)
	case config.Seed:
		return config.SeedKey{Key: k}.Of(c)
	case config.Real, config.Whole:
		return config.NumberKey{Key: k}.Of(c)
	default:
		return nil
	}
}

func ExampleResolve() {
	c, err := config.Resolve([]config.Setting{
		{Key: "epsilon", Value: "5", Origin: "my.yaml:1"},
		{Key: "model.fit-steps", Value: "20", Origin: "my.yaml:3"},
		{Key: "epsilon", Value: "5.0", Origin: "--epsilon"}, // the same value
	})
	fmt.Println(text(c, "epsilon"), text(c, "model.fit-steps"), text(c, "rank"), err)
	_, err = config.Resolve([]config.Setting{{Key: "epsilon", Value: "2", Origin: "--epsilon"}, {Key: "epsilon", Value: "1", Origin: "--set epsilon"}})
	fmt.Println(err)
	_, err = config.Resolve([]config.Setting{{Key: "dropout", Value: "1", Origin: "my.yaml:2"}, {Key: "rounds", Value: "0", Origin: "--rounds"}})
	fmt.Println(err)
	// Output:
	// 5 20 auto <nil>
	// epsilon is "2" by --epsilon and "1" by --set epsilon; keep one of the two
	// --rounds: 0 is not a whole number from 1 to 1000000
	// my.yaml:2: 1 is outside; it must be at least 0 and below 1
}

// The keys of the file equal the keys of the Config. The YAML library reads the file without any
// type of ours.
func TestKeysAreThoseOfTheFile(t *testing.T) {
	b := (config.Config{}).YAML()
	var file yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(b, &file, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	var want []string
	var walk func(prefix string, m yaml.MapSlice)
	walk = func(prefix string, m yaml.MapSlice) {
		for _, item := range m {
			name := prefix + item.Key.(string)
			if inner, ok := item.Value.(yaml.MapSlice); ok {
				walk(name+".", inner)
				continue
			}
			want = append(want, name)
		}
	}
	walk("", file)
	if diff := cmp.Diff(want, names(config.Keys())); diff != "" {
		t.Errorf("keys (-file +Keys):\n%s", diff)
	}
	for _, key := range []string{"epsilon", "dropout-at", "model.learning-rate", "split.test", "network.stage-timeout-s"} {
		if !slices.Contains(want, key) {
			t.Errorf("no key %s", key)
		}
	}
}

// Every key can be set to the value that it has already.
func TestSetTakesEveryKey(t *testing.T) {
	defaults := config.Config{}
	path := filepath.Join(t.TempDir(), "defaults.yaml")
	if err := os.WriteFile(path, defaults.YAML(), 0o644); err != nil {
		t.Fatal(err)
	}
	settings, err := config.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(settings) != len(config.Keys()) {
		t.Errorf("%d settings in the file of the defaults, %d keys", len(settings), len(config.Keys()))
	}
	var c config.Config
	for _, s := range settings {
		if err := c.Set(s.Key, s.Value); err != nil {
			t.Errorf("Set(%q, %q): %v", s.Key, s.Value, err)
		}
	}
	if diff := cmp.Diff(defaults, c); diff != "" {
		t.Errorf("defaults set on nothing (-want +got):\n%s", diff)
	}
}

func TestSet(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		want       any
	}{
		{"algorithm", "fmf-lfl", "fmf-lfl"},
		{"data", "", ""},
		{"epsilon", "inf", config.Fixed(math.Inf(1))},
		{"epsilon", "auto", config.Auto},
		{"epsilon", "0.5", config.Fixed(0.5)},
		{"rounds", "-3", config.Fixed(-3)},
		{"rounds", "auto", config.Auto},
		{"away-rounds", "-3", config.Fixed(-3)},
		{"dropout", "1e-3", config.Fixed(0.001)},
		{"tolerance", "1e-3", config.Fixed(0.001)},
		{"unit", "auto", "auto"},
		{"seed", "18446744073709551615", uint64(math.MaxUint64)},
		{"split.seed", "18446744073709551615", uint64(math.MaxUint64)},
		{"split.seed", "auto", uint64(0)},
		{"model.fit-ridge", "2", config.Fixed(2)},
		{"network.stage-timeout-s", "9", config.Fixed(9)},
	} {
		c := config.Config{}
		if err := c.Set(tt.key, tt.value); err != nil {
			t.Errorf("Set(%q, %q): %v", tt.key, tt.value, err)
		} else if got := held(c, tt.key); got != tt.want {
			t.Errorf("Set(%q, %q) made it %v, want %v", tt.key, tt.value, got, tt.want)
		}
	}
	for _, tt := range []struct{ key, value, reason string }{
		{"item-steps", "1.5", "whole number"},
		{"item-steps", "9223372036854775808", "whole number"},
		{"item-steps", "", "whole number"},
		{"rounds", "", "not a number, inf or auto"},
		{"seed", "-1", "from 0 to 2^64-1"},
		{"seed", "18446744073709551616", "from 0 to 2^64-1"},
		{"seed", "auto", "from 0 to 2^64-1"},
		{"split.seed", "-1", "from 0 to 2^64-1"},
		{"tolerance", "inf", "not a number"},
		{"tolerance", "NaN", "not a number"},
		{"tolerance", "auto", "not a number"},
		{"dropout", "NaN", "not a number, inf or auto"},
		{"epsilon", "nan", "not a number, inf or auto"},
		{"epsilon", "-inf", "not a number, inf or auto"},
		{"epsilon", "1e999", "not a number, inf or auto"},
		{"epsilon", " 1", "not a number, inf or auto"},
		{"model", "1", "holds several keys (model.learning-rate, "},
		{"", "1", "unknown key"},
		{"model.", "1", "unknown key"},
		{"epsilon.value", "1", "unknown key"},
		{"Value", "1", "unknown key"},
	} {
		c := config.Config{}
		if err := c.Set(tt.key, tt.value); err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("Set(%q, %q): error %v, want one with %q", tt.key, tt.value, err, tt.reason)
		}
	}
}

// Typing errors lead to the key that was meant.
func TestUnknownKeySuggestsTheNearest(t *testing.T) {
	for typed, meant := range map[string]string{
		"epslion": "epsilon", "eps": "epsilon", "round": "rounds", "droput": "dropout", "dropout_at": "dropout-at",
		"learning-rate": "model.learning-rate", "fit-steps": "model.fit-steps", "model.learning_rate": "model.learning-rate",
		"latency": "network.latency-ms", "worker": "workers", "seeds": "seed", "test": "split.test", "split.tset": "split.test",
		"model.rank": "rank", "Epsilon": "epsilon", "epsilon.value": "epsilon", "output": "out", "datafile": "data",
	} {
		c := config.Config{}
		err := c.Set(typed, "1")
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("unknown key %q; keys with similar names: ", typed)) {
			t.Errorf("%s: error %v", typed, err)
			continue
		}
		_, list, _ := strings.Cut(err.Error(), "names: ")
		if !slices.Contains(strings.Split(list, ", "), meant) {
			t.Errorf("%s: suggested are %s, not %s", typed, list, meant)
		}
	}
}

// A name like no other is not answered by names that have nothing to do with it.
func TestUnknownKeyWithoutSimilar(t *testing.T) {
	for _, typed := range []string{"quiet", "bogus", "verbos", "zzzzzzzz"} {
		var c config.Config
		if err := c.Set(typed, "1"); err == nil || !strings.HasSuffix(err.Error(), "; no key has a similar name") {
			t.Errorf("%s: %v", typed, err)
		}
	}
}

// A value that looks like one of many is answered by that one, and not by all of them.
func TestMistypedWord(t *testing.T) {
	var c config.Config
	algorithm.Name.Set(&c, "SSP-C")
	list := c.Problems()
	if len(list) == 0 || !strings.HasSuffix(list[0].Reason, "; did you mean ssp-c?") || strings.Contains(list[0].Reason, "dp-cmf") {
		t.Errorf("%v", list)
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		text string
		want config.Number
		out  string
	}{
		{"auto", config.Auto, "auto"},
		{"inf", config.Number{math.Inf(1), true}, "inf"},
		{".inf", config.Number{math.Inf(1), true}, "inf"},
		{"0", config.Number{0, true}, "0"},
		{"1e-5", config.Number{1e-5, true}, "1e-05"},
		{"-2.50", config.Number{-2.5, true}, "-2.5"},
		{"0.1", config.Number{0.1, true}, "0.1"},
	} {
		got, err := config.ParseNumber(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("parseNumber(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if got.String() != tt.out {
			t.Errorf("parseNumber(%q) writes itself as %s, want %s", tt.text, got, tt.out)
		}
	}
	for _, text := range []string{"", "Auto", "nan", "NaN", "-inf", "1e400", "1,5", "five"} {
		if n, err := config.ParseNumber(text); err == nil {
			t.Errorf("parseNumber(%q) = %v, want an error", text, n)
		}
	}
	if got := config.Auto.Or(7); got != 7 {
		t.Errorf("Auto.Or(7) = %v", got)
	}
	if got := config.Fixed(0).Or(7); got != 0 {
		t.Errorf("config.Fixed(0).Or(7) = %v: a zero that was given is given", got)
	}
}

// Paths may contain everything that the operating system allows.
func TestYAMLRoundTripOfOddPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for _, data := range []string{"a\nb", "a\n", "\n", "a\tb", "\ta", "a\rb", "a\x01b", "a\u0085b", "a\u2028b", "...", "---", "--- a", "? a", "|", ">", "%a"} {
		t.Run(fmt.Sprintf("%q", data), func(t *testing.T) {
			c := config.Config{}
			algorithm.Data.Set(&c, data)
			opened.Reread(t, path, c)
		})
	}
}

// Two settings of one key are an error with both values and both places, in whatever order; the same value twice is none.
func TestResolveTwoValues(t *testing.T) {
	same := []config.Setting{{Key: "epsilon", Value: "2", Origin: "f:1"}, {Key: "epsilon", Value: "2.0", Origin: "--epsilon"}, {Key: "epsilon", Value: "2", Origin: "--set epsilon"}}
	if c, err := config.Resolve(same); err != nil || algorithm.Epsilon.Of(c) != config.Fixed(2) {
		t.Errorf("epsilon %v, %v", text(c, "epsilon"), err)
	}
	for _, values := range [][2]string{{"1", "2"}, {"2", "1"}, {"0", "2"}, {"auto", "2"}} {
		_, err := config.Resolve([]config.Setting{{Key: "rounds", Value: values[0], Origin: "f:1"}, {Key: "rounds", Value: values[1], Origin: "--rounds"}})
		if want := fmt.Sprintf("rounds is %q by f:1 and %q by --rounds", values[0], values[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got := config.KeysOf(err); !slices.Equal(got, []string{"rounds"}) {
			t.Errorf("the error is about the keys %q", got)
		}
	}
	base := []config.Setting{{Key: "rounds", Value: "1", Origin: "f:1"}, {Key: "epsilon", Value: "2", Origin: "f:2"}}
	all, replaced := config.Over(base, []config.Setting{{Key: "rank", Value: "3", Origin: "--rank"}, {Key: "epsilon", Value: "2.0", Origin: "--epsilon"}, {Key: "rounds", Value: "4", Origin: "--rounds"}})
	if got := config.Join(all); got != "rounds=4 epsilon=2.0 rank=3" || len(replaced) != 1 || replaced[0][0] != base[0] || replaced[0][1].Origin != "--rounds" {
		t.Errorf("over the base: %s, replaced %v", got, replaced)
	}
	_, err := config.Resolve([]config.Setting{{Key: "epsilon", Value: "0", Origin: "--epsilon"}})
	if err == nil || !strings.HasPrefix(err.Error(), "--epsilon: 0 is not a privacy budget") {
		t.Errorf("error %v, want it to name --epsilon", err)
	}
	var refused *config.Error
	if !errors.As(err, &refused) || errors.Unwrap(refused) == nil {
		t.Errorf("%T, want a config.Error around what is wrong", err)
	}
}
