package study

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// Sample describes numbers of several runs.
type Sample struct {
	N               int
	Mean, Deviation float64 // Deviation is the deviation of a single number (n-1), NaN for one number alone
}

// describe returns the mean of numbers and their deviation.
func describe(x []float64) Sample {
	s := Sample{N: len(x), Mean: math.NaN(), Deviation: math.NaN()}
	if len(x) > 0 {
		s.Mean = stat.Mean(x, nil)
	}
	if len(x) > 1 {
		s.Deviation = stat.StdDev(x, nil)
	}
	return s
}

// Margin returns half the width of the 95% interval of the mean by Student's t; NaN for one number
// alone.
func (s Sample) Margin() float64 {
	if s.N < 2 {
		return math.NaN()
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.N - 1)}.Quantile(0.975)
	return t * s.Deviation / math.Sqrt(float64(s.N))
}

// P returns the two-sided p-value of Student's test that the mean is 0; NaN for one number alone.
func (s Sample) P() float64 {
	if s.N < 2 {
		return math.NaN()
	}
	if s.Deviation == 0 {
		if s.Mean == 0 {
			return 1
		}
		return 0
	}
	t := math.Abs(s.Mean) / (s.Deviation / math.Sqrt(float64(s.N)))
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.N - 1)}.Survival(t)
}

// Against compares each group of rows with the group that meets a condition, such as
// "algorithm=lfl-sgdmf". A pair differs only in the keys of the condition. The numbers of a row are
// the differences of one metric, run by run with equal values of the keys over: their mean "METRIC
// difference", "sd", "margin" (95%, Student), "p" and "pairs".
func (t *Table) Against(condition, metric string, over []*config.Key) (*Table, error) {
	want, err := conditionOf(condition)
	strange := func(k *config.Key) bool { return !slices.Contains(t.Keys, k) }
	if err != nil || slices.ContainsFunc(keysOf(want), strange) {
		return nil, config.Errorf("--against %q: KEY=VALUE of a key in which runs differ is needed", condition)
	}
	is := func(r Row) bool { return len(want) > 0 && r.meets(want) }
	named := keysOf(want)
	base := make(map[string]Row)
	for _, r := range t.Rows {
		if is(r) {
			base[r.runs[0].Alike(named...)] = r
		}
	}
	if len(base) == 0 {
		return nil, config.Errorf("--against %q: no run is like that", condition)
	}
	d := &Table{primary: metric, Metrics: []string{metric + " difference", "sd", "margin", "p", "pairs"}}
	d.Keys = slices.DeleteFunc(slices.Clone(t.Keys), func(k *config.Key) bool { return slices.Contains(over, k) })
	for _, group := range t.groups(over) {
		if is(group[0]) {
			continue
		}
		var x []float64
		for _, r := range group {
			if b, ok := base[r.runs[0].Alike(named...)]; ok && !math.IsNaN(r.value(metric)-b.value(metric)) {
				x = append(x, r.value(metric)-b.value(metric))
			}
		}
		if s := describe(x); s.N > 0 {
			d.Rows = append(d.Rows, Row{Name: group[0].Name, Settings: group[0].Settings, Values: map[string]float64{
				metric + " difference": s.Mean, "sd": s.Deviation, "margin": s.Margin(), "p": s.P(), "pairs": float64(s.N)}})
		}
	}
	if len(d.Rows) == 0 {
		return nil, config.Errorf("--against %q: no other run has a partner among them with %s and the same data, split, start and settings", condition, metric)
	}
	return d, nil
}

// Primary returns the metric that compares the table's runs.
func (t *Table) Primary() string { return t.primary }

func names(keys []*config.Key) (list []string) {
	for _, k := range keys {
		list = append(list, k.Name)
	}
	return list
}

// Paired returns the differences of a metric between rows that meet one condition and rows that
// meet another, such as "algorithm=ssp-c" and "algorithm=dpals". A pair has equal values of all
// keys that neither condition names. A baseline in place of the second, such as
// "baselines.local_only", is the baseline of the same run. The sample has one number for each seed,
// the mean of its differences: pairs of one seed have a split, and much noise, in common. pairs is
// the number of pairs.
func (t *Table) Paired(first, second, baseline, metric string) (s Sample, pairs int, err error) {
	a, err := conditionOf(first)
	b, err2 := conditionOf(second)
	if err = errors.Join(err, err2); err != nil {
		return s, 0, err
	}
	named := append(keysOf(a), keysOf(b)...)
	partners := make(map[string]float64)
	for _, r := range t.Rows {
		if baseline == "" && r.meets(b) {
			partners[r.runs[0].Alike(named...)] = r.value(metric)
		}
	}
	bySeed := make(map[string][]float64)
	for _, r := range t.Rows {
		if !r.meets(a) {
			continue
		}
		other, ok := partners[r.runs[0].Alike(named...)]
		if baseline != "" {
			other, ok = r.value(baseline), true
		}
		if d := r.value(metric) - other; ok && !math.IsNaN(d) {
			seed := r.Settings[algorithm.Seed.Name]
			bySeed[seed] = append(bySeed[seed], d)
			pairs++
		}
	}
	var x []float64
	for _, seed := range slices.Sorted(maps.Keys(bySeed)) {
		x = append(x, describe(bySeed[seed]).Mean)
	}
	return describe(x), pairs, nil
}

// keysOf returns the keys of a condition.
func keysOf(condition map[string]string) (keys []*config.Key) {
	for name := range condition {
		keys = append(keys, config.Find(name))
	}
	return keys
}

// conditionOf reads "KEY=VALUE KEY=VALUE"; "" is met by all.
func conditionOf(text string) (map[string]string, error) {
	want := make(map[string]string)
	for f := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(f, "=")
		k := config.Find(name)
		if !ok || k == nil {
			return nil, config.Errorf("%q is not KEY=VALUE", f)
		}
		want[k.Name] = value
	}
	return want, nil
}

func (r Row) meets(condition map[string]string) bool {
	for name, v := range condition {
		got, shown := r.Settings[name]
		if !shown {
			got = r.runs[0].Setting(config.Find(name))
		}
		if got != v {
			return false
		}
	}
	return true
}
