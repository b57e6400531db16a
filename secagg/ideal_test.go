package secagg_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// serial runs one after the other.
type serial struct{}

func (serial) Each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// ideal is the adder of a plan's round.
func ideal(p *protocol.Plan, d secagg.Draw, src entropy.Source) *secagg.Ideal {
	s := secagg.NewIdeal(p.Setup(), d, src, new(noise.Tables))
	if err := s.Begin(p); err != nil {
		panic(err)
	}
	return s
}

func exact(name string, length int, width uint8) protocol.Release {
	return protocol.Release{Name: name, Len: length, L2: 1, MaxNonZero: length, Scale: 1, Width: width}
}

func plan(clients int, releases ...protocol.Release) *protocol.Plan {
	return &protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: clients}, Releases: releases}
}

func ExampleIdeal() {
	p := plan(2, exact("votes", 4, 16))
	sum := secagg.NewIdeal(p.Setup(), secagg.DrawSum, entropy.System(), new(noise.Tables))
	if err := sum.Begin(p); err != nil {
		fmt.Println(err)
	}
	for id, v := range []protocol.Integers{
		{Value: []int64{1, 2, 3, 4}},
		{Index: []uint32{1, 3}, Value: []int64{-10, 10}},
	} {
		m := &protocol.MaskedInput{Round: p.Round, Vectors: []protocol.Integers{v}}
		if err := sum.Receive(protocol.ClientID(id), m); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(sum.Sum(serial{}))
	// Output: [[1 -8 3 14]] <nil>
}

func ExampleWidth() {
	cohort := protocol.Cohort{Clients: 100, Tolerance: 0.3}
	r := protocol.Release{Name: "gradient", Len: 10_000, L2: 22.5, MaxNonZero: 20, Scale: 100,
		Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e8}}
	fmt.Println(secagg.Width(cohort, r, 10))
	// Output: 20 <nil>
}

// centred is x modulo 2^width, nearest zero, by big integers.
func centred(x *big.Int, width uint8) int64 {
	m := new(big.Int).Lsh(big.NewInt(1), uint(width))
	r := new(big.Int).Mod(x, m)
	if r.Cmp(new(big.Int).Rsh(m, 1)) >= 0 {
		r.Sub(r, m)
	}
	return r.Int64()
}

func sparse(v []int64) protocol.Integers {
	out := protocol.Integers{Index: []uint32{}}
	for j, x := range v {
		if x != 0 {
			out.Index, out.Value = append(out.Index, uint32(j)), append(out.Value, x)
		}
	}
	return out
}

// inBlocks lists the blocks that are not all zero, narrow if they fit.
func inBlocks(v []int64, block int) protocol.Integers {
	out := protocol.Integers{Index: []uint32{}, Block: block}
	fits := true
	for j := range len(v) / block {
		row := v[j*block : (j+1)*block]
		if slices.ContainsFunc(row, func(x int64) bool { return x != 0 }) {
			out.Index, out.Value = append(out.Index, uint32(j)), append(out.Value, row...)
			fits = fits && !slices.ContainsFunc(row, func(x int64) bool { return x != int64(int32(x)) })
		}
	}
	if fits {
		out.Narrow = make([]int32, len(out.Value))
		for k, x := range out.Value {
			out.Narrow[k] = int32(x)
		}
		out.Value = nil
	}
	return out
}

