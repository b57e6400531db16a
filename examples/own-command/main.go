// Own-command builds the command fedsim with an own algorithm in it: run, plan, sweep and the other verbs
// take --algorithm item-mean. Do the same with cmd/fednode/command to deploy the algorithm.
package main

import (
	"github.com/fedsim/fedsim/cmd/fedsim/command"
	_ "github.com/fedsim/fedsim/examples/own-algorithm/itemmean"
	_ "github.com/fedsim/fedsim/lab/command" // sweep, tune, audit and more; leave it out for a smaller program
)

func main() { command.Main() }
