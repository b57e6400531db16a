// Package study looks at many finished runs at once: as a table ([Runs.Table]), as means and
// paired differences over seeds ([Table.Means], [Table.Against]) and as a test of one run against
// another ([Compare]). It draws nothing.
package study

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/results"
)

// Run is a finished run.
type Run struct {
	results.FinishedRun
	Name, Path string
	// Values holds the numbers of summary.json. Names have dots between levels; indices of a list
	// start at 0.
	Values map[string]float64

	shown map[*config.Key]string // names with digests, see [Runs.tell]
}

// Runs are finished runs in the order of their paths.
type Runs []*Run

// Load reads the runs in folders: a folder is a run itself, or contains runs, at any depth. Load
// ignores names that begin with a dot. It leaves out a run that it cannot read, and calls warn with
// the reason. If no run of a folder can be read, it returns an error. In the same
// way it leaves out a run with the settings, data and seed of an earlier run, so that the run
// counts once.
func Load(warn func(error), dirs ...string) (Runs, error) {
	var runs Runs
	for _, dir := range dirs {
		paths, err := Find(dir)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, config.Errorf("%s holds no finished run; fedsim run and fedsim sweep leave them in a folder", dir)
		}
		var damaged []error
		for _, path := range paths {
			if r, err := readRun(path); err == nil {
				runs = append(runs, r)
			} else {
				damaged = append(damaged, err)
			}
		}
		if len(damaged) == len(paths) {
			return nil, errors.Join(damaged...)
		}
		for _, err := range damaged {
			warn(fmt.Errorf("left out: %w", err))
		}
	}
	return runs.once(warn), nil
}

// once leaves out the runs that repeat a run before them.
func (runs Runs) once(warn func(error)) Runs {
	first := make(map[string]*Run, len(runs))
	kept := runs[:0:0]
	for _, r := range runs {
		id := r.identity()
		if before, seen := first[id]; seen {
			warn(fmt.Errorf("left out: %s repeats %s: the settings, the data and the seed are the same, so that they count as one run; take another --seed for a second one", r.Path, before.Path))
			continue
		}
		first[id] = r
		kept = append(kept, r)
	}
	kept.tell()
	return kept
}

// identity is the text of all that the figures of a run follow from.
func (r *Run) identity() string {
	c := r.Config
	for _, k := range slices.Concat(algorithm.Placing(), told) {
		c.Reset(k)
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s", r.Alike(), c.YAML(), r.Manifest.SplitDigest, r.Manifest.StartDigest)
}

// Find returns the folders of the runs in a folder, as [Load] reads them.
func Find(dir string) (runs []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir():
			return nil
		case err != nil:
			return err
		case path != dir && d.Name()[0] == '.':
			return filepath.SkipDir // a run that is not complete
		}
		if _, err = os.Stat(filepath.Join(path, "summary.json")); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		runs = append(runs, path)
		return filepath.SkipDir
	})
	return runs, err
}

func readRun(path string) (*Run, error) {
	f, err := results.Read(path)
	if err != nil {
		return nil, err
	}
	r := &Run{FinishedRun: *f, Name: filepath.Base(path), Path: path, Values: make(map[string]float64), shown: make(map[*config.Key]string)}
	var all any
	if err = atomicfile.ReadJSON(filepath.Join(path, "summary.json"), &all); err != nil {
		return nil, err
	}
	flatten(r.Values, "", all)
	for way, kinds := range map[string]map[string]int64{"bytes_up": f.Summary.BytesUpPerClient, "bytes_down": f.Summary.BytesDownPerClient} {
		for _, n := range kinds {
			r.Values[way] += float64(n)
		}
	}
	r.Values["rounds_attempted"] = r.Values["rounds"] // the setting has the name rounds
	delete(r.Values, "rounds")
	r.Values["epsilon_achieved"] = f.Summary.Privacy.Epsilon
	delete(r.Values, "privacy.epsilon")
	return r, nil
}

// flatten collects the numbers below a value.
func flatten(into map[string]float64, name string, v any) {
	below := func(key string, v any) {
		if name != "" {
			key = name + "." + key
		}
		flatten(into, key, v)
	}
	switch v := v.(type) {
	case float64:
		into[name] = v
	case map[string]any:
		for key, x := range v {
			if key != "settings" && key != "asked" {
				below(key, x)
			}
		}
	case []any:
		for i, x := range v {
			below(strconv.Itoa(i), x)
		}
	}
}

// Setting returns the value of a key, for people and for tables; of chosen-by, the search in a few words. Epsilon is the requested value. Data, tests and starts
// have names, not paths.
func (r *Run) Setting(k *config.Key) string {
	if k == algorithm.ChosenBy.Key {
		return r.Summary.Privacy.Chosen.String()
	}
	if slices.Contains(told, k) {
		return cmp.Or(r.shown[k], r.name(k))
	}
	return r.Config.Text(k)
}

// Algorithm is the name of the run's algorithm.
func (r *Run) Algorithm() string { return algorithm.Name.Of(r.Config) }

// Primary names the metric that compares a run: the test RMSE, or Recall@20 for rankings.
func (r *Run) Primary() string {
	if algorithm.Ranks(r.Config) {
		return "recall@20"
	}
	return "test_rmse"
}

// Differing returns the keys in which runs differ, in the order of their declaration: the requested
// keys, and the keys that follow from others by a rule. The keys of [algorithm.Placing] do not count.
func (runs Runs) Differing() (asked, derived []*config.Key) {
	for _, k := range config.Keys() {
		switch {
		case slices.Contains(algorithm.Placing(), k), !slices.ContainsFunc(runs, func(r *Run) bool { return r.Setting(k) != runs[0].Setting(k) }):
		case slices.ContainsFunc(runs, func(r *Run) bool { return r.Asked(k) != runs[0].Asked(k) }):
			asked = append(asked, k)
		default:
			derived = append(derived, k)
		}
	}
	return asked, derived
}