// Sums of contributions that are dense, sparse, in blocks, and of all forms, with removals, against big
// integers modulo 2^width; values are weighted to the ring's edges.
func TestSumAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.Uint8Range(8, 64).Draw(t, "width")
		block := rapid.IntRange(1, 3).Draw(t, "block")
		length := block * rapid.IntRange(1, 3).Draw(t, "blocks")
		clients := rapid.IntRange(1, 6).Draw(t, "clients")
		edge := int64(uint64(1)<<(width-1) - 1)
		value := rapid.OneOf(rapid.SampledFrom([]int64{0, 0, 1, -1, edge, -edge, -edge - 1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}), rapid.Int64())
		p := plan(clients, exact("first", length, width), exact("second", 1, 8))
		sums := [4]*secagg.Ideal{}
		for i := range sums {
			sums[i] = ideal(p, secagg.DrawClient, entropy.Source{})
		}
		want := make([]*big.Int, length)
		for j := range want {
			want[j] = new(big.Int)
		}
		send := func(wrap func([]protocol.Integers) protocol.StageMessage, id int) {
			dense := rapid.SliceOfN(value, length, length).Draw(t, "vector")
			for j, x := range dense {
				want[j].Add(want[j], big.NewInt(x))
			}
			forms := []protocol.Integers{{Value: dense}, sparse(dense), inBlocks(dense, block)}
			for i, s := range sums {
				v := forms[id%3]
				if i < 3 {
					v = forms[i]
				}
				if err := s.Receive(protocol.ClientID(id), wrap([]protocol.Integers{v, {Index: []uint32{}}})); err != nil {
					t.Fatal(err)
				}
			}
		}
		for id := range clients {
			send(func(v []protocol.Integers) protocol.StageMessage {
				return &protocol.MaskedInput{Round: 1, Vectors: v}
			}, id)
		}
		for id := range clients - 1 { // the last one falls silent
			send(func(v []protocol.Integers) protocol.StageMessage { return &protocol.Unmask{Round: 1, Removals: v} }, id)
		}
		lifted := make([]int64, length)
		for j, x := range want {
			lifted[j] = centred(x, width)
		}
		for i, form := range []string{"dense", "sparse", "blocks", "mixed"} {
			got, err := sums[i].Sum(serial{})
			if d := cmp.Diff([][]int64{lifted, {0}}, got); err != nil || d != "" {
				t.Fatalf("%s contributions, ring of %d bits, error %v (-want +got):\n%s", form, width, err, d)
			}
		}
	})
}

