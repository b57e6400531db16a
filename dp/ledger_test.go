package dp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

var (
	sessionA = [16]byte{1}
	sessionB = [16]byte{2}
	budget   = Budget{Epsilon: 2, Delta: 1e-5, Accountant: RDP}
)

func open(t fataler, b Budget, cache *Cache) *Ledger {
	t.Helper()
	l, err := NewLedger(b, cache)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return l
}

// Charges up to the budget are accepted, each answered as the Problem of all of them. A charge that
// does not fit is refused and leaves no trace.
func TestLedgerRefusesToOverspend(t *testing.T) {
	l := open(t, budget, nil)
	event := Skellam(1e4, 15, 150)
	var charged []Event
	for i := uint64(1); ; i++ {
		before := l.Spent()
		err := l.Charge(sessionA, i, []Event{event})
		want := epsilon(t, RDP, 1e-5, append(charged, event)...)
		if want.Epsilon > budget.Epsilon {
			var over *OverspendError
			if !errors.As(err, &over) {
				t.Fatalf("charge %d costs ε = %v in total and was answered %v", i, want.Epsilon, err)
			}
			if over.Spent != before.Epsilon || over.Asked != want.Epsilon || over.Budget != budget {
				t.Errorf("the error says %+v", *over)
			}
			for _, word := range []string{
				"spent epsilon=" + roundUp(before.Epsilon), "asked for a total of epsilon=" + roundUp(want.Epsilon), "budget epsilon=2 ",
			} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %q: %v", word, err)
				}
			}
			if l.Spent() != before {
				t.Errorf("a refused charge moved the account from %+v to %+v", before, l.Spent())
			}
			// The round is not used up: a cheaper charge may still fit.
			if err = l.Charge(sessionA, i, []Event{Skellam(1e8, 1, 1)}); err != nil {
				t.Errorf("a small charge after a refused one: %v", err)
			}
			break
		}
		if err != nil {
			t.Fatalf("charge %d: %v", i, err)
		}
		if charged = append(charged, event); l.Spent() != want {
			t.Fatalf("after charge %d the account is %+v, want %+v", i, l.Spent(), want)
		}
	}
	if len(charged) < 2 {
		t.Fatalf("only %d charges fitted; the test needs more", len(charged))
	}
}

func TestLedgerRefusesToGoBack(t *testing.T) {
	l := open(t, budget, nil)
	event := []Event{Skellam(1e6, 80, 800)}
	for _, c := range []struct {
		session [16]byte
		round   uint64
		ok      bool
	}{
		{sessionA, 5, true},
		{sessionA, 5, false}, // a replay
		{sessionA, 4, false}, // a step back
		{sessionB, 4, true},  // sessions count for themselves
		{sessionA, 9, true},  // gaps are fine
		{sessionB, 4, false},
		{sessionA, 8, false},
	} {
		before := l.Spent()
		err := l.Charge(c.session, c.round, event)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrRoundOrder) {
			t.Errorf("round %d of session %x: %v", c.round, c.session[:1], err)
		}
		if !c.ok && l.Spent() != before {
			t.Errorf("a refused round moved the account")
		}
	}
	if want := epsilon(t, RDP, 1e-5, event[0].Times(3)); l.Spent() != want {
		t.Errorf("the account is %+v, want three charges, %+v", l.Spent(), want)
	}
}

func TestLedgerRefusesWhatItCannotAccountFor(t *testing.T) {
	l := open(t, budget, nil)
	for name, c := range map[string]struct {
		events []Event
		is     error
	}{
		"no events":     {nil, nil},
		"no accountant": {[]Event{Gaussian(50), SubsampledSkellam(1e6, 10, 10, 0.1)}, ErrNoAccountant},
		"invalid":       {[]Event{Skellam(math.NaN(), 1, 1)}, nil},
		"infinite":      {[]Event{Gaussian(50).Times(math.MaxInt), Gaussian(50)}, nil},
	} {
		err := l.Charge(sessionA, 1, c.events)
		if err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v", name, err)
		}
		if l.Spent() != (Result{0, RDP}) {
			t.Errorf("%s: the account moved to %+v", name, l.Spent())
		}
	}
	if err := l.Charge(sessionA, 1, []Event{Gaussian(50)}); err != nil {
		t.Errorf("after refusals, a good charge: %v", err)
	}
	for _, b := range []Budget{{}, {Epsilon: -1, Delta: 1e-5, Accountant: RDP}, {Epsilon: 1, Delta: 2, Accountant: RDP}, {Epsilon: math.NaN(), Delta: 0.1, Accountant: RDP}} {
		if _, err := NewLedger(b, nil); err == nil {
			t.Errorf("budget %+v was accepted", b)
		}
	}
}

