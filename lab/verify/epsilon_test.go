package verify

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
)

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
		"nothing":               {},
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
			got, err := epsilonOf(p.Events, p.Searches, p.Delta, p.SamplerError)
			if err != nil {
				t.Fatal(err)
			}
			if math.IsInf(want.Epsilon, 1) && math.IsInf(got.epsilon, 1) {
				return
			}
			t.Logf("%s: %v, stated %v (%s)", got.method, got.epsilon, want.Epsilon, want.Accountant)
			if !(want.Epsilon >= got.epsilon*(1-got.tolerance)-1e-12) {
				t.Errorf("a true ε of %v is called too small: %v ± %v", want.Epsilon, got.epsilon, got.tolerance)
			}
			if !(got.epsilon >= want.Epsilon*(1-max(2e-3, got.tolerance))-1e-12) {
				t.Errorf("%v is found, far below %v", got.epsilon, want.Epsilon)
			}
		})
	}
}

// The ε of one normal release with z = 1 at δ = 1e-5 is 4.3775 (Balle and Wang 2018, the analytic Gaussian: computed by SciPy from
// Φ(1/2 - ε) - e^ε·Φ(-1/2 - ε)).
func TestEpsilonOfOneNormalRelease(t *testing.T) {
	got, err := epsilonOf([]dp.Event{dp.Gaussian(1)}, nil, 1e-5, 0)
	if err != nil || math.Abs(got.epsilon-4.377177) > 1e-5 {
		t.Errorf("%v, %v", got.epsilon, err)
	}
}
