package dataset

// Regression is a set of examples: public features and a label each.
type Regression struct {
	Rows, Cols int
	X          []float64 // row by row, Rows x Cols
	Y          []float64 // Rows labels
}
