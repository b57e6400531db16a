package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/results/recommend"
)

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
	for m := range values {
		if !slices.Contains(t.Metrics, m) {
			t.Metrics = append(t.Metrics, m)
		}
	}
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
func measured(o *recommend.Outside, c config.Config, warn func(error)) (map[string]float64, error) {
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
func listsOf(o *recommend.Outside, c config.Config, values map[string]float64) error {
	cutoffs, err := algorithm.Cutoffs(c)
	if err != nil {
		return err
	}
	if cutoffs == nil {
		return nil
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
		if algorithm.Ranks(c) && slices.Contains(shownFirst, name) {
			values[name] = sum / users
		}
	}
	return nil
}
