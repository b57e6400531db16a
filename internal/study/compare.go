package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

// Comparison compares two models on the same test, by user.
type Comparison struct {
	A          string     `json:"a"`
	B          string     `json:"b"`
	Metric     string     `json:"metric"` // test_rmse, or one of lists such as ndcg@10
	Users      int        `json:"users"`  // users with test ratings, or with a relevant item
	Ratings    int        `json:"ratings,omitempty"`
	ValueA     float64    `json:"value_a"`
	ValueB     float64    `json:"value_b"`
	Difference float64    `json:"difference"` // B less A
	Interval   [2]float64 `json:"interval"`   // 95%, by the bootstrap
	P          float64    `json:"p"`          // two-sided, by the bootstrap
	PSwap      float64    `json:"p_randomisation"`
	Resamples  int        `json:"resamples"`
	BetterA    int        `json:"users_better_in_a"`
	BetterB    int        `json:"users_better_in_b"`
	// Passed counts rows of a file of predictions that name a user or an item unknown to the run.
	Passed int `json:"rows_passed_over,omitempty"`
	// Note says that a choice between two runs on private ratings is a search.
	Note string `json:"note,omitempty"`
}

// CompareParams say how to compare.
type CompareParams struct {
	Metric    string `placeholder:"NAME" help:"What to compare: rmse, or one of lists such as ndcg@10. Default: rmse, or recall@20 of rankings."`
	Resamples int    `default:"10000" placeholder:"N" help:"How often users are drawn anew."`
	Seed      uint64 `default:"1" placeholder:"N" help:"Seed of the draws."`
}

// rmse is the metric of errors; all others are of lists.
const rmse = "test_rmse"

// Compare tests whether one model is better than another. Each of a and b is the folder of a
// finished run, or a file with what a method outside fedsim predicts on the run's test
// ([recommend.Tested.OpenOutside]); at least one is a run. Two runs must have the same test. Compare
// looks at users and not at ratings, because ratings of a user are alike. The results say how far
// the difference depends on the tested users, not how far on the seed of the training. There are
// two tests: users drawn anew with replacement (the bootstrap, which also gives the interval), and
// the users' values swapped at random between the models (Fisher's randomisation).
func Compare(ctx context.Context, a, b string, p CompareParams) (*Comparison, error) {
	c := &Comparison{A: a, B: b, Resamples: p.Resamples}
	models, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if c.Metric, err = metricOf(p.Metric, models[0].Stars()); err != nil {
		return nil, err
	}
	var of [2]map[int]userSum
	for i, m := range models {
		if of[i], err = sums(m, c.Metric); err != nil {
			return nil, err
		}
	}
	var users [][2]userSum
	for _, u := range slices.Sorted(maps.Keys(of[0])) { // draws are by place
		x := of[0][u]
		y, ok := of[1][u]
		if !ok {
			return nil, fmt.Errorf("user %d has a value in %s and none in %s", u, a, b)
		}
		users = append(users, [2]userSum{x, y})
		if c.Metric == rmse {
			c.Ratings += x.n
		}
	}
	c.Users = len(users)
	c.measure(users, entropy.Public(p.Seed, "bootstrap").IntN)
	c.test(users, entropy.Public(p.Seed, "randomisation").IntN)
	return c, nil
}

// open opens both models, and checks that their tests are the same.
func (c *Comparison) open(ctx context.Context) (models [2]*recommend.Tested, err error) {
	paths, file := [2]string{c.A, c.B}, [2]bool{isFile(c.A), isFile(c.B)}
	if file[0] && file[1] {
		return models, config.Errorf("%s and %s are both files of predictions; give the folder of a run and one file", c.A, c.B)
	}
	if !file[0] && !file[1] {
		if c.Note, err = sameTest(c.A, c.B); err != nil {
			return models, err
		}
	}
	for i, path := range paths {
		if file[i] {
			continue
		}
		if models[i], err = recommend.OpenTested(ctx, path); err != nil {
			return models, err
		}
	}
	if i := slices.Index(file[:], true); i >= 0 {
		if models[i], err = models[1-i].OpenOutside(ctx, paths[i]); err == nil {
			c.Passed = models[i].Passed
		}
	}
	return models, err
}

// sameTest checks that two runs were tested on the same ratings, and says what that means if both spent budget on them.
func sameTest(a, b string) (note string, err error) {
	x, err := results.Read(a)
	if err != nil {
		return "", err
	}
	y, err := results.Read(b)
	if err != nil {
		return "", err
	}
	if p, q := x.Manifest.SplitDigest, y.Manifest.SplitDigest; p != q {
		return "", config.Errorf("%s and %s were tested on different ratings (split %.8s and %.8s); give both the same data, seed and split", a, b, p, q)
	}
	if spends(x.Config, x.Summary) && spends(y.Config, y.Summary) {
		note = choiceNote
	}
	return note, nil
}

