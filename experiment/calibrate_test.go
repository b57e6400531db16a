package experiment

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// calibrated are private experiments between organisations, with how many noisy
// steps a unit takes part in at all parties together and at one of them:
// T·T' + κ, and s times that where a unit is in everybody's data.
var calibrated = []struct {
	settings       string
	together, each int
}{
	{"algorithm=vfl-sgdmf", 1000, 1000},
	{"algorithm=vfl-sgdmf accountant=rdp parties=1 epsilon=1", 1000, 1000},
	{"algorithm=vfl-sgdmf accountant=rdp rounds=7 local-steps=3 item-steps=4 sampling-rate=0.2", 25, 25},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user rounds=7 local-steps=3 item-steps=4", 250, 25},
	{"algorithm=vfl-sgdmf unit=user parties=3 rounds=5 local-steps=2 epsilon=5", 30, 10},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=1 rounds=5", 50, 50},
	{"algorithm=hfl-sgdmf accountant=rdp", 1000, 1000},
	{"algorithm=hfl-sgdmf rounds=4 local-steps=5 delta=1e-7 sampling-rate=1", 20, 20},
	{"algorithm=hfl-synsgd accountant=rdp clipping=both", 1000, 1000},
}

// cost is what steps of the experiment's noise cost, by the accountant directly.
func cost(t *testing.T, e *Experiment, z float64, steps int) float64 {
	t.Helper()
	event := dp.SubsampledGaussian(z, e.Config.SamplingRate)
	if e.Config.SamplingRate == 1 {
		event = dp.Gaussian(z)
	}
	r, err := dp.Problem{Events: []dp.Event{event.Times(steps)}, Delta: e.Config.Delta.Value, Accountant: dp.Accountant(e.Config.Accountant)}.Epsilon()
	if err != nil {
		t.Fatal(err)
	}
	return r.Epsilon
}

// The noise found costs the budget, a hundredth less would cost more, and that is
// the budget of every party, whose ledger is charged for all of them where a unit
// lies with all.
func TestNoiseOfOrganisationsIsTheLeast(t *testing.T) {
	for _, tt := range calibrated {
		t.Run(tt.settings, func(t *testing.T) {
			t.Parallel()
			e := open(t, tt.settings)
			want, z := e.Config.Epsilon.Value, e.Steps.First().Noise.Multiplier
			if got := cost(t, e, z, tt.together); !(got <= want && got > 0.999*want) {
				t.Errorf("the noise costs %v, want %v", got, want)
			}
			if got := cost(t, e, 0.99*z, tt.together); got <= want {
				t.Errorf("a hundredth less costs %v, within %v: the noise is not the least", got, want)
			}
			if got := e.Privacy.Budget.Epsilon; got != want {
				t.Errorf("the budget of a party is %v, want %v", got, want)
			}
			planned, err := e.Planned()
			if err != nil {
				t.Fatal(err)
			}
			if together := cost(t, e, z, tt.together); math.Abs(planned.Epsilon-together) > 1e-9*together {
				t.Errorf("planned is %v, want %v", planned.Epsilon, together)
			}
			spread := 1
			if e.Steps.First().Noise.Spread {
				spread = e.Cohort.Clients
			}
			if spread*tt.each != tt.together {
				t.Errorf("a party is charged for %d times its %d steps, want %d", spread, tt.each, tt.together)
			}
		})
	}
}

// Without sampling n steps of multiplier z are one Gaussian release with
// μ = √n/z, for which δ is known in closed form (Balle and Wang 2018).
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
		e := open(t, tt.settings)
		mu := math.Sqrt(tt.steps) / e.Steps.First().Noise.Multiplier
		if got := delta(2, mu); !(got <= 1e-5*(1+1e-6) && got > 0.99e-5) {
			t.Errorf("%s: epsilon 2 comes with delta %v, want 1e-5", tt.settings, got)
		}
	}
}

// attempts takes the plans of an experiment's strategy, as a party would see them.
func attempts(t *testing.T, e *Experiment) (*Federation, []*protocol.Plan) {
	t.Helper()
	f, err := e.Federation()
	if err != nil {
		t.Fatal(err)
	}
	var plans []*protocol.Plan
	for {
		p, done, err := f.Strategy.Next()
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return f, plans
		}
		f.Strategy.Skip(p, nil)
		plans = append(plans, p)
	}
}

