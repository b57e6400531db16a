// Package sweep makes many experiments of one description, and runs them: by processes of this
// machine, or by an existing cluster.
//
//	g, err := sweep.New(settings, sweep.Options{Zip: []string{"rounds,local-steps"}})
//	runs, err := g.Runs()
//
// A [Grid] is a list of keys with their values. Its runs are all combinations of the values; zipped
// keys change together. Each run is an experiment of its own: the sweep leaves the results of
// fedsim run with its file, to the bit.
package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/problems"
)

// Axis is a key with its values.
type Axis struct {
	Key    *config.Key
	Values []string
	origin string
}

// Options holds the options of a grid beside keys and values. Each text is as on the command line.
type Options struct {
	// Zip names keys, with commas between, that take their first values together, then their
	// second ones, and so on. They have equally many.
	Zip []string
	// Skip leaves out the combinations in which keys have these values: "KEY=VALUE KEY=VALUE".
	Skip []string
	// When adds settings to some combinations: "KEY=VALUE ...: KEY=VALUE ...".
	When []string
}

// Grid describes runs.
type Grid struct {
	Axes []Axis // in the order of the command line; the last changes fastest
	// Last returns the folder that start-from=last stands for. It is called once, so that all runs start from the same
	// release. Without it such runs are refused.
	Last func() (string, error)
	zip  [][]*config.Key
	skip []condition
	when []rule
	last string // what Last returned
}

type condition []config.Setting

// rule gives settings where its condition holds.
type rule struct {
	where condition
	then  []config.Setting
}

// Run is one experiment of a grid.
type Run struct {
	Name   string            // of its folder: the values that distinguish it, and the start of its digest
	Varied map[string]string // the values of keys with more than one
	Config config.Config
	Digest string // SHA-256 of the configuration, without where and how it runs
	said   []config.Setting
}

// New makes a grid of settings: several settings of one key in one place are its values. Values from two places, such as a
// file and a flag, are an error if they differ.
func New(said []config.Setting, o Options) (*Grid, error) {
	g := new(Grid)
	var errs problems.List
	for i, s := range said {
		k := config.Find(s.Key)
		if k == nil {
			errs.Add("%s: %w", s.Origin, new(config.Config).Set(s.Key, s.Value))
			continue
		}
		values, err := expand(k, s.Value)
		if err != nil {
			errs.Add("%s: %w", s.Origin, err)
			continue
		}
		at := slices.IndexFunc(g.Axes, func(a Axis) bool { return a.Key == k })
		switch {
		case at < 0:
			g.Axes = append(g.Axes, Axis{Key: k, Values: values, origin: s.Origin})
		case i > 0 && source(said[i-1]) == source(s) && said[i-1].Key == s.Key:
			g.Axes[at].Values = append(g.Axes[at].Values, values...) // a list's next element
		case !slices.Equal(g.Axes[at].Values, values):
			errs = append(errs, config.Twice(config.Setting{Key: k.Name, Value: strings.Join(g.Axes[at].Values, ","), Origin: g.Axes[at].origin}, s))
		}
	}
	errs = append(errs, g.options(o)...)
	for _, a := range g.Axes {
		seen := make(map[string]bool)
		for _, v := range a.Values {
			errs.If(seen[v], "%s: %s has the value %s twice", a.origin, a.Key.Name, v)
			seen[v] = true
		}
	}
	return g, config.Wrap(errors.Join(errs...))
}

// source is a setting's origin without the line, which differs between elements of a list.
func source(s config.Setting) string {
	if at := strings.LastIndexByte(s.Origin, ':'); at > 0 {
		return s.Origin[:at]
	}
	return s.Origin
}

// spans are ranges of whole numbers.
var spans = regexp.MustCompile(`^(\d+)\.\.(\d+)$`)

// mostRuns limits a grid: a larger grid is a mistake.
const mostRuns = 100_000

// expand makes values of a text: "a,b" and, of whole numbers, "1..5". A key of any text, such
// as a path, may have commas in its value; it is given several times instead.
func expand(k *config.Key, text string) ([]string, error) {
	if k.Kind == config.Text && len(k.Words) == 0 {
		_, failed := os.Stat(text)
		if first, second, several := strings.Cut(text, ","); several && failed != nil && k == algorithm.Data.Key {
			return nil, fmt.Errorf("data %q is no file or folder, and a path may have commas; for several: --data %s --data %s", text, first, second)
		}
		return []string{text}, nil
	}
	var values []string
	for v := range strings.SplitSeq(text, ",") {
		v = strings.TrimSpace(v)
		m := spans.FindStringSubmatch(v)
		if m == nil || k.Kind != config.Whole && k.Kind != config.Seed {
			values = append(values, v)
			continue
		}
		from, err1 := strconv.ParseUint(m[1], 10, 64)
		to, err2 := strconv.ParseUint(m[2], 10, 64)
		if err1 != nil || err2 != nil || to < from || to-from >= mostRuns {
			return nil, fmt.Errorf("%q is not a range FROM..TO of at most %d whole numbers", v, mostRuns)
		}
		for n := from; n <= to; n++ {
			values = append(values, strconv.FormatUint(n, 10))
		}
	}
	return values, nil
}

