package fedssp

// ModelSize is the length in bytes of the model that comes with the plans of a phase, at
// the most: what it has besides V grows as phases release it.
func (p *Params) ModelSize(phase string) int {
	const head = len(modelDomain) + 1 + 8 // and the mean
	if phase == Prepare && p.chooses() {
		return head
	}
	items := p.trained()
	n := items * p.Rank
	if phase != Prepare && p.withCounts() {
		n += items
	}
	if (phase == Statistics || phase == Refine) && p.Bias || phase == Statistics && p.popularity() {
		n += items
	}
	if phase == Statistics || phase == Refine {
		n += items * p.popularWidth()
	}
	if phase == Statistics && p.Solver == Variational {
		n += p.Items*p.packedJoint() + numVariances
	}
	if p.Feedback == Implicit {
		n += p.packed()
	}
	if phase == Statistics && p.descends() {
		n += p.parameters()
	}
	size := head + 8*n
	if p.TopItems > 0 {
		size += choiceBytes * items
	}
	return size
}

// FinalSize is that of the model that a run ends with: that of the phase Statistics, and of items that were not trained on what
// their features say.
func (p *Params) FinalSize() int {
	n, others := 0, p.Items-p.trained()
	items, biases := p.speaks()
	if items {
		n += others * p.Rank
	}
	if biases {
		n += others
	}
	return p.ModelSize(Statistics) + 8*n
}
