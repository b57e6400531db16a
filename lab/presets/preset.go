// Package presets has the studies of the papers' figures: for each a grid of runs, the paper's
// claims about it, and tests of the claims on the runs.
//
// A figure is a declaration of a few lines in figures.yaml.
package presets

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/sweep"
	"github.com/fedsim/fedsim/lab/page"
)

// Preset is the study of a figure.
type Preset struct {
	Name   string // for --preset
	Source string // paper and figure
	Title  string
	Grid   string // "KEY=VALUE,VALUE ...", without data and seeds
	// Data holds the data of each scale, if they are not the ratings of all presets.
	Data map[string]string
	// Sizes are settings of each scale that go with the size of the data, beside the grid.
	Sizes         map[string]string
	sweep.Options `yaml:",inline"`
	Claims        []Claim
}

// Claim is a sentence of the paper that the runs can test. It says that a metric is lower in the
// runs that meet the first condition. The comparison is with the runs that meet the second, or with
// a baseline of the same runs.
type Claim struct {
	Text             string
	Lower, Than      string // conditions, "KEY=VALUE ..."; "" is met by all
	Baseline, Metric string // numbers of summary.json; the metric is the test RMSE where it is ""
	// Times tests whether the metric of one run is so many times lower than of another, by
	// differences of logarithms; 0 tests whether it is lower at all.
	Times float64
}

// The scales of a preset.
const (
	Small = "small" // generated data of 600 users, three seeds: minutes
	Full  = "full"  // data of MovieLens 1M's shape, five seeds: hours
)

// Each seed has its own split: the intervals must hold for other test ratings, too.
var (
	seeds   = map[string]string{Small: "seed=1..3 split.seed=auto", Full: "seed=1..5 split.seed=auto"}
	ratings = map[string]string{Small: "synthetic:small", Full: "synthetic:ml-1m"}
)

//go:embed figures.yaml
var figures []byte

// All returns the presets of the papers' figures, in the order of the papers.
var All = sync.OnceValue(func() (list []Preset) {
	if err := yaml.UnmarshalWithOptions(figures, &list, yaml.Strict()); err != nil {
		panic(err) // the file is a part of the program
	}
	return list
})

// Find returns the preset of a name.
func Find(name string) (Preset, error) {
	var names []string
	for _, p := range slices.Concat(All(), Benchmarks) {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, config.Errorf("no preset is called %q; there are %s; all stands for the figures of the papers", name, strings.Join(names, ", "))
}

// Settings returns the settings of the grid at a scale, for sweep.New.
func (p Preset) Settings(scale string) ([]config.Setting, error) {
	base, ok := seeds[scale]
	data := p.Data
	if data == nil {
		data = ratings
	}
	if !ok {
		return nil, config.Errorf("--scale %s: %s or %s is needed", scale, Small, Full)
	}
	var list []config.Setting
	for f := range strings.FieldsSeq("data=" + data[scale] + " " + base + " " + p.Sizes[scale] + " " + p.Grid) {
		key, value, _ := strings.Cut(f, "=")
		list = append(list, config.Setting{Key: key, Value: value, Origin: "preset " + p.Name})
	}
	return list, nil
}

// Part returns the preset's part of a page.
func (p Preset) Part(runs study.Runs, dir string) (page.Part, error) {
	part := page.Part{ID: p.Name, Title: p.Source + ": " + p.Title, Dirs: []string{dir}, Runs: runs}
	t := runs.Table()
	for _, c := range p.Claims {
		checked, err := c.check(t)
		if err != nil {
			return part, err
		}
		checked.Source = p.Source
		part.Claims = append(part.Claims, checked)
	}
	return part, nil
}

// The verdicts. The 95% interval over seeds of the mean difference decides, between runs that
// differ in nothing else.
const (
	Holds      = "holds"
	HoldsNot   = "does not hold"
	CannotTell = "cannot tell"
)

func (c Claim) check(t *study.Table) (page.Claim, error) {
	metric := cmp.Or(c.Metric, "test_rmse")
	least := 0.0
	if c.Times > 0 {
		t, least = logarithms(t, metric), math.Log10(c.Times)
	}
	s, pairs, err := t.Paired(c.Lower, c.Than, c.Baseline, metric)
	if err != nil {
		return page.Claim{}, err
	}
	x := page.Claim{Text: c.Text, Verdict: CannotTell}
	switch margin := s.Margin(); {
	case s.N < 2:
		x.Evidence = fmt.Sprintf("%d seeds are too few", s.N)
		return x, nil
	case s.Mean+margin < -least:
		x.Verdict = Holds
	case s.Mean-margin > -least:
		x.Verdict = HoldsNot
	}
	if c.Times > 0 {
		low, high := math.Pow(10, -s.Mean-s.Margin()), math.Pow(10, -s.Mean+s.Margin())
		x.Evidence = fmt.Sprintf("%s is %.3g times lower, %.3g to %.3g (95%%) over %d seeds, %d pairs of runs", metric, math.Pow(10, -s.Mean), low, high, s.N, pairs)
		return x, nil
	}
	x.Evidence = fmt.Sprintf("%s differs by %+.4f ± %.4f (95%%) over %d seeds, %d pairs of runs", metric, s.Mean, s.Margin(), s.N, pairs)
	if math.IsNaN(s.Mean) {
		x.Evidence = "no run has " + metric
	}
	return x, nil
}

// logarithms returns the table with the logarithm of a metric, to base 10, in its place.
func logarithms(t *study.Table, metric string) *study.Table {
	logs := *t
	logs.Rows = slices.Clone(t.Rows)
	for i, r := range t.Rows {
		logs.Rows[i].Values = make(map[string]float64)
		if v := r.Values[metric]; v > 0 {
			logs.Rows[i].Values[metric] = math.Log10(v)
		}
	}
	return &logs
}

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
		Name: "bench-ml-1m-ranked", Source: "MovieLens 1M", Title: "rankings for a tenth of the users, held out",
		Data: onBothScales("ml-1m"), Options: sweep.Options{Skip: []string{"algorithm=ease epsilon=1", "algorithm=ease epsilon=5", "algorithm=ease epsilon=20"}},
		Grid: "algorithm=private-item-bias,ssp-c,private-ease,ease epsilon=1,5,20,inf feedback=implicit baselines=quick",
	},
	{
		Name: "bench-ml-10m", Source: "MovieLens 10M", Title: "ratings, 80/10/10 at random, δ = 1e-5",
		Data: onBothScales("ml-10m"), Sizes: onBothScales("split.validation=0.1"),
		Grid: "algorithm=private-item-bias,dpals,dp-cmf,ssp-c epsilon=1,5,20,inf delta=1e-5 baselines=quick",
	},
	{
		Name: "bench-ml-20m", Source: "MovieLens 20M", Title: "rankings for 10,000 held-out users, as in Liang et al. 2018",
		Data: onBothScales("ml-20m"), Sizes: onBothScales("split.test=10000 split.validation=10000 statistics.top-items=0.1"),
		Grid: "algorithm=private-item-bias,ada-dpals,dp-cmf,ssp-c,private-ease epsilon=1,5,20,inf " +
			"feedback=implicit split.least=5 split.target=exact delta=7e-6 baselines=quick",
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
