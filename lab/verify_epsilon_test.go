package lab_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/results"
)

// secondEpsilon checks a folder that states epsilon at δ = 1e-5 for some recorded releases. It returns the ε that is found, and whether
// the folder is accused.
func secondEpsilon(t *testing.T, epsilon float64, events []dp.Event, searches []dp.Search, samplers float64) (found float64, forged bool) {
	t.Helper()
	dir := t.TempDir()
	s := dp.Statement{Epsilon: epsilon, Delta: 1e-5, Unit: dp.User, Relation: dp.ZeroOut, Accountant: dp.RDP}
	if err := atomicfile.WriteJSON(filepath.Join(dir, "summary.json"), map[string]any{"privacy": s}); err != nil {
		t.Fatal(err)
	}
	past := algorithm.PastSession{Session: "00", Epsilon: &epsilon, Delta: 1e-5, Unit: dp.User, Accountant: dp.RDP, Events: events, SamplerError: samplers}
	for _, search := range searches {
		past.Search = &search
	}
	if err := results.WriteEvidence(dir, []algorithm.PastSession{past}, nil); err != nil {
		t.Fatal(err)
	}
	r, err := verify.Folder(t.Context(), dir, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Epsilon == nil {
		t.Fatalf("no ε is computed: %v", verdicts(t, r))
	}
	return *r.Epsilon, slices.Contains(verdicts(t, r), "forged epsilon")
}

// The second accountant agrees with the first within its tolerance, and never asks for more than the first one states: the
// first is an upper bound by its proofs.
func TestEpsilonAgreesWithTheAccountantThatPlans(t *testing.T) {
	effort.NotShort(t, "two accountants for each composition; TestHonestLogsPass has one")
	search := dp.Search{Candidates: 20, Law: dp.Selection{Eta: 1, Gamma: 0.25}, Runs: [][]dp.Event{{dp.Gaussian(3)}, {dp.Gaussian(2.5)}}, SamplerError: 1e-12}
	for name, p := range map[string]dp.Problem{
		"gaussian":              {Events: []dp.Event{dp.Gaussian(2).Times(10)}},
		"gaussians":             {Events: []dp.Event{dp.Gaussian(0.7), dp.Gaussian(40).Times(500)}},
		"much privacy":          {Events: []dp.Event{dp.Gaussian(90)}},
		"skellam":               {Events: []dp.Event{dp.Skellam(1992552.6488, 500.5, 500.5).Times(10)}, SamplerError: 1e-15},
		"small skellam":         {Events: []dp.Event{dp.Skellam(20, 2, 3)}},
		"few skellam":           {Events: []dp.Event{dp.Skellam(12, 1, 1).Times(3)}, Accountant: dp.RDP},
		"samplers":              {Events: []dp.Event{dp.Gaussian(2)}, SamplerError: 1e-7},
		"sampled, many":         {Events: []dp.Event{dp.SubsampledGaussian(1.1, 0.01).Times(5000)}},
		"sampled, rarely":       {Events: []dp.Event{dp.SubsampledGaussian(0.5, 0.001).Times(20)}},
		"sampled skellam":       {Events: []dp.Event{dp.SubsampledSkellam(4e4, 100, 300, 0.1).Times(30)}},
		"sampled and whole":     {Events: []dp.Event{dp.SubsampledGaussian(1, 0.1).Times(20), dp.Gaussian(3)}},
		"search":                {Searches: []dp.Search{search}},
		"search and a run":      {Searches: []dp.Search{search}, Events: []dp.Event{dp.Skellam(400, 3, 5).Times(2)}},
		"search, logarithmic":   {Searches: []dp.Search{{Law: dp.Selection{Gamma: 0.01}, Runs: [][]dp.Event{{dp.Gaussian(4)}}}}},
		"search over sampled":   {Searches: []dp.Search{{Law: dp.Selection{Eta: 0.5, Gamma: 0.1}, Runs: [][]dp.Event{{dp.SubsampledGaussian(1, 0.05).Times(20)}}}}},
		"no ε, by the samplers": {Events: []dp.Event{dp.Gaussian(2)}, SamplerError: 1e-5},
	} {
		t.Run(name, func(t *testing.T) {
			if p.Delta = 1e-5; p.Accountant == "" {
				p.Accountant = dp.Best
			}
			want, err := p.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			stated := want.Epsilon
			if math.IsInf(stated, 1) {
				stated = 100 // a folder that states no ε is not checked
			}
			got, forged := secondEpsilon(t, stated, p.Events, p.Searches, p.SamplerError)
			if math.IsInf(want.Epsilon, 1) {
				if !math.IsInf(got, 1) || !forged {
					t.Errorf("no ε holds, and %v is found", got)
				}
				return
			}
			t.Logf("%v, stated %v (%s)", got, want.Epsilon, want.Accountant)
			if forged {
				t.Errorf("a true ε of %v is called too small: %v is found", want.Epsilon, got)
			}
			least := 1 - 2e-3
			if name == "search over sampled" { // chords between whole orders
				least = 1 - 2e-2
			}
			if !(got >= want.Epsilon*least-1e-12) {
				t.Errorf("%v is found, far below %v", got, want.Epsilon)
			}
		})
	}
}

// The ε of one normal release with z = 1 at δ = 1e-5 is 4.3775 (Balle and Wang 2018, the analytic Gaussian: computed by SciPy from
// Φ(1/2 - ε) - e^ε·Φ(-1/2 - ε)).
func TestEpsilonOfOneNormalRelease(t *testing.T) {
	if got, _ := secondEpsilon(t, 5, []dp.Event{dp.Gaussian(1)}, nil, 0); math.Abs(got-4.377177) > 1e-5 {
		t.Error(got)
	}
}
