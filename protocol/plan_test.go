package protocol_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

func ExampleCohort() {
	c := protocol.Cohort{Clients: 100, Tolerance: 0.3, Colluders: 0.05}
	fmt.Println("survivors required:", c.Required())
	fmt.Println("colluders assumed:", c.Colluding())
	fmt.Println("a client adds:", c.ShareVariance(650))
	fmt.Printf("noise in the sum when 20 clients fall silent: %.1f\n", c.FinalVariance(650, 95, 75))
	// Output:
	// survivors required: 70
	// colluders assumed: 5
	// a client adds: 10
	// noise in the sum when 20 clients fall silent: 741.7
}

func ExamplePlan_Validate() {
	plan := protocol.Plan{
		Round:    1,
		Cohort:   protocol.Cohort{Clients: 10, Tolerance: 1.5},
		Releases: []protocol.Release{{Name: "gradient", Len: 4, L2: 1, MaxNonZero: 5, Scale: 10, Width: 16}},
	}
	fmt.Println(plan.Validate())
	// Output:
	// tolerance is 1.5; it must be at least 0 and below 1
	// release "gradient": max-non-zero is 5; it must be from 1 to the length 4
}

// share reads a decimal both ways: as the float64 that a configuration holds,
// and as the number that was meant.
func share(t *testing.T, decimal string) (float64, *big.Rat) {
	t.Helper()
	r, ok := new(big.Rat).SetString(decimal)
	if !ok {
		t.Fatalf("%q is no decimal", decimal)
	}
	f, _ := r.Float64()
	return f, r
}

// Paper values where floats mislead, and their neighbours: by hand.
func TestCohortByHand(t *testing.T) {
	for _, c := range []struct {
		clients, required, colluding int
		tolerance, colluders         float64
	}{
		{10, 7, 3, 0.3, 0.3},    // (1-0.3)·10 is 7.000000000000001 or 7, as it is written
		{10, 3, 7, 0.7, 0.7},    // (1-0.7)·10 is 3.0000000000000004
		{30, 27, 3, 0.1, 0.1},   // 0.1·30 is 3.0000000000000004 under some orders
		{100, 71, 29, .29, .29}, // 0.29·100 is 28.999999999999996
		{100, 42, 58, .58, .58}, // 0.58·100 is 57.99999999999999
		{1000, 900, 50, 0.1, 0.05},
		{7, 5, 3, 0.3, 0.3}, // 4.9 -> 5; 2.1 -> 3
		{3, 3, 1, 0.3, 0.3}, // 2.1 -> 3; 0.9 -> 1
		{1, 1, 0, 0, 0},
		{610, 427, 31, 0.3, 0.05}, // 427 exactly; 30.5 -> 31
	} {
		got := protocol.Cohort{Clients: c.clients, Tolerance: c.tolerance, Colluders: c.colluders}
		if got.Required() != c.required || got.Colluding() != c.colluding {
			t.Errorf("%+v: required %d, colluding %d; want %d, %d", got, got.Required(), got.Colluding(), c.required, c.colluding)
		}
		if want := 20 - c.colluding; got.Honest(20) != want {
			t.Errorf("%+v: of 20 honest %d, want %d", got, got.Honest(20), want)
		}
	}
}

// Every share of two and three decimals against exact rational arithmetic.
func TestCohortAgainstRationals(t *testing.T) {
	ceil := func(r *big.Rat) int {
		q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
		if m.Sign() > 0 {
			q.Add(q, big.NewInt(1))
		}
		return int(q.Int64())
	}
	for thousandths := range 1000 {
		f, r := share(t, fmt.Sprintf("0.%03d", thousandths))
		for _, n := range []int{1, 2, 3, 7, 10, 30, 100, 610, 999, 1000, 6040, 69878, 1000000} {
			c := protocol.Cohort{Clients: n, Tolerance: f, Colluders: f}
			exact := new(big.Rat).SetInt64(int64(n))
			required := ceil(new(big.Rat).Mul(exact, new(big.Rat).Sub(big.NewRat(1, 1), r)))
			colluding := ceil(new(big.Rat).Mul(exact, r))
			if c.Required() != required || c.Colluding() != colluding {
				t.Errorf("N = %d, share %v: required %d, colluding %d; want %d, %d", n, f, c.Required(), c.Colluding(), required, colluding)
			}
		}
	}
}

