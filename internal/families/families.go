// Package families is the list of the built-in families of algorithms. A new family needs a line
// here and a package of its own. Package lab lists the algorithms of the lab.
package families

import (
	_ "github.com/fedsim/fedsim/fedmf"
	_ "github.com/fedsim/fedsim/fedssp"
)
