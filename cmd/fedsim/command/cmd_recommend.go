package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results"
)

// recommendCmd is fedsim recommend.
type recommendCmd struct {
	finishedRun

	User string `required:"" placeholder:"ID" help:"The user's id in the data."`
}

// finishedRun says what is asked of which run.
type finishedRun struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, runs/NAME, or of the model that a deployment's server left."`
	Top    int    `default:"10" placeholder:"N" help:"How many items. Default 10."`
	Data   string `placeholder:"DATA" help:"Where the data of the run are now, as for fedsim run --data. Default: where they were. Of a deployment: the user's ratings, or for similar a folder with titles."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// open opens the run, or the model of a deployment: for a user, or for items alone.
func (f *finishedRun) open(ctx context.Context, s streams, user string) (*results.Recommender, error) {
	if f.Top < 1 {
		return nil, cli.Misusef("--top %d: want at least 1", f.Top)
	}
	if results.IsDeployed(f.Folder) {
		return f.deployed(ctx, user)
	}
	p := newProgress(s.err)
	defer p.Clear()
	return results.OpenRun(ctx, f.Folder, f.Data, p.Loading("the data of "+f.Folder))
}

// deployed opens the model of a deployment.
func (f *finishedRun) deployed(ctx context.Context, user string) (*results.Recommender, error) {
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
	r, err := results.Deployed{Dir: f.Folder, Experiment: e, Data: f.Data, User: user}.Open(ctx)
	return r, namedWrongly(err)
}

// Run implements fedsim recommend.
func (c *recommendCmd) Run(ctx context.Context, s streams) error {
	r, err := c.open(ctx, s, c.User)
	if err != nil {
		return err
	}
	list, err := r.Recommend(c.User, c.Top)
	if errors.Is(err, results.ErrNotThere) { // the caller owns the data, and may see ids
		ids := r.Data.UserIDs
		return cli.Misusef("%w; %s has %d users, with ids such as %s", err, r.Data.Name, len(ids), strings.Join(ids[:min(len(ids), 3)], ", "))
	}
	if err != nil {
		return namedWrongly(err)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, struct {
			Run   string                   `json:"run"`
			User  string                   `json:"user"`
			Items []results.Recommendation `json:"items"`
		}{c.Folder, c.User, list})
	}
	fmt.Fprintf(s.out, "for user %s, by %s on %s; what the user rated in training is left out\n\n", c.User, algorithm.Name.Of(r.Config), r.Data.Name)
	return r.PrintRecommendations(s.out, list)
}

// namedWrongly makes a wrong call of a user or an item that cannot be told.
func namedWrongly(err error) error {
	for _, is := range []error{results.ErrNotThere, results.ErrAmbiguous, results.ErrNotOwn} {
		if errors.Is(err, is) {
			return cli.Misusef("%w", err)
		}
	}
	return err
}
