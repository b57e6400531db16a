package split

import (
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idhash"
)

// itemDraw is the domain of what is hashed of an item.
const itemDraw = "fedsim split item v1"

// userDraws returns a hash of each user's id and the seed.
func userDraws(s *dataset.Set, seed uint64) []uint64 {
	seed = idhash.Mix(seed + idhash.Golden)
	users := idhash.IDs("fedsim split user v1", s.UserIDs)
	for u, h := range users {
		users[u] = idhash.Mix(seed ^ h)
	}
	return users
}

// draws returns the hash of each rating.
func draws(s *dataset.Set, seed uint64) func(k int) uint64 {
	users, items := userDraws(s, seed), idhash.IDs(itemDraw, s.ItemIDs)
	return func(k int) uint64 { return idhash.Mix(users[s.User[k]] ^ items[s.Item[k]]) }
}
