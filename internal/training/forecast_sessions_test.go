package training_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/forecast"
)

// TestSessionsShareABudget holds the sessions' budgets against the Gaussian trade-off. The expected values come from a
// bisection in Python, of the δ in theorem 8 of Balle and Wang (2018) at 1e-5. There ε = 10 is μ = 2.00045. Further,
// μ/√52 is ε = 1.03843, μ/√2 is ε = 6.57471, and μ/√102 is ε = 0.717884.
func TestSessionsShareABudget(t *testing.T) {
	for _, tt := range []struct {
		settings string
		n        int
		shares   forecast.Shares
		want     []forecast.SessionsShare
	}{
		{"", 52, forecast.Equal, []forecast.SessionsShare{{Sessions: 52, Epsilon: 1.03}}},
		{"", 52, forecast.FrontLoaded, []forecast.SessionsShare{{Sessions: 1, Epsilon: 6.57}, {Sessions: 51, Epsilon: 0.717}}},
		{"", 1, forecast.FrontLoaded, []forecast.SessionsShare{{Sessions: 1, Epsilon: 10}}},
	} {
		e, _ := planned(t, tt.settings)
		first, p, err := forecast.Sessions(e, tt.n, 10, tt.shares)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Parts) != len(tt.want) {
			t.Fatalf("%d sessions %s: %+v", tt.n, tt.shares, p)
		}
		for i, want := range tt.want { // the accounting of integer noise and the last digit cost at most 1.5%
			if got := p.Parts[i]; got.Sessions != want.Sessions || got.Epsilon > want.Epsilon+1e-9 || got.Epsilon < 0.985*want.Epsilon {
				t.Errorf("%d sessions %s: %+v, want about %+v", tt.n, tt.shares, got, want)
			}
		}
		if p.Epsilon > 10 || p.Epsilon < 9.8 || p.Delta != 1e-5 {
			t.Errorf("%d sessions %s: %+v", tt.n, tt.shares, p)
		}
		if got := first.Privacy.Budget.Epsilon; got != p.Parts[0].Epsilon {
			t.Errorf("the first session has epsilon %v of %v", got, p.Parts[0].Epsilon)
		}
	}
}

// TestSessionsComposeWhatTheyRelease checks the total by another accountant. Rényi accounting of all releases of all
// sessions is a proof of its own, and at these sizes at most 10% above the tight total; 15% for sampled steps. A session
// too few in the total would lower it by 9%.
func TestSessionsComposeWhatTheyRelease(t *testing.T) {
	effort.NotShort(t, "compositions take a second")
	for settings, least := range map[string]float64{"rounds=7": 0.9, "algorithm=hfl-sgdmf parties=2 rounds=5": 0.85} {
		e, _ := planned(t, settings)
		first, p, err := forecast.Sessions(e, 6, 8, forecast.Equal)
		if err != nil {
			t.Fatal(err)
		}
		all := dp.Problem{Delta: p.Delta, Accountant: dp.RDP}
		for _, ev := range first.Privacy.Run {
			all.Events = append(all.Events, ev.Times(6))
		}
		r, err := all.Epsilon()
		if err != nil {
			t.Fatal(err)
		}
		if p.Epsilon > r.Epsilon || p.Epsilon < least*r.Epsilon {
			t.Errorf("%s: total %v, by Rényi accounting %v", settings, p.Epsilon, r.Epsilon)
		}
		if want := 6 * p.Parts[0].Epsilon; math.Abs(p.Added-want) > 0.01*want {
			t.Errorf("%s: epsilons add up to %v, want %v", settings, p.Added, want)
		}
	}
}

// TestSessionsRefuse checks that plans without a meaning are refused, with the reason.
func TestSessionsRefuse(t *testing.T) {
	for _, tt := range []struct {
		settings string
		n        int
		total    float64
		want     string
	}{
		{"", 0, 10, "0 sessions: from 1 to 100000"},
		{"", 3, math.Inf(1), "must be positive and finite"},
		{"epsilon=inf", 3, 10, "without noise"},
		{"algorithm=objective-perturbation", 4, 10, "4 sessions of epsilon 2.5 each"},
		{"", 100_000, 0.001, "a session of epsilon"},
	} {
		e, _ := planned(t, tt.settings)
		_, _, err := forecast.Sessions(e, tt.n, tt.total, forecast.Equal)
		var refused *config.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %d sessions of %v: %v, want %q", tt.settings, tt.n, tt.total, err, tt.want)
		}
	}
}
