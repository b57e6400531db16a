package training_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/opened"
	_ "github.com/fedsim/fedsim/lab" // all algorithms that there are
	"github.com/fedsim/fedsim/secagg"
)

func planned(t *testing.T, settings string) (*experiment.Experiment, *forecast.Forecast) {
	t.Helper()
	c, err := config.Resolve(set("data=synthetic:small algorithm=lfl-sgdmf " + settings))
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := forecast.New(e)
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

// set makes settings of KEY=VALUE, with spaces between.
func set(text string) []config.Setting {
	return opened.Settings(text)
}

// A hundred organisations, one round: the assumptions of their secure sum, and the size of a
// client's masked input.
func Example_forecast() {
	c, err := config.Resolve([]config.Setting{
		{Key: "algorithm", Value: "fmf-vfl"}, {Key: "data", Value: "synthetic:small"}, {Key: "parties", Value: "100"},
		{Key: "rounds", Value: "1"}, {Key: "secagg", Value: "real"}, {Key: "tolerance", Value: "0.1"}, {Key: "colluders", Value: "0.1"},
	})
	if err != nil {
		panic(err)
	}
	e, err := experiment.Open(context.Background(), c, nil)
	if err != nil {
		panic(err)
	}
	f, err := forecast.New(e)
	if err != nil {
		panic(err)
	}
	fmt.Println(f.Graph.Degree, f.Graph.Threshold, f.Releases[0].Width)
	for _, m := range f.Bytes.Messages {
		if m.Kind == "masked-input" {
			fmt.Println(m.Direction, m.Bytes)
		}
	}
	// Output:
	// 22 11 33
	// up 2490
}

// The reference rows of the protocol's specification, T = 1.
func TestForecastReferenceGraphs(t *testing.T) {
	for _, tt := range []struct {
		share     float64 // γ and ω
		k, thresh int
	}{{.1, 22, 11}, {.05, 12, 6}} {
		_, f := planned(t, fmt.Sprintf("algorithm=fmf-vfl parties=100 rounds=1 secagg=real tolerance=%v colluders=%v", tt.share, tt.share))
		if g := f.Graph; g.Clients != 100 || g.Degree != tt.k || g.Threshold != tt.thresh || g.Complete || g.Mode != "semi-honest" {
			t.Errorf("γ = ω = %v: %+v, want a sparse graph of 100 with %d/%d", tt.share, g, tt.k, tt.thresh)
		}
		lost := int(100 * tt.share)
		if want := (forecast.CohortForecast{Clients: 100, Lost: lost, Required: 100 - lost, Colluding: lost, Exchanges: 3, SetupExchanges: 5}); *f.Cohort != want {
			t.Errorf("cohort %+v, want %+v", *f.Cohort, want)
		}
	}
}

// atLeast is P[H(n, m, k) >= x] of the hypergeometric law, in exact rationals.
func atLeast(n, m, k, x int64) float64 {
	sum := new(big.Int)
	for i := x; i <= min(m, k); i++ {
		in, out := new(big.Int).Binomial(m, i), new(big.Int).Binomial(n-m, k-i)
		sum.Add(sum, in.Mul(in, out))
	}
	p, _ := new(big.Rat).SetFrac(sum, new(big.Int).Binomial(n, k)).Float64()
	return p
}

// Each bound is the bound that secagg.GraphParams documents, for a round and for the run, beside
// limits of 2^-41, 2^-41 and 2^-20 for the run.
func TestForecastChances(t *testing.T) {
	const rounds = 20
	for _, tt := range []struct {
		who, mode string
		n, c, d   int64 // clients, colluding, lost
	}{
		{"algorithm=fmf-lfl", "semi-honest", 600, 30, 180},
		{"algorithm=fmf-vfl parties=100", "active", 100, 20, 20},
	} {
		_, f := planned(t, fmt.Sprintf("%s rounds=%d secagg=real mode=%s tolerance=%v colluders=%v",
			tt.who, rounds, tt.mode, float64(tt.d)/float64(tt.n), float64(tt.c)/float64(tt.n)))
		g := f.Graph
		k, thresh := int64(g.Degree), int64(g.Threshold)
		colluding := thresh
		// C(h,2) pairs of gaps, each large enough by ∏ (c+d-i)/(n-1-i).
		h := float64(tt.n - tt.c - tt.d)
		cut := h * (h - 1) / 2
		for i := range k {
			cut *= float64(tt.c+tt.d-i) / float64(tt.n-1-i)
		}
		if tt.mode == "active" {
			if !g.Complete || k != tt.n-1 {
				t.Fatalf("active mode with %d clients: %+v, want the complete graph", tt.n, g)
			}
			colluding, cut = 2*thresh-k, 0
		}
		clients := float64(tt.n)
		for _, b := range []struct {
			name  string
			got   forecast.Chance
			want  float64
			limit float64
		}{
			{"colluding", g.Colluding, clients * atLeast(tt.n-1, tt.c, k, colluding), math.Ldexp(1, -41)},
			{"cut", g.Cut, cut, math.Ldexp(1, -41)},
			{"starved", g.Starved, clients * atLeast(tt.n-1, tt.d, k, k-thresh+1), math.Ldexp(1, -20)},
		} {
			want := forecast.Chance{Round: b.want, RoundLimit: b.limit / rounds, Run: rounds * b.want, RunLimit: b.limit}
			// Package secagg rounds up, by 1e-8.
			for _, v := range [][2]float64{{want.Round, b.got.Round}, {want.RoundLimit, b.got.RoundLimit}, {want.Run, b.got.Run}, {want.RunLimit, b.got.RunLimit}} {
				if least := v[0] * (1 - 1e-12); !(v[1] >= least && v[1] <= v[0]*(1+1.1e-8)) {
					t.Errorf("%s, %s: %+v, want %+v", tt.mode, b.name, b.got, want)
				}
			}
			if !(b.got.Run < b.got.RunLimit && b.got.Round < b.got.RoundLimit) {
				t.Errorf("%s, %s: %+v does not meet its limits", tt.mode, b.name, b.got)
			}
			if possible := b.want > 0; possible == g.Complete { // on a ring everything may happen
				t.Errorf("%s, %s: a chance of %v is no test of a graph that is complete: %v", tt.mode, b.name, b.want, g.Complete)
			}
		}
	}
}

// varintField returns the size of a field with a small number.
func varintField(v int) int {
	n := 2
	for ; v >= 128; v /= 128 {
		n++
	}
	return n
}

// bytesField returns the size of a field with bytes, or with a message of fields of these sizes.
func bytesField(sizes ...int) int {
	n := 0
	for _, s := range sizes {
		n += s
	}
	return varintField(n) + n
}

// planSize returns the size of a plan with a model of so many bytes.
func planSize(f *forecast.Forecast, model int) int {
	const float = 1 + 8
	r := f.Releases[0]
	noise := bytesField(varintField(1)) // the noise's kind
	if r.Noise.Kind != "none" {
		noise = bytesField(varintField(1), float)
	}
	release := []int{bytesField(len(r.Name)), varintField(r.Len), float, varintField(r.MaxNonZero), float, varintField(int(r.Width)), noise}
	for _, bound := range []*float64{r.L1, r.LInf} {
		if bound != nil {
			release = append(release, float)
		}
	}
	// The phase has the name of the release; share of lost and of colluding clients.
	return bytesField(bytesField(16), varintField(1), bytesField(len(r.Name)), bytesField(varintField(f.Cohort.Clients), float, float), bytesField(release...), bytesField(model))
}

// Sizes from the fields of the messages (internal/protocol/wire/wire.proto) as protobuf writes them. A tag
// is a byte, a number takes a byte for each 7 bits, a float 8. Bytes and messages follow their
// length, and a zero is not written. The header of a frame, of 5 bytes, precedes a message.
func TestForecastMessages(t *testing.T) {
	const rounds = 7
	for _, tt := range []struct {
		settings string
		n        int
		values   int // of the model: one for each of 600 users or 400 items
	}{
		{"", 600, 400},
		{"noise=replace", 600, 400},
		{"secagg=real", 600, 400},
		{"secagg=real noise=replace", 600, 400},
		{"algorithm=fmf-hfl parties=12 secagg=real", 12, 400},
		{"algorithm=fmf-vfl parties=12 secagg=real mode=active", 12, 600},
	} {
		e, f := planned(t, fmt.Sprintf("%s rounds=%d", tt.settings, rounds))
		if len(f.Releases) != 1 {
			t.Fatalf("%q: %d releases, want 1", tt.settings, len(f.Releases))
		}
		r, b := f.Releases[0], f.Bytes
		packed := bytesField((r.Len*int(r.Width) + 7) / 8)
		removal := 0
		if b.Removal > 0 {
			removal = bytesField(b.Removal)
		}
		model := 4 * tt.values
		alone := 5 + varintField(1) // a header and the round
		want := []forecast.MessageForecast{
			sent("announce", forecast.Down, 5+planSize(f, model), rounds), sent("advertise", forecast.Up, alone, rounds), sent("roster", forecast.Down, alone, rounds),
			sent("shares", forecast.Up, alone, rounds), sent("delivery", forecast.Down, alone, rounds),
			sent("prepared", forecast.Up, alone, rounds), sent("proceed", forecast.Down, alone, rounds), sent("masked-input", forecast.Up, alone+packed, rounds),
			sent("survivors", forecast.Down, alone, rounds), sent("unmask", forecast.Up, alone+removal, rounds), sent("final", forecast.Down, 5+bytesField(model), 1),
		}
		if r.Noise.Kind == "replace" {
			again := []forecast.MessageForecast{sent("answered", forecast.Down, alone, rounds), sent("replacement", forecast.Up, alone, rounds)}
			want = append(want[:10:10], append(again, want[10:]...)...)
		}
		if f.Graph != nil {
			want = addReal(want, f, removal)
		}
		for i, m := range want {
			want[i].Run = int64(m.Bytes) * int64(m.Times)
		}
		if diff := cmp.Diff(want, b.Messages); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.settings, diff)
		}
		var round forecast.Traffic
		for _, m := range want[:len(want)-1] {
			if m.Direction == forecast.Up {
				round.Up += int64(m.Bytes)
			} else {
				round.Down += int64(m.Bytes)
			}
		}
		run := forecast.Traffic{Up: rounds * round.Up, Down: rounds*round.Down + int64(5+bytesField(model))}
		if b.Round != round || b.Run != run {
			t.Errorf("%q: %+v in a round, %+v in the run; want %+v and %+v", tt.settings, b.Round, b.Run, round, run)
		}
		if private := e.Private(); private != (b.Removal > 0) {
			t.Errorf("%q: removals of %d bytes", tt.settings, b.Removal)
		}
		checkMemory(t, tt.settings, f)
	}
}

