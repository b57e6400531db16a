package dataset_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// TestIDTable compares numbers with a map from the text of every id: ids that are equal as integers
// are told apart, on either side of the largest small one.
func TestIDTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.OneOf(
			rapid.StringMatching(`-?0{0,2}[0-9]{1,3}`),
			rapid.SampledFrom([]string{"4194303", "4194304", "04194303", "99999999", "+1", "1.0", "a", " 1"}),
		)).Draw(t, "ids")
		var table idtext.Table
		want := make(map[string]int32)
		for _, id := range ids {
			n, known := want[id]
			if !known {
				n = int32(len(want))
				want[id] = n
			}
			if got, err := table.Index([]byte(id)); err != nil || got != n || table.Names[got] != id {
				t.Fatalf("%q is number %d, %v, want %d; before it came %q", id, got, err, n, ids)
			}
		}
	})
}

func TestCanonicalIDs(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{[]string{"10", "9", "-1"}, []string{"-1", "9", "10"}},
		{[]string{"10", "9", "a"}, []string{"10", "9", "a"}},
		{[]string{"2", "01", "1"}, []string{"01", "1", "2"}},
		{[]string{"b", "B", "é", "a b"}, []string{"B", "a b", "b", "é"}},
		{[]string{"9", "10", "99999999999999999999"}, []string{"10", "9", "99999999999999999999"}}, // not 64 bits: as text
	} {
		var table idtext.Table
		for _, id := range append(c.in, c.in...) { // a second look-up gives no second number
			if _, err := table.Index([]byte(id)); err != nil {
				t.Fatal(err)
			}
		}
		ids, rank := table.Canonical()
		if !slices.Equal(ids, c.want) {
			t.Errorf("%q sort as %q, want %q", c.in, ids, c.want)
		}
		for number, id := range c.in {
			if got := c.want[rank[number]]; got != id {
				t.Errorf("%q: number %d became %q, want %q", c.in, number, got, id)
			}
		}
	}
}
