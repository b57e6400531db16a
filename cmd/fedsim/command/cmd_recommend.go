package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

type recommendCmd struct {
	finishedRun

	User dataset.ID `placeholder:"ID" help:"The user's id in the data."`
	All  bool       `help:"Write the lists of all users of the data, as --to says."`
	Cold bool       `help:"List the items that the model likes most, for a user without any rating."`
	To   string     `enum:",csv,parquet" default:"" placeholder:"FORMAT" help:"Of --all: csv (default) or parquet, with the columns user, rank, item, title, score, predicted and by."`
	Out  string     `placeholder:"FILE" help:"Of --all: where to write. It must not be there yet. Default: standard output."`
}

// finishedRun says what is asked of which run.
type finishedRun struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, runs/NAME, or of the model that a deployment's server left."`
	Top    int    `default:"10" placeholder:"N" help:"How many items. Default 10."`
	Data   string `placeholder:"DATA" help:"Ratings, as for fedsim run --data. Default: the run's data. Users of other ratings are fitted to the released items on this machine. Of a deployment: the user's ratings, or for similar a folder with titles."`
	verb.Flags
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// open opens the run for any ratings, and says if they are not the run's; or it opens the model of a deployment.
func (f *finishedRun) open(ctx context.Context, s verb.Streams, o recommend.Options) (*recommend.Recommender, error) {
	if f.Top < 1 {
		return nil, cli.Misusef("--top %d: want at least 1", f.Top)
	}
	set, err := form(f.Flags, f.Data)
	if err != nil {
		return nil, err
	}
	p := verb.NewProgress(s.Err)
	o.Data, o.Form, o.Other, o.Progress = f.Data, set, true, p.Loading("the data of "+f.Folder)
	if results.IsDeployed(f.Folder) {
		if o.Session, err = f.session(set); err != nil {
			return nil, err
		}
	}
	r, err := recommend.Open(experiment.Hear(ctx, p.Warn), f.Folder, o)
	p.Clear()
	switch {
	case err != nil:
		return nil, misread(err)
	case o.User != "" && r.Data.Users == 0:
		return nil, cli.Misusef("--run %s holds the model of %s, whose users are with the organisations; ask the result of an organisation's client, STATE/result", f.Folder, algorithm.Name.Of(r.Config))
	case r.Changed != "":
		fmt.Fprintf(s.Err, "note: %s\n", r.Changed)
	}
	return r, nil
}

// session opens the experiment of a deployment's session, with the form of the data.
func (f *finishedRun) session(form func(*config.Config)) (*experiment.Experiment, error) {
	text, err := os.ReadFile(filepath.Join(f.Folder, results.PublicFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--run %s: it has no %s, as models of deployments before version 0.2 have none; fedsim export takes such a model away, and fednode recommend --state asks a client's", f.Folder, results.PublicFile)
	}
	if err != nil {
		return nil, err
	}
	public, err := agreement.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Folder, err)
	}
	e, err := agreement.Open(public)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Folder, err)
	}
	if form != nil {
		form(&e.Config)
	}
	return e, nil
}

// check refuses flags that do not go together.
func (c *recommendCmd) check() error {
	asked := slices.DeleteFunc([]bool{c.User != "", c.All, c.Cold}, func(x bool) bool { return !x })
	switch {
	case len(asked) != 1:
		return cli.Misusef("say for whom: --user ID, --all for every user of the data, or --cold for a user without ratings")
	case !c.All && (c.To != "" || c.Out != ""):
		return cli.Misusef("--to and --out are for the lists of all users; say --all, or --format json for one list")
	case c.All && c.Format == "json":
		return cli.Misusef("--format json is for one list; --all writes --to csv or parquet")
	case c.All && c.Data == "" && results.IsDeployed(c.Folder):
		return cli.Misusef("--run %s holds the model of a deployment, and its users are fitted, or what they rated is left out, by ratings; say --data with the users' ratings", c.Folder)
	}
	return nil
}

