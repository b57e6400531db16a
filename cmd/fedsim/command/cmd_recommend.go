package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
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
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, runs/NAME."`
	Top    int    `default:"10" placeholder:"N" help:"How many items. Default 10."`
	Data   string `placeholder:"DATA" help:"Where the data of the run are now, as for fedsim run --data. Default: where they were."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// open opens the run.
func (f *finishedRun) open(ctx context.Context, s streams) (*results.Recommender, error) {
	if f.Top < 1 {
		return nil, cli.Misusef("--top %d: want at least 1", f.Top)
	}
	p := newProgress(s.err)
	defer p.Clear()
	return results.OpenRun(ctx, f.Folder, f.Data, p.Loading("the data of "+f.Folder))
}

// Run implements fedsim recommend.
func (c *recommendCmd) Run(ctx context.Context, s streams) error {
	r, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	list, err := r.Recommend(c.User, c.Top)
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
	if errors.Is(err, results.ErrNotThere) || errors.Is(err, results.ErrAmbiguous) {
		return cli.Misusef("%w", err)
	}
	return err
}
