package figures

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/internal/study"

	"github.com/fedsim/fedsim/algorithm"
)

// withoutNoise is the baseline that may follow ε: rank and rounds, and so the model without noise, may.
const withoutNoise = "baselines.non_private"

// levelsOf returns the names of what is drawn beside a metric, by the names of its numbers.
func levelsOf(runs study.Runs, metric string) map[string]string {
	levels := make(map[string]string)
	if metric == runs[0].Primary() {
		levels["baselines.item_bias"], levels[withoutNoise] = "biases, not private", "without noise"
	}
	if name := metric[strings.LastIndexByte(metric, '.')+1:]; study.HigherIsBetter(metric) {
		levels["popularity.exact."+name], levels["popularity.released."+name] = "popularity by exact counts, not private", "popularity by released counts"
	}
	return levels
}

// QualityByEpsilon returns [MetricByEpsilon] of the metric that compares the runs.
func QualityByEpsilon(runs study.Runs) Figure { return MetricByEpsilon(runs, runs[0].Primary()) }

// MetricByEpsilon returns a metric, by its full name, against the requested ε. It leaves out runs
// without noise; the baseline without noise shows their quality. Most baselines have the metric that
// compares the runs, and no other. Lists have popularity beside them in every metric.
func MetricByEpsilon(runs study.Runs, metric string) Figure {
	f := Figure{ID: "quality", Title: "Quality against the privacy budget", X: "ε of the whole run (smaller is more private)", Y: study.AxisLabel(metric), Log: true,
		Note: "Lines are means over seeds, bands one standard deviation of a single run to both sides. Grey lines are baselines; those without noise are the same model at the settings of that ε."}
	groups, label := runs.Groups(algorithm.Epsilon.Key)
	ends := [2]float64{math.Inf(1), math.Inf(-1)}
	for _, g := range groups {
		if s := byEpsilon(g, label(g), metric); len(s.X) > 0 {
			f.Series = append(f.Series, s)
			ends = [2]float64{min(ends[0], s.X[0]), max(ends[1], s.X[len(s.X)-1])}
		}
	}
	if len(f.Series) == 0 {
		return f
	}
	if ends[0] == ends[1] {
		ends = [2]float64{ends[0] / 2, ends[1] * 2}
	}
	slices.SortStableFunc(f.Series, func(a, b Series) int { return cmp.Compare(b.Y[0], a.Y[0]) })
	f.Series = append(f.Series, baselines(groups, label, ends, levelsOf(runs, metric))...)
	colour(runs, &f)
	return f
}

// baselines draws one horizontal line between two ends for a baseline that runs of one seed have in
// common, and otherwise a line by ε for each group. The baseline without noise always has a line by ε.
func baselines(groups []study.Runs, label func(study.Runs) string, ends [2]float64, levels map[string]string) (list []Series) {
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		all := slices.Concat(groups...)
		switch values := all.Sample(name); {
		case values.N == 0:
		case name != withoutNoise && common(all, name):
			list = append(list, Series{Name: levels[name], X: ends[:], Y: []float64{values.Mean, values.Mean}, Level: true, Runs: values.N})
		default:
			for _, g := range groups {
				if s := byEpsilon(g, label(g)+" "+levels[name], name); len(s.X) > 0 {
					list = append(list, s.level(ends))
				}
			}
		}
	}
	return list
}

// common reports whether all runs of one seed have the same value of a number.
func common(runs study.Runs, name string) bool {
	bySeed := make(map[string]float64)
	for _, r := range runs {
		v, ok := r.Values[name]
		seed := r.Setting(algorithm.Seed.Key)
		if before, seen := bySeed[seed]; ok && seen && before != v {
			return false
		}
		if ok {
			bySeed[seed] = v
		}
	}
	return true
}

// byEpsilon returns the mean of a number at each finite ε.
func byEpsilon(runs study.Runs, title, name string) Series {
	at := make(map[float64][]float64)
	for _, r := range runs {
		v, ok := r.Values[name]
		if e := algorithm.Epsilon.Value(r.Config); ok && !math.IsInf(e, 1) && e > 0 {
			at[e] = append(at[e], v)
		}
	}
	return sampled(title, at)
}

// level makes a series a baseline without a band. A single point becomes a short horizontal dash.
func (s Series) level(ends [2]float64) Series {
	s.Level, s.Low, s.High = true, nil, nil
	if len(s.X) == 1 {
		e, y := s.X[0], s.Y[0]
		from, to := max(ends[0], e/1.2), min(ends[1], e*1.2)
		s.X, s.Y = []float64{from, e, to}, []float64{y, y, y}
	}
	return s
}

// At returns the value of a baseline at x. Between the ends of a horizontal line it is the line's
// value.
func (s Series) At(x float64) (y float64, ok bool) {
	if i := slices.Index(s.X, x); i >= 0 {
		return s.Y[i], true
	}
	if s.Level && len(s.X) == 2 && s.Y[0] == s.Y[1] && s.X[0] <= x && x <= s.X[1] {
		return s.Y[0], true
	}
	return 0, false
}