func (g *Grid) options(o Options) (errs []error) {
	for _, text := range o.Zip {
		keys, err := g.zipped(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--zip %s: %w", text, err))
		}
		g.zip = append(g.zip, keys)
	}
	for _, text := range o.Skip {
		c, err := settings(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--skip %q: %w", text, err))
		}
		g.skip = append(g.skip, c)
	}
	for _, text := range o.When {
		where, then, ok := strings.Cut(text, ": ")
		if !ok {
			errs = append(errs, fmt.Errorf("--when %q: KEY=VALUE ...: KEY=VALUE ... is needed, with a colon and a space between", text))
			continue
		}
		c, err := settings(where)
		t, err2 := settings(then)
		if err = errors.Join(err, err2); err != nil {
			errs = append(errs, fmt.Errorf("--when %q: %w", text, err))
		}
		g.when = append(g.when, rule{c, t})
	}
	return errs
}

// zipped returns the keys that change together. Each must have equally many values.
func (g *Grid) zipped(text string) ([]*config.Key, error) {
	var keys []*config.Key
	n := 0
	for name := range strings.SplitSeq(text, ",") {
		at := slices.IndexFunc(g.Axes, func(a Axis) bool { return a.Key.Name == strings.TrimSpace(name) })
		if at < 0 {
			return nil, fmt.Errorf("%s has no values; give it some", name)
		}
		a := g.Axes[at]
		for _, other := range g.zip {
			if slices.Contains(other, a.Key) {
				return nil, fmt.Errorf("%s is zipped already", name)
			}
		}
		if n > 0 && len(a.Values) != n {
			return nil, fmt.Errorf("%s has %d values and %s has %d; keys that are zipped have equally many", keys[0].Name, n, name, len(a.Values))
		}
		keys, n = append(keys, a.Key), len(a.Values)
	}
	if len(keys) < 2 {
		return nil, errors.New("two keys or more are needed")
	}
	return keys, nil
}

// settings reads "KEY=VALUE KEY=VALUE".
func settings(text string) (list []config.Setting, err error) {
	for f := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(f, "=")
		k := config.Find(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is not KEY=VALUE", f)
		case k == nil:
			return nil, new(config.Config).Set(name, value)
		}
		list = append(list, config.Setting{Key: k.Name, Value: value, Origin: f})
	}
	if len(list) == 0 {
		return nil, errors.New("KEY=VALUE is needed")
	}
	return list, nil
}

// holds reports whether a condition holds for the values as they were given.
func (c condition) holds(values []config.Setting) bool {
	for _, want := range c {
		if !slices.ContainsFunc(values, func(s config.Setting) bool { return s.Key == want.Key && s.Value == want.Value }) {
			return false
		}
	}
	return true
}

// Runs returns the experiments of the grid, without the skipped combinations. Combinations that
// differ only in keys without effect are one run. The error names the runs that cannot be run.
func (g *Grid) Runs() ([]Run, error) {
	var runs []Run
	var bad refusals
	seen := make(map[string]bool)
	n, tried := g.size(), 0
	if n > mostRuns {
		return nil, config.Errorf("the grid has more than %d combinations", mostRuns)
	}
	for i := range n {
		said := g.combination(i)
		if slices.ContainsFunc(g.skip, func(c condition) bool { return c.holds(said) }) {
			continue
		}
		tried++
		r, err := g.run(said)
		if err == nil && algorithm.Data.Is(r.Config, "-") {
			err = errors.New("data: standard input can be read once, and a sweep reads the data in every run; save it to a file")
		}
		if err != nil {
			bad.add(config.Join(g.varied(said)), err)
			continue
		}
		if !seen[r.Digest] {
			seen[r.Digest] = true
			runs = append(runs, r)
		}
	}
	switch {
	case bad.all > 0:
		return nil, config.Errorf("%d of %d combinations cannot be run; mend them or leave them out with --skip:\n%w", bad.all, tried, bad.err())
	case len(runs) == 0:
		return nil, config.Errorf("every combination is skipped")
	}
	return runs, nil
}

// refusals are the combinations that cannot be run, by what is wrong.
type refusals struct {
	all   int // combinations
	wrong []error
	where map[string][]string // combinations, by the text of an error
}

func (r *refusals) add(combination string, err error) {
	if r.where == nil {
		r.where = make(map[string][]string)
	}
	r.all++
	text := err.Error()
	if r.where[text] == nil {
		r.wrong = append(r.wrong, err)
	}
	r.where[text] = append(r.where[text], combination)
}

// err says each thing that is wrong once, of ten things at most.
func (r *refusals) err() error {
	const most = 10
	var errs []error
	for _, err := range r.wrong[:min(len(r.wrong), most)] {
		all := r.where[err.Error()]
		where := all[0]
		if len(all) > 1 {
			where = fmt.Sprintf("%s and %d more", where, len(all)-1)
		}
		errs = append(errs, fmt.Errorf("%s: %w", where, err))
	}
	if left := len(r.wrong) - most; left > 0 {
		errs = append(errs, fmt.Errorf("and %d other errors", left))
	}
	return errors.Join(errs...)
}

