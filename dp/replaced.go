package dp

import "math"

// ForReplacement returns the budget with which units have to be there or not (add-remove) for b to hold where one unit is replaced by another: (ε/2, δ/(1 + e^(ε/2))).
// [Statement.Replacement] has the proof. It is how Poisson samples, whose accountants know only units that are there or not, protect a label that is
// replaced: the data set without the example lies between the two. [Budget.Replaced] is the way back.
func (b Budget) ForReplacement() Budget {
	b.Epsilon /= 2
	b.Delta /= 1 + math.Exp(b.Epsilon)
	return b
}

// Replaced is what spent, the ε of a run that was calibrated by ForReplacement, is where one unit is replaced: 2ε, at b's δ.
func (b Budget) Replaced(spent Result) Result {
	spent.Epsilon *= 2
	return spent
}
