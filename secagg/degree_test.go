package secagg

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/protocol"
)

// The rows of the protocol's specification, computed for it independently.
func TestReferenceRowsSemiHonest(t *testing.T) {
	for _, c := range []struct {
		n         int
		γ, ω      float64
		k, thresh int
	}{
		{100, .05, .05, 12, 6}, {100, .1, .1, 22, 11}, {100, .1, .3, 34, 11}, {100, .2, .3, 48, 21},
		{1000, .05, .05, 30, 17}, {1000, .1, .1, 48, 27}, {1000, .2, .3, 140, 67},
		{10000, .05, .05, 34, 20}, {10000, .1, .3, 108, 44}, {10000, .33, .3, 356, 193},
	} {
		got, err := GraphParams{Cohort: protocol.Cohort{Clients: c.n, Colluders: c.γ, Tolerance: c.ω}, Rounds: 1}.Choose()
		if err != nil {
			t.Fatal(err)
		}
		if got.Degree != c.k || got.Threshold != c.thresh || got.Complete {
			t.Errorf("n = %d, γ = %v, ω = %v: %d/%d, complete %v; want %d/%d", c.n, c.γ, c.ω, got.Degree, got.Threshold, got.Complete, c.k, c.thresh)
		}
	}
}

// The specification gives the rows of active mode before the cut bound and the
// rule for up to 500 clients.
func TestReferenceRowsActive(t *testing.T) {
	for _, c := range []struct{ n, colluding, lost, k, thresh int }{
		{100, 5, 10, 26, 16}, {100, 10, 10, 32, 22}, {1000, 50, 100, 78, 52}, {1000, 100, 100, 96, 67},
	} {
		s := rosterCounts{clients: c.n, colluding: c.colluding, lost: c.lost, active: true, runs: 1}
		k, ok := s.degree(2)
		thresh, _ := s.thresholds(k)
		if !ok || k != c.k || thresh != c.thresh {
			t.Errorf("n = %d, c = %d, d = %d: %d/%d, found %v; want %d/%d", c.n, c.colluding, c.lost, k, thresh, ok, c.k, c.thresh)
		}
	}
}

// factorials are logarithms, of all that slowSearch asks for again and again.
var factorials []float64

func factorial(n int) float64 {
	for k := len(factorials); k <= n; k++ {
		x, _ := math.Lgamma(float64(k) + 1)
		factorials = append(factorials, x)
	}
	return factorials[n]
}

// slowSearch is the definition read aloud: every even k in turn, every t, logarithms of
// binomial coefficients from the standard library's gamma function. margin is the
// smallest distance in nats of any bound from its limit: decisions closer than its
// rounding are not held against it.
func slowSearch(n, c, d, T int, active bool) (degree, threshold int, margin float64) {
	margin = math.Inf(1)
	choose := func(n, k int) float64 {
		if k < 0 || k > n {
			return math.Inf(-1)
		}
		return factorial(n) - factorial(k) - factorial(n-k)
	}
	tail := func(n, m, k, x int) (p float64) {
		for i := x; i <= min(m, k); i++ {
			p += math.Exp(choose(m, i) + choose(n-m, k-i) - choose(n, k))
		}
		return min(p, 1)
	}
	below := func(p, log2Limit float64) bool {
		margin = min(margin, math.Abs(math.Log(p)-log2Limit*math.Ln2))
		return math.Log(p) < log2Limit*math.Ln2
	}
	union := float64(T) * float64(n)
	cut := func(k int) float64 {
		if k == n-1 {
			return 0
		}
		if active {
			return float64(T) * float64(n) * float64(n-k-1) / 2 * tail(n, c, k, k-d)
		}
		h := n - c - d
		return float64(T) * math.Exp(choose(h, 2)+choose(n-1-k, h-1)-choose(n-1, h-1))
	}
	try := func(k int) bool {
		if !below(cut(k), -41) {
			return false
		}
		reach := 0 // the fewest colluding neighbours that are improbable
		for reach <= k && !below(union*tail(n-1, c, k, reach), -41) {
			reach++
		}
		threshold = reach
		if active {
			threshold = (k+reach-1)/2 + 1
		}
		return threshold <= k && below(union*tail(n-1, d, k, k-threshold+1), -20)
	}
	if !active || n > 500 {
		for k := 2; k < n-1; k += 2 {
			if try(k) {
				return k, threshold, margin
			}
		}
	}
	if try(n - 1) {
		return n - 1, threshold, margin
	}
	return 0, 0, margin
}

