package dataset

// itemDraw is the domain of what is hashed of an item.
const itemDraw = "fedsim split item v1"

// userDraws is what is hashed of each user, and the seed.
func (s *Set) userDraws(seed uint64) []uint64 {
	seed = mix(seed + golden)
	users := hashIDs("fedsim split user v1", s.UserIDs)
	for u, h := range users {
		users[u] = mix(seed ^ h)
	}
	return users
}

// draws returns the hash of each rating.
func (s *Set) draws(seed uint64) func(k int) uint64 {
	users, items := s.userDraws(seed), hashIDs(itemDraw, s.ItemIDs)
	return func(k int) uint64 { return mix(users[s.User[k]] ^ items[s.Item[k]]) }
}
