package read

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// maxSmall bounds the integer ids that are looked up in a list. Integer ids of published sets are
// below it, and the list takes at most 16 MB.
const maxSmall = 1 << 22

// idTable numbers the ids of a source in the order of their first appearance.
// The zero value is ready to use.
type idTable struct {
	names  []string
	small  []int32          // number of a small integer id, by its value; -1 for none
	number map[string]int32 // of all other ids
	last   int32            // number of the other id looked up last: files are often sorted by user

	seen idSet // small integer ids that have a code and, until they are settled, no number

	// mapped leaves small alone: of many tables each might hold one id, and 16 MB.
	mapped bool
}

// code returns what stands for an id in a column until all are known: a small integer its own value, so that it takes no looking
// up, any other id the complement of its number.
func (t *idTable) code(id []byte) (int32, error) {
	if small, isSmall := smallInteger(id); isSmall {
		t.seen.add(int32(small))
		return int32(small), nil
	}
	n, err := t.index(id)
	return ^n, err
}

// settle gives the small integer ids that have a code their numbers.
func (t *idTable) settle() {
	if most := len(t.seen) - 1; most >= 0 {
		t.small = slices.Grow(t.small, max(0, 64*most+bits.Len64(t.seen[most])-len(t.small)))
	}
	for w, ids := range t.seen {
		for ; ids != 0; ids &= ids - 1 {
			small := 64*w + bits.TrailingZeros64(ids)
			if small >= len(t.small) || t.small[small] < 0 {
				t.add(strconv.Itoa(small), small, true)
			}
		}
	}
	t.seen = nil
}

// places says where ids stand in the canonical order, by their codes.
type places struct {
	small []int32 // of small integers, by their values
	other []int32 // of others, by their numbers
}

// places takes the place of each number. The ids must be settled; the table is used up.
func (t *idTable) places(rank []int32) places {
	for v, n := range t.small {
		if n >= 0 {
			t.small[v] = rank[n]
		}
	}
	return places{small: t.small, other: rank}
}

// decode puts places where the codes are.
func (p places) decode(codes []int32) {
	for k, code := range codes {
		if code >= 0 {
			codes[k] = p.small[code]
		} else {
			codes[k] = p.other[^code]
		}
	}
}

// index returns the number of an id, a new one when the id is new.
func (t *idTable) index(id []byte) (int32, error) {
	small, isSmall := smallInteger(id)
	isSmall = isSmall && !t.mapped
	switch {
	case isSmall && small < len(t.small) && t.small[small] >= 0:
		return t.small[small], nil
	case isSmall: // new
	case len(t.names) > 0 && string(id) == t.names[t.last]:
		return t.last, nil
	default:
		if n, known := t.number[string(id)]; known {
			t.last = n
			return n, nil
		}
	}
	if err := idtext.Check(id); err != nil {
		return 0, err
	}
	if len(t.names) == math.MaxInt32 {
		return 0, fmt.Errorf("%s is one too many; at most %d are supported", idtext.Quote(id), math.MaxInt32)
	}
	t.last = t.add(string(id), small, isSmall)
	return t.last, nil
}

// add gives a new id its number.
func (t *idTable) add(name string, small int, isSmall bool) int32 {
	n := int32(len(t.names))
	t.names = append(t.names, name)
	if !isSmall {
		if t.number == nil {
			t.number = make(map[string]int32)
		}
		t.number[name] = n
		return n
	}
	if old := len(t.small); old <= small {
		t.small = slices.Grow(t.small, small+1-old)[:small+1]
		for v := old; v <= small; v++ {
			t.small[v] = -1
		}
	}
	t.small[small] = n
	return n
}

// smallInteger returns the value of an id that is the shortest decimal form of a
// small integer; so no two ids share one.
func smallInteger(id []byte) (v int, ok bool) {
	if len(id) == 0 || len(id) > 7 || id[0] == '0' && len(id) > 1 {
		return 0, false
	}
	for _, c := range id {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = 10*v + int(c-'0')
	}
	return v, v < maxSmall
}

// canonical returns the ids in canonical order and the place of each number in
// it. The order is numeric when every id is an integer (of 64 bits), else
// lexicographic by bytes; it does not depend on the order of the file.
func (t *idTable) canonical() (ids []string, rank []int32) {
	type entry struct {
		name   string
		value  int64
		number int32
	}
	entries := make([]entry, len(t.names))
	integers := true
	for i, name := range t.names {
		v, err := strconv.ParseInt(name, 10, 64)
		integers = integers && err == nil
		entries[i] = entry{name: name, value: v, number: int32(i)}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if integers && a.value != b.value {
			return cmp.Compare(a.value, b.value)
		}
		return cmp.Compare(a.name, b.name) // "1" and "01" are two ids
	})
	ids, rank = make([]string, len(entries)), make([]int32, len(entries))
	for i, e := range entries {
		ids[i], rank[e.number] = e.name, int32(i)
	}
	return ids, rank
}
