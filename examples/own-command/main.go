// Own-command builds the command fedsim with an own algorithm in it: run, plan and the other verbs
// take --algorithm item-mean. Do the same with cmd/fednode/command to deploy the algorithm.
package main

import (
	"github.com/fedsim/fedsim/cmd/fedsim/command"
	_ "github.com/fedsim/fedsim/examples/own-algorithm/itemmean"
)

func main() { command.Main() }