// anyParams draws a plan; the shares are exact multiples of 1/N.
func anyParams(t *rapid.T, clients *rapid.Generator[int]) GraphParams {
	n := clients.Draw(t, "clients")
	return GraphParams{
		Cohort: protocol.Cohort{
			Clients:   n,
			Tolerance: float64(rapid.IntRange(0, n-1).Draw(t, "lost")) / float64(n),
			Colluders: float64(rapid.IntRange(0, n-1).Draw(t, "colluding")) / float64(n),
		},
		Mode:   rapid.SampledFrom([]Mode{SemiHonest, Active}).Draw(t, "mode"),
		Rounds: rapid.SampledFrom([]int{1, 7, 1000, 1_000_000}).Draw(t, "rounds"),
		Beacon: true,
	}
}

// plans calls f with plans that are the same in every run, so that counts of their outcomes are exact.
func plans(f func(GraphParams)) {
	for _, n := range []int{2, 5, 20, 90, 150} {
		for _, lost := range []int{0, n / 10, n / 3} {
			for _, colluding := range []int{0, n / 20, n / 2} {
				for _, mode := range []Mode{SemiHonest, Active} {
					for _, rounds := range []int{1, 1000} {
						f(GraphParams{Cohort: protocol.Cohort{Clients: n, Tolerance: float64(lost) / float64(n), Colluders: float64(colluding) / float64(n)}, Mode: mode, Rounds: rounds, Beacon: true})
					}
				}
			}
		}
	}
}

func TestChooseAgainstSlowSearch(t *testing.T) {
	compared, sparse, refused := 0, 0, 0
	compare := func(t rapid.TB, p GraphParams, n int) {
		// A plan is refused when it has no graph for all its clients.
		k, thresh, margin := slowSearch(p.Clients, p.Colluding(), p.Clients-p.Required(), p.Rounds, p.Mode == Active)
		if k > 0 && n < p.Clients {
			k, thresh, margin = slowSearch(n, p.Colluding(), n-p.Required(), p.Rounds, p.Mode == Active)
		}
		if margin < 1e-6 {
			return
		}
		compared++
		got, err := p.ForRoster(n)
		var refusal *RefusedError
		switch {
		case errors.As(err, &refusal):
			refused++
		case err != nil:
			t.Fatal(err)
		case !got.Complete:
			sparse++
		}
		if got.Degree != k || got.Threshold != thresh || got.Complete != (err == nil && k == n-1) {
			t.Errorf("%+v, %d on the roster: %d/%d, complete %v, error %v; want %d/%d", p, n, got.Degree, got.Threshold, got.Complete, err, k, thresh)
		}
	}
	for _, p := range []GraphParams{
		{Cohort: protocol.Cohort{Clients: 1000, Colluders: .1, Tolerance: .1}, Rounds: 1000},
		{Cohort: protocol.Cohort{Clients: 3000, Colluders: .05, Tolerance: .2}, Rounds: 50},
		{Cohort: protocol.Cohort{Clients: 501, Colluders: .05, Tolerance: .1}, Rounds: 1, Mode: Active, Beacon: true},
		{Cohort: protocol.Cohort{Clients: 640, Colluders: .02, Tolerance: .02}, Rounds: 100, Mode: Active, Beacon: true},
		{Cohort: protocol.Cohort{Clients: 520, Colluders: .3, Tolerance: .34}, Rounds: 1, Mode: Active, Beacon: true},
	} {
		compare(t, p, p.Clients)
		compare(t, p, p.Required()+(p.Clients-p.Required())/2)
	}
	plans(func(p GraphParams) {
		if p.Rounds == 1 { // the search is slow
			compare(t, p, p.Clients)
		}
	})
	if compared < 90 || sparse < 15 || refused < 10 {
		t.Errorf("only %d were compared, %d of them sparse, %d refused", compared, sparse, refused)
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := anyParams(rt, rapid.IntRange(2, 150))
		compare(rt, p, rapid.IntRange(max(2, p.Required()), p.Clients).Draw(rt, "roster"))
	})
}

