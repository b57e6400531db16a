package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// newVertical makes a party that owns the given items.
func newVertical(t *testing.T, p *PartyParams, items []int32, rows []model.Ratings) *Vertical {
	t.Helper()
	v, err := NewVertical(p, items, rows)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// bothKinds makes a party of either kind, of all users and all items.
func bothKinds(t *testing.T, p *PartyParams, rows []model.Ratings) map[string]client.Trainer {
	t.Helper()
	return map[string]client.Trainer{"vfl": newVertical(t, p, model.Indices(p.Items), rows), "hfl": newHorizontal(t, p, model.Indices(p.Users), rows)}
}

// contribute has a party take up a round and returns its one vector.
func contribute(t *testing.T, party client.Trainer, pl *protocol.Plan, src entropy.Source) []float64 {
	t.Helper()
	if err := pl.Validate(); err != nil {
		t.Fatal(err)
	}
	got, err := party.Contribute(pl, src, serial{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Index != nil || len(got[0].Value) != pl.Releases[0].Len {
		t.Fatalf("%d vectors, the first of %d indices and %d values; want a dense one of %d", len(got), len(got[0].Index), len(got[0].Value), pl.Releases[0].Len)
	}
	return got[0].Value
}

// minus returns x - y.
func minus(x, y []float64) []float64 {
	out := slices.Clone(x)
	for i := range out {
		out[i] -= y[i]
	}
	return out
}

// noisy returns settings of many coordinates, which start inside the ball, and of rates so small
// that no noise moves them out. Their closed forms: θ = 3, R = 5.
func noisy(unit dp.Unit, clipping Clipping) (p PartyParams, both, item float64) {
	p = soundParams(10_000, 7500, 4)
	p.Unit, p.Clipping, p.Clip, p.Rounds, p.LocalSteps = unit, clipping, 4, 1, 2
	p.SamplingRate, p.Density, p.UserRate, p.ItemRate = 0.5, 0.1, 1e-5, 3e-5
	bound := 2 * math.Pow(5, 1.5)
	both, item = math.Sqrt2*bound, bound
	if unit == dp.User {
		p.ClipRatings = 3
		both, item = math.Sqrt(12)*bound, math.Sqrt(3)*bound
	}
	if clipping != EmbeddingClipping {
		both, item = 4, 4
	}
	return p, both, item
}

// The rates of two local steps fall from 1 to 1 - 0.9·(1/1.6).
const second = 0.4375

// own sets noise that a ledger is charged for: the multiplier is read back from the charge.
func own(t *testing.T, pl *protocol.Plan, steps int) (multiplier float64) {
	t.Helper()
	events, err := pl.Charges()
	if err != nil || len(events) != 1 || events[0].Count != steps {
		t.Fatalf("charges %+v, error %v; want one event of %d steps", events, err, steps)
	}
	return events[0].NoiseMultiplier
}

// Without a rating a step is noise. On the sum it has the ledger's multiplier times the sensitivity
// in closed form as standard deviation; U and V move by the learning rate over the public batch
// times that. The κ last steps do the same with the sensitivity of V alone.
func TestVerticalNoise(t *testing.T) {
	for _, c := range []struct {
		unit     dp.Unit
		clipping Clipping
	}{{dp.Rating, EmbeddingClipping}, {dp.User, EmbeddingClipping}, {dp.User, BothClippings}, {dp.Rating, GradientClipping}} {
		p, both, item := noisy(c.unit, c.clipping)
		p.ItemSteps = 3
		party := newVertical(t, &p, model.Indices(p.Items), make([]model.Ratings, p.Users))
		u, v := broadcast(p.StartUsers(p.Users)), p.StartItems()
		pl := planOf(&p, 1, u, protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 0.7, SamplingRate: 0.5, Steps: 2 + 3, Spread: c.unit == dp.User})
		z := own(t, pl, 5)
		sent := contribute(t, party, pl, simulated.New(1, "party"))
		steps := math.Hypot(1, second)
		checkNormal(t, "U", minus(sent[:len(u.Data())], u.Data()), 1e-5*steps/(0.5*7500*0.1)*z*both)
		after := party.exact().Clone()
		checkNormal(t, "V", minus(after.Data(), v.Data()), 3e-5*steps/(0.5*10_000*0.1)*z*both)

		if err := party.Finish(u.Encode(), serial{}); err != nil {
			t.Fatal(err)
		}
		checkNormal(t, "V in the last steps", minus(party.exact().Data(), after.Data()), 3e-5*second*math.Sqrt(3)/(0.5*10_000*0.1)*z*item)
		if !slices.Equal(party.Users.Data(), u.Data()) || !party.Finished() {
			t.Errorf("unit %s, %s: the last steps moved U, or did not finish (%t)", c.unit, c.clipping, party.Finished())
		}
	}
}

// The κ last steps are taken once, if the party took part in the round that pays for them.
func TestItemStepsArePaidFor(t *testing.T) {
	p := soundParams(3, 2, 2)
	p.ItemSteps = 2
	noise := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 1, Steps: 3}
	for _, c := range []struct {
		name  string
		steps []int // of the rounds taken up
		moves bool
	}{{"paid", []int{1, 3}, true}, {"not paid", []int{3, 1}, false}, {"never took part", nil, false}} {
		party := newVertical(t, &p, model.Indices(2), make([]model.Ratings, 3))
		for i, n := range c.steps {
			noise.Steps = n
			contribute(t, party, planOf(&p, uint64(i+1), p.StartUsers(3), noise), simulated.New(1, "party"))
		}
		before := party.exact().Clone()
		for again := range 2 {
			if err := party.Finish(p.StartUsers(3).Encode(), serial{}); err != nil {
				t.Fatal(err)
			}
			if moved := !slices.Equal(before.Data(), party.exact().Data()); moved != (c.moves && again == 0) {
				t.Errorf("%s, finished for the %d. time: V moved: %t", c.name, again+1, moved)
			}
			before = party.exact().Clone()
		}
	}
}

// Equal sources give equal bits. Noise of other parties, rounds and steps is independent:
// correlations within the limit of a normal score.
func TestNoiseOfParties(t *testing.T) {
	p, _, _ := noisy(dp.Rating, EmbeddingClipping)
	u := p.StartUsers(p.Users)
	noise := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 0.5, Steps: 2}
	run := func(name string, round uint64) (x []float64, v *model.Matrix) {
		party := newVertical(t, &p, model.Indices(p.Items), make([]model.Ratings, p.Users))
		sent := contribute(t, party, planOf(&p, round, u, noise), simulated.New(1, name))
		return minus(sent[:len(u.Data())], u.Data()), party.exact()
	}
	first, v := run("party/1", 1)
	if again, w := run("party/1", 1); !cmp.Equal(first, again) || !slices.Equal(v.Data(), w.Data()) {
		t.Error("the same source gives other noise")
	}
	other, _ := run("party/2", 1)
	later, _ := run("party/1", 2)
	ofV := minus(v.Data(), p.StartItems().Data())
	for name, y := range map[string][]float64{"another party": other, "another round": later, "V": ofV} {
		x := first[:len(y):len(y)]
		if z := stat.Correlation(x, y, nil) * math.Sqrt(float64(len(x))); math.Abs(z) > limit {
			t.Errorf("noise is correlated with that of %s: %.1f deviations", name, z)
		}
	}
}