// sent is a kind of message whose bytes of all together are not summed yet.
func sent(kind string, way forecast.Direction, bytes, times int) forecast.MessageForecast {
	return forecast.MessageForecast{Kind: kind, Direction: way, Bytes: bytes, Times: times}
}

// addReal adds the further parts of a real sum: keys and hashes of 32 bytes, signatures of 64,
// shares and points of 32, tags of 16, and bitmaps. The numbers of clients that hold or
// deal shares count as the last client's number.
func addReal(want []forecast.MessageForecast, f *forecast.Forecast, removal int) []forecast.MessageForecast {
	g, n, rounds := f.Graph, f.Cohort.Clients, f.Rounds
	alone := 5 + varintField(1)
	keys := []int{bytesField(32), bytesField(32)}
	last := n - 1
	sealed := []int{varintField(last), bytesField(64 + 16)}
	revealed := []int{varintField(last), bytesField(32)}
	hashes, signature := bytesField(32), bytesField(64)
	if g.Mode == "active" {
		keys = append(keys, signature)
		sealed = append(sealed, bytesField(bytesField(32), bytesField(32), signature))
	}
	replaces := f.Releases[0].Noise.Kind == "replace"
	if replaces {
		keys = append(keys, bytesField(32))
		sealed[1] = bytesField(2*64 + 16)
		hashes += bytesField(32)
	}
	bitmap := bytesField((n + 7) / 8)
	roster, quorum := bytesField(bytesField(keys...)), bytesField(signature) // of client 0
	if n > 500 && g.Mode != "active" {
		// A client and its neighbours, the last in the roster; their number; a hash, a position and
		// at most two hashes for each of the ten levels of a tree of 512 to 1,024. For a set its
		// bits, its weight and a hash.
		roster = varintField(n) + bytesField(bytesField(32), varintField(n-1), 2*10*bytesField(32)) +
			(g.Degree+1)*bytesField(varintField(n-1), bytesField(keys...))
		bitmap = bytesField((g.Degree+8)/8) + varintField(n) + bytesField(32)
		n = 1 // all of them have been counted
	}
	for i := 1; i < n; i++ {
		roster += bytesField(varintField(i), bytesField(keys...))
		quorum += bytesField(varintField(i), signature)
	}
	want[1].Bytes += bytesField(keys...)
	want[2].Bytes += roster
	want[3].Bytes += hashes + g.Degree*bytesField(sealed...)
	want[4].Bytes += bitmap + g.Degree*bytesField(sealed...)
	want[8].Bytes += bitmap
	want[9].Bytes += g.Degree * bytesField(revealed...)
	if removal == 0 {
		want[9].Bytes += bytesField() // present without a removal
	}
	if replaces {
		want[10].Bytes += bitmap
		want[11].Bytes += g.Degree * bytesField(revealed...)
	}
	if g.Mode == "active" {
		confirm := []forecast.MessageForecast{sent("consistency", forecast.Up, alone+signature, rounds), sent("quorum", forecast.Down, alone+quorum, rounds)}
		want = append(want[:9:9], append(confirm, want[9:]...)...)
	}
	return want
}

