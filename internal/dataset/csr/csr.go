// Package csr sorts ratings by user and item, as compressed rows (CSR) need them. It knows no set: it works on columns of indices.
package csr

import "slices"

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
// present order. start holds the users' starts. It counts, by item and then by user, and compares nothing.
func Order(user, item []int32, items int, start []int) []int32 {
	byItem, next := make([]int32, len(user)), Starts(item, items)
	for k, i := range item {
		byItem[next[i]] = int32(k)
		next[i]++
	}
	out := make([]int32, len(user))
	nextOf := slices.Clone(start)
	for _, k := range byItem {
		u := user[k]
		out[nextOf[u]] = k
		nextOf[u]++
	}
	return out
}
