// Package families is the list of the families of algorithms that are built in. A new one
// is a line here and a package of its own.
package families

import (
	_ "github.com/fedsim/fedsim/fedcond"
	_ "github.com/fedsim/fedsim/fedmf"
	_ "github.com/fedsim/fedsim/fedssp"
)