// A plan that is accepted is carried out with any roster it allows, and every
// figure that is reported keeps its limit.
func TestEveryRosterOfAnAcceptedPlan(t *testing.T) {
	accepted := 0
	check := func(t rapid.TB, p GraphParams) {
		if _, err := p.Choose(); err != nil {
			return
		}
		accepted++
		for n := p.Required(); n <= p.Clients; n++ {
			c, err := p.ForRoster(n)
			if err != nil {
				t.Fatalf("%d on the roster of %+v: %v", n, p, err)
			}
			if c.Threshold < 1 || c.Threshold > c.Degree || c.Degree > n-1 || c.Complete != (c.Degree == n-1) || !c.Complete && c.Degree%2 != 0 {
				t.Errorf("%d on the roster of %+v: %+v", n, p, c)
			}
			for _, b := range []FailureBound{c.Colluding, c.Cut, c.Starved} {
				if !(b.Achieved >= 0 && b.Achieved < b.Limit) {
					t.Errorf("%d on the roster of %+v: %+v", n, p, c)
				}
			}
			if c.Complete && (c.Colluding.Achieved != 0 || c.Cut.Achieved != 0 || c.Starved.Achieved != 0) {
				t.Errorf("%d on the roster of %+v: nothing can happen in a complete graph: %+v", n, p, c)
			}
		}
	}
	plans(func(p GraphParams) { check(t, p) })
	// Around the rule for up to 500 clients, and as far as active mode goes.
	for lost := 0; lost < 320; lost += 10 {
		check(t, GraphParams{Cohort: protocol.Cohort{Clients: 640, Colluders: .05, Tolerance: float64(lost) / 640}, Rounds: 10, Mode: Active, Beacon: true})
	}
	if accepted < 40 {
		t.Errorf("only %d plans were accepted", accepted)
	}
	rapid.Check(t, func(rt *rapid.T) { check(rt, anyParams(rt, rapid.IntRange(2, 200))) })
}

// The documentation of GraphParams gives these degrees and thresholds for N.
func TestNumbersForTheWholePlanDoNotHoldForFewer(t *testing.T) {
	p := GraphParams{Cohort: protocol.Cohort{Clients: 1000, Colluders: .2, Tolerance: .3}, Rounds: 1}
	c, err := p.Choose()
	if err != nil {
		t.Fatal(err)
	}
	exact, _ := exactTail(699, 200, c.Degree, c.Threshold).Float64()
	if log2 := math.Log2(700 * exact); math.Round(log2) != -15 {
		t.Errorf("2^%.2f, said to be 2^-15", log2)
	}
	fewer, err := p.ForRoster(700)
	if err != nil {
		t.Fatal(err)
	}
	if exact, _ = exactTail(699, 200, fewer.Degree, fewer.Threshold).Float64(); 700*exact >= 0x1p-41 {
		t.Errorf("%d/%d for 700 clients: %g is not below 2^-41", fewer.Degree, fewer.Threshold, 700*exact)
	}
}

// Stricter demands never make the graph sparser: what meets them meets the others.
func TestDegreeIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t, rapid.IntRange(20, 2000))
		p.Tolerance /= 2
		p.Colluders /= 3
		q := p
		switch rapid.IntRange(0, 3).Draw(t, "stricter in") {
		case 0:
			q.Rounds *= rapid.IntRange(1, 1000).Draw(t, "times")
		case 1:
			q.Tolerance += rapid.Float64Range(0, 0.3).Draw(t, "more lost")
		case 2:
			q.Colluders += rapid.Float64Range(0, 0.3).Draw(t, "more colluding")
		case 3:
			q.Mode = Active
		}
		a, err := p.Choose()
		if err != nil {
			t.Skip("refused")
		}
		b, err := q.Choose()
		if err == nil && b.Degree < a.Degree {
			t.Errorf("degree %d for %+v, but %d for the stricter %+v", a.Degree, p, b.Degree, q)
		}
	})
}

// T rounds of failure P/T each: the probability over the run is T times the probability of one
// round with the same degree and threshold, by the exact rationals.
func TestBoundsAreOfTheRun(t *testing.T) {
	c, err := GraphParams{Cohort: protocol.Cohort{Clients: 1000, Colluders: .1, Tolerance: .1}, Rounds: 1000}.Choose()
	if err != nil {
		t.Fatal(err)
	}
	one, _ := exactTail(999, 100, c.Degree, c.Threshold).Float64()
	if want := 1000 * 1000 * one; math.Abs(c.Colluding.Achieved/want-1) > 2e-8 {
		t.Errorf("colluding %g, want %g", c.Colluding.Achieved, want)
	}
	one, _ = exactTail(999, 100, c.Degree, c.Degree-c.Threshold+1).Float64()
	if want := 1000 * 1000 * one; math.Abs(c.Starved.Achieved/want-1) > 2e-8 {
		t.Errorf("starved %g, want %g", c.Starved.Achieved, want)
	}
	// Active: two disjoint groups of t that share x colluding neighbours exist when
	// 2t - x <= k.
	active, err := GraphParams{Cohort: protocol.Cohort{Clients: 1000, Colluders: .1, Tolerance: .1}, Rounds: 1000, Mode: Active, Beacon: true}.Choose()
	if err != nil {
		t.Fatal(err)
	}
	one, _ = exactTail(999, 100, active.Degree, 2*active.Threshold-active.Degree).Float64()
	if want := 1000 * 1000 * one; math.Abs(active.Colluding.Achieved/want-1) > 2e-8 {
		t.Errorf("active: colluding %g, want %g", active.Colluding.Achieved, want)
	}
	if c.Colluding.Limit != math.Exp2(-41) || c.Cut.Limit != math.Exp2(-41) || c.Starved.Limit != math.Exp2(-20) {
		t.Errorf("limits of %+v", c)
	}
}

