package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/ops"
)

type statusCmd struct {
	Ops    string `default:"127.0.0.1:9464" help:"Where the process shows it: its own --ops."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// Run implements fednode status.
func (c *statusCmd) Run(ctx context.Context, s streams) error {
	status, err := ops.Fetch(ctx, c.Ops)
	if errors.Is(err, ops.ErrAddress) {
		return cli.Misusef("--ops: %w", err)
	}
	if err != nil {
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, status)
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "role\t%s\nready\t%t\nsession\t%s\niteration\t%d\nconnected\t%d\n",
		status.Role, status.Ready, cmp.Or(status.Session, "none yet"), status.Iteration, status.Connected)
	if e := status.Last; e != nil {
		fmt.Fprintf(t, "last event\t%s of the %s in iteration %d, %s", e.Kind, e.Party, e.Iteration, e.At.Format(time.RFC3339))
		if e.Error != "" {
			fmt.Fprintf(t, ": %s", e.Error)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
