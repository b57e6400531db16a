package audit

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/tune"
	"github.com/fedsim/fedsim/protocol"
)

// Values are by testdata/search.py, which goes through the numbers of runs.
func TestBestOf(t *testing.T) {
	for _, c := range []struct {
		eta, gamma, mu, score, first, delta, want float64
	}{
		{0, 0.1, 1, 0.22, -1, 1e-5, 5.5650721},
		{1, 0.1, 0.5, 0.1, -0.4, 1e-3, 2.3544232},
		{0.5, 0.3, 1.5, 0.3, -1.5, 1e-5, 8.3565619},
		{1, 0.25, 1.13, 0.25, -5, 1e-4, 4.9357629},
	} {
		b := bestOf{dp.Selection{Eta: c.eta, Gamma: c.gamma}, c.mu, c.score, c.first}
		if got := b.epsilon(c.delta); math.Abs(got-c.want) > 5e-3*c.want {
			t.Errorf("%+v: %v, want %v", b, got, c.want)
		}
	}
}

// No search is worth more than theorem 2 states, for any law, budget and order that this audit knows. The worst order is worth
// more than one run: a search that states the ε of one run can be caught.
func TestBestStaysBelowTheTheorem(t *testing.T) {
	effort.NotShort(t, "ε of dozens of laws")
	for _, c := range []struct{ eta, runs, each float64 }{
		{-0.5, 1.5, 0.5}, {1, 1.5, 5}, {-0.5, 1.5, 20}, {1, 10, 0.5}, {-0.5, 10, 5}, {1, 10, 20},
	} {
		law, err := tune.SelectionOf(c.eta, c.runs)
		if err != nil {
			t.Fatal(err)
		}
		mu := dp.GaussianMu(c.each, 1e-5)
		b := bestOf{Selection: law, mu: mu, score: mu / 5}.worst(1e-5)
		search := dp.Search{Law: law, Runs: [][]dp.Event{{dp.Gaussian(1 / mu), dp.Gaussian(5 / mu)}}}
		stated, err := dp.Problem{Delta: 1e-5, Accountant: dp.RDP, Searches: []dp.Search{search}}.Epsilon()
		if got := b.epsilon(1e-5); err != nil || got > stated.Epsilon || got < 1.03*c.each {
			t.Errorf("%+v: at least %v, stated %v, %v", c, got, stated.Epsilon, err)
		}
	}
}

// A search with an honest statement holds. With a tenth of the noise it does not, nor does the ε of one run in place of the search's.
func TestSearchesAreAudited(t *testing.T) {
	slow(t)
	for _, c := range []struct {
		name, settings string
		mean           float64
		searches       int
		caught, long   bool
		mutant         mutant
	}{
		{"honest", "algorithm=lfl-sgdmf rounds=1 epsilon=1", 3, 100, false, false, mutant{}},
		{"a tenth of the noise", "algorithm=lfl-sgdmf rounds=1 epsilon=1", 3, 100, true, false, mutant{plan: scaled(func(protocol.Release) float64 { return 1. / 100 })}},
		{"one run alone is stated", "algorithm=private-item-bias epsilon=5", 10, 3000, true, true, mutant{claim: func(e *experiment.Experiment) (float64, error) { return e.Privacy.Budget.Epsilon, nil }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				effort.LongOnly(t, "thousands of searches")
			}
			t.Parallel()
			law, err := tune.SelectionOf(0, c.mean)
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, open(t, c.settings), Config{Runs: c.searches, Claim: Stated, Select: &law, mutant: c.mutant})
			t.Logf("%.4g claimed, at least %.4g, about %.4g", r.Claimed, r.Bound, r.Point)
			if r.Holds() == c.caught || math.Abs(r.MeanRuns-c.mean) > 1e-6 {
				t.Errorf("at least %.4g where %.4g is claimed", r.Bound, r.Claimed)
			}
		})
	}
}

// Runs that draw samples have no normal law, and the audit says so.
func TestSearchOfSamples(t *testing.T) {
	law, err := tune.SelectionOf(1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"algorithm=hfl-sgdmf epsilon=5 accountant=rdp rounds=3": "draws samples",
		"algorithm=lfl-sgdmf epsilon=inf":                       "no claim to audit",
	} {
		_, err := Run(t.Context(), open(t, settings), Config{Runs: 40, Claim: Stated, Select: &law, Workers: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settings, err)
		}
	}
}
