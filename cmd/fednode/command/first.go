package command

import (
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
var examples = map[string][]string{
	"keygen": {
		"fednode keygen operator.key",
		"fednode keygen aggregator.key --format json",
		"fednode keygen relay.key",
	},
	"invite": {
		"fednode invite --operator operator.key --federation fed.json --name Films --clients 20 --aggregator-key KEY --address /dns4/HOST/tcp/4001 --out invitations",
		"fednode invite --operator operator.key --federation fed.json --revoke 'client 3' --out invitations",
		"fednode invite --operator operator.key --federation fed.json --place 'client 3' --aggregator-key KEY --address /dns4/HOST/tcp/4001 --out invitations",
	},
	"aggregator": {
		"fednode aggregator --key aggregator.key --federation fed.json --tickets tickets.json --state state",
		"fednode aggregator --key aggregator.key --federation fed.json --tickets tickets.json --revocations revocations.json --state state",
		"fednode aggregator --key aggregator.key --federation fed.json --tickets tickets.json --listen /ip4/0.0.0.0/tcp/4001 --state state",
	},
	"relay": {
		"fednode relay --key relay.key --federation fed.json --listen /ip4/0.0.0.0/tcp/4002 --aggregator /dns4/HOST/tcp/4001/p2p/ID",
		"fednode relay --key relay.key --federation fed.json --listen /ip4/0.0.0.0/tcp/4002 --ops 127.0.0.1:9465 --aggregator /dns4/HOST/tcp/4001/p2p/ID",
		"fednode relay --key relay.key --federation fed.json --aggregator /dns4/HOST/tcp/4001/p2p/ID --listen /ip4/0.0.0.0/udp/4002/quic-v1",
	},
	"server": {
		"fednode server experiment.yaml --items items --state state --invitation server.json",
		"fednode server experiment.yaml --items items --state state --set epsilon=5",
		"fednode server --state state --abandon",
	},
	"align": {
		"fednode align --state state --ids ids.txt --invitation client-0.json",
		"fednode align --state state --ids ids.txt --pad 1000",
		"fednode align --state state --ids ids.txt --again",
	},
	"client": {
		"fednode client --data ratings.csv --state state --invitation client-0.json",
		"fednode client --data ratings.csv --state state --max-epsilon 5",
		"fednode client --data ratings.csv --check --items items",
	},
	"recommend": {
		"fednode recommend --state state --data ratings.csv",
		"fednode recommend --state state --data ratings.csv --items items --top 20",
		"fednode recommend --state state/client-3 --data ratings.csv --user 42",
	},
	"similar": {
		"fednode similar --state state --data ratings.csv --item 'Toy Story'",
		"fednode similar --state state --data ratings.csv --item 1 --top 20",
		"fednode similar --state state --data ratings.csv --item 1 --format json",
	},
	"sessions": {
		"fednode sessions --state state",
		"fednode sessions --state state/client-3",
		"fednode sessions --state state --format json",
	},
	"check": {
		"fednode check --state state",
		"fednode check --state state --federation fed.json",
		"fednode check --state state --format json",
	},
	"enrolled": {
		"fednode enrolled --state server",
		"fednode enrolled --state client-3",
		"fednode enrolled --state aggregator --federation fed.json",
	},
	"status": {
		"fednode status",
		"fednode status --ops 127.0.0.1:9465",
		"fednode status --state state --max-epsilon 10",
	},
}
