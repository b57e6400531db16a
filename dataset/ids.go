package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// idTable numbers the ids of a source in the order of their first appearance.
// The zero value is ready to use.
type idTable struct {
	names  []string
	number map[string]int32
	last   int32 // number of the id looked up last: files are often sorted by user
}

// index returns the number of an id, a new one when the id is new.
func (t *idTable) index(id []byte) (int32, error) {
	if len(t.names) > 0 && string(id) == t.names[t.last] {
		return t.last, nil
	}
	n, ok := t.number[string(id)]
	if !ok {
		if err := checkID(id); err != nil {
			return 0, err
		}
		if len(t.names) == math.MaxInt32 {
			return 0, fmt.Errorf("%s is one too many; at most %d are supported", quoteShort(id), math.MaxInt32)
		}
		if t.number == nil {
			t.number = make(map[string]int32)
		}
		n = int32(len(t.names))
		name := string(id)
		t.names = append(t.names, name)
		t.number[name] = n
	}
	t.last = n
	return n, nil
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
