package fedssp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// weighed are pooled settings whose items are chosen by weights.
func weighed(items, rank, top int) kernel.Params {
	return chosenKinds(items, rank, top)["by weights, pooled"]
}

// Statistics cover the items with the largest released weights, noise included; among equals the
// lower item comes first. All items keep the bias that the same sums gave, and nothing is released
// for the choice.
func TestItemsAreChosenByReleasedWeights(t *testing.T) {
	p := weighed(6, 2, 3)
	p.MeanCap = 0
	all := p
	all.TopItems, all.ByWeights = 0, false
	s, whole := newStrategy(t, p, 10, 1), newStrategy(t, all, 10, 1)
	released := protocol.Sums{Values: [][]float64{{3, -2, 0.5, 4, 1, -6}, {4, -2, 4, 4, 1, 9}}, Survivors: 10}
	for _, x := range []*serving.Strategy{s, whole} {
		plan, _, err := x.Next()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range plan.Releases {
			names = append(names, r.Name)
			if r.Len != 6 {
				t.Errorf("release %q is of %d items, want all 6", r.Name, r.Len)
			}
		}
		if plan.Phase != kernel.BiasStage || !slices.Equal(names, []string{kernel.Bias, kernel.WeightCounts}) {
			t.Fatalf("the first round is %q with %v", plan.Phase, names)
		}
		if err = x.Absorb(plan, released, serial{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int32{0, 2, 5}; !slices.Equal(s.Chosen.Items, want) {
		t.Fatalf("items %v are chosen, want %v", s.Chosen.Items, want)
	}
	for j, got := range s.Current().BiasesOf(6) {
		within := 0.
		if s.Chosen.Place[j] < 0 {
			within = p.ClipBias / 127 / 2 // half a step
		}
		if want := whole.Current().Bias[j]; math.Abs(got-want) > within {
			t.Errorf("the bias of item %d is %v; in a run over all items it is %v", j, got, want)
		}
	}
	plan, _, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Releases {
		if want := map[string]int{kernel.Gramian: 3, kernel.Moments: 6}[r.Name]; r.Len != want {
			t.Errorf("release %q has %d coordinates, want %d", r.Name, r.Len, want)
		}
	}
}

// Users' contributions and final fits equal those with a model of all items in which the others'
// embeddings are zero: the rows of the chosen items to the bit.
func TestOthersAreItemsWithoutAnEmbedding(t *testing.T) {
	const items, top = 30, 10
	list := everyThird(items)
	for _, name := range []string{"by weights, pooled", "by weights, pooled, with tastes", "by weights, convex huber per-item", "by weights, cmf", "by weights, norms, pooled"} {
		p := chosenKinds(items, 2, top)[name]
		p.ClipBias = 127. / 64 // a step is 1/64, and exact as a float32 too
		all := p
		all.TopItems, all.ByWeights = 0, false
		c, err := p.Over(list)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 5))
		some, whole := start(*c.Inner), start(all)
		some.Chosen, some.Weighed, some.Mean, whole.Mean = c, p.UserFeatures, 3.5, 3.5
		whole.Bias = make([]float64, items)
		clear(whole.Items)
		for j := range whole.Bias {
			whole.Bias[j] = rng.NormFloat64() / 2
			if at := c.Place[j]; at >= 0 {
				copy(whole.Items[2*j:2*j+2], some.Items[2*at:2*at+2])
			}
		}
		some.Bias, some.RestBias = model.At(whole.Bias, c.Items), model.At(whole.Bias, c.Others)
		some.Round()
		whole.Round()
		whole.Bias = some.BiasesOf(items)
		steps, stepsOfAll := complete(t, p, 0), complete(t, all, 0)
		last := len(steps) - 1
		for k := range 40 {
			r := record(&p, rng, k)
			a, b := NewUser(&p, r), NewUser(&all, r)
			got := contribute(t, a, &protocol.Plan{Round: 9, Phase: kernel.Statistics, Releases: steps[last].Releases, Broadcast: some.Encode()}, k)
			want := contribute(t, b, &protocol.Plan{Round: 9, Phase: kernel.Statistics, Releases: stepsOfAll[last].Releases, Broadcast: whole.Encode()}, k)
			for i, rel := range steps[last].Releases {
				x, y := spread(got[i], rel.Len), spread(want[i], stepsOfAll[last].Releases[i].Len)
				if rel.Name != kernel.Gramian {
					width := rel.Len / top
					var rows []float64
					for _, j := range list {
						rows = append(rows, y[int(j)*width:(int(j)+1)*width]...)
					}
					y = rows
				}
				if !slices.Equal(x, y) {
					t.Fatalf("%s: user %d, release %q: %v, want %v", name, k, rel.Name, x, y)
				}
			}
			u, own := fit(t, &p, some, r)
			v, ownOfAll := fit(t, &all, whole, r)
			if !slices.Equal(u, v) || own != ownOfAll {
				t.Fatalf("%s: user %d is fitted otherwise", name, k)
			}
			if err := a.Finish(some.Encode(), serial{}); err != nil || !slices.Equal(a.U, u) || a.Bias != own {
				t.Fatalf("%s: user %d ends otherwise than fitted: %v", name, k, err)
			}
			for j := range items {
				if x, y := some.Predict(u, own, j), whole.Predict(v, own, j); x != y {
					t.Fatalf("%s: item %d is predicted at %v, want %v", name, j, x, y)
				}
			}
		}
	}
}

// Without the round that releases weights the items to train on are unknown; without the mean
// before it the run continues.
func TestLostWeights(t *testing.T) {
	p := weighed(20, 2, 5)
	s := newStrategy(t, p, 10, 0)
	skip := func() {
		t.Helper()
		plan, _, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		s.Skip(plan, errors.New("nobody came"))
	}
	again := func() *serving.Strategy {
		t.Helper()
		state, err := s.Save()
		if err != nil {
			t.Fatal(err)
		}
		x := newStrategy(t, p, 10, 0)
		if err = x.Restore(state); err != nil {
			t.Fatal(err)
		}
		return x
	}
	skip()
	if _, _, err := again().Next(); err != nil {
		t.Errorf("after the round of the mean, of a server that was restarted: %v", err)
	}
	skip()
	if _, _, err := again().Next(); !errors.Is(err, kernel.ErrNotCounted) {
		t.Errorf("after the round of weights, of a server that was restarted: %v", err)
	}
	if _, _, err := s.Next(); !errors.Is(err, kernel.ErrNotCounted) {
		t.Errorf("after the round of weights: %v", err)
	}
}

// singleExample is a model of 9 items; items 1, 4 and 8 have embeddings of rank 2. Γ of biases is
// 127/64, so that a step is 1/64.
func singleExample(t *testing.T) (kernel.Params, *kernel.Model) {
	t.Helper()
	p := weighed(9, 2, 3)
	p.ClipBias, p.Features, p.UserFeatures = 127./64, nil, nil
	c, err := p.Over([]int32{1, 4, 8})
	if err != nil {
		t.Fatal(err)
	}
	m := start(*c.Inner)
	m.Chosen, m.Mean, m.Bias, m.Items = c, 3.25, []float64{0.5, -1, 0.25}, []float64{1, -2, 0.125, 3, -0.5, 8}
	m.RestBias = []float64{0, 127. / 64, -127. / 64, 1, -1. / 64, 1. / 64}
	return p, m
}

// The bytes follow Python's struct: "<H" flags 2|8|16|256, "<d" 3.25, a bit for each of items 1, 4
// and 8, "<3f" biases, "<6f" items, "<6b" biases of the others.
func TestSinglePrecisionBytes(t *testing.T) {
	p, m := singleExample(t)
	want, err := hex.DecodeString("66656473696d2f6665647373702f6d6f64656c2f76320a1a010000000000000a4012010000003f000080bf0000803e0000803f000000c00000003e00004040000000bf00000041007f8140ff01")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Encode(); !bytes.Equal(got, want) {
		t.Errorf("the model is\n%x, want\n%x", got, want)
	}
	got, err := kernel.DecodeModel(want, &p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Items, m.Items) || !slices.Equal(got.Bias, m.Bias) || !slices.Equal(got.RestBias, m.RestBias) || got.Mean != m.Mean || !slices.Equal(got.Chosen.Items, m.Chosen.Items) {
		t.Errorf("decoded it is %+v", got)
	}
	v, err := kernel.OpenBroadcast(want, &p)
	if err != nil {
		t.Fatal(err)
	}
	for j, b := range []float64{0, 0.5, 127. / 64, -127. / 64, -1, 1, -1. / 64, 1. / 64, 0.25} {
		if got := v.ItemBias(j); got != b {
			t.Errorf("a client reads a bias of %v of item %d, want %v", got, j, b)
		}
		at := slices.Index([]int{1, 4, 8}, j)
		var want []float64
		if at >= 0 {
			want = m.Items[2*at : 2*at+2]
		}
		if got := v.Row(j); !slices.Equal(got, want) {
			t.Errorf("a client reads %v of item %d, want %v", got, j, want)
		}
	}
}

func TestModelsInSinglePrecisionAreRefused(t *testing.T) {
	p, m := singleExample(t)
	good := m.Encode()
	at := len(ofModels)
	put := func(i int, x byte) []byte {
		b := slices.Clone(good)
		b[i] = x
		return b
	}
	zero := slices.Clone(good)
	clear(zero[at+2+8+2+12:][:24])
	for _, bad := range []struct {
		model []byte
		p     *kernel.Params
		want  string
	}{
		{put(at-2, '1'), &p, "must begin with"},
		{put(at+1, 0x81), &p, "the last known is 0x100"},
		{put(at+2+8, 0b10010010), &p, "4 items are chosen; 3 are trained on"},
		{put(at+2+8+1, 0b00000010), &p, "not below 9"},
		{good[:len(good)-1], &p, "bytes"},
		{zero, &p, "all zero"},
		{good[:5], &p, "must begin with"},
	} {
		if _, err := kernel.DecodeModel(bad.model, bad.p); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %q", err, bad.want)
		}
	}
}

