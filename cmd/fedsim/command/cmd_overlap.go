package command

import (
	"context"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results/recommend"
)

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
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, o)
	}
	return o.Print(s.Out)
}