// checkMemory compares the estimate with the formula of forecast.MemoryForecast, on the message
// sizes that the test above has checked.
func checkMemory(t *testing.T, settings string, f *forecast.Forecast) {
	t.Helper()
	l := int64(f.Releases[0].Len)
	want := forecast.MemoryForecast{Accumulators: 8 * l, Sums: 8 * l}
	if f.Graph != nil {
		want.Accumulators = 4 * l // rings of 20 to 31 bits
		size := make(map[string]int)
		for _, m := range f.Bytes.Messages {
			size[m.Kind] = m.Bytes
		}
		n, factor := f.Cohort.Clients, 1.75
		if n > 500 && f.Graph.Mode == "semi-honest" {
			factor = 6.5
		}
		want.Keys = int64(math.Ceil(factor * float64(n*(size["advertise"]+size["consistency"]))))
		edge := 2*32 + 16 + 32 // two scalars and a tag; a scalar
		switch {
		case f.Graph.Mode == "active":
			edge += 2*32 + 64 // two points and a signature
		case size["replacement"] > 0:
			edge = 4*32 + 16 + 2*32
		}
		want.Shares = int64(math.Ceil(1.06 * float64(n*f.Graph.Degree*edge)))
		want.Unmasking = 4*l + 64*1100
	}
	want.Total = want.Accumulators + want.Sums + want.Keys + want.Shares
	if diff := cmp.Diff(want, *f.Memory); diff != "" {
		t.Errorf("%q: memory (-want +got):\n%s", settings, diff)
	}
}

