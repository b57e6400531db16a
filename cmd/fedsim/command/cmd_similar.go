package command

import (
	"context"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results/recommend"
)

type similarCmd struct {
	finishedRun

	By string `enum:"cosine,inner" default:"cosine" help:"By what items are like one another: cosine (of their embeddings) or inner (the inner product, by which much-rated items are near to more)."`

	Item string `required:"" placeholder:"TITLE" help:"The item: its title or id, or a part of its title that no other has."`
}

func (c *similarCmd) Run(ctx context.Context, s streams) error {
	r, err := c.open(ctx, s, "")
	if err != nil {
		return err
	}
	item, list, err := r.Similar(c.Item, c.Top, recommend.Near(c.By))
	if err != nil {
		return namedWrongly(err)
	}
	if r.Rank() == 1 {
		fmt.Fprintln(s.err, "warning: embeddings of rank 1 can only point the same way or the opposite way, so they do not tell items apart; train with a larger --rank")
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, struct {
			Run   string                `json:"run"`
			Item  recommend.Item        `json:"item"`
			Items []recommend.Neighbour `json:"items"`
		}{c.Folder, item, list})
	}
	fmt.Fprintf(s.out, "like %s, by %s on %s\n\n", item, algorithm.Name.Of(r.Config), r.Data.Name)
	return recommend.PrintNeighbours(s.out, list, recommend.Near(c.By))
}