func TestCohortValidate(t *testing.T) {
	for _, c := range []struct {
		cohort protocol.Cohort
		want   []string // nothing else, in this order
	}{
		{protocol.Cohort{Clients: 1}, nil},
		{protocol.Cohort{Clients: 10, Tolerance: 0.7, Colluders: 0.2}, nil},
		{protocol.Cohort{Clients: 10, Tolerance: 0.7, Colluders: 0.3}, []string{"of 10 clients, 7 may be lost and 3 may collude"}},
		{protocol.Cohort{Clients: 1, Colluders: 0.001}, []string{"of 1 clients, 0 may be lost and 1 may collude"}},
		{protocol.Cohort{Clients: 10, Tolerance: math.Nextafter(1, 0)}, []string{"of 10 clients, 10 may be lost"}},
		{protocol.Cohort{Clients: -1, Tolerance: 1, Colluders: -0.1}, []string{"clients is -1", "tolerance is 1", "colluders is -0.1"}},
		{protocol.Cohort{Tolerance: math.NaN(), Colluders: math.NaN()}, []string{"clients is 0", "tolerance is NaN", "colluders is NaN"}},
		{protocol.Cohort{Clients: 5, Tolerance: -0.1, Colluders: 1}, []string{"tolerance is -0.1", "colluders is 1"}},
	} {
		checkLines(t, fmt.Sprintf("%+v", c.cohort), c.cohort.Validate(), c.want)
	}
}

// checkLines checks that an error has exactly the wanted lines, by their beginnings.
func checkLines(t *testing.T, name string, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s: problems %q, want %q", name, got, want)
	}
}

// goodRelease is sound.
func goodRelease() protocol.Release {
	return protocol.Release{Name: "g", Len: 8, L2: 2, MaxNonZero: 4, Scale: 10, Width: 16,
		Noise: protocol.Noise{Kind: protocol.Split, Variance: 100}}
}

// ownNoise is sound noise of the parties themselves.
func ownNoise() protocol.Noise {
	return protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1.5, SamplingRate: 0.01, Steps: 10}
}

