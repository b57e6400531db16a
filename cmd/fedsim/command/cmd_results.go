package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/internal/atomicfile"
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
	metric, over := c.Metric, c.Over
	if metric == "" {
		metric = t.Primary()
	}
	if over == "" {
		over = "seed"
	}
	metric, err := t.Metric(metric)
	if err != nil {
		return nil, cli.Misusef("--metric: %w", err)
	}
	keys, err := t.Over(over)
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

type plotCmd struct {
	Dirs   []string `arg:"" name:"dir" help:"Folders of runs, or folders that hold some."`
	Figure string   `default:"quality" placeholder:"NAME" help:"quality (against epsilon), learning, clock, epsilon, dropouts, stages, popularity or bytes. Default quality."`
	Metric string   `placeholder:"NAME" help:"What the figure quality shows, such as mae or ndcg@10. Default: the RMSE, or Recall@20 of rankings."`
	Out    string   `required:"" placeholder:"FILE" help:"File to write, which must end in .pdf, .svg or .png (300 dots an inch)."`
	Width  float64  `default:"16" placeholder:"CM" help:"Width in centimetres, such as 8.5 for a column of a paper or 17 for a page. Default 16."`
	Font   float64  `placeholder:"POINTS" help:"Size of the text. Default 10, or 8 below 12 centimetres."`
	Y      string   `placeholder:"LOW,HIGH" help:"Ends of the y axis. Default: where the data end."`
	Title  bool     `negatable:"" default:"true" help:"Draw the title, which a paper has in its caption."`
}

func (c *plotCmd) Run(s verb.Streams) error {
	pic, err := c.picture()
	if err != nil {
		return err
	}
	runs, err := study.Load(s.Warn, c.Dirs...)
	if err == nil {
		runs, err = runs.Whole(s.Warn)
	}
	if err != nil {
		return err
	}
	figure, err := c.figure(runs)
	if err != nil {
		return err
	}
	if unknown := figure.Unknown(); unknown != "" {
		fmt.Fprintf(s.Err, "warning: the font of pictures has no %s: boxes stand in their place; name runs and algorithms in Latin, Greek or Cyrillic letters\n", unknown)
	}
	var b bytes.Buffer
	if err = figure.Draw(&b, pic); err != nil {
		return err
	}
	if err = atomicfile.Write(c.Out, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%s: %s\n", c.Out, figure.Title)
	return nil
}

// picture reads the flags that say how to draw.
func (c *plotCmd) picture() (study.Picture, error) {
	pic := study.Picture{Format: strings.TrimPrefix(filepath.Ext(c.Out), "."), Width: c.Width, Font: c.Font, Title: c.Title, Low: math.NaN(), High: math.NaN()}
	switch {
	case !slices.Contains([]string{"pdf", "svg", "png"}, pic.Format):
		return pic, cli.Misusef("--out %s: a name that ends in .pdf, .svg or .png is needed", c.Out)
	case !(c.Width >= 4 && c.Width <= 200):
		return pic, cli.Misusef("--width %v: 4 to 200 centimetres are possible", c.Width)
	case c.Font != 0 && !(c.Font >= 4 && c.Font <= 72):
		return pic, cli.Misusef("--font %v: 4 to 72 points are possible", c.Font)
	}
	if c.Y != "" {
		low, high, _ := strings.Cut(c.Y, ",")
		var err, err2 error
		pic.Low, err = strconv.ParseFloat(low, 64)
		pic.High, err2 = strconv.ParseFloat(high, 64)
		if errors.Join(err, err2) != nil || !(pic.Low < pic.High) || math.IsInf(pic.High-pic.Low, 0) {
			return pic, cli.Misusef("--y %s: LOW,HIGH is needed, such as 0.85,0.95", c.Y)
		}
	}
	return pic, nil
}

// figure returns the figure that the flags name.
func (c *plotCmd) figure(runs study.Runs) (study.Figure, error) {
	all, err := runs.Figures()
	if err != nil {
		return study.Figure{}, err
	}
	var names []string
	for _, f := range all {
		names = append(names, f.ID)
	}
	at := slices.Index(names, c.Figure)
	if at < 0 {
		return study.Figure{}, cli.Misusef("--figure %s: these runs give %s", c.Figure, strings.Join(names, ", "))
	}
	if c.Metric == "" {
		return all[at], nil
	}
	if c.Figure != "quality" {
		return study.Figure{}, cli.Misusef("--metric %s: only the figure quality has another metric; leave out --figure %s", c.Metric, c.Figure)
	}
	metric, err := runs.Table().Metric(c.Metric)
	if err != nil {
		return study.Figure{}, cli.Misusef("--metric: %w", err)
	}
	return runs.MetricByEpsilon(metric), nil
}