// A party by itself takes the same steps with the same noise as in a federation, but sends its
// weight alone and continues from its own U.
func TestAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := soundParams(6, 8, 2)
	p.Rounds, p.LocalSteps, p.ItemSteps = 3, 2, 2
	items, rows := []int32{1, 4, 6}, someRatings(rng, 6, 3, 0.5)
	noise := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1e-3, SamplingRate: 0.5, Steps: 2}
	with, alone := newVertical(t, &p, items, rows), newVertical(t, &p, items, rows)
	alone.Alone = true
	shared := p.StartUsers(6)
	for i := range uint64(3) {
		if i == 2 {
			noise.Steps += p.ItemSteps
		}
		contribute(t, with, planOf(&p, i+1, shared, noise), simulated.New(1, "party"))
		fromServer := p.StartUsers(6)
		if i > 0 {
			fromServer = model.NewMatrix(6, 2) // a sum without a U; it must not matter
		}
		got, err := alone.Contribute(planOf(&p, i+1, fromServer, noise), simulated.New(1, "party"), serial{})
		if d := cmp.Diff([]protocol.Vector{{Index: []uint32{12}, Value: []float64{3. / 8}}}, got); err != nil || d != "" {
			t.Fatalf("error %v, contribution (-want +got):\n%s", err, d)
		}
		shared = with.Users.Clone() // the federation's average, were it of one party
		if !slices.Equal(with.Users.Data(), alone.Users.Data()) || !slices.Equal(with.exact().Data(), alone.exact().Data()) {
			t.Fatalf("round %d: alone the party trains something else", i+1)
		}
	}
	for _, party := range []*Vertical{with, alone} {
		encoded := shared.Encode()
		if party == alone {
			encoded = model.NewMatrix(6, 2).Encode()
		}
		if err := party.Finish(encoded, serial{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(with.Users.Data(), alone.Users.Data()) || !slices.Equal(with.exact().Data(), alone.exact().Data()) {
		t.Error("the last steps alone are others")
	}
}

// A contribution is (w·X, w), within the bounds of its release for embeddings of any size, and
// survives fixed point to half a unit.
func TestContributionsOfParties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, large := range []bool{false, true} {
		p := soundParams(6, 10, 2)
		p.UserRate, p.ItemRate = 1e-9, 1e-9 // so that X stays where it is, to 1e-6
		most := math.Sqrt(5)
		if large {
			p.Clipping, p.Clip = GradientClipping, 1
			most *= 16 // where nothing bounds embeddings
		}
		for _, c := range []struct {
			name   string
			party  client.Trainer
			rows   int
			weight float64
		}{
			{"vfl", newVertical(t, &p, []int32{0, 2, 9}, someRatings(rng, 6, 3, 0.5)), 6, 0.3},
			{"hfl", newHorizontal(t, &p, []int32{5, 1}, someRatings(rng, 2, 10, 0.5)), 10, 1. / 3},
		} {
			x := someMatrix(rng, c.rows, 2)
			if large {
				x.Data()[3], x.Data()[4] = 1e4, -1e4
			}
			pl := planOf(&p, 1, x, protocol.Noise{})
			sent := contribute(t, c.party, pl, simulated.New(1, "party"))
			want := make([]float64, len(x.Data()))
			for i, v := range x.Data() {
				want[i] = min(max(c.weight*v, -most), most)
			}
			if apart(sent[:len(want)], want) > 1e-6 || sent[len(want)] != c.weight {
				t.Errorf("%s, large %t: %v, want %v and the weight %v", c.name, large, sent, want, c.weight)
			}
			checkQuantizes(t, c.name, sent, pl.Releases[0])
		}
	}
}

// checkQuantizes has the client's own fixed point take a contribution.
func checkQuantizes(t *testing.T, name string, sent []float64, r protocol.Release) {
	t.Helper()
	got, err := client.Quantize(protocol.Vector{Value: sent}, r)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for i, x := range sent {
		if !(math.Abs(float64(got.Value[i])-x*r.Scale) <= 0.5) {
			t.Errorf("%s: coordinate %d, %v at scale %v, became %d", name, i, x, r.Scale, got.Value[i])
		}
	}
}

// A party of VFL always trains on the same θ ratings of a user.
func TestVerticalTrims(t *testing.T) {
	p := soundParams(2, 6, 2)
	p.Unit, p.ClipRatings, p.Rounds = dp.User, 2, 5
	row := model.Ratings{Items: model.Indices(6), Values: []float32{5, 5, 5, 0, 0, 0}}
	party := newVertical(t, &p, model.Indices(6), []model.Ratings{row, {Items: []int32{4}, Values: []float32{5}}})
	start := p.StartItems()
	for i := range uint64(5) {
		contribute(t, party, planOf(&p, i+1, p.StartUsers(2), protocol.Noise{}), simulated.New(1, "party"))
	}
	moved := 0
	for j := range 6 {
		if j != 4 && !slices.Equal(start.Row(j), party.exact().Row(j)) {
			moved++
		}
	}
	if kept := party.steps.ratings.row(0); len(kept.Items) != 2 || moved > 2 || moved == 0 {
		t.Errorf("5 steps moved %d items of a user's 2 trimmed ratings %v", moved, kept)
	}
	if d := cmp.Diff(row, party.ratings.row(0)); d != "" {
		t.Errorf("the party's own ratings changed (-want +got):\n%s", d)
	}
}

// Everything starts at the common start: U and V.
func TestVerticalStarts(t *testing.T) {
	p := soundParams(3, 5, 2)
	party := newVertical(t, &p, []int32{4, 1}, make([]model.Ratings, 3))
	all := p.StartItems()
	if want := append(slices.Clone(all.Row(4)), all.Row(1)...); !cmp.Equal(want, party.exact().Data()) {
		t.Errorf("V starts at %v, want rows 4 and 1 of the common start, %v", party.exact().Data(), want)
	}
	if party.Users != nil || party.Finished() || !cmp.Equal(party.Own, []int32{4, 1}) {
		t.Errorf("a new party has U %v, finished %t, items %v", party.Users, party.Finished(), party.Own)
	}
	if err := party.Finish([]byte{1}, serial{}); err == nil || party.Finished() {
		t.Errorf("a model of one byte: error %v, finished %t", err, party.Finished())
	}
	for i := range 3 {
		if got := p.StartUsers(3).Row(i); !(math.Abs(model.Dot(got, got)-3.5) <= 1e-12) {
			t.Errorf("user %d starts at %v, want a squared norm of 3.5", i, got)
		}
	}
	if _, err := NewVertical(&p, nil, make([]model.Ratings, 3)); err == nil {
		t.Error("a party without items was made")
	}
	if _, err := NewVertical(&p, model.Indices(2), make([]model.Ratings, 2)); err == nil {
		t.Error("a party with ratings of 2 of 3 users was made")
	}
}
