package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
)

type explainCmd struct {
	Name   string `arg:"" help:"An algorithm or a key: ssp-c, epsilon, split.test."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// explained is the explanation of an algorithm or a key. Facts are in the order in which they are printed.
type explained struct {
	Name  string
	Help  string
	Facts []fact
}

// fact is a line of an explanation: a text, or a list that people see with commas between.
type fact struct {
	name string
	is   any
}

// Print prints the explanation, wrapped to the width of the writer.
func (e explained) Print(w io.Writer) error {
	width := screen.Width(w)
	text := e.Name + "\n" + screen.Wrapped(e.Help, "  ", width) + "\n"
	for _, f := range e.Facts {
		if list, ok := f.is.([]string); ok {
			f.is = strings.Join(list, ", ")
		}
		text += screen.Wrapped(fmt.Sprintf("%s: %s", f.name, f.is), "  ", width)
	}
	_, err := io.WriteString(w, text)
	return err
}

// MarshalJSON makes one object: the name, the help and each fact by its name.
func (e explained) MarshalJSON() ([]byte, error) {
	all := map[string]any{"name": e.Name, "help": e.Help}
	for _, f := range e.Facts {
		all[f.name] = f.is
	}
	return json.Marshal(all)
}

func (e *explained) add(name string, is any) { e.Facts = append(e.Facts, fact{name, is}) }

// Run prints what an algorithm or a key does.
func (c *explainCmd) Run(s verb.Streams) error {
	name := strings.TrimLeft(c.Name, "-")
	if k := config.Find(strings.ToLower(name)); k != nil {
		return verb.PrintAs(s.Out, c.Format, explainKey(k))
	}
	a, err := algorithmNamed(name)
	if err != nil {
		return cli.Misusef("%q is neither an algorithm nor a key; %s; algorithms: %s",
			name, config.Near(name), strings.Join(algorithm.Names(), ", "))
	}
	return verb.PrintAs(s.Out, c.Format, explainAlgorithm(a.About()))
}

func explainKey(k *config.Key) explained {
	e := explained{Name: k.Name, Help: k.Help}
	e.add("values", k.Values())
	e.add("default", k.Standard())
	e.add("flag", map[bool]string{true: "--" + k.Name, false: "--set " + k.Name + "=VALUE"}[k.Flag])
	e.add("where", map[config.Scope]string{
		config.Simulated: "in simulations only", config.Deployed: "in deployments only; all parties agree on the value",
		config.Own: "each process has its own value", config.Agreed: "in simulations and deployments; all parties agree on the value",
	}[k.Scope])
	with := slices.DeleteFunc(algorithm.Names(), func(name string) bool { return !slices.Contains(algorithm.Find(name).About().Used(), k) })
	if len(with) == len(algorithm.Names()) {
		e.add("algorithms", "all")
	} else {
		e.add("algorithms", with)
	}
	return e
}

func explainAlgorithm(a *algorithm.About) explained {
	e := explained{Name: a.Name, Help: a.Help}
	if a.Paper != "" {
		e.add("source", a.Paper)
	}
	e.add("clients", a.Clients.String())
	if a.Private {
		units := lists.Map(a.Units, func(u dp.Unit) string {
			return map[dp.Unit]string{dp.User: "all ratings of a user", dp.Rating: "one rating", dp.Example: "one example"}[u]
		})
		e.add("protects", strings.Join(units, " or ")+", by "+a.Noise.String())
	} else {
		e.add("protects", "nothing: it adds no noise")
	}
	var c config.Config
	algorithm.Name.Set(&c, a.Name)
	for _, k := range []config.NumberKey{algorithm.Rounds, algorithm.Rank} {
		if !a.Has(k.Key) {
			continue
		}
		value := "depends on the data"
		if n := k.ChooseNumber(c, nil); n.Given {
			value = fmt.Sprintf("%v unless the settings or the data ask for another number", n)
		}
		e.add(k.Name, value)
	}
	used := lists.Map(a.Keys, func(k *config.Key) string { return k.Name })
	slices.Sort(used)
	e.add("keys", used)
	e.add("try", "fedsim run --algorithm "+a.Name)
	e.add("more", "fedsim keys --algorithm "+a.Name)
	return e
}

type keysCmd struct {
	Pattern string `arg:"" optional:"" help:"List only keys whose name or meaning contains this text."`

	Algorithm string `placeholder:"NAME" help:"List only the keys of this algorithm."`
	Format    string `enum:"table,json" default:"table" help:"table or json."`
}

type keyRow struct {
	Key     string `json:"key"`
	Values  string `json:"values"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

// Run prints the keys that the pattern and the algorithm leave, a line each.
func (c *keysCmd) Run(s verb.Streams) error {
	of := config.Keys()
	if c.Algorithm != "" {
		a, err := algorithmNamed(c.Algorithm)
		if err != nil {
			return cli.Misusef("--algorithm: %w", err)
		}
		of = a.About().Used()
	}
	wanted := strings.ToLower(c.Pattern)
	found := slices.DeleteFunc(config.Keys(), func(k *config.Key) bool {
		return !slices.Contains(of, k) || !strings.Contains(strings.ToLower(k.Name+" "+k.Help), wanted)
	})
	list := lists.Map(found, func(k *config.Key) keyRow { return keyRow{k.Name, k.Values(), k.Standard(), k.Help} })
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, list)
	}
	if len(list) == 0 {
		return cli.Misusef("no key has %q in its name or meaning; %s", c.Pattern, config.Near(c.Pattern))
	}
	width := screen.Width(s.Out)
	var b strings.Builder
	for _, r := range list {
		b.WriteString(screen.Fit(fmt.Sprintf("%s  (%s; default %s)\n", r.Key, r.Values, r.Default), width) + screen.Wrapped(r.Help, "    ", width))
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// algorithmNamed finds an algorithm by its name, in any case of letters.
func algorithmNamed(name string) (algorithm.Algorithm, error) {
	var c config.Config
	algorithm.Name.Set(&c, strings.ToLower(name))
	for _, p := range c.Problems() {
		if p.Key == algorithm.Name.Key {
			return nil, fmt.Errorf("%s", p.Reason)
		}
	}
	return algorithm.Of(c), nil
}

type resultsCmd struct {
	Dirs    []string `arg:"" name:"dir" help:"Folders of runs, or folders that hold some."`
	Format  string   `enum:"table,markdown,latex,csv,json" default:"table" help:"table (the metrics that are looked at first); markdown or latex, for papers: means over seeds, marked; or all metrics as csv or json."`
	Metrics string   `placeholder:"NAMES" help:"These metrics, such as rmse,ndcg@10,recall@20."`
	With    []string `placeholder:"NAME=FILE" sep:"none" help:"Add a row for a method outside fedsim, by what it predicts on the runs' test: a file with the columns user, item and predicted (or rank). May be repeated."`
	Over    string   `placeholder:"KEYS" help:"Means and deviations over runs that differ in these keys alone, such as seed."`
	Against string   `placeholder:"KEY=VALUE..." help:"Differences from the runs that are like this, such as algorithm=lfl-sgdmf: paired by the other keys, averaged over --over (default seed)."`
	Metric  string   `placeholder:"NAME" help:"The metric of --against. Default: the RMSE, or Recall@20 of rankings."`
}

func (c *resultsCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Metric != "" && c.Against == "" {
		return cli.Misusef("--metric %s: it names the metric of --against, which is not given; say --against KEY=VALUE", c.Metric)
	}
	runs, err := study.Load(s.Warn, c.Dirs...)
	if err != nil {
		return err
	}
	t := runs.Table()
	for _, text := range c.With {
		if err = t.With(ctx, text, s.Warn); err != nil {
			return err
		}
	}
	if c.Metrics != "" {
		if t, err = t.Choose(c.Metrics); err != nil {
			return cli.Misusef("--metrics: %w", err)
		}
	}
	if c.Format == "latex" || c.Format == "markdown" {
		return c.paper(s, t)
	}
	switch {
	case c.Against != "":
		t, err = c.against(t)
	case c.Over != "":
		keys, failed := t.Over(c.Over)
		if failed != nil {
			return cli.Misusef("--over: %w", failed)
		}
		t = t.Means(keys)
	}
	if err != nil {
		return err
	}
	switch c.Format {
	case "csv":
		return t.CSV(s.Out)
	case "json":
		return t.JSON(s.Out)
	}
	if c.Against == "" && c.Metrics == "" {
		t = t.Shown()
	}
	return t.Print(s.Out)
}

// paper prints the table as papers do: means over --over, which is the seed by default.
func (c *resultsCmd) paper(s verb.Streams, t *study.Table) error {
	if c.Against != "" {
		return cli.Misusef("--format %s prints means, and --against differences; use table, csv or json with --against", c.Format)
	}
	over, err := t.Over(cmp.Or(c.Over, "seed"))
	if err != nil {
		return err
	}
	if c.Metrics == "" {
		t = t.Shown()
	}
	return t.Means(over).Paper(t.Metrics).Print(s.Out, c.Format)
}

func (c *resultsCmd) against(t *study.Table) (*study.Table, error) {
	metric, err := t.Metric(cmp.Or(c.Metric, t.Primary()))
	if err != nil {
		return nil, cli.Misusef("--metric: %w", err)
	}
	keys, err := t.Over(cmp.Or(c.Over, "seed"))
	if err != nil {
		return nil, err
	}
	return t.Against(c.Against, metric, keys)
}

type compareCmd struct {
	A string `arg:"" name:"a" help:"Folder of a finished run."`
	B string `arg:"" name:"b" help:"Folder of another one, on the same data and split; or a file with the columns user, item and predicted (or rank), of a method outside fedsim."`
	study.CompareParams
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *compareCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Resamples < 100 {
		return cli.Misusef("--resamples %d: at least 100 are needed", c.Resamples)
	}
	r, err := study.Compare(ctx, c.A, c.B, c.CompareParams)
	if err != nil {
		return err
	}
	return verb.PrintAs(s.Out, c.Format, r)
}