// Where inputs are verified a masked input is longer by its proof and blindings, and the aggregator keeps proofs and what is taken
// back. A client without noise can change a sum by what one honest client can, where it could change it by what all can.
func TestForecastOfVerifiedInputs(t *testing.T) {
	const settings = "algorithm=fmf-hfl parties=12 rounds=7 secagg=real mode=active"
	_, without := planned(t, settings)
	e, f := planned(t, settings+" verify-inputs=yes")
	proof, blindings, err := secagg.Params{Mode: secagg.Active, Rounds: 7, VerifyInputs: true}.ProofSize(e.Plan(1))
	if err != nil || proof == 0 || blindings == 0 {
		t.Fatalf("a proof of %d bytes and %d, %v", proof, blindings, err)
	}
	for i, m := range f.Bytes.Messages {
		want := without.Bytes.Messages[i].Bytes
		if m.Kind == "masked-input" {
			want += bytesField(proof) + bytesField(blindings)
		}
		if m.Bytes != want {
			t.Errorf("%s: %d bytes, want %d", m.Kind, m.Bytes, want)
		}
	}
	if got, want := f.Memory.Accumulators, 2*without.Memory.Accumulators+12*int64(proof); got != want {
		t.Errorf("accumulators of %d bytes, want %d", got, want)
	}
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-8*y }
	if u, o := f.Releases[0].Unseen, without.Releases[0].Unseen; !u.Proved || o.Proved || !near(u.CoordinateClients, 1) || !near(u.L2Clients, 1) || !near(o.L2Clients, 12) {
		t.Errorf("a client changes %+v, and %+v where inputs are not verified", u, o)
	}
	var text strings.Builder
	if err = f.Print(&text); err != nil || !strings.Contains(text.String(), "\n  proved ") || strings.Contains(text.String(), "undetected") {
		t.Errorf("%v: %s", err, &text)
	}
}

