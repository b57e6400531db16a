package algorithm

import "github.com/fedsim/fedsim/protocol"

// Drawn is drawn for the tests outside.
func (s *Setup) Drawn(r *protocol.Release) (largest, limit float64) { return s.drawn(r) }
