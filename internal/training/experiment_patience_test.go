package training_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/opened"
)

// TestPatienceFollowsTheMessages checks that the aggregator waits a minute, or twice as long as messages take if that is longer. By hand: a rank of 64
// and 400 items give 400·64·65/2 + 400·64 coordinates up, of 16 to 40 bits each. A given time that is too short is refused.
func TestPatienceFollowsTheMessages(t *testing.T) {
	if got := algorithm.Patience.Value(opened.Experiment(t, "data=synthetic:small algorithm=lfl-sgdmf").Config); got != 60 {
		t.Errorf("small messages are waited for %v s", got)
	}
	const large = "data=synthetic:small algorithm=dpals rank=64 network.up-mbps=0.01"
	e := opened.Experiment(t, large)
	bits := 0.
	for _, p := range e.Plans() {
		bits = max(bits, 8*float64(p.PackedSize()))
	}
	if least := float64(400*64*65/2 + 400*64); bits < 16*least || bits > 40*least {
		t.Fatalf("the largest message has %v bits for %v coordinates", bits, least)
	}
	want := 2 * bits / 1e4
	if got := algorithm.Patience.Value(e.Config); got < want || got > want+2 {
		t.Errorf("messages of %v s are waited for %v s", want/2, got)
	}
	if _, err := opened.Try(t, large+" network.stage-timeout-s=60"); err == nil || !strings.Contains(err.Error(), "60 is too short") {
		t.Errorf("%v", err)
	}
}
