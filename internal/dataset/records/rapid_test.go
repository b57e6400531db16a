package records

import (
	_ "pgregory.net/rapid" // declares the flag

	"github.com/fedsim/fedsim/internal/testutil"
)

func init() { testutil.FewCases() } // properties here are slow to check
