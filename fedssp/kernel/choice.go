package kernel

// This file trains on some of the items ([Params.TopItems]), as both papers do on MovieLens 20M.
// The items are chosen by the release counts, whose noise is charged like any other, or by a public
// list: never by exact counts. From the next round on, model and sums cover the chosen items alone,
// with the settings [Choice.Inner]. The choice comes with every model. It is post-processing of a
// noisy release, and costs nothing.
//
// A client leaves out its ratings of other items before all else. Weights are normalised last, over
// the remaining ratings, so that Σ w_j² <= 1 whichever items a server chooses. Another choice in
// every round moves weight only between a user's own ratings.
//
// The other items get the embedding and bias that their public features predict, if there are
// features.
//
// With [Params.ByWeights] the choice comes later and matters less. Biases and weight-counts are
// released for all items, and the items with the largest weights get statistics. No count is
// released for the choice. Weights are dealt to all of a user's ratings, once. Every user is fitted
// to all its ratings; an item that was not chosen has its bias and no embedding.
//
// A user's addition to statistics keeps only the rows of the chosen items. They are part of the
// coordinates of a vector whose norm is bounded (fedssp.go). So the same bound holds whichever
// items a server chooses, even if it chooses others in every round.

// SelectionParams selects the items that are trained on.
type SelectionParams struct {
	// TopItems is the number of items with the largest private counts that are trained on; 0: all
	// items are.
	TopItems int
	// Listed holds the items that are trained on, ascending, if a public list names them. TopItems
	// is then their number, and no counts are used.
	Listed []int32
	// ByWeights chooses the items by the weights that come with the biases of all items, and not by
	// counts before them. The other items keep their biases. Only statistics are limited to the
	// chosen items; the rest covers the whole catalogue.
	ByWeights bool
}
