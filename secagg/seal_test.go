package secagg

import (
	"bytes"
	"testing"

	"github.com/fedsim/fedsim/secagg/graph"
)

// The plaintext of what is dealt, in one layer or two, is read back as it was, and
// nothing else is read.
func FuzzParseHoldings(f *testing.F) {
	f.Add(make([]byte, 64), false, false)
	f.Add(make([]byte, 96), true, false)
	f.Add(make([]byte, 128), false, true)
	f.Add(bytes.Repeat([]byte{0xff}, 64), false, false) // no scalars
	f.Fuzz(func(t *testing.T, b []byte, active, replaces bool) {
		mode, n := graph.SemiHonest, layer(1)
		want := 2 * 32
		if active {
			mode = graph.Active
			want += 2 * 16
		}
		if replaces {
			n = layers
			want *= 2
		}
		h, err := parseHoldings(b, mode, n)
		if err == nil && !bytes.Equal(h.append(nil, n), b) {
			t.Fatalf("%x is read as %x", b, h.append(nil, n))
		}
		if err == nil && len(b) != want {
			t.Fatalf("%d bytes are read, %d expected", len(b), want)
		}
	})
}