func TestReleaseValidate(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name   string
		change func(*protocol.Release)
		want   []string
	}{
		{"as it is", func(*protocol.Release) {}, nil},
		{"width 8", func(r *protocol.Release) { r.Width = 8 }, nil},
		{"width 64", func(r *protocol.Release) { r.Width = 64 }, nil},
		{"width 7", func(r *protocol.Release) { r.Width = 7 }, []string{"ring width is 7"}},
		{"width 65", func(r *protocol.Release) { r.Width = 65 }, []string{"ring width is 65"}},
		{"no length", func(r *protocol.Release) { r.Len = 0 }, []string{"length is 0", "max-non-zero is 4"}},
		{"longest", func(r *protocol.Release) { r.Len = 1 << 30 }, nil},
		{"too long", func(r *protocol.Release) { r.Len = 1<<30 + 1 }, []string{"length is 1073741825"}},
		{"no non-zeros", func(r *protocol.Release) { r.MaxNonZero = 0 }, []string{"max-non-zero is 0"}},
		{"all non-zero", func(r *protocol.Release) { r.MaxNonZero = 8 }, nil},
		{"more non-zeros than coordinates", func(r *protocol.Release) { r.MaxNonZero = 9 }, []string{"max-non-zero is 9"}},
		{"L2 NaN", func(r *protocol.Release) { r.L2 = nan }, []string{"L2 bound is NaN"}},
		{"L2 Inf", func(r *protocol.Release) { r.L2 = inf }, []string{"L2 bound is +Inf"}},
		{"L2 zero", func(r *protocol.Release) { r.L2 = 0 }, []string{"L2 bound is 0"}},
		{"scale NaN", func(r *protocol.Release) { r.Scale = nan }, []string{"scale is NaN"}},
		{"scale Inf", func(r *protocol.Release) { r.Scale = inf }, []string{"scale is +Inf"}},
		{"scale negative", func(r *protocol.Release) { r.Scale = -1 }, []string{"scale is -1"}},
		{"no variance", func(r *protocol.Release) { r.Noise.Variance = 0 }, []string{"noise variance is 0"}},
		{"variance NaN", func(r *protocol.Release) { r.Noise.Variance = nan }, []string{"noise variance is NaN"}},
		{"replace, variance Inf", func(r *protocol.Release) { r.Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: inf} }, []string{"noise variance is +Inf"}},
		{"largest variance", func(r *protocol.Release) { r.Noise.Variance = math.Ldexp(1, 126) }, nil},
		{"variance of noise beyond any ring", func(r *protocol.Release) { r.Noise.Variance = math.Ldexp(1.1, 126) }, []string{"noise variance is 9.3"}},
		{"none with variance", func(r *protocol.Release) { r.Noise.Kind = protocol.NoNoise }, []string{"noise variance is 100, but the noise is none"}},
		{"own", func(r *protocol.Release) { r.Noise = ownNoise() }, nil},
		{"own, no sampling", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.SamplingRate = 1 }, nil},
		{"own, empty", func(r *protocol.Release) { r.Noise = protocol.Noise{Kind: protocol.PartyNoise} },
			[]string{"noise multiplier is 0", "noise sampling rate is 0", "noise steps are 0"}},
		{"own, multiplier Inf", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.Multiplier = inf }, []string{"noise multiplier is +Inf"}},
		{"own, multiplier NaN", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.Multiplier = nan }, []string{"noise multiplier is NaN"}},
		{"own, multiplier negative", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.Multiplier = -1 }, []string{"noise multiplier is -1"}},
		{"own, sampling rate above 1", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.SamplingRate = 1.1 }, []string{"noise sampling rate is 1.1"}},
		{"own, sampling rate negative", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.SamplingRate = -0.1 }, []string{"noise sampling rate is -0.1"}},
		{"own, sampling rate NaN", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.SamplingRate = nan }, []string{"noise sampling rate is NaN"}},
		{"own, steps negative", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.Steps = -1 }, []string{"noise steps are -1"}},
		{"own with variance", func(r *protocol.Release) { r.Noise = ownNoise(); r.Noise.Variance = 100 }, []string{"noise variance is 100, but the noise is own"}},
		{"split with a multiplier", func(r *protocol.Release) { r.Noise.Multiplier = 1 }, []string{"noise has a multiplier of 1, a sampling rate of 0 and 0 steps, but is split"}},
		{"replace with a sampling rate", func(r *protocol.Release) {
			r.Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: 1, SamplingRate: 0.5}
		}, []string{"noise has a multiplier of 0, a sampling rate of 0.5 and 0 steps, but is replace"}},
		{"none with steps", func(r *protocol.Release) { r.Noise = protocol.Noise{Steps: 3} }, []string{"noise has a multiplier of 0, a sampling rate of 0 and 3 steps, but is none"}},
		{"none with NaN", func(r *protocol.Release) { r.Noise = protocol.Noise{Variance: nan} }, []string{"noise variance is NaN"}},
		{"no such noise", func(r *protocol.Release) { r.Noise.Kind = 9 }, []string{"noise is NoiseKind(9)"}},
		{"everything", func(r *protocol.Release) { *r = protocol.Release{Len: -1, Noise: protocol.Noise{Kind: 9}} },
			[]string{"length is -1", "max-non-zero is 0", "L2 bound is 0", "scale is 0", "ring width is 0", "noise is NoiseKind(9)"}},
		// The sensitivities of a release with such an L1 bound are NaN, which
		// the client's own check cannot see (every comparison with it is false).
		{"L1 NaN", func(r *protocol.Release) { r.L1 = nan }, []string{"L1 bound is NaN"}},
		{"L1 negative", func(r *protocol.Release) { r.L1 = -1 }, []string{"L1 bound is -1"}},
		{"L1 Inf", func(r *protocol.Release) { r.L1 = inf }, []string{"L1 bound is +Inf"}},
		{"LInf", func(r *protocol.Release) { r.LInf = 0.5 }, nil},
		{"LInf NaN", func(r *protocol.Release) { r.LInf = nan }, []string{"bound on coordinates is NaN"}},
		{"LInf negative", func(r *protocol.Release) { r.LInf = -1 }, []string{"bound on coordinates is -1"}},
		{"LInf Inf", func(r *protocol.Release) { r.LInf = inf }, []string{"bound on coordinates is +Inf"}},
		{"sensitivity", func(r *protocol.Release) { r.Sensitivity = 4 }, nil},
		{"sensitivity NaN", func(r *protocol.Release) { r.Sensitivity = nan }, []string{"sensitivity is NaN"}},
		{"sensitivity negative", func(r *protocol.Release) { r.Sensitivity = -1 }, []string{"sensitivity is -1"}},
		{"sensitivity of more than two vectors", func(r *protocol.Release) { r.Sensitivity = 4.1 }, []string{"sensitivity is 4.1; it must be from 0 to twice the L2 bound of 2"}},
	} {
		r := goodRelease()
		c.change(&r)
		checkLines(t, c.name, r.Validate(), c.want)
	}
}

