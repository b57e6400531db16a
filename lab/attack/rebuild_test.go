package attack

import (
	"testing"

	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/protocol"
)

// The attacker adds what a client takes back in the clear to what the client sent. By section 3 of the specification a = V/w is the
// noise that a client draws and b = V/u what it leaves. Here one of 20 clients colludes and six may be lost: w = 13, u = 19.
// A client that falls silent leaves all. Replaced noise is summed under masks, so nothing of it is seen.
func TestAttackerAddsWhatIsTakenBack(t *testing.T) {
	t.Parallel()
	const v = 13. * 19 * 4
	cohort := protocol.Cohort{Clients: 20, Tolerance: 0.3, Colluders: 0.05}
	from := protocol.Envelope{From: protocol.ClientParty(3)}
	for _, c := range []struct {
		kind     protocol.NoiseKind
		answers  bool
		x        int64
		variance float64
	}{
		{protocol.Split, true, 3, v / 19}, {protocol.Split, false, 5, v / 13}, {protocol.TwoRound, true, 5, v / 13},
	} {
		w := &watcher{listener: &listener{arrived: make(observe.Inputs)}, follow: []int{3}, pending: make(map[uint64]map[int]*sent)}
		from.Message = &protocol.MaskedInput{Round: 1, Vectors: []protocol.Integers{{Value: []int64{5}}}}
		w.hear(0, from)
		if c.answers {
			from.Message = &protocol.Unmask{Round: 1, Removals: []protocol.Integers{{Value: []int64{-2}}}}
			w.hear(0, from)
		}
		x := make([]int64, 1)
		r := protocol.Release{Len: 1, Noise: protocol.Noise{Kind: c.kind, Variance: v}}
		if got := w.pending[1][3].add(x, 0, r, cohort, 20); x[0] != c.x || got != c.variance {
			t.Errorf("%v, answers %v: %d with variance %v, want %d with %v", c.kind, c.answers, x[0], got, c.x, c.variance)
		}
	}
}
