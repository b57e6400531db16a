package command

import (
	"cmp"
	"context"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
)

type resultsCmd struct {
	Dirs    []string `arg:"" name:"dir" help:"Folders of runs, or folders that hold some."`
	Format  string   `enum:"table,markdown,latex,csv,json,parquet" default:"table" help:"table (the metrics that are looked at first); markdown or latex, for papers: means over seeds, marked; or all metrics as csv, json or parquet."`
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
	case "parquet":
		return t.Parquet(s.Out)
	}
	if c.Against == "" && c.Metrics == "" {
		t = t.Shown()
	}
	return t.Print(s.Out)
}

// paper prints the table as papers do: means over --over, which is the seed by default.
func (c *resultsCmd) paper(s verb.Streams, t *study.Table) error {
	if c.Against != "" {
		return cli.Misusef("--format %s prints means, and --against differences; use table, csv, json or parquet with --against", c.Format)
	}
	over, err := t.Over(cmp.Or(c.Over, "seed"))
	if err != nil {
		return err
	}
	if c.Metrics == "" {
		t = t.Shown()
	}
	p := t.Means(over).Paper(t.Metrics)
	if c.Format == "latex" {
		return p.LaTeX(s.Out)
	}
	return p.Markdown(s.Out)
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
	A         string `arg:"" name:"a" help:"Folder of a finished run."`
	B         string `arg:"" name:"b" help:"Folder of another one, on the same data and split; or a file with the columns user, item and predicted (or rank), of a method outside fedsim."`
	Metric    string `placeholder:"NAME" help:"What to compare: rmse, or one of lists such as ndcg@10. Default: rmse, or recall@20 of rankings."`
	Resamples int    `default:"10000" placeholder:"N" help:"How often users are drawn anew."`
	Seed      uint64 `default:"1" placeholder:"N" help:"Seed of the draws."`
	Format    string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *compareCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Resamples < 100 {
		return cli.Misusef("--resamples %d: at least 100 are needed", c.Resamples)
	}
	r, err := study.Compare(ctx, c.A, c.B, study.CompareParams{Metric: c.Metric, Resamples: c.Resamples, Seed: c.Seed})
	if err != nil {
		return err
	}
	return verb.PrintAs(s.Out, c.Format, r)
}
