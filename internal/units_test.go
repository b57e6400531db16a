package internal_test

import (
	"testing"

	"github.com/fedsim/fedsim/internal/units"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 9_999: "9999 B", 10_000: "10.0 kB", 123_456: "123.5 kB", 9_999_900: "9999.9 kB", 10_000_000: "10.0 MB"} {
		if got := units.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
}
