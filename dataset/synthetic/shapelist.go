package synthetic

// ShapeInfo describes a synthetic set of ratings.
type ShapeInfo struct {
	Name                  string // its spec
	Description           string
	Users, Items, Ratings int
	Min, Max              float64 // rating range in stars
}

// Shapes lists the synthetic sets of ratings.
func Shapes() []ShapeInfo {
	list := make([]ShapeInfo, len(shapes))
	for i, s := range shapes {
		lo, hi := s.scale()
		list[i] = ShapeInfo{prefix + ":" + s.name, s.description, s.users, s.items, s.ratings, lo, hi}
	}
	return list
}
