package training_test

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/opened"
)

// calibrated lists private experiments between organisations, with the number of noisy steps
// that a unit takes part in: at all parties together, and at one party. The number is
// T·T' + κ, and s times that where a unit is in the data of all parties.
var calibrated = []struct {
	settings       string
	together, each int
}{
	{"algorithm=vfl-sgdmf", 1000, 1000},
	{"algorithm=vfl-sgdmf accountant=rdp parties=1 epsilon=1", 1000, 1000},
	{"algorithm=vfl-sgdmf accountant=rdp rounds=7 local-steps=3 item-steps=4 sampling-rate=0.2", 25, 25},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user rounds=7 local-steps=3 item-steps=4", 250, 25},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=3 rounds=5 local-steps=2 epsilon=5", 30, 10},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=1 rounds=5", 50, 50},
	{"algorithm=hfl-sgdmf accountant=rdp", 1000, 1000},
	{"algorithm=hfl-sgdmf rounds=4 local-steps=5 delta=1e-7 sampling-rate=1", 20, 20},
	{"algorithm=hfl-synsgd accountant=rdp clipping=both", 1000, 1000},
}

// The noise found costs the budget, a hundredth less would cost more, and that is
// the budget of every party, whose ledger is charged for all of them where a unit
// lies with all.
func TestNoiseOfOrganisationsIsTheLeast(t *testing.T) {
	effort.NotShort(t, "calibrations take a second")
	for _, tt := range calibrated {
		t.Run(tt.settings, func(t *testing.T) {
			t.Parallel()
			e := opened.Experiment(t, tt.settings)
			want, z := algorithm.Epsilon.Value(e.Config), e.Schedule.First().Noise.Multiplier
			together := costOf(t, e, z, tt.together)
			if !(together <= want && together > 0.999*want) {
				t.Errorf("the noise costs %v, want %v", together, want)
			}
			if got := costOf(t, e, 0.99*z, tt.together); got <= want {
				t.Errorf("a hundredth less costs %v, within %v: the noise is not the least", got, want)
			}
			if got := e.Privacy.Budget.Epsilon; got != want {
				t.Errorf("the budget of a party is %v, want %v", got, want)
			}
			planned, err := e.Planned()
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(planned.Epsilon-together) > 1e-9*together {
				t.Errorf("planned is %v, want %v", planned.Epsilon, together)
			}
			spread := 1
			if e.Schedule.First().Noise.Spread {
				spread = e.Cohort.Clients
			}
			if spread*tt.each != tt.together {
				t.Errorf("a party is charged for %d times its %d steps, want %d", spread, tt.each, tt.together)
			}
		})
	}
}

// Without sampling, n steps of multiplier z are one Gaussian release with μ = √n/z. Its δ
// has a closed form (Balle and Wang 2018).
func TestNoiseWithoutSampling(t *testing.T) {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	delta := func(epsilon, mu float64) float64 {
		return phi(-epsilon/mu+mu/2) - math.Exp(epsilon)*phi(-epsilon/mu-mu/2)
	}
	for _, tt := range []struct {
		settings string
		steps    float64
	}{
		{"algorithm=hfl-sgdmf sampling-rate=1 epsilon=2 rounds=9 local-steps=3", 27},
		{"algorithm=vfl-sgdmf unit=user sampling-rate=1 epsilon=2 rounds=9 local-steps=3 parties=4 item-steps=2", 116},
	} {
		e := opened.Experiment(t, tt.settings)
		mu := math.Sqrt(tt.steps) / e.Schedule.First().Noise.Multiplier
		if got := delta(2, mu); !(got <= 1e-5*(1+1e-6) && got > 0.99e-5) {
			t.Errorf("%s: epsilon 2 comes with delta %v, want 1e-5", tt.settings, got)
		}
	}
}

// costOf returns the epsilon of steps of a party's noise with multiplier z, by the experiment's accountant itself.
func costOf(t *testing.T, e *experiment.Experiment, z float64, steps int) float64 {
	t.Helper()
	rate := opened.Number(e.Config, "sampling-rate")
	event := dp.SubsampledGaussian(z, rate)
	if rate == 1 {
		event = dp.Gaussian(z)
	}
	r, err := dp.Problem{Events: []dp.Event{event.Times(steps)}, Delta: algorithm.Delta.Value(e.Config), Accountant: dp.Accountant(algorithm.Accountant.Of(e.Config))}.Epsilon()
	if err != nil {
		t.Fatal(err)
	}
	return r.Epsilon
}
