package study

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/typo"
	"github.com/fedsim/fedsim/results"
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

// CommonMetrics are the names of the numbers that a person wants to see, if runs have them. Tables show them first.
var CommonMetrics = []string{"epsilon_achieved", "test_rmse", "test_mae", "recall@20", "ndcg@20"}

// Table returns the table of the runs. It always has algorithm, data, epsilon (as requested), seed
// and the keys in which runs differ.
func (runs Runs) Table() *Table {
	t := &Table{primary: runs[0].Primary(), Notes: runs.apart()}
	t.Keys = []*config.Key{algorithm.Name.Key, algorithm.Data.Key, algorithm.Epsilon.Key, algorithm.Seed.Key}
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Summary.Privacy.Chosen.By != "" }) {
		t.Keys = append(t.Keys, algorithm.ChosenBy.Key) // no reader may take their ε for the ε of one run
	}
	asked, derived := runs.Differing()
	there := func(k *config.Key) bool { return slices.Contains(t.Keys, k) }
	t.Keys = append(t.Keys, slices.DeleteFunc(asked, there)...)
	t.Derived = slices.DeleteFunc(derived, there)
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
	t.Metrics = slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Or(rankOf(a)-rankOf(b), strings.Compare(a, b)) })
	slices.SortStableFunc(t.Rows, t.order)
	return t
}

// columns returns all keys, for machines.
func (t *Table) columns() []*config.Key { return slices.Concat(t.Keys, t.Derived) }

