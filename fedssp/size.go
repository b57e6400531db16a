package fedssp

// ModelSize is the length in bytes of the model that comes with the plans of a phase, at
// the most: what it has besides V grows as phases release it. The final model is no longer
// than that of the phase Statistics.
func (p *Params) ModelSize(phase string) int {
	n := 1 + p.Items*p.Rank
	if phase != Prepare && p.withCounts() {
		n += p.Items
	}
	if phase == Statistics && p.Bias {
		n += p.Items
	}
	if phase == Statistics {
		n += p.Items * p.popularWidth()
	}
	if phase == Statistics && p.Solver == Variational {
		n += p.Items*p.packedJoint() + numVariances
	}
	if p.Feedback == Implicit {
		n += p.packed()
	}
	return len(modelDomain) + 1 + 8*n
}
