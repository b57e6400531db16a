package settings

// init declares the keys of the family. Keys are chosen in the order of their declaration, and keys
// of one solver come after them.
func init() {
	declareRanking()
	declarePosteriors()
	declareStatistics()
	declareWeighing()
	declareCounts()
	declareMean()
	declareBiases()
	declareUser()
	declareOrder()
	declareItems()
	declareEncoder()
	declareBatches()
	declareChoice()
}
