package dataset

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
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
