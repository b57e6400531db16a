package algorithm_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/opened"
)

// validConfig draws configurations that Resolve accepts, weighted to texts that
// YAML could take for something else.
func validConfig() *rapid.Generator[config.Config] {
	return rapid.Custom(func(t *rapid.T) config.Config {
		var c config.Config
		put(t, &c, "algorithm", rapid.SampledFrom(algorithm.Names()).Draw(t, "algorithm"))
		drawPrivacy(t, &c)
		drawParties(t, &c)
		drawModel(t, &c)
		drawStatistics(t, &c)
		put(t, &c, "data", oddText.Draw(t, "data"))
		put(t, &c, "out", oddText.Filter(func(s string) bool { return s != "" }).Draw(t, "out"))
		put(t, &c, "name", oddText.Filter(func(s string) bool { return !strings.ContainsAny(s, `/\`) && !strings.HasPrefix(s, ".") }).Draw(t, "name"))
		if rapid.Bool().Draw(t, "scale") {
			low := rapid.Float64Range(0, 2).Draw(t, "rating-min")
			put(t, &c, "rating-min", config.Fixed(low))
			put(t, &c, "rating-max", config.Fixed(low+rapid.Float64Range(0.5, 10).Draw(t, "rating-max")))
		}
		put(t, &c, "dropout", orAuto(share).Draw(t, "dropout"))
		put(t, &c, "tolerance", share.Draw(t, "tolerance"))
		put(t, &c, "cohort.over", rapid.Float64Range(1, 100).Draw(t, "over"))
		put(t, &c, "colluders", orAuto(share).Draw(t, "colluders"))
		put(t, &c, "dropout-at", word("advertise", "share", "masked-input", "unmask", "any").Draw(t, "dropout-at"))
		if algorithm.Noise.Is(c, "replace") && rapid.Bool().Draw(t, "at-replace") {
			put(t, &c, "dropout-at", "replace")
		}
		put(t, &c, "leave", share.Draw(t, "leave"))
		put(t, &c, "away", rapid.Float64Range(0, 1).Draw(t, "away"))
		put(t, &c, "away-rounds", rapid.IntRange(1, mostWhole).Draw(t, "away-rounds"))
		put(t, &c, "split.test", rapid.Float64Range(1e-9, 0.5).Draw(t, "test"))
		put(t, &c, "split.validation", rapid.Float64Range(0, 0.4).Draw(t, "validation"))
		put(t, &c, "network.latency-ms", rapid.Float64Range(0, 1e8).Draw(t, "latency"))
		put(t, &c, "network.compute-ms", rapid.Float64Range(0, 1e8).Draw(t, "compute"))
		put(t, &c, "network.up-mbps", positive.Draw(t, "up"))
		put(t, &c, "network.down-mbps", positive.Draw(t, "down"))
		put(t, &c, "network.stage-timeout-s", positive.Draw(t, "timeout"))
		put(t, &c, "deployment.stage-timeout-s", rapid.Float64Range(1e-300, 86_400).Draw(t, "deployed timeout"))
		put(t, &c, "deployment.tail-s", rapid.Float64Range(1e-3, 86_400).Draw(t, "tail"))
		put(t, &c, "deployment.gather-s", rapid.Float64Range(0, 604_800).Draw(t, "gather"))
		put(t, &c, "baselines", word("all", "quick").Draw(t, "baselines"))
		put(t, &c, "seed", rapid.Uint64().Draw(t, "seed"))
		put(t, &c, "workers", rapid.IntRange(0, 1000).Draw(t, "workers"))
		return c
	})
}

var (
	share    = rapid.Float64Range(0, 0.999999)
	positive = rapid.Float64Range(1e-300, 1e300)
	clip     = rapid.Float64Range(1e-9, 1e9)
	oddText  = rapid.OneOf(
		word("", "auto", "inf", ".inf", ".nan", "null", "~", "true", "no", "on", "1", "1e5", "0x1F", "0o7", "1_000", ".5", "2026-01-01",
			"12:30:45", "a: b", "a:", ":a", "# a", "a # b", "a#b", "- a", "-", "*a", "&a", "!a", "@a", "`a", "%a", "|", ">", "{a}", "[a]", "a, b",
			`"a"`, "'a'", "it's", `C:\data`, `a\nb`, " a", "a ", "日本", "<<", "=", "?"),
		rapid.StringMatching(`[ -~]{0,20}`), rapid.StringOfN(rapid.RuneFrom([]rune("äλ雪🎬é ")), 0, 8, -1))
)

// mostWhole bounds the whole numbers that a float64 represents exactly; keys hold numbers as float64.
const mostWhole = 1 << 53

// put gives a key what was drawn for it.
func put(t *rapid.T, c *config.Config, name string, v any) {
	text := fmt.Sprint(v)
	if x, ok := v.(float64); ok {
		text = strconv.FormatFloat(x, 'g', -1, 64)
	}
	if err := c.Set(name, text); err != nil {
		t.Fatalf("%s, %q: %v", name, text, err)
	}
}

func word(words ...string) *rapid.Generator[string] { return rapid.SampledFrom(words) }

func orAuto(g *rapid.Generator[float64]) *rapid.Generator[config.Number] {
	return rapid.OneOf(rapid.Just(config.Auto), rapid.Map(g, config.Fixed))
}

// whole draws a whole number, or auto.
func whole(lo, hi int) *rapid.Generator[config.Number] {
	return orAuto(rapid.Map(rapid.IntRange(lo, hi), func(n int) float64 { return float64(n) }))
}

// betweenOrganisations lists the algorithms whose parties are organisations.
var betweenOrganisations = []string{"dp-sgld", "vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd", "fmf-vfl", "fmf-hfl"}

// vertical lists the algorithms whose parties have items (VFL).
var vertical = []string{"dp-sgld", "vfl-sgdmf", "fmf-vfl"}

// ofStatistics lists the algorithms whose users sum statistics.
var ofStatistics = []string{"dpals", "ada-dpals", "dp-cmf", "ssp-c", "ssp-i", "am-ssp", "am-ssp-ids", "ssp-convex", "dpsgd", "ada-dpsgd", "am-dpsgd", "dp-sgd-mf", "private-item-bias"}

// drawPrivacy draws what may go together of ε, δ, noise and accountant.
func drawPrivacy(t *rapid.T, c *config.Config) {
	noises, accountants := word("auto", "split", "replace"), word("auto", "rdp", "gdp-skellam", "best")
	if slices.Contains(betweenOrganisations, algorithm.Name.Of(*c)) {
		noises, accountants = word("auto", "own"), word("auto", "rdp", "pld", "best")
	}
	objective := algorithm.Name.Is(*c, "objective-perturbation")
	if objective {
		noises, accountants = word("auto", "objective"), word("auto", "pure")
	}
	if algorithm.Name.Is(*c, "rr-on-bins") {
		noises, accountants = word("auto", "labels"), word("auto", "pure")
	}
	if algorithm.Name.Is(*c, "rr-dp-sgd") {
		noises, accountants = word("auto", "labels"), word("auto", "pld")
	}
	if strings.HasPrefix(algorithm.Name.Of(*c), "mlp-") {
		noises, accountants = word("auto", "steps"), word("auto", "rdp", "pld", "best")
	}
	if algorithm.Name.Is(*c, "gd-dr") {
		noises, accountants = word("auto", "response"), word("auto", "shuffling")
	}
	if algorithm.Of(*c).About().LocalNoise {
		noises = word("auto", "split", "replace", "local")
	}
	without := word("auto", "none")
	adds := slices.Contains([]string{"dp-sgd", "cond-dp", "switch-cond-dp", "rr-on-bins", "rr-dp-sgd", "mlp-dp-sgd", "mlp-cond-dp", "mlp-switch-cond-dp", "lfl-sgdmf", "dp-sgld", "objective-perturbation", "gd-dr", "private-ease", "vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd"}, algorithm.Name.Of(*c)) || slices.Contains(ofStatistics, algorithm.Name.Of(*c))
	switch how := rapid.IntRange(0, 2).Draw(t, "privacy"); {
	case !adds:
		put(t, c, "epsilon", rapid.SampledFrom([]config.Number{config.Auto, config.Fixed(math.Inf(1))}).Draw(t, "epsilon"))
		put(t, c, "noise", without.Draw(t, "noise"))
	case how == 0:
		put(t, c, "epsilon", orAuto(positive).Draw(t, "epsilon"))
		put(t, c, "noise", noises.Draw(t, "noise"))
	case how == 1:
		put(t, c, "epsilon", config.Fixed(math.Inf(1)))
		put(t, c, "noise", without.Draw(t, "noise"))
	case how == 2:
		put(t, c, "noise", "none")
	}
	put(t, c, "delta", orAuto(rapid.Float64Range(1e-300, 0.999)).Draw(t, "delta"))
	put(t, c, "accountant", accountants.Draw(t, "accountant"))
	put(t, c, "noise-draw", word("sum", "client").Draw(t, "noise-draw"))
	put(t, c, "unit", word("auto", string(algorithm.Of(*c).About().Units[0])).Draw(t, "unit"))
	if objective || slices.Contains(vertical, algorithm.Name.Of(*c)) {
		put(t, c, "unit", word("auto", "user", "rating").Draw(t, "unit"))
	}
}

// drawParties draws the settings of organisations, which other algorithms may have too:
// they get a warning at most.
func drawParties(t *rapid.T, c *config.Config) {
	put(t, c, "parties", whole(1, 1000).Draw(t, "parties"))
	put(t, c, "partition", word("random", "category").Draw(t, "partition"))
	put(t, c, "local-steps", whole(1, 100_000).Draw(t, "local-steps"))
	if algorithm.Name.Is(*c, "hfl-synsgd") {
		put(t, c, "local-steps", whole(1, 1).Draw(t, "local-steps"))
	}
	put(t, c, "item-steps", rapid.IntRange(0, mostWhole).Draw(t, "item-steps"))
	put(t, c, "sampling-rate", rapid.Float64Range(1e-300, 1).Draw(t, "sampling-rate"))
	put(t, c, "clip-ratings", whole(1, 1_000_000).Draw(t, "clip-ratings"))
	if rating := !algorithm.Unit.Is(*c, "user"); rating && (algorithm.Name.Is(*c, "objective-perturbation") || slices.Contains(vertical, algorithm.Name.Of(*c))) {
		put(t, c, "clip-ratings", whole(0, 0).Draw(t, "clip-ratings"))
	}
	put(t, c, "clipping", word("embedding", "gradient", "both").Draw(t, "clipping"))
	train := word("auto", "items", "both").Draw(t, "train")
	put(t, c, "train", train)
	if train != "items" {
		put(t, c, "model.pretrain", word("yes", "no").Draw(t, "pretrain"))
	}
	if algorithm.Parties.Of(*c) == config.Fixed(1) && algorithm.Of(*c).About().Clients.Organisations() {
		put(t, c, "secagg", word("ideal", "none").Draw(t, "secagg"))
	}
}

// drawStatistics draws the settings of sums of statistics, which others may have too.
func drawStatistics(t *rapid.T, c *config.Config) {
	part := orAuto(rapid.Float64Range(1e-9, 0.3))
	put(t, c, "features", word("auto", "genres", "year", "genres,year", "./films.csv").Draw(t, "features"))
	put(t, c, "statistics.gramian", word("auto", "per-item", "one").Draw(t, "gramian"))
	put(t, c, "statistics.budgeting", word("auto", "weights", "uniform", "tail").Draw(t, "budgeting"))
	put(t, c, "statistics.exponent", orAuto(rapid.Float64Range(0, 2)).Draw(t, "exponent"))
	put(t, c, "statistics.per-user", whole(1, 1_000_000).Draw(t, "per-user"))
	put(t, c, "statistics.count-cap", whole(1, 1_000_000).Draw(t, "count-cap"))
	put(t, c, "statistics.mean-cap", whole(0, 1_000_000).Draw(t, "mean-cap"))
	put(t, c, "statistics.bias-first", word("auto", "yes", "no").Draw(t, "bias-first"))
	put(t, c, "statistics.priors", word("auto", "fixed", "learned").Draw(t, "priors"))
	put(t, c, "statistics.decay", orAuto(rapid.Float64Range(0, 0.999)).Draw(t, "memory"))
	put(t, c, "eval.drift", word("yes", "no").Draw(t, "drift"))
	put(t, c, "statistics.user-feature-weight", orAuto(rapid.Float64Range(0, 10)).Draw(t, "taste-weight"))
	put(t, c, "statistics.order-weight", orAuto(rapid.Float64Range(0, 1000)).Draw(t, "order-weight"))
	put(t, c, "statistics.clip-user", orAuto(clip).Draw(t, "clip-user"))
	put(t, c, "statistics.clip-rating", orAuto(clip).Draw(t, "clip-rating"))
	put(t, c, "statistics.clip-bias", orAuto(clip).Draw(t, "clip-bias"))
	put(t, c, "statistics.user-ridge", orAuto(positive).Draw(t, "user-ridge"))
	put(t, c, "statistics.user-bias-ridge", orAuto(positive).Draw(t, "user-bias-ridge"))
	put(t, c, "statistics.item-ridge", orAuto(positive).Draw(t, "item-ridge"))
	put(t, c, "statistics.item-prior", orAuto(positive).Draw(t, "item-prior"))
	put(t, c, "statistics.bias-ridge", orAuto(positive).Draw(t, "bias-ridge"))
	put(t, c, "statistics.unobserved", orAuto(positive).Draw(t, "unobserved"))
	if !algorithm.Noise.Is(*c, "replace") && !algorithm.Accountant.Is(*c, "rdp") {
		put(t, c, "statistics.sampling-rate", rapid.Float64Range(1e-9, 1).Draw(t, "batches"))
	}
	put(t, c, "statistics.resample", whole(1, 1).Draw(t, "resample"))
	put(t, c, "statistics.start-spread", orAuto(positive).Draw(t, "spread"))
	put(t, c, "statistics.loss", word("auto", "squared", "huber", "logistic").Draw(t, "loss"))
	put(t, c, "statistics.loss-width", orAuto(positive).Draw(t, "loss-width"))
	put(t, c, "statistics.shares.counts", part.Draw(t, "share of counts"))
	put(t, c, "statistics.shares.mean", part.Draw(t, "share of the mean"))
	put(t, c, "statistics.shares.bias", part.Draw(t, "share of biases"))
	put(t, c, "statistics.shares.weight-counts", part.Draw(t, "share of weight counts"))
	put(t, c, "statistics.shares.gramian", part.Draw(t, "share of the Gramian"))
	put(t, c, "encoder.dim", rapid.IntRange(0, 64).Draw(t, "dim"))
	put(t, c, "encoder.dense", "yes")
	put(t, c, "encoder.ids", word("auto", "yes", "no").Draw(t, "ids"))
	put(t, c, "encoder.start-norm", orAuto(rapid.Float64Range(1e-300, 1e9)).Draw(t, "start-norm"))
	put(t, c, "encoder.optimiser", word("auto", "adam", "sgd").Draw(t, "optimiser"))
	put(t, c, "encoder.rate", orAuto(positive).Draw(t, "rate"))
	put(t, c, "encoder.steps", whole(1, 1_000_000).Draw(t, "steps"))
	put(t, c, "encoder.batch", rapid.IntRange(0, 1000).Draw(t, "batch"))
	put(t, c, "cmf.feature-weight", orAuto(positive).Draw(t, "feature-weight"))
	put(t, c, "cmf.unobserved", rapid.Float64Range(0, 0.999).Draw(t, "unobserved features"))
	put(t, c, "cmf.sweeps", rapid.IntRange(1, 100).Draw(t, "sweeps"))
}

func drawModel(t *rapid.T, c *config.Config) {
	put(t, c, "rounds", whole(1, 1_000_000).Draw(t, "rounds"))
	put(t, c, "rank", whole(1, 1024).Draw(t, "rank"))
	put(t, c, "contribution", word("one-rating", "all-ratings").Draw(t, "contribution"))
	put(t, c, "clip-norm", positive.Draw(t, "clip-norm"))
	put(t, c, "model.learning-rate", orAuto(positive).Draw(t, "learning-rate"))
	put(t, c, "model.user-rate", orAuto(positive).Draw(t, "user-rate"))
	put(t, c, "model.item-rate", orAuto(positive).Draw(t, "item-rate"))
	put(t, c, "model.density", orAuto(rapid.Float64Range(1e-300, 1)).Draw(t, "density"))
	put(t, c, "model.fine-tune", rapid.IntRange(0, mostWhole).Draw(t, "fine-tune"))
	put(t, c, "model.fit-steps", rapid.IntRange(0, 1000).Draw(t, "fit-steps"))
	put(t, c, "model.fit-ridge", rapid.Float64Range(0, 1e300).Draw(t, "fit-ridge"))
	put(t, c, "model.prior", rapid.Float64Range(0, 1e300).Draw(t, "prior"))
	put(t, c, "model.item-ridge", orAuto(rapid.Float64Range(1e-9, 1e300)).Draw(t, "item-ridge"))
	put(t, c, "model.dimensions", whole(1, mostWhole).Draw(t, "dimensions"))
	put(t, c, "model.epochs", rapid.IntRange(1, 1000).Draw(t, "epochs"))
}

// A configuration as a file is the same configuration, whatever it holds.
func TestYAMLRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	rapid.Check(t, func(t *rapid.T) {
		opened.Reread(t, path, validConfig().Draw(t, "config"))
	})
}

// Lengths of lists come in order and once; none is none.
func TestCutoffs(t *testing.T) {
	for text, want := range map[string][]int{"5,10,20": {5, 10, 20}, " 20, 5,5": {5, 20}, "1": {1}, "none": nil} {
		var c config.Config
		algorithm.EvalTopK.Set(&c, text)
		if got, err := algorithm.Cutoffs(c); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	// Without lists, and for held-out users, who all have one, some keys mean nothing.
	for settings, want := range map[string]bool{"": false, "eval.top-k=none": true, "algorithm=ssp-c feedback=implicit": true} {
		c, err := config.Resolve(set(settings))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []*config.Key{algorithm.EvalUsers.Key, algorithm.EvalRelevant.Key} {
			if idle := slices.Contains(algorithm.KeysWithoutEffect(c), k); idle != want {
				t.Errorf("%s: that %s is idle is %v", settings, k.Name, idle)
			}
		}
	}
}
