// Package typo finds the words that a mistyped word resembles.
package typo

import "slices"

// Distance returns the edit distance of two texts: the least number of bytes to insert, delete or
// replace.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Nearest returns the words, the most similar to a mistyped word first. as gives what of a word to
// compare.
func Nearest(typed string, words []string, as func(word string) string) []string {
	list := slices.Clone(words)
	slices.SortStableFunc(list, func(a, b string) int { return Distance(typed, as(a)) - Distance(typed, as(b)) })
	return list
}
