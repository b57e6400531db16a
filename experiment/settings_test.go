package experiment

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
	"pgregory.net/rapid"
)

func Example() {
	c, err := Resolve([]Setting{
		{Key: "epsilon", Value: "5", Origin: "my.yaml:1"},
		{Key: "model.fit-steps", Value: "20", Origin: "my.yaml:3"},
		{Key: "epsilon", Value: "inf", Origin: "--epsilon"}, // the later one wins
	})
	fmt.Println(c.Epsilon, c.Model.FitSteps, c.Rank, err)
	_, err = Resolve([]Setting{{Key: "dropout", Value: "1", Origin: "my.yaml:2"}, {Key: "rounds", Value: "0", Origin: "--rounds"}})
	fmt.Println(err)
	// Output:
	// inf 20 auto <nil>
	// --rounds: 0 is outside 1 to 1000000
	// my.yaml:2: 1 is outside; it must be at least 0 and below 1
}

// Keys against the file that Config becomes, read by the YAML library without
// any type of ours.
func TestKeysAreThoseOfTheFile(t *testing.T) {
	b := Defaults().YAML()
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
	if diff := cmp.Diff(want, Keys()); diff != "" {
		t.Errorf("keys (-file +Keys):\n%s", diff)
	}
	for _, key := range []string{"epsilon", "dropout-at", "model.learning-rate", "split.test", "network.stage-timeout-s"} {
		if !slices.Contains(want, key) {
			t.Errorf("no key %s", key)
		}
	}
}

// Every key can be set, to what it holds already.
func TestSetTakesEveryKey(t *testing.T) {
	defaults := Defaults()
	b := defaults.YAML()
	settings, err := parse("defaults.yaml", b)
	if err != nil {
		t.Fatal(err)
	}
	if len(settings) != len(Keys()) {
		t.Errorf("%d settings in the file of the defaults, %d keys", len(settings), len(Keys()))
	}
	c := Config{}
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
		get        func(*Config) any
		want       any
	}{
		{"algorithm", "sgd-mf", func(c *Config) any { return c.Algorithm }, SGDMF},
		{"data", "", func(c *Config) any { return c.Data }, ""},
		{"epsilon", "inf", func(c *Config) any { return c.Epsilon }, Fixed(math.Inf(1))},
		{"epsilon", "auto", func(c *Config) any { return c.Epsilon }, Auto},
		{"epsilon", "0.5", func(c *Config) any { return c.Epsilon }, Fixed(0.5)},
		{"rounds", "-3", func(c *Config) any { return c.Rounds }, -3},
		{"dropout", "1e-3", func(c *Config) any { return c.Dropout }, 0.001},
		{"seed", "18446744073709551615", func(c *Config) any { return c.Seed }, uint64(math.MaxUint64)},
		{"model.fit-ridge", "2", func(c *Config) any { return c.Model.FitRidge }, 2.0},
		{"network.stage-timeout-s", "9", func(c *Config) any { return c.Network.StageTimeout }, 9.0},
	} {
		c := Defaults()
		if err := c.Set(tt.key, tt.value); err != nil {
			t.Errorf("Set(%q, %q): %v", tt.key, tt.value, err)
		} else if got := tt.get(&c); got != tt.want {
			t.Errorf("Set(%q, %q) made it %v, want %v", tt.key, tt.value, got, tt.want)
		}
	}
	for _, tt := range []struct{ key, value, reason string }{
		{"rounds", "1.5", "whole number"},
		{"rounds", "9223372036854775808", "whole number"},
		{"rounds", "", "whole number"},
		{"seed", "-1", "from 0 to 2^64-1"},
		{"seed", "18446744073709551616", "from 0 to 2^64-1"},
		{"dropout", "inf", "not a number"},
		{"dropout", "NaN", "not a number"},
		{"dropout", "auto", "not a number"},
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
		c := Defaults()
		if err := c.Set(tt.key, tt.value); err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("Set(%q, %q): error %v, want one with %q", tt.key, tt.value, err, tt.reason)
		}
	}
}