// This file says which runs belong together. Tables, means, differences, pictures and pages all ask [Runs.together].

// together returns groups of runs that differ only in the keys over and in what follows from them by a rule,
// in the order of their first runs. Data, tests and starts count by their content. A group has one run for each
// value of the keys over: if there are several, their starts or their versions of fedsim differ, and keep them apart.
func (runs Runs) together(over ...*config.Key) (groups []Runs) {
	ids, clash, seen := make([]string, len(runs)), make(map[string]bool), make(map[string]bool)
	for i, r := range runs {
		ids[i] = r.Alike(over...)
		one := ids[i]
		for _, k := range over {
			one += fmt.Sprintf("%q", r.Config.Text(k))
		}
		clash[ids[i]] = clash[ids[i]] || seen[one]
		seen[one] = true
	}
	at := make(map[string]int)
	for i, r := range runs {
		id := ids[i]
		if clash[id] {
			id += r.Manifest.StartDigest + " " + r.Manifest.Version + " " + r.Manifest.Revision
		}
		place, ok := at[id]
		if !ok {
			place = len(groups)
			at[id] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], r)
	}
	return groups
}

// Groups returns the runs that belong together over seeds and the keys that are left out, in the order of their settings. label
// names a group by the settings in which groups differ.
func (runs Runs) Groups(without ...*config.Key) (groups []Runs, label func(Runs) string) {
	without = append(without, algorithm.Seed.Key)
	asked, _ := runs.Differing()
	keys := slices.DeleteFunc(asked, func(k *config.Key) bool { return slices.Contains(without, k) })
	groups = runs.together(without...)
	slices.SortStableFunc(groups, func(a, b Runs) int {
		for _, k := range keys {
			if c := compareTexts(a[0].Setting(k), b[0].Setting(k)); c != 0 {
				return c
			}
		}
		return 0
	})
	called, used := make(map[*Run]string), make(map[string]int)
	for _, g := range groups {
		name := cmp.Or(listed(names(keys), func(name string) string { return g[0].Setting(config.Find(name)) }), g[0].Algorithm())
		if used[name]++; used[name] > 1 { // of another start or version
			name = fmt.Sprintf("%s (%d)", name, used[name])
		}
		called[g[0]] = name
	}
	return groups, func(g Runs) string { return called[g[0]] }
}

// told are the keys whose values are told by digests. People see names.
var told = []*config.Key{algorithm.SplitTestFile.Key, algorithm.StartFrom.Key, algorithm.FeatureSpec.Key, algorithm.Data.Key}

// name is the name of what a run has for one of the keys told.
func (r *Run) name(k *config.Key) string {
	switch {
	case k == algorithm.Data.Key:
		return r.Manifest.Data
	case k == algorithm.FeatureSpec.Key:
		return read.MapFeatureFiles(r.Config.Text(k), filepath.Base)
	case r.Asked(k) == "":
		return "none"
	case k == algorithm.SplitTestFile.Key:
		return filepath.Base(r.Config.Text(k))
	case len(r.Manifest.Sessions) == 2:
		return "1-session"
	}
	return fmt.Sprintf("%d-sessions", max(0, len(r.Manifest.Sessions)-1))
}

// tell names tests, starts, features and data. A name that stands for several contents gets the start of a digest. Data count together
// with a file of tests, whose ratings their digest covers.
func (runs Runs) tell() {
	for _, k := range told {
		name := func(r *Run) string {
			if k == algorithm.Data.Key {
				return r.name(k) + "\n" + r.Setting(algorithm.SplitTestFile.Key)
			}
			return r.name(k)
		}
		contents := make(map[string][]string)
		for _, r := range runs {
			filed := k != algorithm.FeatureSpec.Key || r.Manifest.FeaturesDigest != "" // other features have a name alone
			if c := r.Asked(k); filed && !slices.Contains(contents[name(r)], c) {
				contents[name(r)] = append(contents[name(r)], c)
			}
		}
		for _, r := range runs {
			if c := r.Asked(k); len(contents[name(r)]) > 1 {
				r.shown[k] = r.name(k) + "@" + c[:min(len(c), 8)]
			}
		}
	}
}

// apart says which names stand for several contents; nil if none does.
func (runs Runs) apart() (notes []string) {
	for _, k := range told {
		var names []string
		for _, r := range runs {
			if v := r.shown[k]; v != "" && !slices.Contains(names, v) {
				names = append(names, v)
			}
		}
		if len(names) > 0 {
			notes = append(notes, fmt.Sprintf("Kept apart, since names are equal and contents differ: %s %s.", k.Name, strings.Join(names, ", ")))
		}
	}
	return notes
}

// seedsNote says what ± is over, for rows of runs that differ in their seeds; "" for single runs.
func seedsNote(rows []Row) string {
	shared, own := false, false
	for _, row := range rows {
		for _, r := range row.runs[1:] {
			same := r.Manifest.SplitDigest == row.runs[0].Manifest.SplitDigest
			shared, own = shared || same, own || !same
		}
	}
	switch {
	case shared && own:
		return "Some seeds of a row share a split and others have their own: compare ± with care."
	case shared:
		return "The seeds of a row share one split: ± is of noise and starts, and not of other test ratings."
	case own:
		return "Each seed has a split of its own: ± covers other test ratings too."
	}
	return ""
}
