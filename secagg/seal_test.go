package secagg

import (
	"bytes"
	"testing"
)

// The plaintext of what is dealt, in one layer or two, is read back as it was, and
// nothing else is read.
func FuzzParseHoldings(f *testing.F) {
	f.Add(make([]byte, 64), false)
	f.Add(make([]byte, 128), true)
	f.Add(bytes.Repeat([]byte{0xff}, 64), false) // no scalars
	f.Fuzz(func(t *testing.T, b []byte, replaces bool) {
		n, want := layer(1), 2*32
		if replaces {
			n = layers
			want *= 2
		}
		h, err := parseHoldings(b, n)
		if err == nil && !bytes.Equal(h.append(nil, n), b) {
			t.Fatalf("%x is read as %x", b, h.append(nil, n))
		}
		if err == nil && len(b) != want {
			t.Fatalf("%d bytes are read, %d expected", len(b), want)
		}
	})
}
