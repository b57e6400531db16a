package experiment

import (
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// validConfig draws configurations that Resolve accepts, weighted to texts that
// YAML could take for something else.
func validConfig() *rapid.Generator[Config] {
	return rapid.Custom(func(t *rapid.T) Config {
		c := Defaults()
		c.Algorithm = rapid.SampledFrom(Algorithms()).Draw(t, "algorithm")
		drawPrivacy(t, &c)
		drawParties(t, &c)
		drawModel(t, &c)
		drawStatistics(t, &c)
		c.Data, c.Out = oddText.Draw(t, "data"), oddText.Filter(func(s string) bool { return s != "" }).Draw(t, "out")
		c.Name = oddText.Filter(func(s string) bool { return !strings.ContainsAny(s, `/\`) && !strings.HasPrefix(s, ".") }).Draw(t, "name")
		if rapid.Bool().Draw(t, "scale") {
			low := rapid.Float64Range(0, 2).Draw(t, "rating-min")
			c.RatingMin, c.RatingMax = Fixed(low), Fixed(low+rapid.Float64Range(0.5, 10).Draw(t, "rating-max"))
		}
		c.Dropout, c.Tolerance, c.Colluders = orAuto(share).Draw(t, "dropout"), share.Draw(t, "tolerance"), orAuto(share).Draw(t, "colluders")
		c.DropoutAt = word("advertise", "share", "masked-input", "unmask", "any").Draw(t, "dropout-at")
		if c.Noise == "replace" && rapid.Bool().Draw(t, "at-replace") {
			c.DropoutAt = "replace"
		}
		c.Leave, c.Away = share.Draw(t, "leave"), rapid.Float64Range(0, 1).Draw(t, "away")
		c.AwayRounds = rapid.IntRange(1, math.MaxInt).Draw(t, "away-rounds")
		c.Split = Split{Test: rapid.Float64Range(1e-9, 0.5).Draw(t, "test"), Validation: rapid.Float64Range(0, 0.4).Draw(t, "validation")}
		c.Network = Network{
			LatencyMS: rapid.Float64Range(0, 1e8).Draw(t, "latency"), ComputeMS: rapid.Float64Range(0, 1e8).Draw(t, "compute"),
			UpMbps: positive.Draw(t, "up"), DownMbps: positive.Draw(t, "down"), StageTimeout: positive.Draw(t, "timeout"),
		}
		c.Deployment = Deployment{
			StageTimeout: rapid.Float64Range(1e-300, 86_400).Draw(t, "deployed timeout"), Gather: rapid.Float64Range(0, 604_800).Draw(t, "gather"),
		}
		c.Baselines = word("all", "quick").Draw(t, "baselines")
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.Workers = rapid.IntRange(0, 1000).Draw(t, "workers")
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

func word(words ...string) *rapid.Generator[string] { return rapid.SampledFrom(words) }

func orAuto(g *rapid.Generator[float64]) *rapid.Generator[Number] {
	return rapid.OneOf(rapid.Just(Auto), rapid.Map(g, Fixed))
}

// whole draws a whole number, or auto.
func whole(lo, hi int) *rapid.Generator[Number] {
	return orAuto(rapid.Map(rapid.IntRange(lo, hi), func(n int) float64 { return float64(n) }))
}

// betweenOrganisations are those whose parties are organisations.
var betweenOrganisations = []Algorithm{VFLSGDMF, HFLSGDMF, HFLSynSGD, FMFVFL, FMFHFL}

// ofStatistics are those whose users sum statistics.
var ofStatistics = []Algorithm{DPALS, AdaDPALS, DPCMF, SSPC, SSPI, AMSSP, SSPConvex, PrivateItemBias}

// drawPrivacy draws what may go together of ε, δ, noise and accountant.
func drawPrivacy(t *rapid.T, c *Config) {
	noises, accountants := word("auto", "split", "replace"), word("auto", "rdp", "gdp-skellam", "best")
	if slices.Contains(betweenOrganisations, c.Algorithm) {
		noises, accountants = word("auto", "own"), word("auto", "rdp", "pld", "best")
	}
	without := word("auto", "none")
	adds := slices.Contains([]Algorithm{LFLSGDMF, VFLSGDMF, HFLSGDMF, HFLSynSGD}, c.Algorithm) || slices.Contains(ofStatistics, c.Algorithm)
	switch how := rapid.IntRange(0, 2).Draw(t, "privacy"); {
	case !adds:
		c.Epsilon, c.Noise = rapid.SampledFrom([]Number{Auto, Fixed(math.Inf(1))}).Draw(t, "epsilon"), without.Draw(t, "noise")
	case how == 0:
		c.Epsilon, c.Noise = orAuto(positive).Draw(t, "epsilon"), noises.Draw(t, "noise")
	case how == 1:
		c.Epsilon, c.Noise = Fixed(math.Inf(1)), without.Draw(t, "noise")
	case how == 2:
		c.Noise = "none"
	}
	c.Delta = orAuto(rapid.Float64Range(1e-300, 0.999)).Draw(t, "delta")
	c.Accountant = accountants.Draw(t, "accountant")
	c.NoiseDraw = word("sum", "client").Draw(t, "noise-draw")
	c.Unit = word("auto", "user").Draw(t, "unit")
	if c.Algorithm == VFLSGDMF || c.Algorithm == FMFVFL {
		c.Unit = word("auto", "user", "rating").Draw(t, "unit")
	}
}

// drawParties draws the settings of organisations, which others may have too:
// they get a warning at the most.
func drawParties(t *rapid.T, c *Config) {
	c.Parties = whole(1, 1000).Draw(t, "parties")
	c.Partition = word("random", "category").Draw(t, "partition")
	if c.LocalSteps = whole(1, 100_000).Draw(t, "local-steps"); c.Algorithm == HFLSynSGD {
		c.LocalSteps = whole(1, 1).Draw(t, "local-steps")
	}
	c.ItemSteps = rapid.IntRange(0, math.MaxInt).Draw(t, "item-steps")
	c.SamplingRate = rapid.Float64Range(1e-300, 1).Draw(t, "sampling-rate")
	c.ClipRatings = whole(1, 1_000_000).Draw(t, "clip-ratings")
	if rating := c.Unit == "rating" || c.Unit == "auto"; rating && (c.Algorithm == VFLSGDMF || c.Algorithm == FMFVFL) {
		c.ClipRatings = whole(0, 0).Draw(t, "clip-ratings")
	}
	c.Clipping = word("embedding", "gradient", "both").Draw(t, "clipping")
	c.Train = word("auto", "items", "both").Draw(t, "train")
	if c.Parties == Fixed(1) && slices.Contains(betweenOrganisations, c.Algorithm) {
		c.Secagg = word("ideal", "none").Draw(t, "secagg")
	}
}

// drawStatistics draws the settings of sums of statistics, which others may have too.
func drawStatistics(t *rapid.T, c *Config) {
	part := orAuto(rapid.Float64Range(1e-9, 0.3))
	c.Features = word("auto", "genres", "year", "genres,year", "./films.csv").Draw(t, "features")
	c.Statistics = Statistics{
		Gramian: word("auto", "per-item", "one").Draw(t, "gramian"), Budgeting: word("auto", "weights", "uniform", "tail").Draw(t, "budgeting"),
		Exponent: orAuto(rapid.Float64Range(0, 2)).Draw(t, "exponent"), PerUser: whole(1, 1_000_000).Draw(t, "per-user"),
		CountCap: whole(1, 1_000_000).Draw(t, "count-cap"), MeanCap: whole(0, 1_000_000).Draw(t, "mean-cap"),
		BiasFirst: word("auto", "yes", "no").Draw(t, "bias-first"), Priors: word("auto", "fixed", "learned").Draw(t, "priors"),
		Memory: orAuto(rapid.Float64Range(0, 0.999)).Draw(t, "memory"), TasteWeight: orAuto(rapid.Float64Range(0, 10)).Draw(t, "taste-weight"),
		ClipUser: orAuto(clip).Draw(t, "clip-user"), ClipRating: orAuto(clip).Draw(t, "clip-rating"), ClipBias: orAuto(clip).Draw(t, "clip-bias"),
		UserRidge: orAuto(positive).Draw(t, "user-ridge"), UserBiasRidge: orAuto(positive).Draw(t, "user-bias-ridge"),
		ItemRidge: orAuto(positive).Draw(t, "item-ridge"), ItemPrior: orAuto(positive).Draw(t, "item-prior"), BiasRidge: orAuto(positive).Draw(t, "bias-ridge"),
		Unobserved: orAuto(positive).Draw(t, "unobserved"), Resample: whole(1, 1).Draw(t, "resample"), StartSpread: orAuto(positive).Draw(t, "spread"),
		Loss: word("auto", "squared", "huber", "logistic").Draw(t, "loss"), LossWidth: orAuto(positive).Draw(t, "loss-width"),
		Shares: Shares{
			Counts: part.Draw(t, "share of counts"), Mean: part.Draw(t, "share of the mean"), Bias: part.Draw(t, "share of biases"),
			WeightCounts: part.Draw(t, "share of weight counts"), Gramian: part.Draw(t, "share of the Gramian"),
		},
	}
	c.Encoder = Encoder{
		Dim: rapid.IntRange(0, 64).Draw(t, "dim"), Dense: "yes", IDs: word("auto", "yes", "no").Draw(t, "ids"), StartNorm: orAuto(positive).Draw(t, "start-norm"),
		Optimiser: word("auto", "adam", "sgd").Draw(t, "optimiser"), Rate: orAuto(positive).Draw(t, "rate"), Decay: word("constant", "cosine", "linear").Draw(t, "decay"),
		Steps: whole(1, 1_000_000).Draw(t, "steps"), Batch: rapid.IntRange(0, 1000).Draw(t, "batch"), WarmStart: word("yes", "no").Draw(t, "warm-start"),
		Ridge: rapid.Float64Range(0, 1e300).Draw(t, "encoder ridge"),
	}
	c.CMF = Collective{
		FeatureWeight: orAuto(positive).Draw(t, "feature-weight"), FeatureRidge: positive.Draw(t, "feature-ridge"),
		Unobserved: rapid.Float64Range(0, 0.999).Draw(t, "unobserved features"), Sweeps: rapid.IntRange(1, 100).Draw(t, "sweeps"),
	}
}

func drawModel(t *rapid.T, c *Config) {
	c.Rounds = whole(1, 1_000_000).Draw(t, "rounds")
	c.Rank = whole(1, 1024).Draw(t, "rank")
	c.Contribution = word("one-rating", "all-ratings").Draw(t, "contribution")
	c.ClipNorm = orAuto(positive).Draw(t, "clip-norm")
	c.Model = Model{
		LearningRate: orAuto(positive).Draw(t, "learning-rate"), UserRate: orAuto(positive).Draw(t, "user-rate"),
		ItemRate: orAuto(positive).Draw(t, "item-rate"), Density: orAuto(rapid.Float64Range(1e-300, 1)).Draw(t, "density"),
		FineTune: rapid.IntRange(0, math.MaxInt).Draw(t, "fine-tune"), FineTuneRate: positive.Draw(t, "fine-tune-rate"),
		LocalPasses: rapid.IntRange(0, math.MaxInt).Draw(t, "local-passes"),
		StartMean:   orAuto(positive).Draw(t, "start-mean"), StartSpread: share.Draw(t, "start-spread"),
		FitSteps: rapid.IntRange(0, 1000).Draw(t, "fit-steps"), FitRidge: rapid.Float64Range(0, 1e300).Draw(t, "fit-ridge"),
		Epochs: rapid.IntRange(1, 1000).Draw(t, "epochs"),
	}
}