func charge(t *testing.T, l *dp.Ledger, p *protocol.Plan) {
	t.Helper()
	events, err := p.Charges()
	if err != nil {
		t.Fatal(err)
	}
	if err = l.Charge(p.Session, p.Iteration, events); err != nil {
		t.Fatal(err)
	}
}

// A party that takes up every plan spends its budget, the last steps on V
// included, and not more.
func TestLedgersHoldEveryPlan(t *testing.T) {
	for _, settings := range []string{
		"algorithm=vfl-sgdmf accountant=rdp rounds=6 item-steps=9", "algorithm=vfl-sgdmf unit=user rounds=4 item-steps=3",
		"algorithm=hfl-sgdmf accountant=rdp rounds=5", "algorithm=hfl-synsgd accountant=rdp rounds=8", "algorithm=hfl-sgdmf rounds=5 sampling-rate=1",
	} {
		e := open(t, settings)
		f, plans := attempts(t, e)
		if len(plans) != e.Config.rounds() || len(f.Ledgers) != 10 {
			t.Fatalf("%s: %d plans and %d ledgers", settings, len(plans), len(f.Ledgers))
		}
		l := f.Ledgers[3]
		before := 0.0
		for _, p := range plans {
			charge(t, l, p)
			if s := l.Spent().Epsilon; !(s > before) {
				t.Errorf("%s: spent %v, after %v", settings, s, before)
			}
			before = l.Spent().Epsilon
		}
		if got, want := l.Spent().Epsilon, e.Privacy.Budget.Epsilon; !(got <= want && got > 0.9999*want) {
			t.Errorf("%s: all plans cost %v, want the budget, %v", settings, got, want)
		}
		events, err := plans[0].Charges()
		if err != nil {
			t.Fatal(err)
		}
		var over *dp.OverspendError
		if err = l.Charge(plans[0].Session, uint64(len(plans)+1), events); !errors.As(err, &over) {
			t.Errorf("%s: one iteration more: error %v, want it to be refused", settings, err)
		}
	}
}

