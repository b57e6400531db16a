// Package tasks has only tests. They solve many linear regressions on given features of the same
// users with private labels (multi-task paper, section 3), from sufficient statistics or by noisy
// descent, with all data in one place. No algorithm of a run and no other package uses the solvers.
package tasks
