package hub_test

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/session"
)

// Two aggregators run with one key on two machines, as after a state was copied. A party that meets the first, the second and the first again
// says so. An aggregator that is started again is no second, however often.
func TestTwoAggregatorsOfOneKey(t *testing.T) {
	t.Parallel()
	for lives, want := range map[string]int{"a": 0, "aaa": 0, "abc": 0, "aabb": 0, "aba": 1, "abca": 1, "abab": 2, "abba": 1} {
		var said strings.Builder
		log := zerolog.New(&said)
		var m session.Met
		for _, life := range []byte(lives) {
			m.Meet([16]byte{life}, &log)
		}
		if n := strings.Count(said.String(), "two aggregators run with one key"); n != want {
			t.Errorf("%s: said %d times, want %d", lives, n, want)
		}
	}
}
