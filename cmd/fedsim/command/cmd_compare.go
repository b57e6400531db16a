package command

import (
	"context"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
)

type compareCmd struct {
	A         string `arg:"" name:"a" help:"Folder of a finished run."`
	B         string `arg:"" name:"b" help:"Folder of another one, on the same data and split; or a file with the columns user, item and predicted (or rank), of a method outside fedsim."`
	Metric    string `placeholder:"NAME" help:"What to compare: rmse, or one of lists such as ndcg@10. Default: rmse, or recall@20 of rankings."`
	Resamples int    `default:"10000" placeholder:"N" help:"How often users are drawn anew."`
	Seed      uint64 `default:"1" placeholder:"N" help:"Seed of the draws."`
	Format    string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *compareCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Resamples < 100 {
		return cli.Misusef("--resamples %d: at least 100 are needed", c.Resamples)
	}
	r, err := study.Compare(ctx, c.A, c.B, study.CompareParams{Metric: c.Metric, Resamples: c.Resamples, Seed: c.Seed})
	if err != nil {
		return err
	}
	return verb.PrintAs(s.Out, c.Format, r)
}