// rankOf returns the place of a number in CommonMetrics.
func rankOf(name string) int {
	if i := slices.Index(CommonMetrics, name); i >= 0 {
		return i
	}
	return len(CommonMetrics)
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
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// Shown returns the table with only the numbers that a person wants to see.
func (t *Table) Shown() *Table {
	s := *t
	s.Metrics = slices.DeleteFunc(slices.Clone(t.Metrics), func(name string) bool {
		base, what, _ := strings.Cut(name, " ")
		return name != "runs" && rankOf(base) == len(CommonMetrics) || what != "" && base != t.primary
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
	private := 0
	for _, group := range t.groups(over) {
		row := Row{Name: group[0].Name, Settings: group[0].Settings, Values: map[string]float64{"runs": float64(len(group))}}
		for _, r := range group {
			row.runs = append(row.runs, r.runs...)
		}
		for _, name := range t.Metrics {
			s := row.runs.Sample(name)
			if s.N > 0 {
				row.Values[name] = s.Mean
			}
			if s.N > 1 {
				row.Values[name+" sd"] = s.Deviation
			}
		}
		if slices.ContainsFunc(m.Rows, func(r Row) bool {
			return !slices.ContainsFunc(m.Keys, func(k *config.Key) bool { return r.Settings[k.Name] != row.Settings[k.Name] })
		}) {
			m.Notes = append(m.Notes, fmt.Sprintf("Rows look alike and are kept apart, such as %s: their starts or their versions of fedsim differ, or one was given a setting, as by --from, that a rule chose for the other.", row.Name))
		}
		m.Rows = append(m.Rows, row)
		if first := row.runs[0]; spends(first.Config, first.Summary) {
			private++
		}
	}
	if private > 1 {
		m.Notes = append(m.Notes, choiceNote)
	}
	if note := seedsNote(m.Rows); note != "" && slices.Contains(over, algorithm.Seed.Key) {
		m.Notes = append(m.Notes, note)
	}
	return m
}

// choiceNote tells who picks a setting from a table that the picking is a search.
const choiceNote = "A choice of settings by these errors is a search. If the ratings are private, no ε of a row covers the choice; fedsim tune --private pays for one."

// spends reports whether a run states an ε of ratings that were not made up.
func spends(c config.Config, s results.Summary) bool {
	return !math.IsInf(s.Privacy.Epsilon, 1) && !strings.HasPrefix(algorithm.Data.Of(c), "synthetic:")
}

// groups returns the rows whose runs belong together, in the order of their first.
func (t *Table) groups(over []*config.Key) [][]Row {
	var runs Runs
	of := make(map[*Run]Row, len(t.Rows))
	for _, row := range t.Rows {
		runs = append(runs, row.runs[0])
		of[row.runs[0]] = row
	}
	return lists.Map(runs.together(over...), func(g Runs) []Row {
		return lists.Map(g, func(r *Run) Row { return of[r] })
	})
}

// value returns a number of a row; NaN if the row lacks it.
func (r Row) value(name string) float64 {
	if v, ok := r.Values[name]; ok {
		return v
	}
	return math.NaN()
}

// Print writes the table for people, in the width of w: columns that are equal in all rows stand above it.
func (t *Table) Print(w io.Writer) error {
	same, columns := t.settings()
	rows := [][]string{slices.Concat(columns, t.Metrics)}
	for _, r := range t.Rows {
		cells := lists.Map(columns, func(c string) string { return r.Settings[c] })
		cells = append(cells, lists.Map(t.Metrics, r.Shown)...)
		rows = append(rows, cells)
	}
	width := screen.Width(w)
	text := ""
	if len(same) > 0 {
		text = screen.Fit(strings.Join(same, "  ")+"\n\n", width)
	}
	text += screen.Table(rows, len(columns), width)
	for i, note := range t.Notes {
		if i == 0 {
			text += "\n"
		}
		text += screen.Fit(note+"\n", width)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Shown formats a number of a row for people.
func (r Row) Shown(name string) string {
	switch v := r.value(name); {
	case math.IsNaN(v):
		return "-"
	case name == "runs" || name == "pairs":
		return strconv.Itoa(int(v))
	case strings.HasSuffix(name, " sd") && math.Abs(v) < 1e6: // as many digits as its mean
		return strconv.FormatFloat(v, 'f', 4, 64)
	case v == math.Trunc(v) && math.Abs(v) < 1e12:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case math.Abs(v) < 1e-3 || math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	default:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
}

// CSV writes all columns; a number that a row lacks is an empty field.
func (t *Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := append([]string{"run"}, names(t.columns())...)
	if err := out.Write(append(head, t.Metrics...)); err != nil {
		return err
	}
	for _, r := range t.Rows {
		cells := []string{r.Name}
		cells = append(cells, lists.Map(t.columns(), func(k *config.Key) string { return r.Settings[k.Name] })...)
		for _, m := range t.Metrics {
			cell := ""
			if v := r.value(m); !math.IsNaN(v) {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			cells = append(cells, cell)
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// JSON writes a list of objects with the columns of CSV; a number that a row lacks, or that
// is infinite, is null.
func (t *Table) JSON(w io.Writer) error {
	rows := make([]map[string]any, 0, len(t.Rows))
	for _, r := range t.Rows {
		row := map[string]any{"run": r.Name}
		for _, k := range t.columns() {
			row[k.Name] = r.Settings[k.Name]
		}
		for _, m := range t.Metrics {
			row[m] = nil
			if v := r.value(m); !math.IsNaN(v) && !math.IsInf(v, 0) {
				row[m] = v
			}
		}
		rows = append(rows, row)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

// Metric returns the full name of one of the table's numbers. A name is whole, such as test_rmse,
// or its last part, such as rmse or ndcg@10. Case does not count. The error of an unknown name
// holds the most similar names.
func (t *Table) Metric(name string) (string, error) {
	typed := strings.ToLower(strings.TrimSpace(name))
	var ends []string
	for _, m := range t.Metrics {
		if strings.ToLower(m) == typed {
			return m, nil
		}
		if lastPart(m) == typed {
			ends = append(ends, m)
		}
	}
	// The test's numbers come first: baselines and slices have errors of the same name.
	for _, from := range []string{"test_", "ranking."} {
		if m := from + typed; slices.Contains(ends, m) {
			return m, nil
		}
	}
	switch len(ends) {
	case 1:
		return ends[0], nil
	case 0:
		nearest := typo.Nearest(typed, slices.DeleteFunc(slices.Clone(t.Metrics), describes), lastPart)
		return "", fmt.Errorf("no run has a metric %q; the most similar are %s; --format json prints all", name, strings.Join(nearest[:min(3, len(nearest))], ", "))
	}
	return "", fmt.Errorf("several metrics end in %q: %s; give one of them", name, strings.Join(ends, ", "))
}

// Choose returns the table with only these numbers, in this order. names are separated by commas
// and are as in [Table.Metric].
func (t *Table) Choose(names string) (*Table, error) {
	chosen := *t
	chosen.Metrics = nil
	for name := range strings.SplitSeq(names, ",") {
		m, err := t.Metric(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(chosen.Metrics, m) {
			chosen.Metrics = append(chosen.Metrics, m)
		}
	}
	return &chosen, nil
}

// lastPart returns a metric's name without its levels and without "test_", in lower case.
func lastPart(name string) string {
	return strings.ToLower(strings.TrimPrefix(name[strings.LastIndexByte(name, '.')+1:], "test_"))
}

// betterIf says which numbers of a metric are the better ones.
type betterIf int

const (
	neither betterIf = iota // the metric describes, and does not judge
	lower
	higher
)

// describes reports whether a number is of something else than the run's whole test.
func describes(metric string) bool {
	return slices.ContainsFunc([]string{"baselines.", "test_slices.", "popularity.", "users."}, func(of string) bool { return strings.HasPrefix(metric, of) })
}

// betterOf returns how numbers of a metric compare.
func betterOf(metric string) betterIf {
	if describes(metric) {
		return neither
	}
	base, _, _ := strings.Cut(lastPart(metric), "@")
	return called[base].better
}

// called holds what a paper calls keys and metrics, and which numbers are the better ones, by the last part of their names.
var called = map[string]struct {
	label  string
	better betterIf
}{
	"algorithm": {label: "Algorithm"}, "data": {label: "Data"}, "seed": {label: "Seed"}, "runs": {label: "Runs"}, "unit": {label: "Unit"}, "delta": {label: "δ"},
	"epsilon": {label: "ε"}, "epsilon_achieved": {label: "ε reached"},
	"rmse": {"RMSE", lower}, "rmse_with_drift": {"RMSE with drift", lower}, "mse": {"MSE", lower}, "mae": {"MAE", lower},
	"recall": {"Recall", higher}, "full_recall": {"Recall (of all)", higher}, "precision": {"Precision", higher},
	"ndcg": {"NDCG", higher}, "map": {"MAP", higher}, "mrr": {"MRR", higher}, "hit": {"HR", higher},
	"sampled_hit": {"HR (sampled)", higher}, "sampled_ndcg": {"NDCG (sampled)", higher},
	"corrected_hit": {"HR (corrected)", higher}, "corrected_ndcg": {"NDCG (corrected)", higher},
}

// labelOf returns what a paper calls a key or a metric: NDCG@10 for ranking.ndcg@10.
func labelOf(name string) string {
	base, cutoff, at := strings.Cut(lastPart(name), "@")
	label := called[base].label
	switch {
	case label == "" || describes(name):
		return name
	case at:
		return label + "@" + cutoff
	}
	return label
}

// AxisLabel names a metric on an axis: its label, its unit, and which numbers are the better ones.
func AxisLabel(metric string) string {
	label := labelOf(metric)
	if metric == rmse || metric == "test_mae" {
		label = "test " + label + ", stars"
	}
	return label + [...]string{neither: "", lower: " (lower is better)", higher: " (higher is better)"}[betterOf(metric)]
}

// HigherIsBetter reports whether the higher numbers of a metric are the better ones.
func HigherIsBetter(metric string) bool { return betterOf(metric) == higher }
