package records

import _ "github.com/fedsim/fedsim/internal/fewcases" // properties here are slow to check
