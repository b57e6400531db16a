package pack

// The bounds of a packed file, for tests that make one by hand.
const (
	One        = packOne
	Tail       = packTail
	MostLevels = mostLevels
)
