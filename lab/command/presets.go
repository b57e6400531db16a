package command

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/attack"
	"github.com/fedsim/fedsim/lab/figures"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/lab/presets"
	"github.com/fedsim/fedsim/lab/sessions"
	"github.com/fedsim/fedsim/lab/sweep"
	"github.com/fedsim/fedsim/lab/tune"
	"github.com/fedsim/fedsim/results"
)

// presets runs the study of a name, or every study of a paper's figure, and makes a page of them.
func (c *sweepCmd) presets(ctx context.Context, s verb.Streams) error {
	if c.File != "" || c.On != "local" {
		return cli.Misusef("--preset %s: it has a grid of its own, and runs on this machine; --dry-run lists its runs", c.Preset)
	}
	list := presets.All()
	if c.Preset != "all" {
		p, err := presets.Find(c.Preset)
		if err != nil {
			return err
		}
		list = []presets.Preset{p}
	}
	grids := make([][]sweep.Run, len(list))
	for i, p := range list { // before anything runs
		said, err := p.Settings(c.Scale)
		if err != nil {
			return err
		}
		if grids[i], err = c.runs(said, p.Options, s.Err); err == nil && !c.DryRun {
			err = find(ctx, grids[i])
		}
		if err != nil {
			return fmt.Errorf("preset %s: %w", p.Name, err)
		}
	}
	var parts []page.Part
	for i, p := range list {
		if c.DryRun {
			fmt.Fprintf(s.Out, "%s (%s)\n", p.Name, p.Source)
			if err := sweep.Print(s.Out, grids[i]); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(s.Err, "%s: %s, %s\n", p.Name, p.Source, p.Title)
		dir := filepath.Join(c.Out, p.Name)
		f, failures, err := c.local(ctx, s, dir, grids[i])
		if err == nil {
			err = failed(f, failures)
		}
		if err != nil {
			return err
		}
		runs, err := study.Load(s.Warn, folders(f)...)
		if err != nil {
			return err
		}
		part, err := p.Part(runs, dir)
		if err != nil {
			return err
		}
		parts = append(parts, part)
		fmt.Fprintf(s.Out, "%s\n", part.Title)
		for _, x := range part.Claims {
			fmt.Fprintf(s.Out, "  %-13s  %s  %s\n", x.Verdict, x.Text, x.Evidence)
		}
	}
	if c.DryRun {
		return nil
	}
	title := "Figures of the papers, at the scale " + c.Scale
	if len(list) == 1 && len(list[0].Claims) == 0 {
		title = "Benchmark " + list[0].Name
	}
	out := filepath.Join(c.Out, "report.html")
	if err := whole(out, func(w io.Writer) error { return page.Write(w, page.Content{Title: title, Parts: parts}) }); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s\n", out)
	return nil
}

// reportCmd is fedsim report: one page of finished runs and of attacks.
type reportCmd struct {
	Dirs  []string `arg:"" name:"dir" help:"Folders of runs or of attacks, or folders that hold some."`
	Out   string   `default:"report.html" placeholder:"FILE" help:"File to write. Default report.html."`
	Title string   `default:"Private recommenders: a study" help:"Its title."`
}

func (c *reportCmd) Run(s verb.Streams) error {
	content := page.Content{Title: c.Title}
	var what []string // is in it
	var attacks []*attack.Report
	var ofRuns []string // folders that do not hold attacks alone
	for _, dir := range c.Dirs {
		list, err := attack.Load(s.Warn, dir)
		if err != nil {
			return err
		}
		attacks = append(attacks, list...)
		held, err := study.Find(dir)
		if err != nil {
			return err
		}
		if len(held) > 0 || len(list) == 0 { // where there is neither, loading says so
			ofRuns = append(ofRuns, dir)
		}
	}
	if len(ofRuns) > 0 {
		runs, err := figures.Load(s.Warn, ofRuns...)
		if err != nil {
			return err
		}
		content.Parts = []page.Part{{ID: "runs", Dirs: ofRuns, Runs: runs}}
		what = append(what, units.Counted(len(runs), "run"))
	}
	if len(attacks) > 0 {
		content.Sections = []page.Section{attack.Section(attacks)}
		what = append(what, units.Counted(len(attacks), "attack"))
	}
	if err := whole(c.Out, func(w io.Writer) error { return page.Write(w, content) }); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%s: %s\n", c.Out, strings.Join(what, ", "))
	return nil
}

// overTime is fedsim run --sessions.
func overTime(ctx context.Context, said []config.Setting, r verb.SessionsFlags, format string, s verb.Streams) error {
	c, err := config.Resolve(said)
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	timed := c
	algorithm.SplitBy.Set(&timed, "time") // so that times are read
	set, err := experiment.OpenData(experiment.Hear(ctx, p.Warn), timed, algorithm.Data.Of(c), p.Loading(algorithm.Data.Of(c)))
	if err != nil {
		return err
	}
	p.Clear()
	name := algorithm.RunName.Of(c)
	if name == "" {
		name = fmt.Sprintf("%s-%d-sessions-eps%v", algorithm.Name.Of(c), r.Sessions, r.Total)
	}
	dir := filepath.Join(algorithm.Out.Of(c), name)
	if _, err = os.Stat(dir); err == nil {
		return config.Errorf("%s exists already; give another --name, or remove it", dir)
	}
	result, err := sessions.Run(ctx, c, set, sessions.Design(r), dir, func(seed uint64, arm sessions.Arm, session int) {
		fmt.Fprintf(s.Err, "seed %d: session %d of %d, %s\n", seed, session, r.Sessions, arm)
	})
	if err != nil {
		return err
	}
	if err = atomicfile.WriteJSON(filepath.Join(dir, "sessions.json"), result); err != nil {
		return err
	}
	text, err := result.Text()
	text += fmt.Sprintf("\nresults     %s\n", dir)
	for _, f := range result.Figures() {
		path := filepath.Join(dir, f.ID+".svg")
		svg := figures.Picture{Format: "svg", Width: 16, Low: math.NaN(), High: math.NaN()}
		err = errors.Join(err, whole(path, func(w io.Writer) error { return f.Draw(w, svg) }))
		text += fmt.Sprintf("            %s\n", path)
	}
	switch {
	case err != nil:
		return err
	case format == "json":
		return cli.PrintJSON(s.Out, result)
	}
	return screen.Print(s.Out, text, []string{"fedsim", "results", dir})
}

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
	ctx = experiment.Hear(ctx, p.Warn)
	p.Start("candidates", 0)
	search := tune.Search{
		Settings: said, Space: space, Trials: c.Trials, Even: c.Search == "halton", Private: c.Private, Runs: c.MeanRuns, Eta: c.Eta, Total: c.Total,
		Told: func(n int, t tune.Trial) { p.Sparse(n, fmt.Sprintf("%s: %.4f", config.Join(t.Settings), t.Score)) },
	}
	out, err := search.Run(ctx)
	if err != nil {
		return err
	}
	e, err := verb.Open(ctx, out.Final, s, p.Bar, func(_ context.Context, c config.Config, loading func(done, total int64)) (*experiment.Experiment, error) {
		return experiment.Open(ctx, c, loading) // which has warned of the data before the search
	})
	if err != nil {
		return err
	}
	r, err := training.Keep(ctx, e, p, training.KeepOptions{})
	if err != nil {
		return err
	}
	p.Clear()
	return verb.PrintAs(s.Out, c.Format, tuned{out, r.PrimaryMetric(), r.Folder, c, r.Summary})
}

type tuned struct {
	*tune.SearchResult
	Test    float64          `json:"test"`
	Results string           `json:"results"`
	Flags   *tuneCmd         `json:"-"`
	Summary *results.Summary `json:"-"`
}

//go:embed tune.tmpl
var tunedText string

// Print prints the search and what it came to.
func (r tuned) Print(w io.Writer) error {
	var b strings.Builder
	form := template.Must(template.New("tune").Funcs(template.FuncMap{"join": config.Join}).Parse(tunedText))
	if err := form.Execute(&b, r); err != nil {
		return err
	}
	return screen.Print(w, b.String(), []string{"fedsim", "results", r.Results})
}
