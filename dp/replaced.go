package dp

import "math"

// ForReplacement returns the budget for add-remove with which b holds if one unit is replaced by
// another: (ε/2, δ/(1 + e^(ε/2))). [Statement.Replacement] has the proof. Poisson samples, whose
// accountants know only units that are present or absent, use it to protect a label that is
// replaced: the data set without the example lies between the two. [Budget.Replaced] is the way
// back.
func (b Budget) ForReplacement() Budget {
	b.Epsilon /= 2
	b.Delta /= 1 + math.Exp(b.Epsilon)
	return b
}

// Replaced converts spent, the ε of a run that was calibrated by ForReplacement, to replacement of
// one unit: 2ε, at b's δ.
func (b Budget) Replaced(spent Result) Result {
	spent.Epsilon *= 2
	return spent
}