func (g *Grid) size() int {
	n := 1
	for _, a := range g.Axes {
		if !g.follows(a.Key) {
			n *= len(a.Values)
		}
		if n > mostRuns {
			return n
		}
	}
	return n
}

// follows reports whether a key changes together with an earlier key.
func (g *Grid) follows(k *config.Key) bool {
	return slices.ContainsFunc(g.zip, func(z []*config.Key) bool { return slices.Index(z, k) > 0 })
}

// combination returns the i-th combination, with the settings that the rules add to it.
func (g *Grid) combination(i int) []config.Setting {
	at := make(map[*config.Key]int) // place of each axis
	for _, a := range slices.Backward(g.Axes) {
		if !g.follows(a.Key) {
			at[a.Key] = i % len(a.Values)
			i /= len(a.Values)
		}
	}
	var said []config.Setting
	for _, a := range g.Axes {
		k := a.Key
		for _, z := range g.zip {
			if slices.Contains(z, k) {
				k = z[0]
			}
		}
		said = append(said, config.Setting{Key: a.Key.Name, Value: a.Values[at[k]], Origin: a.origin})
	}
	for _, r := range g.when {
		if r.where.holds(said) {
			for _, s := range r.then {
				said = slices.DeleteFunc(said, func(x config.Setting) bool { return x.Key == s.Key })
				said = append(said, s)
			}
		}
	}
	return said
}

// varied returns the values of the keys that have several, in the order of the axes.
func (g *Grid) varied(said []config.Setting) (list []config.Setting) {
	for _, s := range said {
		if slices.ContainsFunc(g.Axes, func(a Axis) bool { return a.Key.Name == s.Key && len(a.Values) > 1 }) {
			list = append(list, s)
		}
	}
	return list
}

func (g *Grid) run(said []config.Setting) (Run, error) {
	c, err := config.Resolve(said)
	if err != nil {
		return Run{}, err
	}
	if algorithm.StartFrom.Is(c, "last") {
		if g.last == "" && g.Last != nil {
			if g.last, err = g.Last(); err != nil {
				return Run{}, err
			}
		}
		if g.last == "" {
			return Run{}, errors.New("start-from: name the folder of a run, since the newest is another one after each run")
		}
		algorithm.StartFrom.Set(&c, g.last)
	}
	g.share(&c, said)
	r := Run{Varied: make(map[string]string), Digest: digest(c), said: said}
	words := []string{algorithm.Name.Of(c)}
	for _, s := range g.varied(said) {
		r.Varied[s.Key] = s.Value
		if s.Key != algorithm.Name.Name {
			words = append(words, s.Key[strings.LastIndexByte(s.Key, '.')+1:]+s.Value)
		}
	}
	name := regexp.MustCompile(`[^A-Za-z0-9.+-]+`).ReplaceAllString(strings.Join(words, "-"), "-")
	r.Name = name[:min(len(name), 100)] + "-" + r.Digest[:8]
	algorithm.RunName.Set(&c, r.Name)
	r.Config = c
	return r, nil
}

// share has a run take its split from the first seed of the grid, so that runs that differ in one
// seed are trained and measured on the same ratings. A given split.seed, auto included, stays.
func (g *Grid) share(c *config.Config, said []config.Setting) {
	first := algorithm.Seed.Of(*c)
	if at := slices.IndexFunc(g.Axes, func(a Axis) bool { return a.Key == algorithm.Seed.Key }); at >= 0 {
		if v, err := strconv.ParseUint(g.Axes[at].Values[0], 10, 64); err == nil { // else runs with it are refused
			first = v
		}
	}
	if slices.ContainsFunc(said, func(s config.Setting) bool { return config.Find(s.Key) == algorithm.SplitSeed.Key }) {
		return
	}
	if !slices.Contains(algorithm.KeysWithoutEffect(*c), algorithm.SplitSeed.Key) {
		algorithm.SplitSeed.Set(c, first)
	}
}

// digest returns the digest of the settings that a configuration computes with. The place of the
// results, the number of goroutines and keys without effect do not count.
func digest(c config.Config) string {
	for _, k := range algorithm.KeysWithoutEffect(c) {
		c.Reset(k)
	}
	for _, k := range []*config.Key{algorithm.Out.Key, algorithm.RunName.Key, algorithm.Workers.Key} {
		c.Reset(k)
	}
	d := sha256.Sum256(c.YAML())
	return hex.EncodeToString(d[:])
}

// Print writes the names of runs, a line each, and their number.
func Print(w io.Writer, runs []Run) error {
	var text strings.Builder
	for _, r := range runs {
		text.WriteString(r.Name + "\n")
	}
	noun := "runs"
	if len(runs) == 1 {
		noun = "run"
	}
	_, err := fmt.Fprintf(w, "%s%d %s\n", &text, len(runs), noun)
	return err
}
