// Package internal has only tests: of small packages below it, of the table of packages in CONTRIBUTING.md, and of the lines
// along which the packages of this module may import one another.
//
// CONTRIBUTING.md draws these lines. Beside them, only lab.go of a command imports the lab. Test files are free. Chains count: a rule
// speaks of all that a package links unless it says otherwise. The rules stand here alone; a new package gets one.
package internal
