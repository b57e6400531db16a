package dataset

// Raters are users whose ratings are public and who are not among the users of the set:
// their ratings are features of its items (read.Features, "rater"), one value for each of them.
type Raters struct {
	IDs   []string // in the order of the set that they were in
	Least float64  // as of split.PublicUsers

	Ratings // Users is the number of ids; Items is that of the set
}
