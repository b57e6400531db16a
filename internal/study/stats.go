package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
)

// Sample describes numbers of several runs.
type Sample struct {
	N               int
	Mean, Deviation float64 // Deviation is the deviation of a single number (n-1); each is NaN for too few numbers
}

// Describe returns the mean of numbers and their deviation.
func Describe(x []float64) Sample {
	mean, deviation := stat.MeanStdDev(x, nil)
	return Sample{len(x), mean, deviation}
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
	if s.Mean == 0 {
		return 1
	}
	t := math.Abs(s.Mean) / (s.Deviation / math.Sqrt(float64(s.N)))
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.N - 1)}.Survival(t)
}

// Against compares each group of rows with the group that meets a condition, such as
// "algorithm=lfl-sgdmf". A pair differs only in the keys of the condition. The numbers of a row are
// the differences of one metric, run by run with equal values of the keys over: their mean "METRIC
// difference", "sd", "margin" (95%, Student), "p" and "pairs".
func (t *Table) Against(text, metric string, over []*config.Key) (*Table, error) {
	want, err := conditionOf(text)
	named := slices.Collect(maps.Keys(want))
	strange := func(k *config.Key) bool { return !slices.Contains(t.Keys, k) }
	if err != nil || slices.ContainsFunc(named, strange) {
		return nil, config.Errorf("--against %q: KEY=VALUE of a key in which runs differ is needed", text)
	}
	is := func(r Row) bool { return len(want) > 0 && want.holds(r) }
	base := make(map[string]Row)
	for _, r := range t.Rows {
		if is(r) {
			base[r.runs[0].Alike(named...)] = r
		}
	}
	if len(base) == 0 {
		return nil, config.Errorf("--against %q: no run is like that", text)
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
		if s := Describe(x); s.N > 0 {
			d.Rows = append(d.Rows, Row{Name: group[0].Name, Settings: group[0].Settings, Values: map[string]float64{
				metric + " difference": s.Mean, "sd": s.Deviation, "margin": s.Margin(), "p": s.P(), "pairs": float64(s.N)}})
		}
	}
	if len(d.Rows) == 0 {
		return nil, config.Errorf("--against %q: no other run has a partner among them with %s and the same data, split, start and settings", text, metric)
	}
	return d, nil
}

// Primary returns the metric that compares the table's runs.
func (t *Table) Primary() string { return t.primary }

func names(keys []*config.Key) []string {
	return lists.Map(keys, func(k *config.Key) string { return k.Name })
}

// Paired returns the differences of a metric, on a scale, between rows that meet one condition and rows that
// meet another, such as "algorithm=ssp-c" and "algorithm=dpals". A pair has equal values of all
// keys that neither condition names. A baseline in place of the second, such as
// "baselines.local_only", is the baseline of the same run. The sample has one number for each seed,
// the mean of its differences: pairs of one seed have a split, and much noise, in common. pairs is
// the number of pairs, without numbers that the scale does not have.
func (t *Table) Paired(first, second, baseline, metric string, scale func(float64) float64) (s Sample, pairs int, err error) {
	a, err := conditionOf(first)
	b, err2 := conditionOf(second)
	if err = errors.Join(err, err2); err != nil {
		return s, 0, err
	}
	named := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	partners := make(map[string]float64)
	for _, r := range t.Rows {
		if baseline == "" && b.holds(r) {
			partners[r.runs[0].Alike(named...)] = r.value(metric)
		}
	}
	bySeed := make(map[string][]float64)
	for _, r := range t.Rows {
		if !a.holds(r) {
			continue
		}
		other, ok := partners[r.runs[0].Alike(named...)]
		if baseline != "" {
			other, ok = r.value(baseline), true
		}
		if d := scale(r.value(metric)) - scale(other); ok && !math.IsNaN(d) && !math.IsInf(d, 0) {
			seed := r.Settings[algorithm.Seed.Name]
			bySeed[seed] = append(bySeed[seed], d)
			pairs++
		}
	}
	x := lists.Map(slices.Sorted(maps.Keys(bySeed)), func(seed string) float64 { return Describe(bySeed[seed]).Mean })
	return Describe(x), pairs, nil
}

// condition holds values of keys that some rows have; the empty one holds for all.
type condition map[*config.Key]string

// conditionOf reads "KEY=VALUE KEY=VALUE".
func conditionOf(text string) (condition, error) {
	want := make(condition)
	for f := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(f, "=")
		k := config.Find(name)
		if !ok || k == nil {
			return nil, config.Errorf("%q is not KEY=VALUE", f)
		}
		want[k] = value
	}
	return want, nil
}

func (c condition) holds(r Row) bool {
	for k, v := range c {
		got, shown := r.Settings[k.Name]
		if !shown {
			got = r.runs[0].Setting(k)
		}
		if got != v {
			return false
		}
	}
	return true
}

// Tables of papers and pages use one family of tests, in this file. In each metric Student's paired test compares every row
// with the best row of equal ε and data, over seeds. Holm's correction is for all tests of the metric.

// verdict says how a row stands among rows of equal ε and data.
type verdict struct {
	best bool // the best of at least two
	open bool // not the best, and not told from the best
}

