// Package internal has only tests: of small packages below it, of the table of packages in CONTRIBUTING.md, and of the lines
// along which the packages of this module may import one another.
//
// Imports run one way, downward: commands, then the drivers (sim) and the
// experiment, then roles and algorithms, then protocol and secagg, then dp,
// entropy, dataset and model. The lab is beside them: only lab.go of a command imports it. Test files are free. Chains count: a rule speaks of all
// that a package links unless it says otherwise. The rules stand
// here alone; a new package gets one.
package internal
