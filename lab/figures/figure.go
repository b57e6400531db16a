package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// Figure is a picture before it is drawn: lines with bands, or bars.
type Figure struct {
	ID     string // in file names and addresses: letters and dashes
	Title  string
	X, Y   string   // labels with units
	Log    bool     // the x axis is logarithmic
	LogY   bool     // so is the y axis; all values are above 0
	Bars   bool     // each series has a bar at each of Ticks
	Ticks  []string // names of the places 0, 1, ... on the x axis; nil: they are numbers
	Series []Series
	Note   string // a sentence that explains bands and lines
}

// Series is a line, or the bars of one colour.
type Series struct {
	Name      string
	X, Y      []float64
	Low, High []float64 // the band; nil where there is none
	Runs      int       // largest number of runs behind a point
	Level     bool      // a horizontal line to compare the others with
	Colour    int       // place in [Palette] and [Dashes]: fixed for an algorithm in all figures whose lines are algorithms
}

// Figures returns the figures that the runs allow, in the order of a report.
func Figures(runs study.Runs) ([]Figure, error) {
	all := []Figure{MetricByEpsilon(runs, runs[0].Primary())}
	makers := lists.Map(curves, func(c curve) func(study.Runs) (Figure, error) { return c.byRound })
	for _, of := range append(makers, secondsByStage, byPopularity, bytesByMessage) {
		f, err := of(runs)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	for i := range all {
		colour(runs, &all[i])
	}
	return slices.DeleteFunc(all, func(f Figure) bool { return len(f.Series) == 0 }), nil
}

// colour gives the series their colours.
func colour(runs study.Runs, f *Figure) {
	algorithms := slices.Compact(slices.Sorted(slices.Values(lists.Map(runs, (*study.Run).Algorithm))))
	seen := make(map[int]bool)
	for i := range f.Series {
		name, _, _ := strings.Cut(f.Series[i].Name, ",")
		at := slices.Index(algorithms, name)
		if at < 0 || seen[at] || f.Series[i].Level {
			at = i
		}
		seen[at] = true
		f.Series[i].Colour = at
	}
	if len(seen) < len(f.Series) { // two have one: then each gets its own
		for i := range f.Series {
			f.Series[i].Colour = i
		}
	}
}

// groupsByCost returns groups over all ε if ε does not change the bytes of a client, and groups by
// ε otherwise: rounds and rank may follow ε.
func groupsByCost(runs study.Runs) (groups []study.Runs, label func(study.Runs) string) {
	groups, label = runs.Groups(algorithm.Epsilon.Key)
	const alike = 0.01 // dropouts alone change it by less
	for _, g := range groups {
		least, most := math.Inf(1), 0.0
		for _, r := range g {
			cost := r.Values["bytes_up"] + r.Values["bytes_down"]
			least, most = min(least, cost), max(most, cost)
		}
		if most > least*(1+alike) {
			return runs.Groups()
		}
	}
	return groups, label
}

// sampled makes a series of the values at each x: their mean, and one deviation to both sides.
func sampled(name string, at map[float64][]float64) Series {
	s := Series{Name: name}
	for _, x := range slices.Sorted(maps.Keys(at)) {
		d := study.Describe(at[x])
		half := d.Deviation
		if d.N < 2 {
			half = 0
		}
		s.X, s.Y = append(s.X, x), append(s.Y, d.Mean)
		s.Low, s.High = append(s.Low, d.Mean-half), append(s.High, d.Mean+half)
		s.Runs = max(s.Runs, d.N)
	}
	if s.Runs < 2 {
		s.Low, s.High = nil, nil
	}
	return s
}

// curve is a number of every round.
type curve struct {
	id, title, y, note string
	of                 func(results.Metrics) (float64, bool)
	// time puts rounds at the virtual time at which they ended, clock at the seconds of wall time that training took until then.
	time, clock bool
}

// learned returns the quality after a round.
func learned(m results.Metrics) (float64, bool) {
	switch {
	case m.RatingMetrics != nil:
		return m.RMSE, true
	case m.RankingMetrics != nil:
		return m.Recall, true
	}
	return 0, false
}

var curves = []curve{
	{id: "learning", title: "Learning curves", of: learned, note: "Means over seeds with bands of one standard deviation. The simulator measures every round; no budget is spent on that."},
	{id: "clock", title: "Quality over the wall clock", clock: true, of: learned, note: "Seconds are the time of training up to the end of a round, without measuring. They depend on the machine and its load. In a resumed run the first round includes the rounds before."},
	{id: "epsilon", title: "Privacy spent by round", y: "ε so far", note: "The cost of the rounds so far for a unit that took part in all of them.", of: func(m results.Metrics) (float64, bool) {
		if m.Epsilon == nil {
			return 0, false
		}
		return *m.Epsilon, true
	}},
	{id: "dropouts", title: "Clients lost, over the time of the federation", y: "share of clients lost in a round, %", time: true, note: "Time runs in the simulated network, not in the simulation. A point stands at the end of a round.", of: func(m results.Metrics) (float64, bool) {
		if m.Federated == nil || m.Alive+m.Dropped == 0 {
			return 0, false
		}
		return 100 * float64(m.Dropped) / float64(m.Alive+m.Dropped), true
	}},
}

// manyLines limits the groups in a figure by round; more cannot be distinguished.
const manyLines = 8

// few leaves out groups if there are many: it keeps the groups of the largest budget.
func (f *Figure) few(groups []study.Runs) []study.Runs {
	if len(groups) <= manyLines {
		return groups
	}
	most := 0.0
	for _, g := range groups {
		if e := algorithm.Epsilon.Value(g[0].Config); !math.IsInf(e, 1) {
			most = max(most, e)
		}
	}
	if some := slices.DeleteFunc(slices.Clone(groups), func(g study.Runs) bool { return algorithm.Epsilon.Value(g[0].Config) != most }); len(some) > 0 {
		groups = some
		f.Note += fmt.Sprintf(" Shown are the runs with ε = %g.", most)
	}
	if n := len(groups); n > manyLines {
		f.Note += fmt.Sprintf(" Of %d groups of runs the first %d are shown.", n, manyLines)
	}
	return groups[:min(len(groups), manyLines)]
}

// of labels the y axis with a metric and returns the runs that have it. The note counts the others.
func (f *Figure) of(runs study.Runs, metric string) study.Runs {
	f.Y = study.AxisLabel(metric)
	has := slices.DeleteFunc(slices.Clone(runs), func(r *study.Run) bool { _, ok := r.Values[metric]; return !ok })
	if n := len(runs) - len(has); n > 0 {
		f.Note += fmt.Sprintf(" Runs without this metric are left out: %d of %d.", n, len(runs))
	}
	return has
}

// byRound draws a number of every round.
func (c curve) byRound(runs study.Runs) (Figure, error) {
	f := Figure{ID: c.id, Title: c.title, X: "round", Y: c.y, Note: c.note}
	if c.y == "" {
		runs = f.of(runs, runs[0].Primary())
	}
	switch {
	case c.time:
		f.X = "virtual time, minutes"
	case c.clock:
		f.X = "seconds on the wall clock"
	}
	groups, label := runs.Groups()
	for _, g := range f.few(groups) {
		at, ends := make(map[float64][]float64), make(map[int][]float64)
		for _, r := range g {
			all, err := roundsOf(r)
			if err != nil {
				return f, err
			}
			var clock map[int]float64
			if c.clock {
				if clock, err = clockOf(r); err != nil {
					return f, err
				}
			}
			minutes := 0.0
			for _, m := range all {
				if m.Federated != nil {
					minutes += m.Seconds / 60
				}
				end, timed := minutes, true
				if c.clock {
					end, timed = clock[m.Round]
				}
				if v, ok := c.of(m); ok && timed {
					at[float64(m.Round)] = append(at[float64(m.Round)], v)
					ends[m.Round] = append(ends[m.Round], end)
				}
			}
		}
		if len(at) == 0 {
			continue
		}
		s := sampled(label(g), at)
		if c.time || c.clock {
			for i, x := range s.X {
				s.X[i] = study.Describe(ends[int(x)]).Mean
			}
		}
		f.Series = append(f.Series, s)
	}
	return f, nil
}

// bars adds a series for each group: at each of some names the numbers of its runs, if they have one. Names for which all runs have
// 0 or nothing are left out.
func (f *Figure) bars(groups []study.Runs, label func(study.Runs) string, names []string, of func(*study.Run) (map[string]float64, error)) (err error) {
	groups = f.few(groups)
	values := make(map[*study.Run]map[string]float64)
	for _, r := range slices.Concat(groups...) {
		if values[r], err = of(r); err != nil {
			return err
		}
	}
	for _, name := range names {
		for _, v := range values {
			if v[name] > 0 && !slices.Contains(f.Ticks, name) {
				f.Ticks = append(f.Ticks, name)
			}
		}
	}
	for _, g := range groups {
		at := make(map[float64][]float64)
		for _, r := range g {
			for k, name := range f.Ticks {
				if v, ok := values[r][name]; ok {
					at[float64(k)] = append(at[float64(k)], v)
				}
			}
		}
		if len(at) > 0 {
			f.Series = append(f.Series, sampled(label(g), at))
		}
	}
	return nil
}

// byPopularity returns the error in buckets of items, from the most rated items to the least rated.
func byPopularity(runs study.Runs) (Figure, error) {
	f := Figure{ID: "popularity", Title: "Error by popularity of items", X: "items, from the most to the least rated", Y: "test RMSE, stars (lower is better)", Bars: true,
		Note: "Each bucket has as many items; the tail has few ratings to test on. Bars are means over seeds, lines on them one standard deviation."}
	groups, label := runs.Groups()
	buckets := []string{"head", "2", "3", "4", "tail"}
	err := f.bars(groups, label, buckets, func(r *study.Run) (map[string]float64, error) {
		of := make(map[string]float64)
		for k, name := range buckets {
			if v, ok := r.Values["test_slices."+strconv.Itoa(k)+".rmse"]; ok {
				of[name] = v
			}
		}
		return of, nil
	})
	f.Series = slices.DeleteFunc(f.Series, func(s Series) bool { return len(s.X) < len(buckets) })
	return f, err
}

// bytesByMessage returns the bytes that a client sends and receives over the run, by kind of
// message.
func bytesByMessage(runs study.Runs) (Figure, error) {
	f := Figure{ID: "bytes", Title: "Bytes of a client, by message", X: "message", Y: "kB over the whole run", Bars: true, Note: "Means over clients and runs; up and down together."}
	groups, label := groupsByCost(runs)
	var kinds []string
	for k := range protocol.Kinds {
		kinds = append(kinds, k.String())
	}
	err := f.bars(groups, label, kinds, func(r *study.Run) (map[string]float64, error) {
		of := make(map[string]float64)
		for _, kind := range kinds {
			of[kind] = (r.Values["bytes_up_per_client."+kind] + r.Values["bytes_down_per_client."+kind]) / 1000
		}
		return of, nil
	})
	for i := range f.Series {
		f.Series[i].Low, f.Series[i].High = nil, nil
	}
	return f, err
}

// secondsByStage returns the duration of the stages of a round, in virtual time.
func secondsByStage(runs study.Runs) (Figure, error) {
	f := Figure{ID: "stages", Title: "The time of a round, by stage", X: "stage", Y: "seconds of virtual time", Bars: true,
		Note: "Time runs in the simulated network. A stage that loses a client lasts until its timeout. Bars are means over rounds and seeds, lines on them one standard deviation."}
	groups, label := groupsByCost(runs)
	var stages []string
	for s := range protocol.Stages {
		stages = append(stages, s.String())
	}
	err := f.bars(groups, label, stages, func(r *study.Run) (map[string]float64, error) {
		all, err := roundsOf(r)
		all = slices.DeleteFunc(all, func(m results.Metrics) bool { return m.Federated == nil })
		mean := make(map[string]float64)
		for _, m := range all {
			for stage, seconds := range m.Stages {
				mean[stage] += seconds
			}
		}
		maps.DeleteFunc(mean, func(_ string, sum float64) bool { return sum == 0 })
		for stage := range mean {
			mean[stage] /= float64(len(all))
		}
		return mean, err
	})
	return f, err
}

// Places returns the values of x at which the figure has points, in their order. Lines for
// comparison have no points of their own.
func (f *Figure) Places() []float64 {
	var all []float64
	for _, s := range f.Series {
		if !s.Level {
			all = append(all, s.X...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

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

// MetricByEpsilon returns a metric, by its full name, against the requested ε. It leaves out runs
// without noise; the baseline without noise shows their quality. Most baselines have the metric that
// compares the runs, and no other. Lists have popularity beside them in every metric.
func MetricByEpsilon(runs study.Runs, metric string) Figure {
	f := Figure{ID: "quality", Title: "Quality against the privacy budget", X: "ε of the whole run (smaller is more private)", Log: true,
		Note: "Lines are means over seeds, bands one standard deviation of a single run to both sides. Grey lines are baselines; those without noise are the same model at the settings of that ε."}
	runs = f.of(runs, metric)
	groups, label := runs.Groups(algorithm.Epsilon.Key)
	ends := [2]float64{math.Inf(1), math.Inf(-1)}
	for _, g := range groups {
		if s := byEpsilon(g, label(g), metric); len(s.X) > 0 {
			f.Series = append(f.Series, s)
			ends = [2]float64{min(ends[0], s.X[0]), max(ends[1], s.X[len(s.X)-1])}
		}
	}
	switch {
	case len(f.Series) == 0:
		return f
	case ends[0] == ends[1]:
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
		if v, ok := r.Values[name]; ok {
			seed := r.Setting(algorithm.Seed.Key)
			if before, seen := bySeed[seed]; seen && before != v {
				return false
			}
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

// Outline returns the points around the band: above it to the right, and below it back.
func (s Series) Outline() (x, y []float64) {
	back, low := slices.Clone(s.X), slices.Clone(s.Low)
	slices.Reverse(back)
	slices.Reverse(low)
	return slices.Concat(s.X, back), slices.Concat(s.High, low)
}

// Bar returns the ends of the k-th bar of the i-th series on the x axis.
func (f *Figure) Bar(i, k int) (left, right float64) {
	const all = 0.8 // of the room between ticks
	width := all / float64(len(f.Series))
	left = f.Series[i].X[k] - all/2 + float64(i)*width
	return left, left + width*0.9
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