func metricOf(asked string, stars bool) (string, error) {
	name := cmp.Or(asked, map[bool]string{true: rmse, false: "recall@20"}[stars])
	if name == rmse || name == "rmse" {
		if !stars {
			return "", config.Errorf("--metric %s: the runs rank items and have no errors; take a metric of lists, such as recall@20", asked)
		}
		return rmse, nil
	}
	if _, _, err := eval.ListMetric(name); err != nil {
		return "", config.Errorf("--metric: %w; of errors there is rmse", err)
	}
	return name, nil
}

// userSum holds the sum over a user's test ratings, or the value of the user's list.
type userSum struct {
	n   int
	sum float64
}

// sums returns the sums of a model by user: of squared errors, or the value of a list.
func sums(m *recommend.Tested, metric string) (map[int]userSum, error) {
	all := make(map[int]userSum)
	var err error
	if metric == rmse {
		err = m.EachError(func(user int, d float64) {
			s := all[user]
			all[user] = userSum{s.n + 1, s.sum + d*d}
		})
	} else {
		of, k, bad := eval.ListMetric(metric)
		if bad != nil {
			return nil, bad
		}
		err = m.EachList(k, func(user int, wanted, list []int32) { all[user] = userSum{1, of(wanted, list)} })
	}
	if err == nil && len(all) == 0 {
		err = errors.New("there are no test ratings to compare on")
	}
	return all, err
}

// values returns the metric of both models over picked users. Some of them have their sums the other way round.
func (c *Comparison) values(users [][2]userSum, pick func(i int) (k int, swapped bool)) (v [2]float64) {
	var n int
	for i := range users {
		k, swapped := pick(i)
		u := users[k]
		if swapped {
			u[0], u[1] = u[1], u[0]
		}
		n += u[0].n
		v[0] += u[0].sum
		v[1] += u[1].sum
	}
	for i := range v {
		v[i] /= float64(n)
		if c.Metric == rmse {
			v[i] = math.Sqrt(v[i])
		}
	}
	return v
}

// measure sets the difference and what the bootstrap says of it; draw is a random number below n.
func (c *Comparison) measure(users [][2]userSum, draw func(n int) int) {
	v := c.values(users, func(i int) (int, bool) { return i, false })
	c.ValueA, c.ValueB, c.Difference = v[0], v[1], v[1]-v[0]
	for _, u := range users {
		switch a, b := u[0].sum, u[1].sum; {
		case math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)): // equal except for rounding: a saved model has single precision
		case (a < b) == (c.Metric == rmse):
			c.BetterA++
		default:
			c.BetterB++
		}
	}
	if c.Difference == 0 && c.BetterA+c.BetterB == 0 {
		c.P = 1
		return
	}
	drawn := make([]float64, c.Resamples)
	below := 0
	for k := range drawn {
		d := c.values(users, func(int) (int, bool) { return draw(len(users)), false })
		drawn[k] = d[1] - d[0]
		if drawn[k] < 0 {
			below++
		}
	}
	slices.Sort(drawn)
	c.Interval = [2]float64{stat.Quantile(0.025, stat.Empirical, drawn, nil), stat.Quantile(0.975, stat.Empirical, drawn, nil)}
	// One is added to both counts, so that p is never 0 (Davison and Hinkley 1997, section 4.2).
	tail := min(below, c.Resamples-below)
	c.P = min(1, 2*float64(tail+1)/float64(c.Resamples+1))
}

// test sets the p-value of the randomisation test. Wilcoxon's test of signed ranks answers another question (Smucker, Allan and
// Carterette 2007).
func (c *Comparison) test(users [][2]userSum, draw func(n int) int) {
	extreme := 0
	for range c.Resamples {
		v := c.values(users, func(i int) (int, bool) { return i, draw(2) == 1 })
		// A difference that is equal up to rounding counts as equal.
		if math.Abs(v[1]-v[0]) >= math.Abs(c.Difference)*(1-1e-12) {
			extreme++
		}
	}
	c.PSwap = float64(extreme+1) / float64(c.Resamples+1)
}

// Print writes the comparison in words and, of runs, what to do next.
func (c *Comparison) Print(w io.Writer) error {
	verdict := "The two cannot be told apart on these users."
	switch {
	case c.P >= 0.05:
	case (c.Difference < 0) == (c.Metric == rmse):
		verdict = "B is better."
	default:
		verdict = "A is better."
	}
	var b strings.Builder
	err := forms.ExecuteTemplate(&b, "compared", struct {
		*Comparison
		Label, Verdict string
	}{c, labelOf(c.Metric), verdict})
	if err != nil {
		return err
	}
	var next [][]string
	if !isFile(c.A) && !isFile(c.B) {
		next = [][]string{{"fedsim", "report", c.A, c.B}, {"fedsim", "overlap", c.A, c.B}}
	}
	return screen.Print(w, b.String(), next...)
}

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && !i.IsDir()
}

// noSetting stands in a table for a setting that a method outside fedsim does not have. The method
// makes no statement of privacy either.
const noSetting = "-"

