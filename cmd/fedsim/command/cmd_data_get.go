package command

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/fedsim/fedsim/dataset/download"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
)

type dataGetCmd struct {
	Name   string `arg:"" help:"A published set: ml-100k, ml-1m, ml-10m, ml-20m, ml-25m or ml-latest-small."`
	Mirror string `placeholder:"URL" help:"Address of a folder with the same archives, to download from instead of GroupLens'. The digests to be met stay the same, but for ml-latest-small, whose digest is published beside it."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *dataGetCmd) Run(ctx context.Context, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	r, err := download.Get(ctx, c.Name, download.Params{Mirror: c.Mirror, Progress: p.Fetching("downloading "+c.Name, megabytes)})
	if errors.Is(err, download.ErrUnknown) {
		return cli.Misusef("%w", err)
	}
	if err != nil {
		return err
	}
	p.Clear()
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, r)
	}
	how := fmt.Sprintf("%s of them downloaded from %s", megabytes(r.Downloaded), r.Address)
	if r.Downloaded == 0 {
		how = "all there already"
	}
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"name", r.Name}, {"file", r.Path}, {"size", fmt.Sprintf("%s, %s", megabytes(r.Size), how)},
		{"md5", r.MD5}, {"sha-256", r.SHA256}, {"digest", r.Checked}, {"terms of use", r.Terms},
	} {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	return t.Flush()
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