// A ring above 32 bits takes words of 8 bytes: a hundred parties at scale 2^24.
func TestForecastWideRing(t *testing.T) {
	_, f := planned(t, "algorithm=fmf-vfl parties=100 rounds=1 secagg=real tolerance=0.1")
	r := f.Releases[0]
	// A coordinate is at most √5·2^24 + ½, and 100 of them are below 2^32: 33 bits with the sign.
	if r.Width != 33 || f.Memory.Accumulators != 8*int64(r.Len) {
		t.Errorf("a ring of %d bits and accumulators of %d bytes for %d coordinates, want 33 and 8 each", r.Width, f.Memory.Accumulators, r.Len)
	}
}

// The release of 600 users with one rating each, rank 1, R = 5 and no noise. A row has a norm of at
// most 2·5^1.5 = 22.36. At the scale, rounding adds a thousandth (½ to 500). 600·500 < 2^19, so 20
// bits with the sign.
func TestForecastRelease(t *testing.T) {
	_, f := planned(t, "epsilon=inf")
	l2 := 2 * math.Pow(5, 1.5)
	want := forecast.ReleaseForecast{
		Name: "item-gradient", Len: 400, Width: 20, Scale: 500 / l2, L2: l2, MaxNonZero: 1, IntegerL2: 500.5, IntegerL1: 500.5,
		Noise: forecast.NoiseForecast{Kind: "none"},
		// 600 clients with 500 in a coordinate, and 500.5 in L2, the limit of rounding.
		Unseen: forecast.UnseenForecast{Coordinate: 600 * l2, L2: 600 * 500.5 / (500 / l2), CoordinateClients: 600, L2Clients: 600},
	}
	near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-12*math.Abs(x) })
	if diff := cmp.Diff(want, f.Releases[0], near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Noise of a sum: in integers, in units and in the share of each of 420 - 30 honest survivors.
// Noise of parties: by the step, with the sensitivities of the design's section 5 at R = 5 (of a
// rating 2√2·R^1.5 for U and V together, 2·R^1.5 for V alone).
func TestForecastNoise(t *testing.T) {
	e, f := planned(t, "secagg=real")
	n, v := f.Releases[0].Noise, e.Schedule.First().Noise.Variance
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-12*want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("variance", n.Variance, v)
	near("variance in units", n.ValueVariance, v/math.Pow(500/(2*math.Pow(5, 1.5)), 2))
	near("variance of a share", n.ShareVariance, v/(420-30))

	e, f = planned(t, "algorithm=vfl-sgdmf accountant=rdp rounds=3 item-steps=20")
	n = f.Releases[0].Noise
	z := e.Schedule.First().Noise.Multiplier
	if n.Kind != "own" || len(n.Steps) != 2 || n.Variance != 0 {
		t.Fatalf("noise of parties: %+v", n)
	}
	near("multiplier", n.Multiplier, z)
	near("sampling rate", n.SamplingRate, 0.05)
	for i, want := range []forecast.LocalSteps{{Count: 30, Sensitivity: 2 * math.Sqrt2 * math.Pow(5, 1.5)}, {Count: 20, Sensitivity: 2 * math.Pow(5, 1.5)}} {
		near("steps", float64(n.Steps[i].Count), float64(want.Count))
		near("sensitivity", n.Steps[i].Sensitivity, want.Sensitivity)
		near("variance of a step", n.Steps[i].Variance, z*z*want.Sensitivity*want.Sensitivity)
	}
}

// An algorithm without a federation has a forecast too, without a cohort.
func TestForecastCentral(t *testing.T) {
	e, f := planned(t, "algorithm=sgd-mf split.validation=0.2")
	want := &forecast.Forecast{
		Algorithm: "sgd-mf", Rounds: 30, Secagg: "none", Noise: "none", Privacy: f.Privacy, Observers: "all readers of the model",
		Data: forecast.DataForecast{Name: "synthetic:small", Users: 600, Items: 400, TrainingRatings: e.Split.Train.Len(),
			TestRatings: e.Split.Test.Len(), ValidationRatings: e.Split.Validation.Len()},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !math.IsInf(f.Privacy.Epsilon, 1) || f.Data.ValidationRatings == 0 {
		t.Errorf("epsilon is %v, and %d ratings are for validation", f.Privacy.Epsilon, f.Data.ValidationRatings)
	}
}

// Exact counts of the user's own ratings are marked. Counts of a published set are public, and
// without noise nothing is stated.
func TestUncoveredCountsAreMarked(t *testing.T) {
	ratings := make([]read.Rating, 0, 60)
	for u := range 12 {
		for j := range 5 {
			ratings = append(ratings, read.Rating{User: fmt.Sprint("u", u), Item: fmt.Sprint("i", j), Value: float64(1 + (u+j)%5)})
		}
	}
	for _, c := range []struct {
		settings map[string]string
		ratings  []read.Rating
		marked   bool
	}{
		{map[string]string{"rating-min": "1", "rating-max": "5"}, ratings, true},
		{map[string]string{"rating-min": "1", "rating-max": "5", "epsilon": "inf"}, ratings, false},
		{map[string]string{"rating-min": "1", "rating-max": "5", "algorithm": "am-ssp-ids", "features": "none", "epsilon": "200"}, ratings, true},
		{map[string]string{"data": "synthetic:small"}, nil, false},
		// Only labels are private there: the set of users with a label is public.
		{map[string]string{"rating-min": "1", "rating-max": "5", "algorithm": "cond-dp", "features": "none"}, ratings, false},
	} {
		f, err := fedsim.Plan(t.Context(), fedsim.Options{Settings: c.settings, Ratings: c.ratings})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := f.Print(&text); err != nil {
			t.Fatal(err)
		}
		if marked := strings.Contains(text.String(), "test ratings*\n") && strings.HasSuffix(text.String(), "to people who may see the ratings\n"); marked != c.marked || (len(f.Uncovered) > 0) != c.marked || (f.Encoder != nil) != slices.Contains(f.Uncovered, "encoder.ratio") {
			t.Errorf("%v: uncovered are %v, in\n%s", c.settings, f.Uncovered, &text)
		}
	}
}

// The aggregator of a million clients has their shares wait on disk. Its memory is below 2 GB;
// a simulation in one process keeps all shares in memory.
func TestForecastMillionClients(t *testing.T) {
	e, _ := planned(t, "secagg=real tolerance=0.3 colluders=0.05 rounds=10")
	e.Cohort.Clients = 1_000_000
	f, err := forecast.New(e)
	if err != nil {
		t.Fatal(err)
	}
	edges := 1_000_000 * int64(f.Graph.Degree)
	t.Logf("k = %d, %+v", f.Graph.Degree, *f.Memory)
	if want := edges * (80 + 16 + 32 + 16); f.Memory.Spooled != want || f.Memory.Total > 2e9 {
		t.Errorf("%+v; want %d bytes on disk and at most 2 GB", *f.Memory, want)
	}
	if p := forecast.PeakMemory(e); p < edges*(80+32) {
		t.Errorf("a simulation takes %d bytes, less than the shares", p)
	}
}