// In active mode an aggregator that drops two arcs of the semi-honest ring holds
// the honest clients of one side apart; on the active ring no two arcs are cheap
// enough. (With 20 rings, the chance of a false alarm is 20·2^-41.)
func TestAggregatorThatChoosesTheDrops(t *testing.T) {
	p := GraphParams{Cohort: protocol.Cohort{Clients: 1000, Colluders: .05, Tolerance: .1}, Rounds: 1, Beacon: true}
	lost := p.Clients - p.Required()
	// cheapest is the fewest honest clients that two separate arcs hold.
	cheapest := func(degree int, seed byte) int {
		g, err := NewGraph(p.Clients, degree, [32]byte{seed})
		if err != nil {
			t.Fatal(err)
		}
		half := degree / 2
		honest := make([]int, p.Clients) // of the arc from a position on
		for i := range honest {
			for j := range half {
				if int(g.ring[(i+j)%p.Clients]) >= p.Colluding() {
					honest[i]++
				}
			}
		}
		best := p.Clients
		for a := range honest {
			for b := a + half + 1; b+half < min(a, half)+p.Clients && b < p.Clients; b++ {
				if b+half < a+p.Clients {
					best = min(best, honest[a]+honest[b])
				}
			}
		}
		return best
	}
	easy, err := p.Choose()
	if err != nil {
		t.Fatal(err)
	}
	p.Mode = Active
	hard, err := p.Choose()
	if err != nil {
		t.Fatal(err)
	}
	if got := cheapest(easy.Degree, 0); got > lost {
		t.Errorf("degree %d: cutting takes %d honest clients, more than the %d that may be dropped", easy.Degree, got, lost)
	}
	for seed := range byte(20) {
		if got := cheapest(hard.Degree, seed); got <= lost {
			t.Errorf("degree %d, ring %d: %d drops cut it, %d are allowed", hard.Degree, seed, got, lost)
		}
	}
}

func TestActiveIsCompleteUpTo500(t *testing.T) {
	p := GraphParams{Cohort: protocol.Cohort{Clients: 500, Colluders: .1, Tolerance: .1}, Rounds: 10, Mode: Active}
	c, err := p.Choose()
	if err != nil {
		t.Fatal(err)
	}
	// t = ⌊(499+50)/2⌋ + 1
	if want := (GraphChoice{Degree: 499, Threshold: 275, Complete: true, Colluding: FailureBound{0, 0x1p-41}, Cut: FailureBound{0, 0x1p-41}, Starved: FailureBound{0, 0x1p-20}}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	p.Clients = 501
	if _, err := p.Choose(); !errors.Is(err, ErrBeacon) {
		t.Errorf("without a beacon: %v, want ErrBeacon", err)
	}
	p.Beacon = true
	if c, err := p.Choose(); err != nil || c.Complete {
		t.Errorf("with a beacon: %+v, %v; want a sparse graph", c, err)
	}
}

func BenchmarkChooseGraph(b *testing.B) {
	for _, p := range []GraphParams{
		{Cohort: protocol.Cohort{Clients: 1000, Colluders: .2, Tolerance: .3}, Rounds: 1000},
		{Cohort: protocol.Cohort{Clients: 10_000, Colluders: .33, Tolerance: .3}, Rounds: 1000},
		{Cohort: protocol.Cohort{Clients: 10_000, Colluders: .33, Tolerance: .3}, Rounds: 1000, Mode: Active, Beacon: true},
		{Cohort: protocol.Cohort{Clients: 100_000, Colluders: .33, Tolerance: .3}, Rounds: 1000},
		{Cohort: protocol.Cohort{Clients: 100_000, Colluders: .33, Tolerance: .3}, Rounds: 1000, Mode: Active, Beacon: true},
	} {
		b.Run(fmt.Sprintf("clients=%d/%v", p.Clients, p.Mode), func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Choose(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