// An unlimited budget counts without refusing.
func TestLedgerWithoutLimit(t *testing.T) {
	b := budget
	b.Epsilon = math.Inf(1)
	l := open(t, b, nil)
	if err := l.Charge(sessionA, 1, []Event{Gaussian(0.1)}); err != nil {
		t.Fatal(err)
	}
	if want := epsilon(t, RDP, 1e-5, Gaussian(0.1)); l.Spent() != want {
		t.Errorf("the account is %+v, want %+v", l.Spent(), want)
	}
}

// A ledger rebuilt from its records (through JSON, as a store may keep them) equals the original.
func TestRestoreLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cache := new(Cache)
		a := rapid.SampledFrom([]Accountant{RDP, GDPSkellam}).Draw(t, "accountant")
		b := Budget{Epsilon: 8, Delta: 1e-6, Accountant: a, SamplerError: 1e-20}
		l := open(t, b, cache)
		var records []Record
		for i := range rapid.IntRange(0, 4).Draw(t, "charges") {
			r := Record{
				Session: rapid.SampledFrom([][16]byte{sessionA, sessionB}).Draw(t, "session"),
				Round:   uint64(i + 1),
				Events:  rapid.SliceOfN(anyEvent, 1, 2).Draw(t, "events"),
			}
			if err := l.Charge(r.Session, r.Round, r.Events); err == nil {
				records = append(records, r)
			}
		}
		data, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		var stored []Record
		if err = json.Unmarshal(data, &stored); err != nil {
			t.Fatal(err)
		}
		back, err := RestoreLedger(b, nil, stored)
		if err != nil {
			t.Fatal(err)
		}
		if back.Spent() != l.Spent() || !reflect.DeepEqual(back.sessions, l.sessions) || back.Budget() != b {
			t.Fatalf("restored %+v %v, want %+v %v", back.Spent(), back.sessions, l.Spent(), l.sessions)
		}
	})
}

// If a budget was lowered since the records were made, the records stand and no further charge is
// accepted. Records that no ledger would have accepted are refused by number.
func TestRestoreLedgerEdges(t *testing.T) {
	records := []Record{{Session: sessionA, Round: 1, Events: []Event{Gaussian(1)}}, {Session: sessionA, Round: 2, Events: []Event{Gaussian(1)}}}
	l, err := RestoreLedger(budget, nil, records)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Spent().Epsilon; got <= budget.Epsilon {
		t.Fatalf("ε = %v is within the budget; the test needs more", got)
	}
	var over *OverspendError
	if err := l.Charge(sessionA, 3, []Event{Gaussian(1e6)}); !errors.As(err, &over) {
		t.Errorf("an overspent ledger answered %v", err)
	}
	if _, err := RestoreLedger(budget, nil, append(records, records[0])); !errors.Is(err, ErrRoundOrder) || !strings.Contains(err.Error(), "record 2") {
		t.Errorf("records out of order: error %v", err)
	}
	if _, err := RestoreLedger(budget, nil, []Record{{Session: sessionA, Round: 1, Events: []Event{SubsampledSkellam(1e6, 10, 10, 0.1)}}}); !errors.Is(err, ErrNoAccountant) {
		t.Errorf("a record without an accountant: error %v", err)
	}
}

// Ledgers of different budgets share one cache, at once, and answer as if alone, also if more
// compositions are live than the cache keeps.
func TestLedgersShareACache(t *testing.T) {
	cache := new(Cache)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			b := Budget{Epsilon: 50, Delta: 1e-5 / float64(1+g%2), Accountant: RDP}
			l, err := NewLedger(b, cache)
			if err != nil {
				t.Error(err)
				return
			}
			var all []Event
			for i := range 30 {
				events := []Event{Skellam(1e4, float64(20+(i*g)%3), 200), Gaussian(float64(30 + g%4))}
				all = append(all, events...)
				if err = l.Charge(sessionA, uint64(i), events); err != nil {
					t.Error(err)
					return
				}
			}
			want, err := Problem{Events: all, Delta: b.Delta, Accountant: RDP}.Epsilon()
			if err != nil || l.Spent() != want {
				t.Errorf("ledger %d: %+v, want %+v (%v)", g, l.Spent(), want, err)
			}
		})
	}
	wg.Wait()
	for i := range maxAccounts {
		cache.accounts.values[fmt.Sprint(i)] = new(account)
	}
	l := open(t, Budget{Epsilon: 50, Delta: 1e-5, Accountant: RDP}, cache)
	if err := l.Charge(sessionA, 1, []Event{Gaussian(7)}); err != nil {
		t.Fatal(err)
	}
	if want := epsilon(t, RDP, 1e-5, Gaussian(7)); l.Spent() != want {
		t.Errorf("with a full cache: %+v, want %+v", l.Spent(), want)
	}
	if len(cache.accounts.values) > maxAccounts {
		t.Errorf("the cache holds %d accounts, more than %d", len(cache.accounts.values), maxAccounts)
	}
}

