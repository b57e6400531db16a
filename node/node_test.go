package node_test

import (
	"bytes"
	"testing"
)

// With noise off, what a federation over libp2p trains is the simulator's model to
// the bit.
func TestConformance(t *testing.T) {
	for name, settings := range map[string]string{
		"lfl":        "algorithm=fmf-lfl rounds=3",
		"lfl active": "algorithm=fmf-lfl rounds=3 mode=active secagg=real",
		"vfl":        "algorithm=fmf-vfl rounds=3 parties=4 colluders=0.2",
		"hfl":        "algorithm=fmf-hfl rounds=3 parties=4 colluders=0.2",
		// Iterations of three kinds: the mean, biases, statistics.
		"ssp-c":  "algorithm=ssp-c epsilon=inf rounds=1 rank=2 encoder.steps=10 features=" + features(t, 12),
		"dp-cmf": "algorithm=dp-cmf epsilon=inf rounds=1 rank=2 features=" + features(t, 12),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFederation(t, settings+" tolerance=0.25 deployment.stage-timeout-s=20 data="+ratings(t, 8, 12))
			out := f.run()
			if want := f.model(); !bytes.Equal(want, out.Model) {
				t.Errorf("the model is\n%x, the simulator's\n%x", out.Model, want)
			}
			if out.Attempts.Opened != 3 || out.Attempts.Released != 3 {
				t.Errorf("attempts %+v, want 3 of 3", out.Attempts)
			}
		})
	}
}