func TestPlanValidate(t *testing.T) {
	cohort := protocol.Cohort{Clients: 10, Tolerance: 0.3}
	bad := goodRelease()
	bad.Name, bad.Width, bad.Scale = "h", 3, 0
	other := goodRelease()
	other.Name = "h"
	for _, c := range []struct {
		name string
		plan protocol.Plan
		want []string
	}{
		{"sound", protocol.Plan{Round: 1, Cohort: cohort, Releases: []protocol.Release{goodRelease(), other}}, nil},
		{"empty", protocol.Plan{}, []string{"clients is 0", "round is 0", "the plan releases nothing"}},
		{"everything", protocol.Plan{Cohort: protocol.Cohort{Clients: 10, Tolerance: 2}, Releases: []protocol.Release{goodRelease(), bad}},
			[]string{"tolerance is 2", "round is 0", `release "h": scale is 0`, `release "h": ring width is 3`}},
	} {
		checkLines(t, c.name, c.plan.Validate(), c.want)
	}
}

// Every stream of noise is named for its release. Two of one name would get the
// same noise, and the difference of their sums would show the exact data.
func TestPlanValidateRefusesEqualNames(t *testing.T) {
	p := protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 10}, Releases: []protocol.Release{goodRelease(), goodRelease()}}
	checkLines(t, "two releases of one name", p.Validate(), []string{`release "g"`})
}

// FMF paper, section 6.2: with |U1| survivors of round 1 and |U2| of round 2
// the final noise variance is (|U2|/|U1| + (|U1|-|U2|)/((1-ω)n))·σ². With c
// colluders both denominators lose c.
func TestFinalVariance(t *testing.T) {
	const sigma2 = 1234.5
	for _, c := range []struct {
		n, c             int
		omega, colluders float64
	}{
		{100, 0, 0.3, 0}, {100, 0, 0.6, 0}, {100, 5, 0.3, 0.05}, {10, 2, 0.5, 0.2}, {1, 0, 0, 0},
	} {
		cohort := protocol.Cohort{Clients: c.n, Tolerance: c.omega, Colluders: c.colluders}
		least := (1 - c.omega) * float64(c.n) // whole in every case
		for u1 := int(math.Round(least)); u1 <= c.n; u1++ {
			for u2 := int(math.Round(least)); u2 <= u1; u2++ {
				b := sigma2 / float64(u1-c.c)
				a := sigma2 / (least - float64(c.c))
				want := float64(u2)*b + float64(u1-u2)*a
				if c.c == 0 {
					want = (float64(u2)/float64(u1) + float64(u1-u2)/least) * sigma2
				}
				got := cohort.FinalVariance(sigma2, u1, u2)
				if math.Abs(got-want) > 1e-12*want {
					t.Errorf("%+v, |U1| = %d, |U2| = %d: variance %v, want %v", cohort, u1, u2, got, want)
				}
				// Section 6.2's remark: never less than σ², even without the colluders'.
				if honest := got - float64(c.c)*b; honest < sigma2*(1-1e-12) {
					t.Errorf("%+v, |U1| = %d, |U2| = %d: the honest noise has variance %v, below the target %v", cohort, u1, u2, honest, sigma2)
				}
			}
		}
		if got, want := cohort.ShareVariance(sigma2), sigma2/(least-float64(c.c)); math.Abs(got-want) > 1e-12*want {
			t.Errorf("%+v: share %v, want %v", cohort, got, want)
		}
	}
}

// D2 = sC + √h/2 = 2·10 + √4/2 and D1 = √h·D2, since D2² and an L1 bound of
// 100 allow more.
var goodBounds = struct{ d2, d1 float64 }{21, 42}

func TestBounds(t *testing.T) {
	r := goodRelease()
	if d2, d1 := r.Bounds(); d2 != goodBounds.d2 || d1 != goodBounds.d1 {
		t.Errorf("D2, D1 = %v, %v; want %+v", d2, d1, goodBounds)
	}
	r.L1 = 2.5 // s·L1 + h/2 = 27
	if _, d1 := r.Bounds(); d1 != 27 {
		t.Errorf("with an L1 bound D1 = %v, want 27", d1)
	}
	// Two vectors of 4 coordinates differ in at most 8, each by up to 1 more once both are rounded:
	// 10·0.5 + √8, and √8 times that.
	r.Sensitivity = 0.5
	if d2, d1 := r.Bounds(); math.Abs(d2-7.8284271) > 1e-6 || math.Abs(d1-22.1421356) > 1e-6 {
		t.Errorf("with a sensitivity D2, D1 = %v, %v; want 7.8284271, 22.1421356", d2, d1)
	}
	if d2, _ := r.VectorBounds(); d2 != goodBounds.d2 {
		t.Errorf("with a sensitivity a vector has D2 = %v, want %v", d2, goodBounds.d2)
	}
}

