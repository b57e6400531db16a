package presets

import "github.com/fedsim/fedsim/internal/sweep"

// Benchmarks holds the grids of lab/presets/benchmarks.md: published data sets by the protocols of published tables. fedsim data get
// downloads the data. All needs no download, so these presets are apart from it.
var Benchmarks = []Preset{
	{
		Name: "bench-ml-100k", Source: "MovieLens 100K", Title: "ratings, 90/10 at random",
		Data: onBothScales("ml-100k"), Grid: benchRatings, Options: sweep.Options{Skip: references},
	},
	{
		Name: "bench-ml-1m", Source: "MovieLens 1M", Title: "ratings, 90/10 at random",
		Data: onBothScales("ml-1m"), Grid: benchRatings, Options: sweep.Options{Skip: references},
	},
	{
		Name: "bench-ml-10m", Source: "MovieLens 10M", Title: "ratings, 80/10/10 at random, δ = 1e-5",
		Data: onBothScales("ml-10m"), Sizes: onBothScales("split.validation=0.1"),
		Grid: "algorithm=private-item-bias,dpals,dp-cmf,ssp-c epsilon=1,5,20,inf delta=1e-5 baselines=quick",
	},
	{
		Name: "bench-ml-20m", Source: "MovieLens 20M", Title: "rankings for 10,000 held-out users, as in Liang et al. 2018",
		Data: onBothScales("ml-20m"), Sizes: onBothScales(liang[Full]),
		Grid: "algorithm=private-item-bias,ada-dpals,dp-cmf,ssp-c epsilon=1,5,20,inf" + ranked,
	},
}

// benchRatings holds what is compared on ratings. The centralised references have one row each.
const benchRatings = "algorithm=private-item-bias,dp-cmf,ssp-c,sgd-mf,als epsilon=1,5,20,inf baselines=quick"

// references leaves out the budgets of algorithms without privacy.
var references = []string{
	"algorithm=sgd-mf epsilon=1", "algorithm=sgd-mf epsilon=5", "algorithm=sgd-mf epsilon=20",
	"algorithm=als epsilon=1", "algorithm=als epsilon=5", "algorithm=als epsilon=20",
}

// onBothScales returns a value that does not depend on the scale: a benchmark has its own data, and the scale is the number of seeds.
func onBothScales(value string) map[string]string {
	return map[string]string{Small: value, Full: value}
}
