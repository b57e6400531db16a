// Package idtext checks, orders and quotes ids and other short texts of files.
package idtext

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// quoteShort quotes text of a file for an error message, at most 60 bytes of it.
func Quote(b []byte) string {
	if len(b) > 60 {
		return strconv.Quote(string(b[:60])) + "..."
	}
	return strconv.Quote(string(b))
}

// errNotUTF8 is the reason given for text in another encoding.
var ErrNotUTF8 = errors.New("is not UTF-8; convert the file")

// checkID reports an id that cannot be used.
func Check(id []byte) error {
	if len(id) == 0 {
		return errors.New("is empty; every row needs one")
	}
	if !utf8.Valid(id) {
		return fmt.Errorf("%s %w", Quote(id), ErrNotUTF8)
	}
	return nil
}

// numbered returns the ids "1" to n.
func Numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i + 1)
	}
	return ids
}

// areNumbered reports whether ids are "1" to their count.
func AreNumbered(list []string) bool {
	for i, id := range list {
		if id != strconv.Itoa(i+1) {
			return false
		}
	}
	return true
}

// compareIDs is the canonical order of ids, numeric where all are integers.
func Compare(a, b string, integers bool) int {
	if integers {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}