// A run of sampled steps, by loss distributions. Every charge is answered as the Problem of all of
// them, also while other ledgers charge. The account never falls, and its memory does not grow.
func TestLedgerBySampledSteps(t *testing.T) {
	forget() // other losses
	cache := new(Cache)
	const rounds, steps = 50, 7
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			l, err := NewLedger(Budget{Epsilon: math.Inf(1), Delta: 1e-6, Accountant: Best}, cache)
			if err != nil {
				t.Error(err)
				return
			}
			last := 0.0
			for i := range uint64(rounds) {
				events := []Event{SubsampledGaussian(1.5, 0.02).Times(steps)}
				if i >= rounds-10 { // the last steps release less
					events[0].NoiseMultiplier = 2
				}
				if err = l.Charge(sessionA, i, events); err != nil {
					t.Error(err)
					return
				}
				if l.Spent().Epsilon <= last {
					t.Errorf("ledger %d: after round %d the account is %+v, was %v", g, i, l.Spent(), last)
				}
				last = l.Spent().Epsilon
			}
			want, err := Problem{Events: []Event{
				SubsampledGaussian(1.5, 0.02).Times((rounds - 10) * steps), SubsampledGaussian(2, 0.02).Times(10 * steps),
			}, Delta: 1e-6, Accountant: PLD}.Epsilon()
			if err != nil || l.Spent() != want {
				t.Errorf("ledger %d: %+v, want %+v (%v)", g, l.Spent(), want, err)
			}
		})
	}
	wg.Wait()
	for _, z := range []float64{1.5, 2} {
		if n := len(lossOf(SubsampledGaussian(z, 0.02)).spectra); n < 1 || n > maxSpectra {
			t.Errorf("%d spectra are kept of z = %v, want 1 to %d", n, z, maxSpectra)
		}
	}
}

// A run of 1,000 rounds and 40 parties with equal charges of ten sampled steps.
func BenchmarkLedgerBySampledSteps(b *testing.B) {
	for b.Loop() {
		forget()
		cache := new(Cache)
		ledgers := make([]*Ledger, 40)
		for i := range ledgers {
			ledgers[i] = open(b, Budget{Epsilon: math.Inf(1), Delta: 1e-5, Accountant: PLD}, cache)
		}
		for i := range uint64(1000) {
			for _, l := range ledgers {
				if err := l.Charge(sessionA, i, []Event{SubsampledGaussian(1, 0.01).Times(10)}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// A simulation's load, one round per client: reports memory per ledger.
func BenchmarkLedgerCharge(b *testing.B) {
	const clients = 70_000
	cache := new(Cache)
	events := []Event{Skellam(1e6, 500, 5000)}
	limit := Budget{Epsilon: math.Inf(1), Delta: 1e-5, Accountant: RDP}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ledgers := make([]*Ledger, clients)
	for i := range ledgers {
		l, err := NewLedger(limit, cache)
		if err != nil {
			b.Fatal(err)
		}
		ledgers[i] = l
	}
	n := 0
	for b.Loop() {
		if err := ledgers[n%clients].Charge(sessionA, uint64(n/clients+1), events); err != nil {
			b.Fatal(err)
		}
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/clients, "B/ledger")
	runtime.KeepAlive(ledgers)
}

func BenchmarkEpsilon(b *testing.B) {
	for _, c := range []struct {
		a Accountant
		e Event
	}{
		{RDP, Skellam(1e6, 500, 5000)}, {RDP, SubsampledGaussian(1, 0.01)}, {Exact, Gaussian(1)}, {GDPSkellam, Skellam(1e6, 500, 5000)},
	} {
		b.Run(fmt.Sprintf("%s/%s", c.a, c.e.Mechanism), func(b *testing.B) {
			for b.Loop() {
				forget()
				if _, err := (Problem{Events: []Event{c.e.Times(100)}, Delta: 1e-5, Accountant: c.a}).Epsilon(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
