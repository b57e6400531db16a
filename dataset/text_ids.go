package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// quoteShort quotes text of a file for an error message, at most 60 bytes of it.
func quoteShort(b []byte) string {
	if len(b) > 60 {
		return strconv.Quote(string(b[:60])) + "..."
	}
	return strconv.Quote(string(b))
}

// errNotUTF8 is the reason given for text in another encoding.
var errNotUTF8 = errors.New("is not UTF-8; convert the file")

// checkID reports an id that cannot be used.
func checkID(id []byte) error {
	if len(id) == 0 {
		return errors.New("is empty; every row needs one")
	}
	if !utf8.Valid(id) {
		return fmt.Errorf("%s %w", quoteShort(id), errNotUTF8)
	}
	return nil
}

// numbered returns the ids "1" to n.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i + 1)
	}
	return ids
}

// areNumbered reports whether ids are "1" to their count.
func areNumbered(list []string) bool {
	for i, id := range list {
		if id != strconv.Itoa(i+1) {
			return false
		}
	}
	return true
}

// compareIDs is the canonical order of ids, numeric where all are integers.
func compareIDs(a, b string, integers bool) int {
	if integers {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}