// What people mistype, with the key that they meant.
func TestUnknownKeySuggestsTheNearest(t *testing.T) {
	for typed, meant := range map[string]string{
		"epslion": "epsilon", "eps": "epsilon", "round": "rounds", "droput": "dropout", "dropout_at": "dropout-at",
		"learning-rate": "model.learning-rate", "fit-steps": "model.fit-steps", "model.learning_rate": "model.learning-rate",
		"latency": "network.latency-ms", "worker": "workers", "seeds": "seed", "test": "split.test", "split.tset": "split.test",
	} {
		c := Defaults()
		err := c.Set(typed, "1")
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("unknown key %q; the nearest there are: ", typed)) {
			t.Errorf("%s: error %v", typed, err)
			continue
		}
		_, list, _ := strings.Cut(err.Error(), "are: ")
		if !slices.Contains(strings.Split(list, ", "), meant) {
			t.Errorf("%s: suggested are %s, not %s", typed, list, meant)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Number
		out  string
	}{
		{"auto", Auto, "auto"},
		{"inf", Number{math.Inf(1), true}, "inf"},
		{".inf", Number{math.Inf(1), true}, "inf"},
		{"0", Number{0, true}, "0"},
		{"1e-5", Number{1e-5, true}, "1e-05"},
		{"-2.50", Number{-2.5, true}, "-2.5"},
		{"0.1", Number{0.1, true}, "0.1"},
	} {
		got, err := parseNumber(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("parseNumber(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if got.String() != tt.out {
			t.Errorf("parseNumber(%q) writes itself as %s, want %s", tt.text, got, tt.out)
		}
	}
	for _, text := range []string{"", "Auto", "nan", "NaN", "-inf", "1e400", "1,5", "five"} {
		if n, err := parseNumber(text); err == nil {
			t.Errorf("parseNumber(%q) = %v, want an error", text, n)
		}
	}
	if got := Auto.Or(7); got != 7 {
		t.Errorf("Auto.Or(7) = %v", got)
	}
	if got := Fixed(0).Or(7); got != 0 {
		t.Errorf("Fixed(0).Or(7) = %v: a zero that was given is given", got)
	}
}

// A configuration as a file is the same configuration, whatever it holds.
func TestYAMLRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	rapid.Check(t, func(t *rapid.T) {
		want := validConfig().Draw(t, "config")
		roundTrip(t, path, want)
	})
}

// Paths may hold whatever the operating system allows.
func TestYAMLRoundTripOfOddPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for _, data := range []string{"a\nb", "a\n", "\n", "a\tb", "\ta", "a\rb", "a\x01b", "a\u0085b", "a\u2028b", "...", "---", "--- a", "? a", "|", ">", "%a"} {
		t.Run(fmt.Sprintf("%q", data), func(t *testing.T) {
			c := Defaults()
			c.Data = data
			roundTrip(t, path, c)
		})
	}
}

func roundTrip(t rapid.TB, path string, want Config) {
	t.Helper()
	b := want.YAML()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	settings, err := ReadFile(path)
	if err != nil {
		t.Fatalf("%v, in\n%s", err, b)
	}
	got, err := Resolve(settings)
	if err != nil {
		t.Fatalf("%v, in\n%s", err, b)
	}
	if got != want {
		t.Fatalf("it came back otherwise (-want +got):\n%s\nfrom\n%s", cmp.Diff(want, got), b)
	}
}

