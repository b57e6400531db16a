package kernel

// choiceSize is the length in bytes of a broadcast choice.
func (p *Params) choiceSize() int {
	if p.Single {
		return (p.Items + 7) / 8
	}
	return choiceBytes * p.TopItems
}

// sizes holds the lengths in bytes of the parts of a model.
type sizes struct {
	head  int // before the numbers
	each  int // of a number of an item
	other int // of the bias of an item that is not trained on
}

func (p *Params) sizes() sizes {
	if p.Single {
		return sizes{head: len(singleDomain) + 2, each: 4, other: 1}
	}
	return sizes{head: len(modelDomain) + 1, each: 8, other: 8}
}

// ModelSize is the largest length in bytes of the model that comes with the plans of a phase. Its
// parts besides V grow as phases release them.
func (p *Params) ModelSize(phase string) int {
	of := p.sizes()
	head := of.head + 8 // and the mean
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
	size := head + of.each*n + 8*doubles
	if p.TopItems > 0 {
		size += p.choiceSize()
	}
	if p.ByWeights {
		size += of.other * (p.Items - items)
	}
	return size
}

// FinalSize is the length of the model that a run ends with. Beyond the model of the phase Statistics it
// has how often items are rated, and what features predict for items that were not trained on.
func (p *Params) FinalSize() int {
	of, size, others := p.sizes(), p.ModelSize(Statistics), p.Items-p.Trained()
	if p.Orders() && !p.WithCounts() {
		size += of.each * p.Trained()
	}
	items, biases := p.PredictsOthers()
	if items {
		size += of.each * others * p.Rank
	}
	if biases && !p.ByWeights {
		size += of.other * others
	}
	return size
}
