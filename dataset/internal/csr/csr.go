// Package csr sorts ratings by user and item, as compressed rows (CSR) need them. It knows no set: it works on columns of indices.
package csr

import (
	"math"
	"slices"
)

// Starts counts the entries of each of n rows: row u is to stand at start[u]:start[u+1].
func Starts(row []int32, n int) []int {
	start := make([]int, n+1)
	for _, u := range row {
		start[u+1]++
	}
	for u := range n {
		start[u+1] += start[u]
	}
	return start
}

// Order returns the permutation that sorts ratings by user, then item, and keeps equal pairs in their
// present order. start holds the users' starts.
func Order(user, item []int32, items int, start []int) []int32 {
	perm := make([]int32, len(user))
	for at, key := range Pairs(user, item, nil, items, start) {
		perm[at] = int32(uint32(key))
	}
	return perm
}

// Pairs returns ratings by user, then item, equal pairs in their present order. The high half of each entry is the item. The low half
// is the position of the rating or, if values are given, the bits of its value. Pairs counts, by item and then by user, and compares nothing.
func Pairs(user, item []int32, value []float32, items int, start []int) []uint64 {
	byItem := make([]uint64, len(user)) // user in the high half
	next := Starts(item, items)
	for k, i := range item {
		low := uint32(k)
		if value != nil {
			low = math.Float32bits(value[k])
		}
		byItem[next[i]] = uint64(user[k])<<32 | uint64(low)
		next[i]++
	}
	out := make([]uint64, len(user))
	nextOf := slices.Clone(start)
	at := 0
	for i, end := range next[:items] {
		for ; at < end; at++ {
			u := byItem[at] >> 32
			out[nextOf[u]] = uint64(i)<<32 | byItem[at]&math.MaxUint32
			nextOf[u]++
		}
	}
	return out
}