// validConfig draws configurations that Resolve accepts, weighted to texts that
// YAML could take for something else.
func validConfig() *rapid.Generator[Config] {
	word := func(words ...string) *rapid.Generator[string] { return rapid.SampledFrom(words) }
	share := rapid.Float64Range(0, 0.999999)
	positive := rapid.Float64Range(1e-300, 1e300)
	auto := func(g *rapid.Generator[float64]) *rapid.Generator[Number] {
		return rapid.OneOf(rapid.Just(Auto), rapid.Map(g, Fixed))
	}
	text := rapid.OneOf(
		word("", "auto", "inf", ".inf", ".nan", "null", "~", "true", "no", "on", "1", "1e5", "0x1F", "0o7", "1_000", ".5", "2026-01-01",
			"12:30:45", "a: b", "a:", ":a", "# a", "a # b", "a#b", "- a", "-", "*a", "&a", "!a", "@a", "`a", "%a", "|", ">", "{a}", "[a]", "a, b",
			`"a"`, "'a'", "it's", `C:\data`, `a\nb`, " a", "a ", "日本", "<<", "=", "?"),
		rapid.StringMatching(`[ -~]{0,20}`), rapid.StringOfN(rapid.RuneFrom([]rune("äλ雪🎬é ")), 0, 8, -1))
	return rapid.Custom(func(t *rapid.T) Config {
		c := Defaults()
		switch rapid.IntRange(0, 3).Draw(t, "privacy") {
		case 0:
			c.Epsilon = auto(positive).Draw(t, "epsilon")
			c.Noise = word("auto", "split", "replace").Draw(t, "noise")
		case 1:
			c.Epsilon, c.Noise = Fixed(math.Inf(1)), word("auto", "none").Draw(t, "noise")
		case 2:
			c.Noise = "none"
		case 3:
			c.Algorithm = rapid.SampledFrom([]Algorithm{FMFLFL, SGDMF}).Draw(t, "algorithm")
			c.Noise = word("auto", "none").Draw(t, "noise")
		}
		c.Data, c.Out = text.Draw(t, "data"), text.Filter(func(s string) bool { return s != "" }).Draw(t, "out")
		c.Name = text.Filter(func(s string) bool { return !strings.ContainsAny(s, `/\`) && !strings.HasPrefix(s, ".") }).Draw(t, "name")
		low := rapid.Float64Range(0, 2).Draw(t, "rating-min")
		if rapid.Bool().Draw(t, "scale") {
			c.RatingMin, c.RatingMax = Fixed(low), Fixed(low+rapid.Float64Range(0.5, 10).Draw(t, "rating-max"))
		}
		c.Delta = auto(rapid.Float64Range(1e-300, 0.999)).Draw(t, "delta")
		c.Accountant = word("rdp", "gdp-skellam", "best").Draw(t, "accountant")
		c.NoiseDraw = word("sum", "client").Draw(t, "noise-draw")
		c.Rounds = rapid.IntRange(1, 1_000_000).Draw(t, "rounds")
		c.Rank = auto(rapid.Map(rapid.IntRange(1, 1024), func(n int) float64 { return float64(n) })).Draw(t, "rank")
		c.Contribution = word("one-rating", "all-ratings").Draw(t, "contribution")
		c.ClipNorm = positive.Draw(t, "clip-norm")
		c.Dropout, c.Tolerance, c.Colluders = share.Draw(t, "dropout"), share.Draw(t, "tolerance"), share.Draw(t, "colluders")
		c.DropoutAt = word("advertise", "share", "masked-input", "unmask", "any").Draw(t, "dropout-at")
		c.Leave, c.Away = share.Draw(t, "leave"), rapid.Float64Range(0, 1).Draw(t, "away")
		c.AwayRounds = rapid.IntRange(1, math.MaxInt).Draw(t, "away-rounds")
		c.Model = Model{
			LearningRate: auto(positive).Draw(t, "learning-rate"), StartMean: auto(positive).Draw(t, "start-mean"),
			StartSpread: share.Draw(t, "start-spread"), FitSteps: rapid.IntRange(0, 1000).Draw(t, "fit-steps"),
			FitRidge: rapid.Float64Range(0, 1e300).Draw(t, "fit-ridge"), Epochs: rapid.IntRange(1, 1000).Draw(t, "epochs"),
		}
		c.Split = Split{Test: rapid.Float64Range(1e-9, 0.5).Draw(t, "test"), Validation: rapid.Float64Range(0, 0.4).Draw(t, "validation")}
		c.Network = Network{
			LatencyMS: rapid.Float64Range(0, 1e8).Draw(t, "latency"), ComputeMS: rapid.Float64Range(0, 1e8).Draw(t, "compute"),
			UpMbps: positive.Draw(t, "up"), DownMbps: positive.Draw(t, "down"), StageTimeout: positive.Draw(t, "timeout"),
		}
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.Workers = rapid.IntRange(0, 1000).Draw(t, "workers")
		return c
	})
}

// The order of settings decides, not where they come from; a problem names the
// setting that won.
func TestResolveLaterWins(t *testing.T) {
	c, err := Resolve([]Setting{{"epsilon", "1", "f:1"}, {"epsilon", "2", "--epsilon"}, {"epsilon", "3", "--set epsilon"}})
	if err != nil || c.Epsilon != Fixed(3) {
		t.Errorf("epsilon %v, %v", c.Epsilon, err)
	}
	if _, err = Resolve([]Setting{{"epsilon", "0", "f:1"}, {"epsilon", "2", "--epsilon"}}); err != nil {
		t.Errorf("a value that lost was held against it: %v", err)
	}
	_, err = Resolve([]Setting{{"epsilon", "1", "f:1"}, {"epsilon", "0", "--epsilon"}})
	if err == nil || !strings.HasPrefix(err.Error(), "--epsilon: 0 is not a privacy budget") {
		t.Errorf("error %v, want it to name --epsilon", err)
	}
	var config *ConfigError
	if !errors.As(err, &config) || errors.Unwrap(config) == nil {
		t.Errorf("%T, want a ConfigError around what is wrong", err)
	}
}
