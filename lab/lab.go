// Package lab registers the algorithms of the lab: baselines without privacy, regressions with private labels, and methods that the
// papers of the families are compared with. The core does not know the lab, and importers are promised nothing about it. A program that
// imports lab can run these algorithms; package lab/command adds the verbs of the lab to the command fedsim.
//
// The tests here are of presets, sweeps and sessions, and of many linear regressions on given features of the same users with private
// labels (multi-task paper, section 3), from sufficient statistics or by noisy descent. Only these tests use the solvers of tasks.
package lab

import (
	_ "github.com/fedsim/fedsim/lab/baselines"
	_ "github.com/fedsim/fedsim/lab/cond"
	_ "github.com/fedsim/fedsim/lab/fmf"
	_ "github.com/fedsim/fedsim/lab/ssp"
)
