package secagg_test

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// A client could move a sum further than it proved, by the noise that it says it takes back. So a removal has bounds as well, on its
// coordinates and on its norm.
func TestRemovalOfALargeNorm(t *testing.T) {
	r := exact("g", 400, 29)
	r.L2, r.Noise = 100, protocol.Noise{Kind: protocol.Split, Variance: 1000}
	p := plan(attacked, r)
	p.Cohort = protocol.Cohort{Clients: attacked, Tolerance: 0.2, Colluders: 0.05}
	f := newFederation(t, p, secagg.Params{Mode: secagg.Active, VerifyInputs: true})
	for i := range f.removals {
		f.inputs[i] = []protocol.Integers{{Value: make([]int64, r.Len)}}
		f.removals[i] = []protocol.Integers{{Value: make([]int64, r.Len)}}
	}
	linf, _ := p.RemovalBound(r, 1, attacked)
	most := int64(linf)
	for j := range f.removals[3][0].Value {
		f.removals[3][0].Value[j] = most
	}
	for _, s := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageConsistency} {
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	_, l2 := p.InputBound(r, 1)
	shift := float64(most) * math.Sqrt(float64(r.Len))
	honest := math.Sqrt(float64(r.Len) * (p.Cohort.ShareVariance(1000) - 1000/float64(p.Cohort.Honest(attacked))))
	m, err := f.answer(protocol.StageUnmask, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err = f.aggregator.Receive(3, m.(protocol.StageMessage)); err == nil {
		t.Errorf("a removal of norm %.0f is taken; an honest one has about %.0f, and what the client can prove of its whole input, noise included, is %.0f", shift, honest, l2)
	}
}