// After every round the server's model equals the model that its clients get, bit for bit.
func TestServerAndClientsHaveTheSameModel(t *testing.T) {
	for _, name := range chosenNames() {
		p := chosenKinds(12, 2, 5)[name]
		if p.Bias && weightsChoose(&p) {
			p.ClipBias = 1.7 // of which a step is no round number
		}
		users, _ := people(&p, 15, 0.4, 5)
		s := newStrategy(t, p, 15, 0.01)
		for more := true; more; more = round(t, s, users, nil) {
			m, err := kernel.DecodeModel(s.Model(), &p)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for part, x := range map[string][2][]float64{
				"items": {m.Items, s.Current().Items}, "biases": {m.Bias, s.Current().Bias}, "counts": {m.Counts, s.Current().Counts},
				"others": {m.Rest, s.Current().Rest}, "biases of others": {m.RestBias, s.Current().RestBias}, "gramian": {m.Gramian, s.Current().Gramian}, "mean": {{m.Mean}, {s.Current().Mean}},
			} {
				if !slices.Equal(x[0], x[1]) {
					t.Errorf("%s: after %d rounds clients have %s %v, the server %v", name, s.Round, part, x[0], x[1])
				}
			}
		}
	}
}

// Rounding moves a number by at most a part in 2²⁴, and the bias of an item that is not trained on
// by at most half a step.
func TestRoundingToSinglePrecision(t *testing.T) {
	_, m := singleExample(t)
	m.Scale.Step = 3.9375 / 127
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		x, b := math.Exp(10*rng.NormFloat64()), 3.9375*(2*rng.Float64()-1)
		m.Items[0], m.Items[1], m.RestBias[0] = x, 1e300, b
		m.Round()
		if math.Abs(m.Items[0]-x) > x/(1<<24) || m.Items[1] != math.MaxFloat32 || math.Abs(m.RestBias[0]-b) > m.Scale.Step/2*(1+1e-12) {
			t.Fatalf("%v and %v are rounded to %v and %v", x, b, m.Items[0], m.RestBias[0])
		}
	}
	if got := m.Scale.Steps(math.NaN()); got != 0 {
		t.Errorf("no number is %d steps", got)
	}
	if got := fmt.Sprint(m.Scale.Steps(1e9), m.Scale.Steps(-1e9)); got != "127 -128" {
		t.Errorf("the farthest are %s steps", got)
	}
}
