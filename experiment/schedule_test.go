package experiment

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// mixed are five iterations of three kinds, the second of which releases two vectors.
// Noise is in proportion to squared sensitivities over these shares.
var mixedShares = [][]float64{{0.1}, {0.2, 0.15}, {0.1}}

func mixed() Schedule {
	release := func(name string, n int, l2 float64, cap int) protocol.Release {
		return protocol.Release{Name: name, Len: n, L2: l2, MaxNonZero: cap, Scale: 200}
	}
	return Schedule{
		{Iterations: 1, Phase: "prepare", Releases: []protocol.Release{release("counts", 40, 5, 25)}, Model: 10},
		{Iterations: 2, Phase: "statistics", Releases: []protocol.Release{release("gramian", 6, 1, 6), release("moments", 80, 2, 80)}, Model: 30},
		{Iterations: 2, Phase: "bias", Releases: []protocol.Release{release("bias", 40, 3, 40)}, Model: 20},
	}
}

// withSchedule is an experiment of devices with another schedule.
func withSchedule(t *testing.T, settings string, s Schedule) *Experiment {
	t.Helper()
	e := open(t, settings)
	e.Steps = s
	if e.Config.Private() {
		if err := e.calibrateSplit(mixedShares); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// Releases take the parts of μ² that they are given, and all of them together cost ε:
// μ² of a release is D2²/V, and ε is asked of package dp with the events counted out by
// hand. With a percent less noise the budget does not suffice.
func TestCalibrateShares(t *testing.T) {
	for _, accountant := range []string{"rdp", "gdp-skellam"} {
		e := withSchedule(t, "epsilon=2 accountant="+accountant, mixed())
		var total float64
		var events, less []dp.Event
		for i, step := range e.Steps {
			for j, r := range step.Releases {
				d2, d1 := r.Bounds()
				mu := d2 * d2 / r.Noise.Variance
				total += float64(step.Iterations) * mu
				if first, _ := e.Steps[0].Releases[0].Bounds(); i > 0 {
					want := mixedShares[i][j] / mixedShares[0][0] * first * first / e.Steps[0].Releases[0].Noise.Variance
					if math.Abs(mu-want) > 1e-12*want {
						t.Errorf("%s: μ² of %s is %v, want %v", accountant, r.Name, mu, want)
					}
				}
				for range step.Iterations {
					events = append(events, dp.Skellam(r.Noise.Variance, d2, d1))
					less = append(less, dp.Skellam(0.98*r.Noise.Variance, d2, d1))
				}
			}
		}
		cost := func(events []dp.Event) float64 {
			r, err := dp.Problem{Events: events, Delta: 1e-5, Accountant: dp.Accountant(accountant), SamplerError: dp.SamplerError(600, 292, 1)}.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		if got := cost(events); !(got <= 2 && got > 1.999) {
			t.Errorf("%s: the run costs %v, want 2", accountant, got)
		}
		if got := cost(less); got <= 2 {
			t.Errorf("%s: with 2%% less noise it costs %v", accountant, got)
		}
		planned, err := e.Planned()
		if err != nil || math.Abs(planned.Epsilon-cost(events)) > 1e-12 {
			t.Errorf("%s: planned is %v, %v", accountant, planned, err)
		}
		// A Gaussian of this μ has ε = 2 at δ = 1e-5 (Balle and Wang 2018, by an
		// implementation of its own in Python: μ = 0.50155); rdp needs more noise.
		if accountant == "gdp-skellam" && math.Abs(math.Sqrt(total)-0.50155) > 1e-3 {
			t.Errorf("all releases together have μ = %v", math.Sqrt(total))
		}
	}
}

// Each attempt is charged what its own iteration releases.
func TestScheduleCharges(t *testing.T) {
	e := withSchedule(t, "epsilon=2", mixed())
	for attempts, releases := range [][]int{nil, {1}, {1, 1, 1}, {1, 2, 2}, {1, 2, 2, 1}, {1, 2, 2, 2}} {
		got, err := e.charges(attempts)
		if err != nil {
			t.Fatal(err)
		}
		var counts []int
		for _, ev := range got {
			counts = append(counts, ev.Count)
		}
		if !reflect.DeepEqual(counts, releases) {
			t.Errorf("%d attempts are charged %v times the releases, want %v", attempts, counts, releases)
		}
	}
	for iteration := uint64(1); iteration <= 5; iteration++ {
		one, err := e.plan(iteration).Charges()
		if err != nil {
			t.Fatal(err)
		}
		before, _ := e.charges(int(iteration) - 1)
		after, _ := e.charges(int(iteration))
		sum, _ := e.epsilon(append(before, one...))
		if want, _ := e.epsilon(after); math.Abs(sum.Epsilon-want.Epsilon) > 1e-12 {
			t.Errorf("iteration %d costs %v on top, in all %v", iteration, sum, want)
		}
	}
}

// Where noise is replaced, views are those of every release, and an iteration is never
// dearer than planned: with nobody lost before the masked input and as many as are
// tolerated after it, it costs that.
func TestScheduleOfReplacedNoise(t *testing.T) {
	e := withSchedule(t, "epsilon=2 noise=replace", mixed())
	worst := make([]Attempt, 5)
	for i := range worst {
		worst[i] = Attempt{Survivors: 600, Answered: 420, Summed: true, Sent: true}
	}
	got, err := e.Spent(nil, worst)
	if err != nil || math.Abs(got.Epsilon-e.Privacy.Budget.Epsilon) > 1e-9 || e.Privacy.Budget.Epsilon < 2.5 || math.Abs(e.Privacy.Claimed-2) > 1e-3 {
		t.Errorf("the worst costs %v, %v of a budget of %v, claimed %v", got, err, e.Privacy.Budget.Epsilon, e.Privacy.Claimed)
	}
	first, err := e.Spent(nil, []Attempt{{Sent: true}})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := e.epsilon(mustCharges(t, e, 1))
	if first != want {
		t.Errorf("a first attempt that failed costs %v, want %v", first, want)
	}
	if _, err := e.Spent(nil, make([]Attempt, 6)); err == nil || !strings.Contains(err.Error(), "6 attempts; there are at most 5") {
		t.Errorf("six attempts of five: %v", err)
	}
}

func mustCharges(t *testing.T, e *Experiment, attempts int) []dp.Event {
	t.Helper()
	events, err := e.charges(attempts)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Every difference in a schedule is found, and said where.
func TestScheduleComparison(t *testing.T) {
	must := mixed()
	for reason, change := range map[string]func(Schedule) Schedule{
		"number of steps is 2; it must be 3":                      func(s Schedule) Schedule { return s[:2] },
		"step 2: iterations is 3; it must be 2":                   func(s Schedule) Schedule { s[1].Iterations++; return s },
		"step 3: length of the model is 21; it must be 20":        func(s Schedule) Schedule { s[2].Model++; return s },
		"step 1: phase is bias; it must be prepare":               func(s Schedule) Schedule { s[0].Phase = "bias"; return s },
		"step 2: number of releases is 1; it must be 2":           func(s Schedule) Schedule { s[1].Releases = s[1].Releases[:1]; return s },
		"step 2: moments: length is 79; it must be 80":            func(s Schedule) Schedule { s[1].Releases[1].Len--; return s },
		"step 3: L2 bound is 2; it must be 3":                     func(s Schedule) Schedule { s[2].Releases[0].L2 = 2; return s },
		"step 2: gramian: noise is replace; it must be none":      func(s Schedule) Schedule { s[1].Releases[0].Noise.Kind = protocol.Replace; return s },
		"step 2: gramian: release is moments; it must be gramian": func(s Schedule) Schedule { s[1].Releases[0].Name = "moments"; return s },
	} {
		var c comparison
		c.schedule(change(must.Clone()), must)
		if err := c.error(); !errors.Is(err, ErrTerms) || !strings.Contains(err.Error(), reason) {
			t.Errorf("error %v, want %q in it", err, reason)
		}
	}
	var c comparison
	if c.schedule(must.Clone(), must); c.error() != nil {
		t.Errorf("a schedule differs from itself: %v", c.error())
	}
}

// A schedule is carried as it is.
func TestPublicSchedule(t *testing.T) {
	p := publish(t, open(t, ""))
	p.Terms.Steps = mixed()
	if got := carried(t, p).Terms.Steps; !reflect.DeepEqual(got, p.Terms.Steps) {
		t.Errorf("%+v became %+v", p.Terms.Steps, got)
	}
}

// Sessions of schedules that release anything else draw other noise.
func TestSessionsOfSchedules(t *testing.T) {
	seen := map[protocol.SessionID]string{}
	for what, change := range map[string]func(Schedule){
		"":                   func(Schedule) {},
		"more iterations":    func(s Schedule) { s[1].Iterations++ },
		"other iterations":   func(s Schedule) { s[1].Iterations, s[2].Iterations = 3, 1 },
		"another phase":      func(s Schedule) { s[2].Phase = "biases" },
		"other noise later":  func(s Schedule) { s[2].Releases[0].Noise.Variance = 2 },
		"another second sum": func(s Schedule) { s[1].Releases[1].L2 = 1 },
	} {
		e := open(t, "")
		e.Steps = mixed()
		change(e.Steps)
		id := e.sessionID()
		if before, ok := seen[id]; ok {
			t.Errorf("%q has the session of %q", what, before)
		}
		seen[id] = what
	}
}

// The forecast of a schedule is that of its steps: bytes of a message are those of the
// largest, of the run those of all.
func TestForecastOfSchedule(t *testing.T) {
	e := withSchedule(t, "epsilon=2", mixed())
	for _, r := range e.Steps.All() {
		r.Width = 24
	}
	f, err := e.Forecast()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range f.Releases {
		got = append(got, r.Phase+"/"+r.Name)
	}
	if want := "prepare/counts statistics/gramian statistics/moments bias/bias"; strings.Join(got, " ") != want {
		t.Errorf("releases %v, want %s", got, want)
	}
	// 3 bytes a coordinate, behind a header and the iteration. Vectors count as one: what
	// a second one takes for itself is left out (secagg.Cost).
	one := func(coordinates int) int { return 5 + varintField(1) + bytesField(3*coordinates) }
	var up, down int64
	for _, m := range f.Bytes.Messages {
		if m.Kind == "masked-input" {
			largest, run := one(86), int64(one(40)+2*one(86)+2*one(40))
			if m.Bytes != largest || m.Run != run || m.Times != 5 {
				t.Errorf("masked input %+v, want %d bytes, 5 times, %d in all", m, largest, run)
			}
		}
		if m.Direction == Up {
			up += m.Run
		} else {
			down += m.Run
		}
	}
	if run := (Traffic{Up: up, Down: down}); f.Bytes.Run != run {
		t.Errorf("the run takes %+v, messages %+v", f.Bytes.Run, run)
	}
	if s := f.Bytes.Steps; len(s) != 3 || s[1].Phase != "statistics" || s[1].Iterations != 2 || f.Bytes.Iteration != s[1].Traffic {
		t.Errorf("steps %+v, the dearest %+v", s, f.Bytes.Iteration)
	}
	if m := f.Memory; m.Accumulators != 8*86 || m.Sums != 8*86 {
		t.Errorf("memory %+v, want that of 86 coordinates", m)
	}
	var text strings.Builder
	if err := f.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"release: moments, in 2 iterations of phase statistics\n", "release: counts, in 1 iteration of phase prepare\n", "each of 2 iterations of phase bias\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in\n%s", line, text.String())
		}
	}
}

// The session of an experiment, and so what a seed draws, is what it was before schedules
// had several kinds of iterations, whatever keys configurations have got since: noted from
// manifests of runs then.
func TestSessionsStay(t *testing.T) {
	for settings, want := range map[string]string{
		"rounds=2": "f225636b9ccbeff7cc34621c76efef1f",
		"algorithm=vfl-sgdmf accountant=rdp rounds=3 item-steps=2": "2e0d9116a888924a9643ffdff505d0e7",
		"algorithm=fmf-hfl rounds=2 secagg=real":                   "72a8678a52d2dbea1896dac448dd6625",
	} {
		if got := open(t, settings).Manifest().Session; got != want {
			t.Errorf("%s: session %s, want %s", settings, got, want)
		}
	}
}
