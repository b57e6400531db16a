package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/ops"
)

type statusCmd struct {
	Ops        string   `default:"127.0.0.1:9464" help:"Where the process shows it: its own --ops."`
	State      string   `placeholder:"DIR" help:"Instead of a process: the state of a client that is not running. Tells its owner what was agreed to and spent."`
	MaxEpsilon *float64 `placeholder:"E" help:"With --state: the owner's limit, of which the rest is left. Default: the --max-epsilon of the client's last session."`
	Ready      bool     `help:"Exit with 1 unless the process is ready, and say what is missing: for HEALTHCHECK and scripts."`
	Missing    bool     `help:"Of an aggregator: print the enrolled clients that are not connected, one a line."`
	Format     string   `enum:"table,json" default:"table" help:"table or json."`
}

func (c *statusCmd) Run(ctx context.Context, s streams) error {
	if c.State != "" && (c.Ready || c.Missing) {
		return cli.Misusef("--ready and --missing ask a process, by its --ops; --state reads files")
	}
	if c.State != "" {
		return c.owner(s)
	}
	status, err := ops.Fetch(ctx, c.Ops)
	if errors.Is(err, ops.ErrAddress) {
		return cli.Misusef("--ops: %w", err)
	}
	if errors.Is(err, ops.ErrSilent) {
		return fmt.Errorf("%w; say with --ops where the process shows its status, or read a client's own with --state", err)
	}
	if err != nil {
		return err
	}
	if c.Ready && !status.Ready {
		return fmt.Errorf("not ready: %s", cmp.Or(status.Trouble, "it has not registered with the aggregator"))
	}
	if c.Missing && status.Places == 0 {
		return cli.Misusef("--missing: %s is a %s, and only an aggregator knows who is enrolled", c.Ops, status.Role)
	}
	if c.Missing {
		if more := status.Away - len(status.Missing); more > 0 {
			fmt.Fprintf(s.err, "and %d more\n", more)
		}
		_, err = io.WriteString(s.out, strings.Join(append(status.Missing, ""), "\n"))
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, status)
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "role\t%s\nready\t%t\nsession\t%s\nround\t%d\nconnected\t%d\n",
		status.Role, status.Ready, cmp.Or(status.Session, "none yet"), status.Round, status.Connected)
	if status.Trouble != "" {
		fmt.Fprintf(t, "missing\t%s\n", status.Trouble)
	}
	if status.Places > 0 {
		fmt.Fprintf(t, "enrolled\t%d of %d\naway\t%d\n", status.Enrolled, status.Places, status.Away)
	}
	if e := status.Last; e != nil {
		fmt.Fprintf(t, "last event\t%s of the %s in round %d, %s", e.Kind, e.Party, e.Round, e.At.Format(time.RFC3339))
		if e.Error != "" {
			fmt.Fprintf(t, ": %s", e.Error)
		}
		fmt.Fprintln(t)
	}
	if err = t.Flush(); err != nil {
		return err
	}
	return printAccounts(s.out, status.Accounts...)
}

func (c *statusCmd) owner(s streams) error {
	most := math.NaN() // as in the last session
	if c.MaxEpsilon != nil {
		if most = *c.MaxEpsilon; !(most > 0) {
			return cli.Misusef("--max-epsilon %v: a number above 0 is needed, or inf", most)
		}
	}
	account, err := readOwner(c.State, most)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, account)
	}
	return printAccounts(s.out, *account)
}
