package command

import (
	"context"
	"fmt"

	"github.com/fedsim/fedsim/cmd/fednode/internal/check"
	"github.com/fedsim/fedsim/internal/cli"
)

// checkCmd is fednode check. It changes nothing, and may run beside the party's process.
type checkCmd struct {
	State      string `required:"" placeholder:"DIR" help:"The state of an aggregator, a server or a client; of several clients of one process the folder of them all."`
	Federation string `placeholder:"FILE" help:"Of an aggregator: the federation, as the operator wrote it last."`
	Network    bool   `help:"Dial the aggregator, too: does its name lead anywhere, does it answer, does it know the party, does it speak this version? The party does not register."`
	Format     string `enum:"table,json" default:"table" help:"table or json."`
}

// Run reads a state and says what is in order and what is not.
func (c *checkCmd) Run(ctx context.Context, s streams) error {
	x, err := check.State(c.State, c.Federation)
	if err == nil && c.Network {
		err = x.Network(ctx)
	}
	if err != nil {
		return err
	}
	if c.Format == "json" {
		err = cli.PrintJSON(s.out, x)
	} else {
		err = x.Print(s.out)
	}
	if err == nil && x.Wrong > 0 {
		err = fmt.Errorf("%s: %d of %d findings are wrong", c.State, x.Wrong, len(x.Findings))
	}
	return err
}
