package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results/recommend"
)

// ownResult says which client's result is asked, and about how many items.
type ownResult struct {
	State string `required:"" placeholder:"DIR" help:"That of fednode client, of one user or of an organisation; with --users the folder client-K in it."`
	Data  string `required:"" placeholder:"DATA" help:"The user's ratings, as for fednode client: what the user has rated is left out."`
	reading
	User   dataset.ID `placeholder:"ID" help:"Whose of these ratings; needed where they are of several users. Of an organisation: one of its users."`
	Items  string     `placeholder:"DIR" help:"Folder with a list of items that has titles: movies.csv, movies.dat, u.item or items.csv. Default: those beside the ratings, if any."`
	Top    int        `default:"10" placeholder:"N" help:"How many items. Default 10."`
	Format string     `enum:"table,json" default:"table" help:"table or json."`
}

// open opens what the last session left. Nothing but files of this device is read.
func (c *ownResult) open(ctx context.Context) (*recommend.Recommender, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Top < 1 {
		return nil, cli.Misusef("--top %d: want at least 1", c.Top)
	}
	dir := filepath.Join(c.State, party.ResultFolder)
	e, err := party.OpenPublic(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: there is no result of a session in it yet; fednode client leaves one when a session has ended", c.State)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	c.of(e)
	o := recommend.Options{Session: e, Data: c.Data, User: string(c.User), Titles: c.Items, All: e.About().Clients.Organisations()}
	r, err := recommend.Open(ctx, dir, o)
	return r, misnamed(err)
}

// misnamed makes a wrong call of what is not there, or cannot be told.
func misnamed(err error) error {
	for _, is := range []error{recommend.ErrNotThere, recommend.ErrAmbiguous, recommend.ErrNotOwn} {
		if errors.Is(err, is) {
			return cli.Misusef("%w", err)
		}
	}
	return err
}

type recommendCmd struct{ ownResult }

func (c *recommendCmd) Run(ctx context.Context, s *streams) error {
	r, err := c.open(ctx)
	if err != nil {
		return err
	}
	user := string(c.User)
	switch {
	case user != "" && r.Session != "": // of an organisation, whose result has all its users
	case len(r.Data.UserIDs) == 1:
		user = r.Data.UserIDs[0]
	default:
		return cli.Misusef("--user: the result has %d users; say which", len(r.Data.UserIDs))
	}
	list, err := r.Recommend(user, c.Top)
	if err != nil {
		return misnamed(err)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, struct {
			Items []recommend.Recommendation `json:"items"`
		}{list})
	}
	return r.PrintRecommendations(s.out, list)
}

type similarCmd struct {
	ownResult

	Item string `required:"" placeholder:"TITLE" help:"The item: its title or id, or a part of its title that no other has."`
}

func (c *similarCmd) Run(ctx context.Context, s *streams) error {
	r, err := c.open(ctx)
	if err != nil {
		return err
	}
	item, list, err := r.Similar(c.Item, c.Top, recommend.Cosine)
	if err != nil {
		return misnamed(err)
	}
	if doubt := r.Doubt(list, recommend.Cosine); doubt != "" {
		fmt.Fprintf(s.err, "warning: %s\n", doubt)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, struct {
			Item  recommend.Item        `json:"item"`
			Items []recommend.Neighbour `json:"items"`
		}{item, list})
	}
	fmt.Fprintf(s.out, "like %s\n\n", item)
	return recommend.PrintNeighbours(s.out, list, recommend.Cosine)
}
