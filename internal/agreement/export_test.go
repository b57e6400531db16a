package agreement

import "github.com/fedsim/fedsim/config"

// PublicFormat is the format that tests put another one in place of.
const PublicFormat = publicFormat

// Same compares the configurations of two parties.
var Same = same

// Validate checks facts alone, without the terms that follow from them.
func (f Facts) Validate(c config.Config) error { return f.validate(c) }
