package command

import (
	"context"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results/recommend"
)

type similarCmd struct {
	finishedRun

	By string `enum:"cosine,inner" default:"cosine" help:"By what items are like one another: cosine (of their embeddings) or inner (the inner product, by which much-rated items are near to more)."`

	Item string `required:"" placeholder:"TITLE" help:"The item: its title or id, or a part of its title that no other has."`
}

func (c *similarCmd) Run(ctx context.Context, s verb.Streams) error {
	r, err := c.open(ctx, s, "")
	if err != nil {
		return err
	}
	item, list, err := r.Similar(c.Item, c.Top, recommend.Near(c.By))
	if err != nil {
		return namedWrongly(err)
	}
	if doubt := r.Doubt(list, recommend.Near(c.By)); doubt != "" {
		fmt.Fprintf(s.Err, "warning: %s\n", doubt)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, struct {
			Run   string                `json:"run"`
			Item  recommend.Item        `json:"item"`
			Items []recommend.Neighbour `json:"items"`
		}{c.Folder, item, list})
	}
	fmt.Fprintf(s.Out, "like %s, by %s on %s\n\n", item, algorithm.Name.Of(r.Config), r.Data.Name)
	return recommend.PrintNeighbours(s.Out, list, recommend.Near(c.By))
}
