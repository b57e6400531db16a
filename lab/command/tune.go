package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/tune"
	"github.com/fedsim/fedsim/results"
)

type tuneCmd struct {
	verb.ExperimentFlags

	Over     []string `placeholder:"KEY=VALUES" sep:"none" help:"A key to search over, with a range LOW..HIGH, a range log:LOW..HIGH that is drawn in its logarithm, or words A,B,C; may be repeated."`
	Trials   int      `default:"20" help:"How many candidates to draw."`
	Search   string   `enum:"random,halton" default:"random" help:"How candidates are drawn: random, or halton, which covers the space evenly."`
	Private  bool     `help:"Choose by private selection, whose ε covers the search: a random number of runs, each of a random candidate with noise of its own, and a score with noise."`
	MeanRuns float64  `default:"10" help:"Mean number of runs with --private."`
	Total    float64  `name:"total-epsilon" placeholder:"E" help:"The most that the ε of a search with --private may be. The ε of one run is found by it, in place of --epsilon."`
	Eta      float64  `default:"0" help:"Law of the number of runs with --private: 0 logarithmic, 1 geometric. A larger one has fewer draws of one run alone, and costs more."`

	Format string `group:"Output:" enum:"table,json" default:"table" help:"table or json."`
}

func (c *tuneCmd) Run(ctx context.Context, s verb.Streams) error {
	said, err := c.Settings(s.Err)
	if err != nil {
		return err
	}
	if c.Trials < 1 || c.Trials > 100_000 {
		return cli.Misusef("--trials %d: 1 to 100,000 candidates are needed", c.Trials)
	}
	if c.Total != 0 {
		if !c.Private {
			return cli.Misusef("--total-epsilon is the budget of a private search; add --private, or give one run's budget with --epsilon")
		}
		for _, x := range said {
			if x.Key == algorithm.Epsilon.Name {
				return cli.Misusef("%s: with --total-epsilon the epsilon of one run follows from the search's; leave it out", x.Origin)
			}
		}
	}
	space, err := tune.ParseSpace(c.Over)
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	p.Start("candidates", 0)
	search := tune.Search{
		Settings: said, Space: space, Trials: c.Trials, Even: c.Search == "halton", Private: c.Private, Runs: c.MeanRuns, Eta: c.Eta, Total: c.Total,
		Told: func(n int, t tune.Trial) { p.Sparse(n, fmt.Sprintf("%s: %.4f", config.Join(t.Settings), t.Score)) },
	}
	out, err := search.Run(ctx)
	if err != nil {
		return err
	}
	e, err := verb.Open(ctx, out.Final, s, p, experiment.Open)
	if err != nil {
		return err
	}
	r, err := training.Keep(ctx, e, p, training.KeepOptions{})
	if err != nil {
		return err
	}
	p.Clear()
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, tuned{out, r.PrimaryMetric(), r.Folder})
	}
	return c.print(s.Out, out, r.Summary, r.Folder)
}

type tuned struct {
	*tune.SearchResult
	Test    float64 `json:"test"`
	Results string  `json:"results"`
}

func (c *tuneCmd) print(w io.Writer, out *tune.SearchResult, r *results.Summary, folder string) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	row("tried", "%d runs of %d candidates (%s)", len(out.Trials), c.Trials, c.Search)
	row("chosen", "%s", config.Join(out.Best.Settings))
	score := "validation"
	if c.Private {
		score = "noisy score"
	}
	row(score, "%.4f (%s)", out.Best.Score, out.Metric)
	row("test", "%.4f (measured once, of the chosen run)", r.PrimaryMetric())
	row("privacy", "%s", r.Privacy.Words(""))
	if r.Privacy.Chosen.By == dp.PlainSearch {
		row("", "To have an ε that covers the search, add --private.")
	}
	row("results", "%s", folder)
	return screen.Print(w, b.String(), []string{"fedsim", "results", folder})
}
