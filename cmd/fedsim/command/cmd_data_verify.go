package command

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
)

type dataVerifyCmd struct {
	Data   string `arg:"" help:"Name of a published set that was downloaded, or the folder or zip archive of a copy."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *dataVerifyCmd) Run(ctx context.Context, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	v, err := read.Verify(ctx, c.Data, read.Options{Progress: p.Loading(c.Data)})
	p.Clear()
	if len(v.Checks) == 0 && err != nil {
		return err
	}
	print := printVerification
	if c.Format == "json" {
		print = func(s verb.Streams, v read.Verification) error { return cli.PrintJSON(s.Out, v) }
	}
	return errors.Join(print(s, v), err, v.Err())
}

func printVerification(s verb.Streams, v read.Verification) error {
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tRESULT\tFOUND\tEXPECTED\tKNOWN FROM")
	for _, c := range v.Checks {
		result, want := "ok", c.Want
		switch {
		case !c.OK:
			result = "WRONG"
		case want == "":
			result, want = "-", "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.What, result, c.Got, want, c.Against)
	}
	return t.Flush()
}
