// Command fedbeam runs an experiment of fedsim as a pipeline of Apache Beam: the rounds are computed by the workers of a
// runner, on this machine (Prism), Flink, Dataflow or Spark, to the same bits as fedsim run.
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
