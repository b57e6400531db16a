// Package units writes counts and bytes for people.
package units

import "fmt"

// Bytes writes a count of bytes.
func Bytes(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}

// Grouped writes a count with commas between thousands.
func Grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Counted writes a number of things, with the noun in agreement.
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Count is Grouped of an int.
func Count(n int) string { return Grouped(int64(n)) }
