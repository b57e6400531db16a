// Own-command is the command fedsim with an algorithm of its own in it: run, plan and the
// others take --algorithm item-mean. The same with cmd/fednode/command deploys it.
package main

import (
	"github.com/fedsim/fedsim/cmd/fedsim/command"
	_ "github.com/fedsim/fedsim/examples/own-algorithm/itemmean"
)

func main() { command.Main() }
