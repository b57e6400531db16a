// Package families is the list of the built-in families of algorithms. A new family needs a line
// here and a package of its own.
package families

import (
	_ "github.com/fedsim/fedsim/fedmf"
	_ "github.com/fedsim/fedsim/fedssp"
	_ "github.com/fedsim/fedsim/lab/baselines"
	_ "github.com/fedsim/fedsim/lab/cond"
)
