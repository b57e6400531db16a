package fedssp

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/protocol"
)

// withDonors is newStrategy with donors of the given ratings beside the clients.
func withDonors(t testing.TB, p kernel.Params, clients int, variance float64, donors []*user.User) *serving.Strategy {
	t.Helper()
	q := serving.StrategyParams{Params: p, Session: protocol.SessionID{7}, Cohort: protocol.Cohort{Clients: clients, Tolerance: 0.5}, Steps: complete(t, p, variance)}
	for _, u := range donors {
		u.Open = true
		q.Donors = append(q.Donors, u)
	}
	s, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Without noise a donor counts as much as a client: the model is the same whether users take part as clients or give their ratings.
// A solver that learns priors takes what donors gave for measurements of their own, and is not among these.
func TestDonorsCountLikeClients(t *testing.T) {
	for _, name := range []string{"plain", "full", "full per item", "encoder", "variational", "cmf", "weights of one scale", "norms, per item"} {
		p := kinds(12, 2)[name]
		p.CountCap, p.MeanCap = 12, 12 // nothing is drawn
		all, _ := people(&p, 20, 0.5, 5)
		whole := newStrategy(t, p, 20, 0)
		if name == "weights of one scale" {
			p.Headroom *= 16. / 20 // clients know of so many
		}
		train(t, whole, all)
		again, _ := people(&p, 20, 0.5, 5)
		s := withDonors(t, p, 16, 0, again[16:])
		train(t, s, again[:16])
		near(t, name+": items", s.Current().Items, whole.Current().Items, 1e-8)
		if p.Bias {
			near(t, name+": biases", s.Current().Bias, whole.Current().Bias, 1e-8)
		}
	}
}

// Clients that are lost take no donor with them: a sum that is scaled to all clients has every donor once.
func TestDonorsStayWhenClientsAreLost(t *testing.T) {
	p := full(9, 2)
	p.CountCap, p.MeanCap = 9, 9
	users, _ := people(&p, 14, 0.6, 5)
	s := withDonors(t, p, 10, 0, users[10:])
	lost := func(i int) bool { return i < 4 }
	round(t, s, users[:10], lost) // counts and mean
	plan, sums := summed(t, s, users[4:10])
	want := dense.Scaled(sums.Values[1], 10./6)
	for i, u := range users[10:] {
		dense.Axpy(want, 1, spread(contribute(t, u, plan, 10+i)[1], plan.Releases[1].Len))
	}
	if err := s.Absorb(plan, sums, serial{}); err != nil {
		t.Fatal(err)
	}
	near(t, "weights of all ratings", dense.Scaled(s.Weight, s.Params.Total()), want, 1e-9)
}

// A donor draws no sample. Its counts and its part of the mean are the expected values of the samples that a client draws.
func TestDonorsAddTheMeanOfSamples(t *testing.T) {
	p := full(12, 2)
	p.CountCap, p.MeanCap = 3, 4
	users, rows := people(&p, 1, 1, 5)
	plan, _, err := newStrategy(t, p, 1, 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	sums := make([][]float64, len(plan.Releases))
	const draws = 4000
	for k := range draws {
		for i, v := range contribute(t, NewUser(&p, rows[0]), plan, k) {
			if sums[i] == nil {
				sums[i] = make([]float64, plan.Releases[i].Len)
			}
			dense.Axpy(sums[i], 1./draws, spread(v, plan.Releases[i].Len))
		}
	}
	users[0].Open = true
	for i, v := range contribute(t, users[0], plan, 0) {
		near(t, fmt.Sprintf("release %s", plan.Releases[i].Name), spread(v, plan.Releases[i].Len), sums[i], 0.03)
	}
}

// In noise that hides the clients' sums the biases are the donors' own, as in a session without clients' ratings.
func TestDonorsSpeakThroughNoise(t *testing.T) {
	p := kinds(9, 2)["pooled"]
	p.CountCap, p.MeanCap = 9, 9
	users, rows := people(&p, 60, 0.7, 5)
	for i := range rows[40:] { // items that differ
		for k, j := range rows[40+i].Items {
			rows[40+i].Values[k] = float32(1 + j%5)
		}
		users[40+i] = NewUser(&p, rows[40+i])
	}
	const loud = 1e6
	s, deaf := withDonors(t, p, 40, loud, users[40:]), newStrategy(t, p, 40, loud)
	for range 2 {
		round(t, s, users[:40], nil)
		round(t, deaf, users[:40], nil)
	}
	order := func(b []float64) float64 { // by how much items of more stars have larger biases
		var sum float64
		for j, x := range b {
			sum += x * float64(j%5-2)
		}
		return sum
	}
	if got := order(s.Current().Bias); !(got > 3) {
		t.Errorf("the biases %v do not follow what donors gave", s.Current().Bias)
	}
	if got := order(deaf.Current().Bias); math.Abs(got) > 1 {
		t.Errorf("without donors the biases %v follow something", deaf.Current().Bias)
	}
}

// A strategy with donors that is saved and restored after any round continues to the same bits.
func TestRestoreContinuesWithDonors(t *testing.T) {
	for _, name := range []string{"pooled", "refined", "full"} {
		p := kinds(12, 2)[name]
		users, _ := people(&p, 18, 0.4, 5)
		whole := withDonors(t, p, 14, 0.01, users[14:])
		var states [][]byte
		for {
			state, err := whole.Save()
			if err != nil {
				t.Fatal(err)
			}
			if states = append(states, state); !round(t, whole, users[:14], nil) {
				break
			}
		}
		for k := range states {
			s := withDonors(t, p, 14, 0.01, users[14:])
			if err := s.Restore(states[k]); err != nil {
				t.Fatalf("%s: after %d rounds: %v", name, k, err)
			}
			train(t, s, users[:14])
			if !bytes.Equal(s.Model(), whole.Model()) {
				t.Errorf("%s: continued after %d rounds, the run ends elsewhere", name, k)
			}
		}
	}
}