// With adds a row for a method outside fedsim. text is NAME=FILE, or NAME:SEED=FILE if runs of
// different seeds have different tests. The file has what the method predicts on the test
// ([recommend.Tested.OpenOutside]). The row has the numbers that follow from the file: errors if it
// predicts every test rating, metrics of lists if it has a list for every user. warn is called with
// what the file lacks.
func (t *Table) With(ctx context.Context, text string, warn func(error)) error {
	name, file, ok := strings.Cut(text, "=")
	if !ok || name == "" || file == "" {
		return config.Errorf("--with %s: NAME=FILE is needed", text)
	}
	name, seed, seeded := strings.Cut(name, ":")
	base, err := t.baseOf(seed, seeded)
	if err != nil {
		return config.Errorf("--with %s: %w", text, err)
	}
	tested, err := recommend.OpenTested(ctx, base.Path)
	if err != nil {
		return err
	}
	o, err := tested.OpenOutside(ctx, file)
	if err != nil {
		return fmt.Errorf("--with %s: %w", text, err)
	}
	values, err := measured(o, base.Config, warn)
	if err != nil {
		return fmt.Errorf("--with %s: %w", text, err)
	}
	if o.Passed > 0 {
		warn(fmt.Errorf("%s: %d rows name a user or an item that the runs do not have, and are passed over", file, o.Passed))
	}
	run := &Run{Name: name, Path: file, Values: values}
	run.Config, run.Manifest = base.Config, base.Manifest
	run.Summary.Asked = map[string]string{algorithm.Name.Name: name, algorithm.Epsilon.Name: noSetting, algorithm.Seed.Name: base.Setting(algorithm.Seed.Key)}
	row := Row{Name: file, Values: values, Settings: make(map[string]string), runs: Runs{run}}
	for _, k := range t.columns() {
		row.Settings[k.Name] = noSetting
	}
	row.Settings[algorithm.Name.Name], row.Settings[algorithm.Data.Name] = name, base.Setting(algorithm.Data.Key)
	row.Settings[algorithm.Seed.Name] = base.Setting(algorithm.Seed.Key)
	t.Rows = append(t.Rows, row)
	more := slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(m string) bool { return slices.Contains(t.Metrics, m) })
	t.Metrics = append(t.Metrics, more...)
	return nil
}

// baseOf returns a run whose test a file is for: of one seed, or any if all runs have the same test.
func (t *Table) baseOf(seed string, seeded bool) (*Run, error) {
	var base *Run
	for _, row := range t.Rows {
		for _, r := range row.runs {
			switch {
			case r.Config.Text(algorithm.Name.Key) != row.Settings[algorithm.Name.Name]: // a file's
			case seeded && r.Setting(algorithm.Seed.Key) != seed:
			case base == nil:
				base = r
			case base.Manifest.SplitDigest != r.Manifest.SplitDigest:
				return nil, errors.New("the runs have different tests; say which seed's test the file predicts, NAME:SEED=FILE, and give a file for each (a sweep has one test for all seeds)")
			}
		}
	}
	if base == nil {
		return nil, fmt.Errorf("no run has the seed %s", seed)
	}
	return base, nil
}

// measured returns the numbers that follow from a file of predictions.
func measured(o *recommend.Tested, c config.Config, warn func(error)) (map[string]float64, error) {
	values := make(map[string]float64)
	var n, squares, absolute float64
	noErrors := o.EachError(func(_ int, d float64) { n, squares, absolute = n+1, squares+d*d, absolute+math.Abs(d) })
	if noErrors == nil {
		values["test_mse"], values["test_mae"] = squares/n, absolute/n
		values[rmse] = math.Sqrt(squares / n)
	}
	noLists := listsOf(o, c, values)
	switch {
	case noErrors != nil && noLists != nil:
		return nil, errors.Join(noErrors, noLists)
	case noErrors != nil && !algorithm.Ranks(c):
		warn(fmt.Errorf("no errors: %w", noErrors))
	case noLists != nil:
		warn(fmt.Errorf("no metrics of lists: %w", noLists))
	}
	return values, nil
}

// listsOf adds the metrics of lists, at the lengths that the runs were measured at.
func listsOf(o *recommend.Tested, c config.Config, values map[string]float64) error {
	cutoffs, err := algorithm.Cutoffs(c)
	if err != nil || cutoffs == nil {
		return err
	}
	var users float64
	sums := make(map[string]float64)
	err = o.EachList(slices.Max(cutoffs), func(_ int, wanted, list []int32) {
		users++
		for _, k := range cutoffs {
			for _, v := range eval.JudgeList(wanted, list, k) {
				sums[v.Name] += v.Value
			}
		}
	})
	if err != nil {
		return err
	}
	for name, sum := range sums {
		values["ranking."+name] = sum / users
		if algorithm.Ranks(c) && slices.Contains(CommonMetrics, name) {
			values[name] = sum / users
		}
	}
	return nil
}