// With ratings as units, and with users of one party each, the dearest unit is
// with the party that took part most.
func TestSpentIsThatOfTheFullestLedger(t *testing.T) {
	for _, settings := range []string{"algorithm=vfl-sgdmf accountant=rdp rounds=6", "algorithm=hfl-sgdmf accountant=rdp rounds=6", "algorithm=hfl-synsgd accountant=rdp rounds=6"} {
		e := open(t, settings)
		f, plans := attempts(t, e)
		if r, err := e.Spent(f.Ledgers, nil); err != nil || r.Epsilon != 0 {
			t.Errorf("%s: nothing charged costs %v (%v)", settings, r.Epsilon, err)
		}
		for k, upTo := range []int{2, 5, 3} {
			for _, p := range plans[:upTo] {
				charge(t, f.Ledgers[k], p)
			}
		}
		r, err := e.Spent(f.Ledgers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := cost(t, e, e.Steps.First().Noise.Multiplier, 5*int(e.Config.LocalSteps.Value)); math.Abs(r.Epsilon-want) > 1e-9*want {
			t.Errorf("%s: spent %v, want five iterations, %v", settings, r.Epsilon, want)
		}
	}
}

// A user with ratings at every party of VFL is in the steps of all of them.
func TestSpentAddsUpOverPartiesOfAUser(t *testing.T) {
	e := open(t, "algorithm=vfl-sgdmf unit=user parties=4 rounds=3 local-steps=2 item-steps=5 accountant=rdp")
	f, plans := attempts(t, e)
	if r, err := e.Spent(f.Ledgers, nil); err != nil || r.Epsilon != 0 {
		t.Errorf("nothing charged costs %v (%v)", r.Epsilon, err)
	}
	for k, upTo := range []int{3, 1, 0, 2} { // 3·2+5, 2, 0 and 4 steps
		for _, p := range plans[:upTo] {
			charge(t, f.Ledgers[k], p)
		}
	}
	r, err := e.Spent(f.Ledgers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := cost(t, e, e.Steps.First().Noise.Multiplier, 17); math.Abs(r.Epsilon-want) > 1e-9*want {
		t.Errorf("spent %v, want the cost of 17 steps, %v", r.Epsilon, want)
	}
	for k, from := range []int{3, 1, 0, 2} {
		for _, p := range plans[from:] {
			charge(t, f.Ledgers[k], p)
		}
	}
	all, err := e.Spent(f.Ledgers, nil)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := e.Planned()
	if err != nil {
		t.Fatal(err)
	}
	if all.Epsilon != planned.Epsilon || !(all.Epsilon <= 10 && all.Epsilon > 9.99) {
		t.Errorf("all took part in everything: spent %v, planned %v of 10", all.Epsilon, planned.Epsilon)
	}
}

func TestStatementOfOrganisations(t *testing.T) {
	for _, tt := range []struct{ settings, want string }{
		{"algorithm=vfl-sgdmf accountant=rdp", "(epsilon=1.5, delta=5e-06, unit=rating, relation=add-remove, accountant=rdp, sampling=poisson, noise=float-gaussian)"},
		{"algorithm=vfl-sgdmf accountant=rdp unit=user", "(epsilon=1.5, delta=1e-05, unit=user, relation=add-remove, accountant=rdp, sampling=poisson, noise=float-gaussian)"},
		{"algorithm=hfl-sgdmf sampling-rate=1", "(epsilon=1.5, delta=1e-05, unit=user, relation=add-remove, accountant=rdp, sampling=none, noise=float-gaussian)"},
		{"algorithm=hfl-synsgd accountant=rdp", "(epsilon=1.5, delta=1e-05, unit=user, relation=add-remove, accountant=rdp, sampling=poisson, noise=float-gaussian)"},
		{"algorithm=fmf-vfl", "(epsilon=inf, delta=5e-06, unit=rating, relation=add-remove, accountant=none, sampling=none, noise=none)"},
		{"algorithm=fmf-hfl", "(epsilon=inf, delta=1e-05, unit=user, relation=add-remove, accountant=none, sampling=none, noise=none)"},
		{"algorithm=hfl-sgdmf noise=none", "(epsilon=inf, delta=1e-05, unit=user, relation=add-remove, accountant=none, sampling=none, noise=none)"},
	} {
		if got := open(t, tt.settings).Statement(dp.Result{Epsilon: 1.5, Accountant: dp.RDP}).String(); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.settings, got, tt.want)
		}
	}
}

// Where the noise would be more than samplers draw, in integers, a coarser fixed point makes
// it less; only where even that does not help is an experiment refused.
func TestNoiseMakesTheScaleCoarser(t *testing.T) {
	fine, coarse := open(t, "algorithm=ssp-c epsilon=1"), open(t, "algorithm=ssp-c epsilon=0.05")
	lowered := 0
	for i, step := range coarse.Steps {
		for k, r := range step.Releases {
			if largest, limit := coarse.drawn(&r); largest > limit {
				t.Errorf("%s: noise of variance %v, samplers go up to %v", r.Name, largest, limit)
			}
			if added := math.Sqrt(float64(r.MaxNonZero)) / 2 / (r.Scale * r.L2); added > 0.1 {
				t.Errorf("%s: rounding adds %v of the sensitivity", r.Name, added)
			}
			if of := fine.Steps[i].Releases[k]; r.Scale < of.Scale {
				lowered++
			} else if r.Scale != of.Scale {
				t.Errorf("%s: scale %v, with less noise %v", r.Name, r.Scale, of.Scale)
			}
		}
	}
	if planned, err := coarse.Planned(); err != nil || lowered == 0 || planned.Epsilon > 0.05 || planned.Epsilon < 0.0499 {
		t.Errorf("%d scales are lower, and the run costs %v, %v", lowered, planned, err)
	}
	c, err := Resolve(set("algorithm=ssp-c epsilon=0.01 data=synthetic:small"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), "samplers go up to") {
		t.Errorf("at epsilon 0.01: %v", err)
	}
}
