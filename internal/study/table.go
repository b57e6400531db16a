package study

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// Table has a row for each run, or for each group of runs that differ in a seed alone.
type Table struct {
	Keys    []*config.Key // the keys in which rows were asked to differ, and the keys that are always shown
	Derived []*config.Key // keys that differ because others do; only machines read them
	Metrics []string      // names of numbers, in their order
	Rows    []Row
	Notes   []string // what rows have in common and what keeps them apart, in sentences
	primary string
}

// Row is a run, or a group of them.
type Row struct {
	Name     string            // of the run; of the first run of a group
	Settings map[string]string // by the names of Keys
	Values   map[string]float64
	runs     Runs
}

// CommonMetrics returns the names of the metrics that tables show first.
func CommonMetrics() []string { return slices.Clone(shownFirst) }

// shownFirst holds the numbers that a person wants to see, if runs have them.
var shownFirst = []string{"epsilon_achieved", "test_rmse", "test_mae", "recall@20", "ndcg@20"}

// Table returns the table of the runs. It always has algorithm, data, epsilon (as requested), seed
// and the keys in which runs differ.
func (runs Runs) Table() *Table {
	t := &Table{primary: runs[0].Primary(), Notes: runs.apart()}
	t.Keys = []*config.Key{algorithm.Name.Key, algorithm.Data.Key, algorithm.Epsilon.Key, algorithm.Seed.Key}
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Summary.Privacy.Chosen.By != "" }) {
		t.Keys = append(t.Keys, algorithm.ChosenBy.Key) // no reader may take their ε for the ε of one run
	}
	asked, derived := runs.Differing()
	for _, k := range asked {
		if !slices.Contains(t.Keys, k) {
			t.Keys = append(t.Keys, k)
		}
	}
	t.Derived = slices.DeleteFunc(derived, func(k *config.Key) bool { return slices.Contains(t.Keys, k) })
	names := make(map[string]bool)
	for _, r := range runs {
		row := Row{Name: r.Name, Settings: make(map[string]string), Values: r.Values, runs: Runs{r}}
		for _, k := range t.columns() {
			row.Settings[k.Name] = r.Setting(k)
		}
		for name := range r.Values {
			names[name] = true
		}
		t.Rows = append(t.Rows, row)
	}
	for name := range names {
		t.Metrics = append(t.Metrics, name)
	}
	slices.SortFunc(t.Metrics, func(a, b string) int {
		if x, y := rankOf(a), rankOf(b); x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	slices.SortStableFunc(t.Rows, t.order)
	return t
}

// columns returns all keys, for machines.
func (t *Table) columns() []*config.Key { return slices.Concat(t.Keys, t.Derived) }

// rankOf returns the place of a number in shownFirst.
func rankOf(name string) int {
	if i := slices.Index(shownFirst, name); i >= 0 {
		return i
	}
	return len(shownFirst)
}

// order puts rows in the order of their settings, numbers by their size.
func (t *Table) order(a, b Row) int {
	for _, k := range t.Keys {
		if c := compareTexts(a.Settings[k.Name], b.Settings[k.Name]); c != 0 {
			return c
		}
	}
	return strings.Compare(a.Name, b.Name)
}

// compareTexts compares numbers as such and other texts by their letters.
func compareTexts(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil && x != y {
		if x < y {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// Shown returns the table with only the numbers that a person wants to see.
func (t *Table) Shown() *Table {
	s := *t
	s.Metrics = slices.DeleteFunc(slices.Clone(t.Metrics), func(name string) bool {
		base, what, _ := strings.Cut(name, " ")
		return name != "runs" && rankOf(base) == len(shownFirst) || what != "" && base != t.primary
	})
	return &s
}

// Over returns the keys over which rows are averaged, such as seeds.
func (t *Table) Over(names string) ([]*config.Key, error) {
	var keys []*config.Key
	for name := range strings.SplitSeq(names, ",") {
		k := config.Find(strings.TrimSpace(name))
		if k == nil {
			return nil, config.Wrap(new(config.Config).Set(name, ""))
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Means has a row for each group of rows that differ only in the keys over. It has the mean of each
// number NAME, the standard deviation "NAME sd" of a single run (n-1), and the number of runs,
// "runs". A group of one has no deviation.
func (t *Table) Means(over []*config.Key) *Table {
	m := &Table{primary: t.primary, Notes: slices.Clone(t.Notes)}
	m.Keys = slices.DeleteFunc(slices.Clone(t.Keys), func(k *config.Key) bool { return slices.Contains(over, k) })
	m.Metrics = []string{"runs"}
	for _, name := range t.Metrics {
		m.Metrics = append(m.Metrics, name, name+" sd")
	}
	var groups []Runs
	for _, group := range t.groups(over) {
		row := Row{Name: group[0].Name, Settings: group[0].Settings, Values: map[string]float64{"runs": float64(len(group))}}
		for _, r := range group {
			row.runs = append(row.runs, r.runs...)
		}
		for _, name := range t.Metrics {
			s := row.runs.sample(name)
			if s.N > 0 {
				row.Values[name] = s.Mean
			}
			if s.N > 1 {
				row.Values[name+" sd"] = s.Deviation
			}
		}
		groups = append(groups, row.runs)
		if slices.ContainsFunc(m.Rows, func(r Row) bool {
			return !slices.ContainsFunc(m.Keys, func(k *config.Key) bool { return r.Settings[k.Name] != row.Settings[k.Name] })
		}) {
			m.Notes = append(m.Notes, fmt.Sprintf("Rows look alike and are kept apart, such as %s: their starts or their versions of fedsim differ.", row.Name))
		}
		m.Rows = append(m.Rows, row)
	}
	if note := seedsNote(groups); note != "" && slices.Contains(over, algorithm.Seed.Key) {
		m.Notes = append(m.Notes, note)
	}
	return m
}

// groups returns the rows whose runs belong together, in the order of their first.
func (t *Table) groups(over []*config.Key) (all [][]Row) {
	var runs Runs
	of := make(map[*Run]Row, len(t.Rows))
	for _, row := range t.Rows {
		runs = append(runs, row.runs[0])
		of[row.runs[0]] = row
	}
	for _, g := range runs.together(over...) {
		rows := make([]Row, len(g))
		for i, r := range g {
			rows[i] = of[r]
		}
		all = append(all, rows)
	}
	return all
}

// value returns a number of a row; NaN if the row lacks it.
func (r Row) value(name string) float64 {
	if v, ok := r.Values[name]; ok {
		return v
	}
	return math.NaN()
}

// Shown formats a number of a row for people.
func (r Row) Shown(metric string) string { return shown(metric, r.value(metric)) }