// At the edge of the ring: one more wraps to the other end.
func TestSumWrapsAtTheEdge(t *testing.T) {
	for _, width := range []uint8{8, 9, 16, 33, 63, 64} {
		top, bottom := int64(uint64(1)<<(width-1)-1), int64(-1)<<(width-1)
		for _, c := range []struct{ a, b, want int64 }{
			{top, 0, top}, {bottom, 0, bottom}, {top, 1, bottom}, {bottom, -1, top}, {top, top, -2}, {bottom, bottom, 0}, {top - 1, 1, top},
		} {
			s := ideal(plan(2, exact("g", 1, width)), secagg.DrawSum, entropy.Source{})
			for id, x := range []int64{c.a, c.b} {
				if err := s.Receive(protocol.ClientID(id), &protocol.MaskedInput{Vectors: []protocol.Integers{{Value: []int64{x}}}}); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := s.Sum(serial{}); err != nil || got[0][0] != c.want {
				t.Errorf("%d bits: %d + %d = %v, %v; want %d", width, c.a, c.b, got, err, c.want)
			}
		}
	}
}

// Of a malformed message nothing is added, not even a sound first vector, and
// its sender is not counted.
func TestMalformedChangesNothing(t *testing.T) {
	good := protocol.Integers{Value: []int64{1, 2, 3}}
	for _, c := range []struct {
		name string
		bad  protocol.Integers
	}{
		{"dense too short", protocol.Integers{Value: []int64{1, 2}}},
		{"dense too long", protocol.Integers{Value: []int64{1, 2, 3, 4}}},
		{"nothing at all", protocol.Integers{}},
		{"more indices than values", protocol.Integers{Index: []uint32{0, 1}, Value: []int64{1}}},
		{"fewer indices than values", protocol.Integers{Index: []uint32{0}, Value: []int64{1, 2}}},
		{"values without an index", protocol.Integers{Index: []uint32{}, Value: []int64{1}}},
		{"index too large", protocol.Integers{Index: []uint32{3}, Value: []int64{1}}},
		{"index largest", protocol.Integers{Index: []uint32{math.MaxUint32}, Value: []int64{1}}},
		{"indices descend", protocol.Integers{Index: []uint32{2, 1}, Value: []int64{1, 1}}},
		{"index twice", protocol.Integers{Index: []uint32{1, 1}, Value: []int64{1, 1}}},
		{"blocks that do not fit", protocol.Integers{Index: []uint32{0}, Block: 2, Value: []int64{1, 1}}},
		{"block too large", protocol.Integers{Index: []uint32{0}, Block: 6, Value: []int64{1, 1, 1, 1, 1, 1}}},
		{"block beyond", protocol.Integers{Index: []uint32{1}, Block: 3, Value: []int64{1, 1, 1}}},
		{"half a block", protocol.Integers{Index: []uint32{0}, Block: 3, Value: []int64{1, 1}}},
		{"narrow and dense", protocol.Integers{Narrow: []int32{1, 2, 3}}},
		{"narrow and wide", protocol.Integers{Index: []uint32{0}, Value: []int64{1}, Narrow: []int32{1}}},
		{"narrow, index too large", protocol.Integers{Index: []uint32{3}, Narrow: []int32{1}}},
	} {
		checkNothingAdded(t, c.name, []protocol.Integers{good, c.bad})
	}
	checkNothingAdded(t, "one vector for two releases", []protocol.Integers{good})
	checkNothingAdded(t, "three vectors for two releases", []protocol.Integers{good, good, good})

	s := ideal(plan(2, exact("g", 3, 16), exact("h", 3, 16)), secagg.DrawSum, entropy.Source{})
	if err := s.Receive(0, &protocol.MaskedInput{}); err == nil {
		t.Error("a masked input of no vectors is accepted")
	}
}

func checkNothingAdded(t *testing.T, name string, vectors []protocol.Integers) {
	t.Helper()
	s := ideal(plan(2, exact("g", 3, 16), exact("h", 3, 16)), secagg.DrawSum, entropy.Source{})
	for stage, m := range map[protocol.Stage]protocol.StageMessage{
		protocol.StageMaskedInput: &protocol.MaskedInput{Round: 1, Vectors: vectors},
		protocol.StageUnmask:      &protocol.Unmask{Round: 1, Removals: vectors},
	} {
		if err := s.Receive(0, m); err == nil {
			t.Errorf("%s: %s is accepted", name, stage)
		}
		var n int
		switch m := s.Next(stage, 1).(type) {
		case *protocol.Survivors:
			n = m.Count
		case *protocol.Answered:
			n = m.Count
		}
		if n != 0 {
			t.Errorf("%s: %s is counted: %d clients", name, stage, n)
		}
	}
	got, err := s.Sum(serial{})
	if d := cmp.Diff([][]int64{{0, 0, 0}, {0, 0, 0}}, got); err != nil || d != "" {
		t.Errorf("%s: error %v, sum (-want +got):\n%s", name, err, d)
	}
}

func TestSumOnce(t *testing.T) {
	s := ideal(plan(1, exact("g", 1, 8)), secagg.DrawSum, entropy.Source{})
	if _, err := s.Sum(serial{}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sum(serial{}); !errors.Is(err, secagg.ErrFinished) || got != nil {
		t.Errorf("second sum: %v, %v; want nothing and ErrFinished", got, err)
	}
}

// Noise that cannot be drawn must not leave the exact sum behind, at the first
// attempt or the second.
func TestSumWithoutEntropy(t *testing.T) {
	r := exact("g", 1, 16)
	r.Noise = protocol.Noise{Kind: protocol.Split, Variance: 10}
	s := ideal(plan(1, r), secagg.DrawSum, entropy.Source{})
	for _, m := range []protocol.StageMessage{&protocol.MaskedInput{Vectors: []protocol.Integers{{Value: []int64{1}}}}, &protocol.Unmask{}} {
		if err := s.Receive(0, m); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Sum(serial{}); !errors.Is(err, entropy.ErrNone) || got != nil {
		t.Errorf("sum without entropy: %v, %v; want nothing and ErrNone", got, err)
	}
	if got, err := s.Sum(serial{}); err == nil || got != nil {
		t.Errorf("and again: %v, %v; want nothing and an error", got, err)
	}
}

// The message that opens a stage carries the number of clients that answered the previous stage.
func TestNext(t *testing.T) {
	p := plan(5, exact("g", 1, 8))
	p.Round = 9
	s := ideal(p, secagg.DrawClient, entropy.Source{})
	for _, c := range []struct {
		n            int
		answer, next protocol.Message
	}{
		{5, &protocol.Advertise{Round: 9}, &protocol.Roster{Round: 9, Clients: 5}},
		{4, &protocol.Shares{Round: 9}, &protocol.Delivery{Round: 9, Clients: 4}},
		{3, &protocol.MaskedInput{Round: 9, Vectors: []protocol.Integers{{Value: []int64{1}}}}, &protocol.Survivors{Round: 9, Count: 3}},
		{2, &protocol.Unmask{Round: 9}, &protocol.Answered{Round: 9, Count: 2}},
	} {
		m := c.answer.(protocol.StageMessage)
		for id := range c.n {
			if err := s.Receive(protocol.ClientID(id), m); err != nil {
				t.Fatal(err)
			}
		}
		_, stage := m.At()
		if d := cmp.Diff(c.next, s.Next(stage, 2)); d != "" {
			t.Errorf("after the stage %s (-want +got):\n%s", stage, d)
		}
	}
	// The answers to the last stage change no number and no noise.
	if err := s.Receive(0, &protocol.Replacement{Round: 9}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sum(serial{}); err != nil || got[0][0] != 3 {
		t.Errorf("the sum over 3 clients that send 1 is %v, %v", got, err)
	}
}

func TestIdealClient(t *testing.T) {
	r := exact("g", 10, 13)
	p := plan(5, r)
	p.Round = 9
	for draw, draws := range map[secagg.Draw]bool{secagg.DrawSum: true, secagg.DrawClient: false} {
		if got := secagg.NewIdealClient(p.Setup(), draw).DrawsNoise(); got != draws {
			t.Errorf("draw %s: the sum draws noise: %t", draw, got)
		}
	}
	if s, c := secagg.DrawSum.String(), secagg.DrawClient.String(); s != "sum" || c != "client" {
		t.Errorf("words %q and %q, want sum and client", s, c)
	}
	c, v := secagg.NewIdealClient(p.Setup(), secagg.DrawClient), []protocol.Integers{{Index: []uint32{3}, Value: []int64{1}}}
	if err := c.Begin(plan(4, r)); !errors.Is(err, secagg.ErrPlan) {
		t.Errorf("the plan of another round: %v", err)
	}
	if err := c.Begin(p); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		want protocol.Message
		call func() (protocol.Message, error)
	}{
		{&protocol.Advertise{Round: 9}, func() (protocol.Message, error) { return c.Advertise() }},
		{&protocol.Shares{Round: 9}, func() (protocol.Message, error) { return c.Share(&protocol.Roster{}, nil) }},
		// 10 coordinates of 13 bits are 17 bytes, however many are zero.
		{&protocol.MaskedInput{Round: 9, Vectors: v, Packed: 17}, func() (protocol.Message, error) { return c.MaskedInput(&protocol.Delivery{}, v, nil) }},
		// One value, 1: parameter 1 in front, zigzag 2 in three bits.
		{&protocol.Unmask{Round: 9, Removals: v, Packed: 2}, func() (protocol.Message, error) { return c.Unmask(&protocol.Survivors{}, v, serial{}) }},
		{&protocol.Replacement{Round: 9}, func() (protocol.Message, error) { return c.Replace(&protocol.Answered{}) }},
	} {
		got, err := m.call()
		if d := cmp.Diff(m.want, got); err != nil || d != "" {
			t.Errorf("error %v (-want +got):\n%s", err, d)
		}
	}
}

// Width without noise, in exact arithmetic: N clients of at most ⌊D2⌋ each,
// D2 = sC + √h/2, must stay at or below 2^(w-1) - 1 in absolute value.
func TestWidthWithoutNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	check := func(clients, l2, root int) {
		r := exact("g", root*root, 8)
		r.L2 = float64(l2)
		top := int64(clients) * int64(l2+root/2) // √h is whole; ⌊root/2⌋ is ⌊√h/2⌋
		want := 8
		for new(big.Int).Lsh(big.NewInt(1), uint(want-1)).Cmp(big.NewInt(top)) <= 0 {
			want++
		}
		if got, err := secagg.Width(protocol.Cohort{Clients: clients}, r, 1); err != nil || int(got) != want {
			t.Errorf("%d clients of at most %d: %d bits, %v; want %d", clients, l2+root/2, got, err, want)
		}
	}
	check(1, 126, 2)   // 127: fits 8 bits
	check(1, 127, 2)   // 128: does not
	check(2, 62, 3)    // 126
	check(2, 63, 3)    // 128
	check(1<<10, 1, 1) // 1024
	for range 500 {
		check(1+rng.IntN(1<<rng.IntN(20)), 1+rng.IntN(1<<(1+rng.IntN(29))), 1+rng.IntN(30))
	}
}

// The ring that Width gives suffices, and one bit less would not. This follows from Chernoff's
// bound on the tail of Skellam noise with its exact generating function. That bound is tighter than
// the closed form that Width uses.
func TestWidthWithNoise(t *testing.T) {
	for _, c := range []struct {
		cohort   protocol.Cohort
		variance float64
		length   int
		rounds   int
	}{
		{protocol.Cohort{Clients: 100, Tolerance: 0.3}, 1e8, 10000, 10},
		{protocol.Cohort{Clients: 100, Tolerance: 0.3, Colluders: 0.2}, 3e6, 10, 1000},
		{protocol.Cohort{Clients: 6040, Tolerance: 0.6}, 5e4, 74000, 10},
		{protocol.Cohort{Clients: 2}, 0.5, 1, 1},
		{protocol.Cohort{Clients: 50, Tolerance: 0.9}, 1e12, 100, 1},
	} {
		r := exact("g", c.length, 8)
		r.Noise = protocol.Noise{Kind: protocol.Split, Variance: c.variance}
		required := math.Ceil(float64(c.cohort.Clients)*(1-c.cohort.Tolerance) - 1e-9)
		colluding := math.Ceil(float64(c.cohort.Clients)*c.cohort.Colluders - 1e-9)
		v := c.variance * float64(c.cohort.Clients) / (required - colluding)
		budget := 0x1p-40 / float64(c.length) / float64(c.rounds)
		inputs := float64(c.cohort.Clients) * math.Floor(1+math.Sqrt(float64(c.length))/2)
		fits := func(bits uint8) bool {
			t := math.Ldexp(1, int(bits)-1) - inputs
			// P[|S| >= t] <= 2 exp(v(cosh x - 1) - xt), at best x = asinh(t/v).
			x := math.Asinh(t / v)
			return t > 0 && 2*math.Exp(v*(math.Cosh(x)-1)-x*t) <= budget
		}
		got, err := secagg.Width(c.cohort, r, c.rounds)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if !fits(got) {
			t.Errorf("%+v: %d bits are too few", c, got)
		}
		if got > 8 && fits(got-1) {
			t.Errorf("%+v: %d bits, %d would do", c, got, got-1)
		}
	}
}

// For small variances Skellam tails are far heavier than normal tails. No ring that Width gives
// lets a sum wrap with probability above 2^-40, by Chernoff's bound as above. Every place of the
// ring's edge is tried.
func TestWidthHoldsSmallVariances(t *testing.T) {
	r := exact("g", 1, 8)
	for _, v := range []float64{0.01, 0.1, 1, 3, 10, 100} {
		r.Noise = protocol.Noise{Kind: protocol.Split, Variance: v}
		for l2 := 1; l2 < 300; l2++ {
			r.L2 = float64(l2) // D2 = l2 + 1/2, and one client
			got, err := secagg.Width(protocol.Cohort{Clients: 1}, r, 1)
			if err != nil {
				t.Fatal(err)
			}
			edge := math.Ldexp(1, int(got)-1) - float64(l2)
			x := math.Asinh(edge / v)
			if p := 2 * math.Exp(v*(math.Cosh(x)-1)-x*edge); edge <= 0 || p > 0x1p-40 {
				t.Errorf("variance %v, inputs to %d: %d bits wrap with probability up to %.2g", v, l2, got, p)
			}
		}
	}
}

func TestWidthRefuses(t *testing.T) {
	r := exact("g", 4, 8)
	r.L2 = math.Ldexp(1, 61)
	if got, err := secagg.Width(protocol.Cohort{Clients: 3}, r, 1); err != nil || got != 64 {
		t.Errorf("3 clients of 2^61: %d bits, %v; want 64", got, err)
	}
	for _, c := range []struct {
		clients int
		l2      float64
	}{{4, math.Ldexp(1, 61)}, {1, 1e300}} {
		r.L2 = c.l2
		if got, err := secagg.Width(protocol.Cohort{Clients: c.clients}, r, 1); !errors.Is(err, secagg.ErrRing) {
			t.Errorf("%d clients of %g: %d bits, %v; want ErrRing", c.clients, c.l2, got, err)
		}
	}
}

// A sum of the same round draws the same noise from the same source, and
// different noise for every release.
func TestNoiseRepeatsForASeed(t *testing.T) {
	g, h := exact("g", 50, 32), exact("h", 50, 32)
	g.Noise = protocol.Noise{Kind: protocol.Split, Variance: 1000}
	h.Noise = g.Noise
	draw := func(seed uint64) [][]int64 {
		s := ideal(plan(1, g, h), secagg.DrawSum, simulated.New(seed, "ideal-sum"))
		for _, m := range []protocol.StageMessage{&protocol.MaskedInput{Vectors: []protocol.Integers{{Index: []uint32{}}, {Index: []uint32{}}}}, &protocol.Unmask{}} {
			if err := s.Receive(0, m); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := s.Sum(serial{})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	a := draw(1)
	if !cmp.Equal(a, draw(1)) {
		t.Error("the same seed draws other noise")
	}
	if cmp.Equal(a, draw(2)) {
		t.Error("another seed draws the same noise")
	}
	if cmp.Equal(a[0], a[1]) {
		t.Error("two releases get the same noise")
	}
}
