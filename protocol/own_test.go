package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// Noise of a party's own costs its steps. Each step is a Gaussian release of the plan's multiplier
// over a Poisson sample of the plan's rate, whatever the bounds of the vector, the scale and the
// cohort are. Where everything is sampled nothing amplifies.
func TestChargesOwn(t *testing.T) {
	sampled, whole := goodRelease(), goodRelease()
	sampled.Noise, whole.Noise, whole.Name = ownNoise(), ownNoise(), "h"
	whole.Noise.SamplingRate, whole.L2, whole.Scale = 1, 1000, 1
	for _, cohort := range []protocol.Cohort{{Clients: 1}, {Clients: 10, Tolerance: 0.3, Colluders: 0.1}} {
		p := protocol.Plan{Round: 1, Cohort: cohort, Releases: []protocol.Release{sampled, whole, goodRelease()}}
		got, err := p.Charges()
		want := []dp.Event{
			{Mechanism: "subsampled-gaussian", NoiseMultiplier: 1.5, SamplingRate: 0.01, Count: 10},
			{Mechanism: "gaussian", NoiseMultiplier: 1.5, Count: 10},
			{Mechanism: "skellam", Variance: 100, L2: 21, L1: 42, Count: 1},
		}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("error %v, charges (-want +got):\n%s", err, d)
		}
		for _, e := range got {
			if err = e.Validate(); err != nil {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
}

// Data that may lie with all ten clients are charged for the steps of all ten.
func TestChargesSpread(t *testing.T) {
	r := goodRelease()
	r.Noise = ownNoise()
	r.Noise.Spread = true
	p := protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 10}, Releases: []protocol.Release{r}}
	got, err := p.Charges()
	want := []dp.Event{{Mechanism: "subsampled-gaussian", NoiseMultiplier: 1.5, SamplingRate: 0.01, Count: 100}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("error %v, charges (-want +got):\n%s", err, d)
	}
}

func TestOwnNoise(t *testing.T) {
	own := goodRelease()
	own.Noise = ownNoise()
	for _, c := range []struct {
		releases []protocol.Release
		want     bool
	}{{nil, false}, {[]protocol.Release{goodRelease()}, false}, {[]protocol.Release{own}, true}, {[]protocol.Release{goodRelease(), own}, true}} {
		if got := (&protocol.Plan{Releases: c.releases}).OwnNoise(); got != c.want {
			t.Errorf("%d releases: own noise %t, want %t", len(c.releases), got, c.want)
		}
	}
	for kind, want := range map[protocol.NoiseKind]string{protocol.NoNoise: "none", protocol.Split: "split", protocol.TwoRound: "replace", protocol.PartyNoise: "own", protocol.LocalNoise: "local", 5: "NoiseKind(5)"} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", kind, got, want)
		}
	}
}