// verdicts returns the verdict on each row, and the number of tests. A row without two seeds in common with the best is not
// tested, and stays open. The table is of means, and metrics that judge nothing have no verdicts.
func (t *Table) verdicts(metric string) (list []verdict, tests int) {
	list = make([]verdict, len(t.Rows))
	better := betterOf(metric)
	if better == neither {
		return list, 0
	}
	rivals := make(map[[2]string][]int)
	for i, r := range t.Rows {
		if of := [2]string{r.Settings[algorithm.Epsilon.Name], r.measured()}; !math.IsNaN(r.value(metric)) {
			rivals[of] = append(rivals[of], i)
		}
	}
	var tested []int
	var p []float64
	for _, rows := range rivals {
		best := slices.MinFunc(rows, func(a, b int) int { return compare(metric, t.Rows[a].value(metric), t.Rows[b].value(metric)) })
		list[best].best = len(rows) > 1
		for _, i := range rows {
			if i == best {
				continue
			}
			list[i].open = true
			if s := differences(t.Rows[i].runs, t.Rows[best].runs, metric); s.N > 1 {
				tested, p = append(tested, i), append(p, s.P())
			}
		}
	}
	for k, adjusted := range holm(p) {
		list[tested[k]].open = adjusted >= 0.05
	}
	return list, len(p)
}

// measured names the data and the file of tests. Errors on different ratings do not compare.
func (r Row) measured() string {
	return r.Settings[algorithm.Data.Name] + "\n" + r.Settings[algorithm.SplitTestFile.Name]
}

// compare orders two numbers of a metric, the better first.
func compare(metric string, a, b float64) int {
	if betterOf(metric) == higher {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// family says what tells rows apart, for so many tests of a metric.
func family(least, most int) string {
	many := between(least, most) + " tests"
	if most == 1 {
		many = "one test"
	}
	return fmt.Sprintf("Student's paired test over seeds at 5%%, with Holm's correction for the %s of a metric", many)
}

// differences describes the differences of a metric between runs of the same seed.
func differences(a, b Runs, metric string) Sample {
	bySeed := make(map[string]float64)
	for _, r := range b {
		if v, ok := r.Values[metric]; ok {
			bySeed[r.Setting(algorithm.Seed.Key)] = v
		}
	}
	var x []float64
	for _, r := range a {
		v, ok := r.Values[metric]
		if w, paired := bySeed[r.Setting(algorithm.Seed.Key)]; ok && paired {
			x = append(x, v-w)
		}
	}
	return Describe(x)
}

// holm adjusts p-values for their number, so that the probability of any false rejection stays
// below the level (Holm 1979). The k-th smallest of m, counted from 0, is multiplied by m-k. It
// becomes at least as large as the smaller ones. A value above 1 is above every level.
func holm(p []float64) []float64 {
	order := model.Indices(len(p))
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(p[a], p[b]) })
	adjusted, before := make([]float64, len(p)), 0.
	for k, i := range order {
		before = max(before, p[i]*float64(len(p)-k))
		adjusted[i] = before
	}
	return adjusted
}

// Standings holds the rows of means of one finite ε and one data set, the best first.
type Standings struct {
	Epsilon  float64
	Rows     []Standing
	measured string
}

// Standing is a row of means among the rows of equal ε and data.
type Standing struct {
	Sample
	Name string
	Open bool // not the best, and not told from the best
}

// Open returns the rows that no test tells from the best.
func (s Standings) Open() []Standing {
	return slices.DeleteFunc(slices.Clone(s.Rows), func(x Standing) bool { return !x.Open })
}

// Standings lists the rows of each finite ε and each data set by their mean of the primary metric. With
// several data sets an ε comes several times. The table is of means over seeds. tests says what tells rows apart; "" without a test.
func (t *Table) Standings() (list []Standings, tests string) {
	metric := t.primary
	verdicts, n := t.verdicts(metric)
	_, differing := t.settings()
	differing = slices.DeleteFunc(differing, func(name string) bool { return name == algorithm.Epsilon.Name })
	for i, r := range t.Rows {
		e := algorithm.Epsilon.Value(r.runs[0].Config)
		if math.IsInf(e, 1) || !(e > 0) || math.IsNaN(r.value(metric)) {
			continue
		}
		at := slices.IndexFunc(list, func(s Standings) bool { return s.Epsilon == e && s.measured == r.measured() })
		if at < 0 {
			at = len(list)
			list = append(list, Standings{Epsilon: e, measured: r.measured()})
		}
		name := cmp.Or(listed(differing, func(name string) string { return r.Settings[name] }), r.Settings[algorithm.Name.Name])
		list[at].Rows = append(list[at].Rows, Standing{Sample: r.runs.Sample(metric), Name: name, Open: verdicts[i].open})
	}
	for _, s := range list {
		slices.SortStableFunc(s.Rows, func(a, b Standing) int { return compare(metric, a.Mean, b.Mean) })
	}
	slices.SortStableFunc(list, func(a, b Standings) int { return cmp.Compare(a.Epsilon, b.Epsilon) })
	if n > 0 {
		tests = family(n, n)
	}
	return list, tests
}

// Sample describes a number of runs.
func (runs Runs) Sample(metric string) Sample {
	var x []float64
	for _, r := range runs {
		if v, ok := r.Values[metric]; ok {
			x = append(x, v)
		}
	}
	return Describe(x)
}

// listed writes settings with their values. An algorithm has no name before it.
func listed(names []string, of func(name string) string) string {
	words := make([]string, len(names))
	for i, name := range names {
		if words[i] = name + " " + of(name); name == algorithm.Name.Name {
			words[i] = of(name)
		}
	}
	return strings.Join(words, ", ")
}
