package kernel

// choiceSize is the length in bytes of a broadcast choice.
func (p *Params) choiceSize() int {
	if p.Single {
		return (p.Items + 7) / 8
	}
	return choiceBytes * p.TopItems
}

// head is the length of a model before its numbers.
func (p *Params) head() int {
	if p.Single {
		return len(singleDomain) + 2
	}
	return len(modelDomain) + 1
}

// bytesEach is the size of a number of an item, bytesOfOther the size of the bias of an item that
// is not trained on.
func (p *Params) bytesEach() int {
	if p.Single {
		return 4
	}
	return 8
}

func (p *Params) bytesOfOther() int {
	if p.Single {
		return 1
	}
	return 8
}

// ModelSize is the largest length in bytes of the model that comes with the plans of a phase. Its
// parts besides V grow as phases release them.
func (p *Params) ModelSize(phase string) int {
	head := p.head() + 8 // and the mean
	if p.Chooses() && (phase == Prepare || phase == BiasStage && p.ByWeights) {
		return head
	}
	items, later := p.Trained(), phase == Statistics || phase == Refine
	n := 0 // of numbers of items
	if !p.Single || phase == Statistics && p.Rounds > 0 {
		n += items * p.Rank
	}
	if phase != Prepare && p.WithCounts() {
		n += items
	}
	if later && p.Bias || phase == Statistics && p.OnlyPopularity() {
		n += items
	}
	if later {
		n += items * p.PopularWidth()
	}
	doubles := 0
	if phase == Statistics {
		doubles += p.solverNumbers()
	}
	if p.Feedback == Implicit {
		doubles += p.Packed()
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

// FinalSize is the length of the model that a run ends with. Beyond the model of the phase Statistics it
// has how often items are rated, and what features predict for items that were not trained on.
func (p *Params) FinalSize() int {
	size, others := p.ModelSize(Statistics), p.Items-p.Trained()
	if p.Orders() && !p.WithCounts() {
		size += p.bytesEach() * p.Trained()
	}
	items, biases := p.PredictsOthers()
	if items {
		size += p.bytesEach() * others * p.Rank
	}
	if biases && !p.ByWeights {
		size += p.bytesOfOther() * others
	}
	return size
}
