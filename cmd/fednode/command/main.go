// Package command is the command fednode, for programs that bring an algorithm of their own: one
// whose main imports the algorithm and calls [Main] is fednode with that algorithm in it.
package command

import (
	"context"
	"errors"
	"os"

	"github.com/rs/zerolog"

	_ "github.com/fedsim/fedsim/dataset/parquet" // files of this format can be read
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/version"
	_ "github.com/fedsim/fedsim/results/export/parquet" // and written
)

type commands struct {
	Keygen     keygenCmd     `cmd:"" help:"Make a key and say its public half."`
	Invite     inviteCmd     `cmd:"" help:"Invite parties to a federation, which is founded with the first call; or revoke them. For the operator."`
	Aggregator aggregatorCmd `cmd:"" help:"Let parties in and lead their secure sums, until stopped."`
	Relay      relayCmd      `cmd:"" help:"Stand between some of the clients and the aggregator, and add up what they send under masks; until stopped."`
	Server     serverCmd     `cmd:"" help:"Own the model: lead a session of an experiment to its end."`
	Align      alignCmd      `cmd:"" help:"Between organisations that share users: find the rows of one's own users without showing their ids to anybody."`
	Client     clientCmd     `cmd:"" help:"Take part in a session with one's own ratings."`
	Recommend  recommendCmd  `cmd:"" help:"What a user might like, on the device of the user's own client, by the model of the last session it finished."`
	Similar    similarCmd    `cmd:"" help:"Which items are like one, on the device of a user's own client, by the model of the last session it finished."`
	Status     statusCmd     `cmd:"" help:"Ask a process on this machine what it is doing."`
	Sessions   sessionsCmd   `cmd:"" help:"List the sessions of a server's or client's state, with how each ended and where its model is."`
	Check      checkCmd      `cmd:"" help:"Check a state without changing it: signatures, ledger, epochs, models, permissions and room; and say what to do."`
	Enrolled   enrolledCmd   `cmd:"" help:"Print the signed list of enrolled parties that a state has, from which a lost aggregator is rebuilt."`
	LogLevel   string        `enum:"debug,info,warn,error" default:"info" help:"What is logged to stderr: debug, info, warn or error and what is worse. Debug tells of messages that are ignored."`
	cli.PagesCmd
	cli.ProfileFlags
	Version cli.VersionFlag `help:"Print the version and exit."`
}

// Main runs the command as the process.
func Main() {
	cli.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, streams{out: screen.Safe(os.Stdout), err: os.Stderr})
	})
}

var program = cli.Program{
	Name: "fednode", Description: "Runs one party of a federation that trains a private recommender.", Version: func() string { return version.Get().String() }, Check: version.Check,
	First: first, Examples: examples, Hint: hint,
	Interrupt: func(error) error {
		return errors.New("stopped before the end of the session; start it again with the same --state to continue")
	},
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, s streams) (code int) {
	var c commands
	p := program
	p.Bind = func() (any, error) {
		var err error
		s.level, err = zerolog.ParseLevel(c.LogLevel)
		return s, err
	}
	return p.Run(ctx, &c, args, s.out, s.err)
}
