package fedssp

// ModelSize is the length in bytes of the model that comes with the plans of a phase, at
// the most: what it has besides V grows as phases release it.
func (p *Params) ModelSize(phase string) int {
	head := p.head() + 8 // and the mean
	if p.chooses() && (phase == Prepare || phase == BiasStage && p.ByWeights) {
		return head
	}
	items, later := p.trained(), phase == Statistics || phase == Refine
	n := 0 // of numbers of items
	if !p.Single || phase == Statistics && p.Rounds > 0 {
		n += items * p.Rank
	}
	if phase != Prepare && p.withCounts() {
		n += items
	}
	if later && p.Bias || phase == Statistics && p.popularity() {
		n += items
	}
	if later {
		n += items * p.popularWidth()
	}
	doubles := 0
	if phase == Statistics {
		doubles += p.solver().numbers(p)
	}
	if p.Feedback == Implicit {
		doubles += p.packed()
	}
	size := head + p.bytesEach()*n + 8*doubles
	if p.TopItems > 0 {
		size += p.choiceSize()
	}
	if p.ByWeights {
		size += p.bytesOfOther() * (p.Items - items)
	}
	return size
}

// FinalSize is that of the model that a run ends with: that of the phase Statistics, and of items that were not trained on what
// their features say.
func (p *Params) FinalSize() int {
	size, others := p.ModelSize(Statistics), p.Items-p.trained()
	items, biases := p.speaks()
	if items {
		size += p.bytesEach() * others * p.Rank
	}
	if biases && !p.ByWeights {
		size += p.bytesOfOther() * others
	}
	return size
}
