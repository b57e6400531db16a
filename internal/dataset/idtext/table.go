package idtext

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Table numbers the ids of a source in the order of their first appearance.
// The zero value is ready to use.
type Table struct {
	Names  []string
	number map[string]int32
	last   int32 // number of the id looked up last: files are often sorted by user
}

// Index returns the number of an id, a new one when the id is new.
func (t *Table) Index(id []byte) (int32, error) {
	if len(t.Names) > 0 && string(id) == t.Names[t.last] {
		return t.last, nil
	}
	if n, known := t.number[string(id)]; known {
		t.last = n
		return n, nil
	}
	if err := Check(id); err != nil {
		return 0, err
	}
	if len(t.Names) == math.MaxInt32 {
		return 0, fmt.Errorf("%s is one too many; at most %d are supported", Quote(id), math.MaxInt32)
	}
	if t.number == nil {
		t.number = make(map[string]int32)
	}
	name := string(id)
	t.last = int32(len(t.Names))
	t.Names, t.number[name] = append(t.Names, name), t.last
	return t.last, nil
}

// Canonical returns the ids in canonical order and the place of each number in
// it. The order is numeric when every id is an integer (of 64 bits), else
// lexicographic by bytes; it does not depend on the order of the file.
func (t *Table) Canonical() (ids []string, rank []int32) {
	type entry struct {
		name   string
		value  int64
		number int32
	}
	entries := make([]entry, len(t.Names))
	integers := true
	for i, name := range t.Names {
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

// Alike counts the ids that equal another id except for zeros, and returns an example.
func (t *Table) Alike() (n int, example string) {
	other := make(map[string]string) // the first id of a plain form that is no id itself
	for _, name := range t.Names {
		plain := plainID(name)
		if plain == name {
			continue
		}
		twin := plain
		_, found := t.number[plain]
		if !found {
			twin, found = other[plain]
		}
		if !found {
			other[plain] = name
		} else if n++; n == 1 {
			example = fmt.Sprintf("%q and %q", twin, name)
		}
	}
	return n, example
}

// plainID is an integer without leading zeros; any other id stays.
func plainID(id string) string {
	if strings.Trim(id, "0123456789") != "" {
		return id
	}
	return cmp.Or(strings.TrimLeft(id, "0"), "0")
}
