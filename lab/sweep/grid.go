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
	"cmp"
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
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/internal/units"
)

// axis is a key with its values, which are settings of one origin.
type axis struct {
	key    *config.Key
	values []config.Setting
	zipped bool // with keys that have equally many values
	with   int  // the place of the axis that gives the place of a value: its own, or the first of those it is zipped with
}

// Options holds the options of a grid beside keys and values. Each text is as on the command line.
type Options struct {
	// Zip names keys, with commas between, that take their first values together, then their
	// second ones, and so on. They have equally many.
	Zip []string `placeholder:"KEY,KEY" sep:"none" help:"Keys that take their values together instead of in all combinations; may be repeated."`
	// Skip leaves out the combinations in which keys have these values: "KEY=VALUE KEY=VALUE".
	Skip []string `placeholder:"KEY=VALUE..." sep:"none" help:"Combinations to leave out, in quotes: 'algorithm=lfl-sgdmf epsilon=inf'; may be repeated."`
	// When adds settings to some combinations: "KEY=VALUE ...: KEY=VALUE ...".
	When []string `placeholder:"COND: KEY=VALUE..." sep:"none" help:"Settings of some combinations alone: 'algorithm=vfl-sgdmf: parties=5'; may be repeated."`
}

// Grid describes runs.
type Grid struct {
	axes []axis // in the order of the command line; the last changes fastest
	// Last returns the folder that start-from=last stands for. It is called once, so that all runs start from the same
	// release. Without it such runs are refused.
	Last func() (string, error)
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
	Name   string            `json:"name"`          // of its folder: the values that distinguish it, and the start of its digest
	Digest string            `json:"config_digest"` // SHA-256 of the configuration, without where and how it runs
	Varied map[string]string `json:"varied"`        // the values of keys with more than one
	Config config.Config     `json:"-"`
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
		texts, err := expand(k, s.Value)
		if err != nil {
			errs.Add("%s: %w", s.Origin, err)
			continue
		}
		at, origin := g.at(s.Key), s.Origin
		if at >= 0 {
			origin = g.axes[at].values[0].Origin
		}
		values := lists.Map(texts, func(v string) config.Setting { return config.Setting{Key: s.Key, Value: v, Origin: origin} })
		switch {
		case at < 0:
			g.axes = append(g.axes, axis{key: k, values: values, with: len(g.axes)})
		case i > 0 && source(said[i-1]) == source(s) && said[i-1].Key == s.Key:
			g.axes[at].values = append(g.axes[at].values, values...) // a list's next element
		case !slices.Equal(g.axes[at].values, values):
			before := lists.Map(g.axes[at].values, func(s config.Setting) string { return s.Value })
			errs = append(errs, config.Twice(config.Setting{Key: s.Key, Value: strings.Join(before, ","), Origin: origin}, s))
		}
	}
	errs = append(errs, g.options(o)...)
	for _, a := range g.axes {
		seen := make(map[string]bool)
		for _, s := range a.values {
			errs.If(seen[s.Value], "%s: %s has the value %s twice", s.Origin, s.Key, s.Value)
			seen[s.Value] = true
		}
	}
	return g, config.Wrap(errors.Join(errs...))
}

