// Package idtext checks, orders and quotes ids and other short texts of files.
package idtext

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Quote quotes text of a file for an error message, at most 60 bytes of it.
func Quote(b []byte) string {
	if len(b) > 60 {
		return strconv.Quote(string(b[:60])) + "..."
	}
	return strconv.Quote(string(b))
}

// ErrNotUTF8 is the reason given for text in another encoding.
var ErrNotUTF8 = errors.New("is not UTF-8; convert the file")

// Check reports an id that cannot be used.
func Check(id []byte) error {
	if len(id) == 0 {
		return errors.New("is empty; every row needs one")
	}
	if bytes.IndexByte(id, 0) >= 0 {
		return fmt.Errorf("%s has a byte that is zero, which no text has; the file is damaged, or name its encoding with --encoding", Quote(id))
	}
	if !utf8.Valid(id) {
		return fmt.Errorf("%s %w", Quote(id), ErrNotUTF8)
	}
	return nil
}

// Numbered returns the ids "1" to n.
func Numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i + 1)
	}
	return ids
}

// AreNumbered reports whether ids are "1" to their count.
func AreNumbered(list []string) bool {
	for i, id := range list {
		if id != strconv.Itoa(i+1) {
			return false
		}
	}
	return true
}

// CheckOrder reports the first id that cannot be used, or that is out of the canonical order: numeric if all ids are integers, else
// lexicographic.
func CheckOrder(ids []string) error {
	integers := true
	for i, id := range ids {
		if err := Check([]byte(id)); err != nil {
			return fmt.Errorf("id %d %w", i+1, err)
		}
		if integers {
			_, err := strconv.ParseInt(id, 10, 64)
			integers = err == nil
		}
	}
	for i := 1; i < len(ids); i++ {
		if compare(ids[i-1], ids[i], integers) >= 0 {
			return fmt.Errorf("ids: %s stands behind %s, out of order", Quote([]byte(ids[i])), Quote([]byte(ids[i-1])))
		}
	}
	return nil
}

// compare is the canonical order of ids, numeric where all are integers.
func compare(a, b string, integers bool) int {
	if integers {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}
