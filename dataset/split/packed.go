package split

import (
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idhash"
)

// splitPacked is Split of packed ratings by chance: parts are views of the same file. It reads every rating once.
func splitPacked(s *dataset.Set, p Params) (*Parts, error) {
	c := newCut(s, p)
	d := splitDigester(s.Digest, s.Len())
	var parts [3]dataset.Ratings
	var counts [3]int
	for part, view := range s.Packed.Divide(func(user int, item int32) byte {
		part := c.of(user, item)
		d.Bytes([]byte{part})
		return part
	}) {
		parts[part], counts[part] = dataset.Ratings{Users: s.Users, Items: s.Items, Packed: view}, view.Len()
	}
	if err := p.checkParts(counts); err != nil {
		return nil, err
	}
	return &Parts{Train: parts[partTrain], Validation: parts[partValidation], Test: parts[partTest], Digest: d.Sum()}, nil
}

// cut says which part of a split a rating belongs to.
type cut struct {
	users, items     []uint64 // what is hashed of each
	test, validation uint64   // below which a draw of 53 bits is of the test part, and of that or the validation part
}

func newCut(s *dataset.Set, p Params) *cut {
	bound := func(share float64) uint64 { return uint64(math.Ceil(share * (1 << 53))) } // exact: [Params.part] in integers
	return &cut{
		users: userDraws(s, p.Seed), items: idhash.IDs(itemDraw, s.ItemIDs), test: bound(p.test()), validation: bound(p.test() + p.Validation),
	}
}

// of returns the part of a rating.
func (c *cut) of(user int, item int32) byte {
	switch draw := idhash.Mix(c.users[user]^c.items[item]) >> 11; {
	case draw < c.test:
		return partTest
	case draw < c.validation:
		return partValidation
	default:
		return partTrain
	}
}
