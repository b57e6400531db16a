package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/figures"
)

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
	runs, err := figures.Load(s.Warn, c.Dirs...)
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
	if err = whole(c.Out, func(w io.Writer) error { return figure.Draw(w, pic) }); err != nil {
		return err
	}
	fmt.Fprint(s.Err, screen.Fit(fmt.Sprintf("%s: %s. %s\n", c.Out, figure.Title, figure.Note), screen.Width(s.Err)))
	return nil
}

// picture reads the flags that say how to draw.
func (c *plotCmd) picture() (figures.Picture, error) {
	pic := figures.Picture{Format: strings.TrimPrefix(filepath.Ext(c.Out), "."), Width: c.Width, Font: c.Font, Title: c.Title, Low: math.NaN(), High: math.NaN()}
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
func (c *plotCmd) figure(runs study.Runs) (figures.Figure, error) {
	all, err := figures.Figures(runs)
	if err != nil {
		return figures.Figure{}, err
	}
	names := lists.Map(all, func(f figures.Figure) string { return f.ID })
	at := slices.Index(names, c.Figure)
	if at < 0 {
		return figures.Figure{}, cli.Misusef("--figure %s: these runs give %s", c.Figure, strings.Join(names, ", "))
	}
	if c.Metric == "" {
		return all[at], nil
	}
	if c.Figure != "quality" {
		return figures.Figure{}, cli.Misusef("--metric %s: only the figure quality has another metric; leave out --figure %s", c.Metric, c.Figure)
	}
	metric, err := runs.Table().Metric(c.Metric)
	if err != nil {
		return figures.Figure{}, cli.Misusef("--metric: %w", err)
	}
	return figures.MetricByEpsilon(runs, metric), nil
}
