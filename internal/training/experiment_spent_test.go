package training_test

import (
	"errors"
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// attempts takes the plans of an experiment's strategy, as a party would see them.
func attempts(t *testing.T, e *experiment.Experiment) (*experiment.Federation, []*protocol.Plan) {
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
	if err = l.Charge(p.Session, p.Round, events); err != nil {
		t.Fatal(err)
	}
}

// A party that takes up every plan spends its budget, the last steps on V
// included, and not more.
func TestLedgersHoldEveryPlan(t *testing.T) {
	effort.NotShort(t, "whole runs")
	for _, settings := range []string{
		"algorithm=vfl-sgdmf accountant=rdp rounds=6 item-steps=9", "algorithm=vfl-sgdmf accountant=rdp unit=user rounds=4 item-steps=3",
		"algorithm=hfl-sgdmf accountant=rdp rounds=5", "algorithm=hfl-synsgd accountant=rdp rounds=8", "algorithm=hfl-sgdmf rounds=5 sampling-rate=1",
	} {
		e := opened.Experiment(t, settings)
		f, plans := attempts(t, e)
		if len(plans) != e.Schedule.Rounds() || len(f.Ledgers) != 10 {
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
			t.Errorf("%s: one round more: error %v, want it to be refused", settings, err)
		}
	}
}

// With ratings as units, and with users of one party each, the dearest unit is
// with the party that took part most.
func TestSpentIsThatOfTheFullestLedger(t *testing.T) {
	for _, settings := range []string{"algorithm=vfl-sgdmf accountant=rdp rounds=6", "algorithm=hfl-sgdmf accountant=rdp rounds=6", "algorithm=hfl-synsgd accountant=rdp rounds=6"} {
		e := opened.Experiment(t, settings)
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
		if want := costOf(t, e, e.Schedule.First().Noise.Multiplier, 5*int(opened.Number(e.Config, "local-steps"))); math.Abs(r.Epsilon-want) > 1e-9*want {
			t.Errorf("%s: spent %v, want five rounds, %v", settings, r.Epsilon, want)
		}
	}
}

// A user with ratings at every party of VFL is in the steps of all of them.
func TestSpentAddsUpOverPartiesOfAUser(t *testing.T) {
	e := opened.Experiment(t, "algorithm=vfl-sgdmf unit=user parties=4 rounds=3 local-steps=2 item-steps=5 accountant=rdp")
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
	if want := costOf(t, e, e.Schedule.First().Noise.Multiplier, 17); math.Abs(r.Epsilon-want) > 1e-9*want {
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
		{"algorithm=fmf-vfl", "(epsilon=inf, delta=0, unit=rating, relation=add-remove, accountant=none, sampling=none, noise=none)"},
		{"algorithm=fmf-hfl", "(epsilon=inf, delta=0, unit=user, relation=add-remove, accountant=none, sampling=none, noise=none)"},
		{"algorithm=hfl-sgdmf noise=none", "(epsilon=inf, delta=1e-05, unit=user, relation=add-remove, accountant=none, sampling=none, noise=none)"},
	} {
		if got := opened.Experiment(t, tt.settings).Statement(dp.Result{Epsilon: 1.5, Accountant: dp.RDP}).String(); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.settings, got, tt.want)
		}
	}
}
