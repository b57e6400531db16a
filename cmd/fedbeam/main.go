// Command fedbeam runs an experiment of fedsim as a pipeline of Apache Beam. The workers of a runner compute the rounds,
// on this machine (Prism), Flink, Dataflow or Spark. The result equals the result of fedsim run, bit for bit.
//
//	fedbeam run EXPERIMENT.yaml                              in this process
//	fedbeam run EXPERIMENT.yaml --processes 4                in four more of this machine
//	fedbeam run EXPERIMENT.yaml --runner flink --exchange DIR -- --endpoint=HOST:PORT ...
//
// fedbeam is a separate command and module, so that fedsim stays without the libraries of Beam. It has the exit
// codes of fedsim.
package main

import "github.com/fedsim/fedsim/cmd/fedbeam/command"

func main() { command.Main() }
