package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// Noise that suffices by itself, by hand. Ten clients of variance 100 each add 100 each, whichever
// clients are lost or collude, and eight of them add 800. Each is charged one Skellam release of
// 100, as if no other client added any.
func TestLocalNoise(t *testing.T) {
	r := goodRelease()
	r.Noise = protocol.Noise{Kind: protocol.LocalNoise, Variance: 100}
	cohort := protocol.Cohort{Clients: 10, Tolerance: 0.3, Colluders: 0.2}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if share, final, target := r.Noise.Share(cohort), r.Noise.Final(cohort, 8, 7), r.Noise.Target(cohort); share != 100 || final != 800 || target != 1000 {
		t.Errorf("share %v, in a sum of eight %v, of all %v; want 100, 800, 1000", share, final, target)
	}
	p := protocol.Plan{Round: 1, Cohort: cohort, Releases: []protocol.Release{r}}
	got, err := p.Charges()
	if d := cmp.Diff([]dp.Event{{Mechanism: "skellam", Variance: 100, L2: 21, L1: 42, Count: 1}}, got); err != nil || d != "" {
		t.Errorf("charges, %v (-want +got):\n%s", err, d)
	}
	if p.RemovalSize(8) != 0 {
		t.Errorf("%d bytes are taken back of noise that stays", p.RemovalSize(8))
	}
	if r.Noise.Variance = -1; r.Validate() == nil {
		t.Error("a negative variance was accepted")
	}
}