func TestChargesSplit(t *testing.T) {
	other := goodRelease()
	other.Name, other.Noise.Variance = "h", 7
	p := protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 10, Tolerance: 0.3, Colluders: 0.1},
		Releases: []protocol.Release{goodRelease(), other}}
	got, err := p.Charges()
	if err != nil {
		t.Fatal(err)
	}
	// One Skellam release of the target variance for each, whichever clients are lost.
	want := []dp.Event{
		{Mechanism: "skellam", Variance: 100, L2: 21, L1: 42, Count: 1},
		{Mechanism: "skellam", Variance: 7, L2: 21, L1: 42, Count: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("charges (-want +got):\n%s", d)
	}
}

// Brute force over every pattern that a round can end with. An observer sees two sums of honest
// clients: of the old noise (V/w each), and of the new noise of the clients that answered (V/u
// each). The charge is the least noise that any pattern leaves in each view.
func TestChargesReplace(t *testing.T) {
	r := goodRelease()
	r.Noise.Kind = protocol.TwoRound
	for _, cohort := range []protocol.Cohort{
		{Clients: 10, Tolerance: 0.3}, {Clients: 10, Tolerance: 0.3, Colluders: 0.2}, {Clients: 5}, {Clients: 100, Tolerance: 0.6, Colluders: 0.05},
	} {
		first, second := math.Inf(1), math.Inf(1)
		c := cohort.Colluding()
		w := float64(cohort.Required() - c)
		for u1 := cohort.Required(); u1 <= cohort.Clients; u1++ {
			for u2 := cohort.Required(); u2 <= u1; u2++ {
				first = min(first, float64(u2-c)*100/w)
				second = min(second, float64(u2-c)*100/float64(u1-c))
			}
		}
		p := protocol.Plan{Round: 1, Cohort: cohort, Releases: []protocol.Release{r}}
		got, err := p.Charges()
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 {
			t.Fatalf("%+v: %d events, want 2: %+v", cohort, len(got), got)
		}
		for i, want := range []float64{first, second} {
			if e := got[i]; math.Abs(e.Variance-want) > 1e-12*want || e.Mechanism != dp.SkellamMechanism || e.L2 != 21 || e.L1 != 42 || e.Count != 1 {
				t.Errorf("%+v: view %d is %+v, want one Skellam release of variance %v, norms %+v", cohort, i, e, want, goodBounds)
			}
		}
	}
}

// A plan that releases one thing exactly is not covered at all, whatever hides
// the others.
func TestChargesRefuseExactSums(t *testing.T) {
	for _, noise := range []protocol.Noise{goodRelease().Noise, ownNoise()} {
		good, exact := goodRelease(), goodRelease()
		good.Noise, exact.Name, exact.Noise = noise, "exact", protocol.Noise{}
		p := protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 10}, Releases: []protocol.Release{good, exact}}
		events, err := p.Charges()
		if !errors.Is(err, protocol.ErrUnprotected) || events != nil {
			t.Errorf("beside noise %s: %v, %v; want no events and ErrUnprotected", noise.Kind, events, err)
		}
		if err != nil && !strings.Contains(err.Error(), "exact") {
			t.Errorf("beside noise %s: error %q does not name the release", noise.Kind, err)
		}
	}
}

// Views are refused for patterns that a round cannot end with.
func TestViewsRefuse(t *testing.T) {
	r := goodRelease()
	r.Noise.Kind = protocol.TwoRound
	p := protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 10, Tolerance: 0.3, Colluders: 0.1}, Releases: []protocol.Release{r}}
	if views, err := p.Views(r, 9, 8); err != nil || len(views) != 2 || math.Abs(views[0].Variance-700./6) > 1e-12 || views[1].Variance != 87.5 {
		t.Errorf("9 survivors, 8 answered: %+v, %v; want variances 7·100/6 and 7·100/8", views, err)
	}
	for _, c := range [][2]int{{6, 6}, {9, 10}, {9, 1}} {
		if views, err := p.Views(r, c[0], c[1]); err == nil {
			t.Errorf("%d survivors, %d answered: %+v, want an error", c[0], c[1], views)
		}
	}
}
