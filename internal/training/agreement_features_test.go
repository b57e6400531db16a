package training_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// TestFactsAboutFeaturesRefused checks that facts are refused if they lack the features that an algorithm needs, list
// features of other items, or list features that the configuration does not ask for.
func TestFactsAboutFeaturesRefused(t *testing.T) {
	for _, tt := range []struct {
		settings string
		change   func(*agreement.Public)
		reason   string
	}{
		{"algorithm=dp-cmf", func(p *agreement.Public) { p.Facts.Features = nil }, "lists no genres or years"},
		{"algorithm=ssp-c", func(p *agreement.Public) { p.Facts.Features[0].Value[0] = 99 }, "values are below"},
		{"algorithm=ssp-c", func(p *agreement.Public) { p.Facts.Features[0].Weight[0] = math.NaN() }, "weights are positive"},
		{"algorithm=ada-dpals", func(p *agreement.Public) {
			p.Facts.Features = publish(t, opened.Experiment(t, "algorithm=ssp-c")).Facts.Features
		}, "learns from none"},
	} {
		p := publish(t, opened.Experiment(t, tt.settings))
		tt.change(p)
		if e, err := agreement.Open(p); e != nil || err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		}
	}
}

// TestFactsOfLongStatisticsRefused checks that a client's memory of a round is bounded, and not only the model. One Gramian for each of
// 400 items at rank 1024 has 400·524,800 coordinates. The embeddings have 409,600.
func TestFactsOfLongStatisticsRefused(t *testing.T) {
	e := opened.Experiment(t, "algorithm=dpals rank=1024 epsilon=inf rounds=1 network.stage-timeout-s=10000")
	const want = "with rank 1024 a round of phase statistics sums 210330000 coordinates of every client; at most 134217728"
	if _, err := agreement.Of(e, protocol.SessionID{1}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it", err, want)
	}
}
