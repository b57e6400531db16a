package study

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
)

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
		best := slices.MinFunc(rows, func(a, b int) int { return t.compare(metric, a, b) })
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

// compare orders two rows by a metric, the better first.
func (t *Table) compare(metric string, a, b int) int {
	c := cmp.Compare(t.Rows[a].value(metric), t.Rows[b].value(metric))
	if betterOf(metric) == higher {
		return -c
	}
	return c
}

// family says what tells rows apart, for so many tests of a metric.
func family(least, most int) string {
	many := fmt.Sprintf("%d tests", most)
	switch {
	case least < most:
		many = fmt.Sprintf("%d to %d tests", least, most)
	case most == 1:
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
	return describe(x)
}

// holm adjusts p-values for their number, so that the probability of any false rejection stays
// below the level (Holm 1979). The k-th smallest of m, counted from 0, is multiplied by m-k. It
// becomes at least as large as the smaller ones, and at most 1.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted, before := make([]float64, len(p)), 0.
	for k, i := range order {
		before = max(before, min(1, p[i]*float64(len(p)-k)))
		adjusted[i] = before
	}
	return adjusted
}

// Standing is a row of means among the rows of equal ε and data.
type Standing struct {
	Sample
	Name string
	Open bool // not the best, and not told from the best
}

// Standings lists the rows of each finite ε and each data set by their mean of the primary metric, the best first. With
// several data sets an ε comes several times. The table is of means over seeds. tests says what tells rows apart; "" without a test.
func (t *Table) Standings() (epsilons []float64, rows [][]Standing, tests string) {
	metric := t.primary
	verdicts, n := t.verdicts(metric)
	type group struct {
		epsilon  float64
		measured string
	}
	var groups []group
	at := make(map[group][]int)
	for i, r := range t.Rows {
		if e := algorithm.Epsilon.Value(r.runs[0].Config); !math.IsInf(e, 1) && e > 0 && !math.IsNaN(r.value(metric)) {
			g := group{e, r.measured()}
			if at[g] == nil {
				groups = append(groups, g)
			}
			at[g] = append(at[g], i)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(a.epsilon, b.epsilon) })
	_, differing := t.settings()
	for _, g := range groups {
		list := at[g]
		slices.SortStableFunc(list, func(a, b int) int { return t.compare(metric, a, b) })
		var of []Standing
		for _, i := range list {
			of = append(of, Standing{Sample: t.Rows[i].runs.sample(metric), Name: t.Rows[i].label(differing), Open: verdicts[i].open})
		}
		epsilons, rows = append(epsilons, g.epsilon), append(rows, of)
	}
	if n > 0 {
		tests = family(n, n)
	}
	return epsilons, rows, tests
}

// sample describes a number of runs.
func (runs Runs) sample(metric string) Sample {
	var x []float64
	for _, r := range runs {
		if v, ok := r.Values[metric]; ok {
			x = append(x, v)
		}
	}
	return describe(x)
}

// label names a row by settings, except ε.
func (r Row) label(settings []string) string {
	named := slices.DeleteFunc(slices.Clone(settings), func(name string) bool { return name == algorithm.Epsilon.Name })
	return cmp.Or(listed(named, func(name string) string { return r.Settings[name] }), r.Settings[algorithm.Name.Name])
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
