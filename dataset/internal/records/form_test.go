package records

import (
	"strings"
	"testing"
)

// TestPlainForm: plain lines are read as such, none is left to the scanner. Else a fault that leaves all to it would be slow, and
// never be seen.
func TestPlainForm(t *testing.T) {
	for _, c := range []struct {
		d     Dialect
		cols  Columns
		lines string
	}{
		{Commas, Columns{Item: 1, Rating: 2, Time: -1, Count: 4}, "1,2,3.5,964982703\n10,2000,0.5,1\r\n4194303,4194303,5,1234567890123456\n0,0,4.25,12345678\n"},
		{Commas, Columns{Item: 1, Rating: 2, Time: -1, Count: 3}, "1,2,3.5\n1,3,04.5\n1,4,5.\r\n2,3,4.00000000000000\n"},
		{Colons, Columns{Item: 1, Rating: 2, Time: 3, Count: 4}, "1::122::5::838985046\n1::185::3.5::838983525\n"},
		{tabs, Columns{Item: 1, Rating: 2, Time: 3, Count: 4}, "196\t242\t3\t881250949\n186\t302\t3\t891717742\n"},
		{Commas, Columns{Item: 1, Rating: -1, Time: -1, Count: 2}, "1,2\n1,3\n"},
		{tabs, Columns{Item: 1, Rating: -1, Time: 2, Count: 3}, "1\t2\t3\n1\t3\t4\n"},
	} {
		form, ok := PlainOf(c.d, c.cols, 0.5, 5, nil)
		if !ok {
			t.Fatalf("%q: no plain form", c.lines)
		}
		var rows PlainRows
		text := append([]byte(c.lines), make([]byte, Slack)...)
		if read := form.Parse(text, len(c.lines), &rows); read != len(c.lines) || rows.N != strings.Count(c.lines, "\n") {
			t.Errorf("%q: %d lines, ending before %q", c.lines, rows.N, c.lines[read:])
		}
	}
}
