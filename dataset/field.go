package dataset

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset/internal/idhash"
)

// Field is a categorical feature of the users of a set: which of so many values each has.
type Field struct {
	Name   string
	Size   int     // values are from 0 to Size-1
	Values []int32 // one of each user
}

// HashField makes a field of words, which are hashed to size values (FNV-1a of name and word). Words that share a value are one to whoever
// learns from the field.
func HashField(name string, words []string, size int) (Field, error) {
	if size < 1 || size > math.MaxInt32 {
		return Field{}, fmt.Errorf("dataset: field %s has the size %d; it must be from 1 to 2^31-1", name, size)
	}
	f := Field{Name: name, Size: size, Values: make([]int32, len(words))}
	for i, w := range words {
		f.Values[i] = idhash.Bucket(name, w, size)
	}
	return f, nil
}