// at is the place of the axis of a key; -1 without one.
func (g *Grid) at(name string) int {
	return slices.IndexFunc(g.axes, func(a axis) bool { return a.key.Name == name })
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

func (g *Grid) options(o Options) (errs problems.List) {
	for _, text := range o.Zip {
		if err := g.zip(strings.Split(text, ",")); err != nil {
			errs.Add("--zip %s: %w", text, err)
		}
	}
	for _, text := range o.Skip {
		c, err := settings(text)
		if err != nil {
			errs.Add("--skip %q: %w", text, err)
		}
		g.skip = append(g.skip, c)
	}
	for _, text := range o.When {
		where, then, ok := strings.Cut(text, ": ")
		if !ok {
			errs.Add("--when %q: KEY=VALUE ...: KEY=VALUE ... is needed, with a colon and a space between", text)
			continue
		}
		c, err := settings(where)
		t, err2 := settings(then)
		if err = errors.Join(err, err2); err != nil {
			errs.Add("--when %q: %w", text, err)
		}
		g.when = append(g.when, rule{c, t})
	}
	return errs
}

// zip has keys change together. Each must have equally many values.
func (g *Grid) zip(names []string) error {
	first := -1
	for _, name := range names {
		at := g.at(strings.TrimSpace(name))
		if at < 0 {
			return fmt.Errorf("%s has no values; give it some", name)
		}
		a := &g.axes[at]
		if a.zipped {
			return fmt.Errorf("%s is zipped already", name)
		}
		if first < 0 {
			first = at
		}
		if f := g.axes[first]; len(a.values) != len(f.values) {
			return fmt.Errorf("%s has %d values and %s has %d; keys that are zipped have equally many", f.key.Name, len(f.values), name, len(a.values))
		}
		a.zipped, a.with = true, first
	}
	if len(names) < 2 {
		return errors.New("two keys or more are needed")
	}
	return nil
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
	return !slices.ContainsFunc(c, func(want config.Setting) bool {
		return !slices.ContainsFunc(values, func(s config.Setting) bool { return s.Key == want.Key && s.Value == want.Value })
	})
}

// Runs returns the experiments of the grid, without the skipped combinations. Combinations that
// differ only in keys without effect are one run. The error names the runs that cannot be run.
func (g *Grid) Runs() ([]Run, error) {
	n := 1
	for k, a := range g.axes {
		if a.with == k {
			n *= len(a.values)
		}
		if n > mostRuns {
			return nil, config.Errorf("the grid has more than %d combinations", mostRuns)
		}
	}
	var runs []Run
	var wrong []error                  // each text once
	where := make(map[string][]string) // combinations that cannot be run, by the text of what is wrong
	seen := make(map[string]bool)
	pipes := make(map[string]bool) // whether data can be read once, looked up once
	tried, bad := 0, 0
	for i := range n {
		said := g.combination(i)
		if slices.ContainsFunc(g.skip, func(c condition) bool { return c.holds(said) }) {
			continue
		}
		tried++
		r, err := g.run(said)
		data := algorithm.Data.Of(r.Config)
		if _, known := pipes[data]; !known {
			pipes[data] = read.Once(data)
		}
		if err == nil && pipes[data] {
			err = fmt.Errorf("data: %s: a pipe or standard input can be read once, and a sweep reads the data in every run; save it to a file", data)
		}
		switch {
		case err != nil:
			text := err.Error()
			if bad++; where[text] == nil {
				wrong = append(wrong, err)
			}
			where[text] = append(where[text], cmp.Or(config.Join(g.varied(said)), config.Join(said)))
		case !seen[r.Digest]:
			seen[r.Digest] = true
			runs = append(runs, r)
		}
	}
	switch {
	case bad > 0 && tried == 1:
		return nil, config.Errorf("the only combination cannot be run:\n%w", refusals(wrong, where))
	case bad > 0:
		return nil, config.Errorf("%d of %d combinations cannot be run; mend them or leave them out with --skip:\n%w", bad, tried, refusals(wrong, where))
	case len(runs) == 0:
		return nil, config.Errorf("every combination is skipped")
	}
	return runs, nil
}

// refusals says each thing that is wrong once, of ten things at most, with the first combination that has it.
func refusals(wrong []error, where map[string][]string) error {
	const most = 10
	var errs problems.List
	for _, err := range wrong[:min(len(wrong), most)] {
		all := where[err.Error()]
		more := ""
		if len(all) > 1 {
			more = fmt.Sprintf(" and %d more", len(all)-1)
		}
		errs.Add("%s%s: %w", all[0], more, err)
	}
	errs.If(len(wrong) > most, "and %d other errors", len(wrong)-most)
	return errors.Join(errs...)
}

// combination returns the i-th combination, with the settings that the rules add to it.
func (g *Grid) combination(i int) (said []config.Setting) {
	at := make([]int, len(g.axes)) // places of values
	for k, a := range slices.Backward(g.axes) {
		if a.with == k {
			at[k] = i % len(a.values)
			i /= len(a.values)
		}
	}
	for _, a := range g.axes {
		said = append(said, a.values[at[a.with]])
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
func (g *Grid) varied(said []config.Setting) []config.Setting {
	return slices.DeleteFunc(slices.Clone(said), func(s config.Setting) bool {
		at := g.at(s.Key)
		return at < 0 || len(g.axes[at].values) < 2
	})
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
	r := Run{Varied: make(map[string]string), Digest: digest(c)}
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
	given := slices.ContainsFunc(said, func(s config.Setting) bool { return s.Key == algorithm.SplitSeed.Name })
	if given || slices.Contains(algorithm.KeysWithoutEffect(*c), algorithm.SplitSeed.Key) {
		return
	}
	first := *c
	if at := g.at(algorithm.Seed.Name); at >= 0 {
		first.Set(algorithm.Seed.Name, g.axes[at].values[0].Value) //nolint:errcheck // the run with it is refused
	}
	algorithm.SplitSeed.Set(c, algorithm.Seed.Of(first))
}

// digest returns the digest of the settings that a configuration computes with. The keys of [algorithm.Placing] and keys without effect
// do not count.
func digest(c config.Config) string {
	for _, k := range append(algorithm.KeysWithoutEffect(c), algorithm.Placing()...) {
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
	_, err := fmt.Fprintf(w, "%s%s\n", &text, units.Counted(len(runs), "run"))
	return err
}