func (c *recommendCmd) Run(ctx context.Context, s verb.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	r, err := c.open(ctx, s, recommend.Options{User: string(c.User)})
	if err != nil {
		return err
	}
	if c.All {
		return c.allUsers(ctx, s, r)
	}
	var a *recommend.Answer
	if c.Cold {
		a, err = r.Popular(c.Top)
	} else {
		a, err = r.Answer(string(c.User), c.Top)
	}
	if errors.Is(err, recommend.ErrNotThere) { // the caller owns the data, and may see ids
		ids, data := r.Data.UserIDs, r.Data.Name
		if r.Changed != "" && c.Data != "" {
			data = c.Data
		}
		return cli.Misusef("%w; %s has %d users, with ids such as %s. For another user say --data with the user's ratings, or --cold if there are none",
			err, data, len(ids), strings.Join(ids[:min(len(ids), 3)], ", "))
	}
	if err != nil {
		return err
	}
	if a.Unknown > 0 {
		fmt.Fprintf(s.Err, "note: %d of the ratings of %s are of items that the run did not have, and are left out\n", a.Unknown, c.User)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, struct {
			Run string `json:"run"`
			*recommend.Answer
		}{c.Folder, a})
	}
	head := map[string]any{
		"User": c.User, "Name": algorithm.Name.Of(r.Config), "Data": r.Data.Name, "By": a.By, "Ratings": a.Ratings,
		"Organisations": algorithm.Of(r.Config).About().Clients.Organisations(), "Ordered": r.OrdersByMore(),
	}
	return cmp.Or(cli.PrintForm(s.Out, c.Format, dataTables, "recommended", head), r.PrintRecommendations(s.Out, a.Items))
}

// allUsers writes the lists of all users.
func (c *recommendCmd) allUsers(ctx context.Context, s verb.Streams, r *recommend.Recommender) error {
	format := cmp.Or(c.To, "csv")
	wrote, left := 0, 0
	write := func(w io.Writer) (err error) {
		wrote, left, err = r.WriteLists(ctx, w, format, c.Top, protocol.Workers(runtime.GOMAXPROCS(0)))
		return err
	}
	var err error
	switch {
	case c.Out != "":
		err = atomicfile.New(c.Out, write)
	case format == "parquet" && screen.IsTerminal(s.Out):
		return cli.Misusef("--to parquet is not for a terminal; say --out FILE")
	default:
		err = write(s.Out)
	}
	if err != nil {
		return taken(c.Out, err)
	}
	if left > 0 {
		fmt.Fprintf(s.Err, "note: %d users have rated no item of the run and get no list; the model does not say which items are liked most\n", left)
	}
	if c.Out != "" {
		fmt.Fprintf(s.Err, "%s: the lists of %d users\n", c.Out, wrote)
	}
	return nil
}

type similarCmd struct {
	finishedRun

	By string `enum:"cosine,inner" default:"cosine" help:"By what items are like one another: cosine (of their embeddings) or inner (the inner product, by which much-rated items are near to more)."`

	Item string `required:"" placeholder:"TITLE" help:"The item: its title or id, or a part of its title that no other has."`
}

func (c *similarCmd) Run(ctx context.Context, s verb.Streams) error {
	r, err := c.open(ctx, s, recommend.Options{Items: true})
	if err != nil {
		return err
	}
	like, err := r.Similar(c.Item, c.Top, recommend.Near(c.By))
	if err != nil {
		return err
	}
	if like.Note != "" {
		fmt.Fprintf(s.Err, "warning: %s\n", like.Note)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, struct {
			Run string `json:"run"`
			*recommend.Likeness
		}{c.Folder, like})
	}
	fmt.Fprintf(s.Out, "like %s, by %s on %s\n\n", like.Item, algorithm.Name.Of(r.Config), r.Data.Name)
	return like.Print(s.Out)
}

type overlapCmd struct {
	A      string `arg:"" name:"a" help:"Folder of a finished run."`
	B      string `arg:"" name:"b" help:"Folder of another one on the same data; without noise, say."`
	Top    int    `default:"20" placeholder:"N" help:"Of how many nearest items."`
	By     string `enum:"inner,cosine" default:"inner" help:"By what items are near: inner (product of their embeddings) or cosine."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *overlapCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Top < 1 {
		return cli.Misusef("--top %d: want at least 1", c.Top)
	}
	var runs [2]*recommend.Recommender
	for i, dir := range []string{c.A, c.B} {
		p := verb.NewProgress(s.Err)
		r, err := recommend.Open(ctx, dir, recommend.Options{Progress: p.Loading("the data of " + dir)})
		p.Clear()
		if err != nil {
			return err
		}
		runs[i] = r
	}
	o, err := recommend.OverlapOf(runs[0], runs[1], c.Top, recommend.Near(c.By))
	if err != nil {
		return err
	}
	return verb.PrintAs(s.Out, c.Format, o)
}
