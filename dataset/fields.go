package dataset

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
)

// Field is a categorical feature of the users of a set: which of so many values each has.
type Field struct {
	Name   string
	Size   int     // values are from 0 to Size-1
	Values []int32 // one of each user
}

const (
	// mostWords is how many values a field of words may have before they are hashed into as many.
	mostWords = 1 << 16
	// privateSize is how many values a private field has: which words occur in it may not be told, so all are hashed.
	privateSize = 1000
	// numberBins is how many values a field of numbers has at the most, about as many users in each.
	numberBins = 32
)

// HashField makes a field of words, which are hashed to size values (FNV-1a of name and word). Words that share a value are one to whoever
// learns from the field.
func HashField(name string, words []string, size int) (Field, error) {
	if size < 1 || size > math.MaxInt32 {
		return Field{}, fmt.Errorf("dataset: field %s has the size %d; it must be from 1 to 2^31-1", name, size)
	}
	f := Field{Name: name, Size: size, Values: make([]int32, len(words))}
	for i, w := range words {
		f.Values[i] = hashed(name, w, size)
	}
	return f, nil
}

func hashed(name, word string, size int) int32 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name+"\x00"+word) // never fails, says hash.Hash
	return int32(h.Sum64() % uint64(size))
}

// fields are the columns of a table, those of no two values left out.
func (t *regressionTable) fields() []Field {
	var out []Field
	for _, c := range t.columns {
		f := c.field()
		if slices.Min(f.Values) < slices.Max(f.Values) {
			out = append(out, f)
		}
	}
	return out
}

// field has a value for each word, in their order as text, or for each bin of numbers, and one more for what is missing.
func (c *tableColumn) field() Field {
	if c.words == nil {
		return c.bins()
	}
	f := Field{Name: c.name, Values: make([]int32, len(c.words))}
	sorted := slices.Sorted(slices.Values(c.values))
	many := len(sorted) > mostWords
	f.Size = min(len(sorted), mostWords) + 1
	for i, w := range c.words {
		switch {
		case w < 0:
			f.Values[i] = int32(f.Size - 1)
		case many:
			f.Values[i] = hashed(c.name, c.values[w], mostWords)
		default:
			at, _ := slices.BinarySearch(sorted, c.values[w])
			f.Values[i] = int32(at)
		}
	}
	return f
}

// bins cuts numbers where as many are below as above, and so on: equal numbers are in one bin.
func (c *tableColumn) bins() Field {
	sorted := slices.DeleteFunc(slices.Clone(c.numbers), math.IsNaN)
	slices.Sort(sorted)
	var ends []float64 // the largest number of each bin but the last
	for k := 1; k < numberBins && len(sorted) > 0; k++ {
		if v := sorted[(len(sorted)-1)*k/numberBins]; (len(ends) == 0 || v > ends[len(ends)-1]) && v < sorted[len(sorted)-1] {
			ends = append(ends, v)
		}
	}
	f := Field{Name: c.name, Size: len(ends) + 2, Values: make([]int32, len(c.numbers))}
	for i, v := range c.numbers {
		if math.IsNaN(v) {
			f.Values[i] = int32(f.Size - 1)
			continue
		}
		at, _ := slices.BinarySearch(ends, v)
		f.Values[i] = int32(at)
	}
	return f
}
