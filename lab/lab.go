// Package lab registers the algorithms of the lab: baselines without privacy, regressions with private labels, and methods that the
// papers of the families are compared with. The core does not know the lab, and importers are promised nothing about it. A program that
// imports lab can run these algorithms; package lab/command adds the verbs of the lab to the command fedsim.
//
// The tests here are of baselines, presets, sweeps, searches, sessions, tables of runs, figures, pages and checks of folders. Others are of
// many linear regressions on given features of the same users with private labels (multi-task paper, section 3). Their solvers use
// sufficient statistics or noisy descent, and serve these tests alone.
package lab

import (
	_ "github.com/fedsim/fedsim/lab/baselines"
	_ "github.com/fedsim/fedsim/lab/cond"
	_ "github.com/fedsim/fedsim/lab/fmf"
	_ "github.com/fedsim/fedsim/lab/ssp"
)
