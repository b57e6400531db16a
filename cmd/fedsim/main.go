// Command fedsim simulates a federation that trains private recommenders: real
// roles and messages, real noise and accounting, dropouts as they are asked for.
//
//	fedsim run                       train SSP-c on a synthetic set
//	fedsim plan                      what that rests on and costs, before it runs
//	fedsim privacy epsilon ...       what noise costs
//	fedsim privacy noise ...         what noise a budget needs
//	fedsim data list | info DATA     data sets
//	fedsim recommend ...             what a user might like, by a finished run
//	fedsim similar ...               items like another, by a finished run
//
// Results go to stdout, everything else to stderr. It exits with 0 when done,
// 1 when something failed, 2 when it was asked for something it cannot do, and
// 130 when it was interrupted.
package main

import (
	_ "github.com/fedsim/fedsim/algorithm/external" // an algorithm of the user, in any language
	"github.com/fedsim/fedsim/cmd/fedsim/command"
)

func main() { command.Main() }
