package command

import (
	_ "embed"
	"strings"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
)

// first is printed when fednode is called without arguments.
var first = strings.Join([]string{
	`fednode runs one party of a federation that trains a private recommender.`,
	"",
	`First steps, each on its own machine:`,
	`  operator     fednode keygen operator.key`,
	`               fednode invite --operator operator.key --federation fed.json --name Films --clients 20 --aggregator-key KEY --address /dns4/HOST/tcp/4001 --out invitations`,
	`  aggregator   fednode keygen aggregator.key`,
	`               fednode aggregator --key aggregator.key --federation fed.json --state state --tickets invitations/tickets.json`,
	`  client       fednode client --data ratings.csv --state state --invitation client-0.json`,
	`  server       fednode server experiment.yaml --items items --state state --invitation server.json`,
	"",
	`To look things up:`,
	`  fednode status                       what a process on this machine is doing`,
	`  fednode help client                  every flag of a command`,
	`  fedsim run experiment.yaml           the same experiment in one process, without a network`,
	"",
}, "\n")

// hint returns what to do about a flag that is a key of an experiment, which the server alone says.
func hint(err error) string {
	k := config.Find(cli.UnknownFlag(err))
	switch {
	case k == nil || k.Scope == config.Simulated:
		return ""
	case cli.Takes(err, "set"):
		return "it is a key: --set " + k.Name + "=VALUE"
	default:
		return "the server of a session says it, with --set " + k.Name + "=VALUE"
	}
}

// examples holds three calls of each command, which its help ends with.
//
//go:embed examples.txt
var examples string
