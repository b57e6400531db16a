// Package presets has the studies of the papers' figures: for each a grid of runs, the paper's
// claims about it, and tests of the claims on the runs.
//
// A figure is a declaration of a few lines in figures.yaml.
package presets

import (
	"cmp"
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/lab/sweep"
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

//go:embed figures.yaml benchmarks.yaml
var files embed.FS

// All returns the presets of the papers' figures, in the order of the papers.
var All = sync.OnceValue(func() []Preset { return presetsOf("figures.yaml") })

// Benchmarks returns the presets of published data sets. All needs no download, so these are apart from it.
var Benchmarks = sync.OnceValue(func() []Preset { return presetsOf("benchmarks.yaml") })

func presetsOf(name string) (list []Preset) {
	text, err := files.ReadFile(name)
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, &list, yaml.Strict())
	}
	if err != nil {
		panic(err) // the file is a part of the program
	}
	return list
}

// Find returns the preset of a name.
func Find(name string) (Preset, error) {
	var names []string
	for _, p := range slices.Concat(All(), Benchmarks()) {
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
	scale, least := func(v float64) float64 { return v }, 0.0
	if c.Times > 0 {
		scale, least = math.Log10, math.Log10(c.Times)
	}
	s, pairs, err := t.Paired(c.Lower, c.Than, c.Baseline, metric, scale)
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
