package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// newHorizontal makes a party of the given users.
func newHorizontal(t *testing.T, p *PartyParams, users []int32, rows []model.Ratings) *Horizontal {
	t.Helper()
	h, err := NewHorizontal(p, users, rows)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Without a rating a step moves V by noise alone. Its standard deviation is the ledger's multiplier
// times the sensitivity of V in closed form, also if the party trains its users, who get no noise.
func TestHorizontalNoise(t *testing.T) {
	for _, c := range []struct {
		clipping Clipping
		train    bool
	}{{EmbeddingClipping, false}, {EmbeddingClipping, true}, {BothClippings, true}, {GradientClipping, false}} {
		p, _, item := noisy(dp.User, c.clipping)
		p.Users, p.Items, p.TrainUsers = 2000, 20_000, c.train
		party := newHorizontal(t, &p, model.Indices(1000), make([]model.Ratings, 1000)) // half of the users
		v := p.StartItems()
		pl := planOf(&p, 1, v, protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 0.7, SamplingRate: 0.5, Steps: 2})
		z := own(t, pl, 2)
		sent := contribute(t, party, pl, simulated.New(1, "party"))
		for i := range sent {
			sent[i] /= 0.5 // w
		}
		sigma := 3e-5 * math.Hypot(1, second) / (0.5 * 1000 * 0.1) * z * item
		checkNormal(t, "V", minus(sent[:len(v.Data())], v.Data()), sigma)
		if !slices.Equal(party.Users.Data(), p.StartUsers(1000).Data()) {
			t.Errorf("clipping %s, train %t: users without ratings moved", c.clipping, c.train)
		}
	}
}

// HFL-synSGD sends w times the noisy sum of gradients over its public expectation: first of noise
// alone, then (without noise) the gradient itself, by differences. Both keep within the bounds of
// their release.
func TestSentGradients(t *testing.T) {
	p, _, item := noisy(dp.User, EmbeddingClipping)
	p.Users, p.Items, p.LocalSteps, p.TrainUsers, p.Gradients = 4000, 20_000, 1, true, true
	party := newHorizontal(t, &p, model.Indices(1000), make([]model.Ratings, 1000))
	pl := planOf(&p, 1, p.StartItems(), protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 0.7, SamplingRate: 0.5, Steps: 1})
	pl.Releases[0] = p.GradientRelease(1000, 0.7)
	pl.Releases[0].Width, pl.Releases[0].Noise = 40, protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 0.7, SamplingRate: 0.5, Steps: 1}
	sent := contribute(t, party, pl, simulated.New(1, "party"))
	checkQuantizes(t, "noise", sent, pl.Releases[0])
	if w := sent[len(sent)-1]; w != 0.25 {
		t.Errorf("weight %v, want 1000/4000", w)
	}
	checkNormal(t, "gradient", sent[:len(sent)-1], 0.25*own(t, pl, 1)*item/(0.5*1000*0.1))

	rng := rand.New(rand.NewPCG(3, 3))
	p = soundParams(10, 6, 2)
	p.Density, p.TrainUsers, p.UserRate, p.Gradients = 0.3, true, 0.01, true
	rows := someRatings(rng, 4, 6, 0.5)
	party = newHorizontal(t, &p, model.Indices(4), rows)
	v := someMatrix(rng, 6, 2)
	pl = planOf(&p, 1, v, protocol.Noise{})
	pl.Releases[0] = p.GradientRelease(4, 0)
	pl.Releases[0].Width = 40
	sent = contribute(t, party, pl, simulated.New(1, "party"))
	checkQuantizes(t, "gradient", sent, pl.Releases[0])
	want, u := make([]float64, 12), model.NewMatrix(4, 2)
	for i, r := range rows {
		copy(u.Row(i), p.User(r, v))
	}
	users := u.Clone()
	for i, r := range rows {
		for k, g := range differences(u, v, i, r, true) {
			if k < 12 {
				want[k] -= 0.4 * g / (4 * 0.3)
			} else {
				users.Data()[k-12] -= 0.01 * g / (6 * 0.3)
			}
		}
	}
	for i := range rows {
		Project(users.Row(i), 5)
	}
	if apart(party.Users.Data(), users.Data()) > 1e-9 {
		t.Errorf("users trained along are %v, want %v", party.Users.Data(), users.Data())
	}
	if apart(sent[:12], want) > 1e-9 {
		t.Errorf("gradient %v, want %v", sent, want)
	}
}

// If only V is seen, its gradient alone is clipped to C: a clipped step moves V by exactly C times
// the rate over the batch. Clipped together with U's, V's part would be shorter, for the same
// noise.
func TestClippingOfItemsAlone(t *testing.T) {
	p := soundParams(1, 4, 2)
	p.Clipping, p.Clip, p.Unit, p.ClipRatings, p.ItemSteps, p.FineTune = BothClippings, 0.5, dp.User, 4, 1, 0
	row := model.Ratings{Items: model.Indices(4), Values: []float32{5, 0, 5, 0}}
	length := func(x, y []float64) (norm float64) {
		for _, d := range minus(x, y) {
			norm = math.Hypot(norm, d)
		}
		return norm
	}
	v := broadcast(p.StartItems())
	party := newHorizontal(t, &p, model.Indices(1), []model.Ratings{row})
	sent := contribute(t, party, planOf(&p, 1, v, protocol.Noise{}), simulated.New(1, "party"))
	if got := length(sent[:8], v.Data()); !(math.Abs(got-1e-3*0.5) < 1e-12) {
		t.Errorf("HFL: V moved by %v, want η·C = 5e-4", got)
	}
	vertical := newVertical(t, &p, model.Indices(4), []model.Ratings{row})
	contribute(t, vertical, planOf(&p, 1, p.StartUsers(1), protocol.Noise{}), simulated.New(1, "party"))
	before := vertical.exact().Clone()
	if got := length(before.Data(), v.Data()); !(got < 0.9*1e-3*0.5) {
		t.Errorf("VFL, U and V together: V moved by %v, want less than η·C", got)
	}
	if err := vertical.Finish(vertical.Users.Encode(), serial{}); err != nil {
		t.Fatal(err)
	}
	if got := length(vertical.exact().Data(), before.Data()); !(math.Abs(got-1e-3*0.5) < 1e-12) {
		t.Errorf("VFL, last step: V moved by %v, want η·C = 5e-4", got)
	}
}

// Stage 1 fits each user to all its ratings, with V as broadcast (the fit has its own tests). Stage
// 2 leaves U_k alone unless users are trained, and uses θ ratings of each. Stage 3 uses all of them
// again.
func TestStagesOfHorizontal(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, train := range []bool{false, true} {
		p := soundParams(8, 12, 2)
		p.Unit, p.ClipRatings, p.TrainUsers, p.Rounds, p.LocalSteps = dp.User, 2, train, 2, 2
		p.FineTune, p.FineTuneRate = 1, 1e-3
		// One user with 7 ratings; the others are another party's.
		row := model.Ratings{Items: []int32{0, 2, 3, 5, 7, 8, 11}, Values: []float32{5, 0, 4, 1, 3, 0, 5}}
		party := newHorizontal(t, &p, []int32{3}, []model.Ratings{row})
		if party.Users != nil || party.Tuned != nil || !slices.Equal(party.Own, []int32{3}) {
			t.Errorf("a new party has U %v, tuned %v, users %v", party.Users, party.Tuned, party.Own)
		}
		v := someMatrix(rng, 12, 2)
		fitted := p.User(row, v)
		sent := contribute(t, party, planOf(&p, 1, v, protocol.Noise{}), simulated.New(1, "party"))
		moved := 0
		for j := range 12 {
			if apart(sent[2*j:2*j+2], []float64{v.Data()[2*j] / 8, v.Data()[2*j+1] / 8}) > 1e-9 {
				moved++
			}
		}
		if moved != 2 {
			t.Errorf("train %t: stage 2 moved %d items by a user's 2 trimmed ratings", train, moved)
		}
		w := someMatrix(rng, 12, 2)
		contribute(t, party, planOf(&p, 2, w, protocol.Noise{}), simulated.New(1, "party"))
		if still := cmp.Equal(fitted, party.Users.Row(0)); still == train {
			t.Errorf("train %t: U_k stays what stage 1 made it: %t", train, still)
		}
		if err := party.Finish(w.Encode(), serial{}); err != nil {
			t.Fatal(err)
		}
		tuned := party.Tuned
		for j := range 12 {
			if changed := !slices.Equal(tuned.Items.Row(j), w.Row(j)); changed != slices.Contains(row.Items, int32(j)) {
				t.Errorf("train %t: stage 3 moved item %d: %t", train, j, changed)
			}
		}
		if cmp.Equal(tuned.Users.Row(0), p.User(row, w)) {
			t.Errorf("train %t: stage 3 left the user at the fit", train)
		}
		if err := party.Finish(nil, serial{}); err == nil {
			t.Error("finished with an empty model")
		}
	}
	p := soundParams(3, 3, 2)
	for _, c := range [][2]int{{0, 0}, {2, 1}} {
		if _, err := NewHorizontal(&p, model.Indices(c[0]), make([]model.Ratings, c[1])); err == nil {
			t.Errorf("a party of %d users with ratings of %d was made", c[0], c[1])
		}
	}
}

// In the vanilla form no user is fitted. U_k starts within a few spreads of the public start, for
// any ratings. Stage 2 moves it by projected gradient steps on both, computed here by hand from
// differences. Stage 3 with no pass leaves it there.
func TestVanillaHorizontal(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	p := soundParams(4, 6, 2)
	p.Unit, p.ClipRatings, p.TrainUsers, p.RandomUsers, p.Rounds, p.LocalSteps = dp.User, 6, true, true, 2, 1
	p.SamplingRate, p.Density, p.UserRate, p.FineTune, p.Spread = 1, 0.3, 0.02, 0, 0.1
	rows, v := someRatings(rng, 4, 6, 0.5), someMatrix(rng, 6, 2)
	start := newHorizontal(t, &p, model.Indices(4), make([]model.Ratings, 4)).Tune(v.Clone(), 0, serial{}).Users
	distinct := map[float64]bool{}
	for _, x := range start.Data() {
		distinct[x] = true
		if at := math.Sqrt(p.StartMean / 2); math.Abs(x-at) > 5*0.1*at {
			t.Errorf("a user starts at %v, want about %v", x, at)
		}
	}
	if len(distinct) != 8 {
		t.Errorf("%d different coordinates at the start, want 8", len(distinct))
	}
	party := newHorizontal(t, &p, model.Indices(4), rows)
	contribute(t, party, planOf(&p, 1, v, protocol.Noise{}), simulated.New(1, "party"))
	want := start.Clone()
	for i, r := range rows {
		for k, g := range differences(start, v, i, r, true) {
			if k >= 12 {
				want.Data()[k-12] -= 0.02 * g / (6 * 0.3)
			}
		}
	}
	for i := range rows {
		Project(want.Row(i), p.MaxRating)
	}
	if apart(party.Users.Data(), want.Data()) > 1e-9 {
		t.Errorf("after a step users are %v, want %v", party.Users.Data(), want.Data())
	}
	if err := party.Finish(v.Encode(), serial{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(party.Tuned.Users.Data(), party.Users.Data()) {
		t.Error("stage 3 without a pass moved the users")
	}
	p.TrainUsers = false
	if err := p.Validate(); err == nil {
		t.Error("users that nobody trains were accepted")
	}
}

// sequence is a slow stage 3: from the fit, one projected gradient step on u_i and
// v_j for each rating, in the given order.
func sequence(p *PartyParams, rows []model.Ratings, v *model.Matrix, order [][2]int, rate float64) *model.Factors {
	out := &model.Factors{Users: model.NewMatrix(len(rows), p.Rank), Items: v.Clone()}
	for i, r := range rows {
		copy(out.Users.Row(i), p.User(r, v))
	}
	for _, at := range order {
		r := rows[at[0]]
		u, w := slices.Clone(out.Users.Row(at[0])), slices.Clone(out.Items.Row(int(r.Items[at[1]])))
		e := float64(r.Values[at[1]]) - model.Dot(u, w)
		for c := range u {
			out.Users.Row(at[0])[c] += rate * 2 * e * w[c]
			out.Items.Row(int(r.Items[at[1]]))[c] += rate * 2 * e * u[c]
		}
		Project(out.Users.Row(at[0]), p.MaxRating)
		Project(out.Items.Row(int(r.Items[at[1]])), p.MaxRating)
	}
	return out
}

// A pass of stage 3 takes each rating once, in a random order: the result equals the result of one
// of the orders of four ratings that share users and items.
func TestTunePass(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	p := soundParams(2, 2, 2)
	rows := []model.Ratings{{Items: []int32{0, 1}, Values: []float32{5, 1}}, {Items: []int32{1, 0}, Values: []float32{4, 0}}}
	v := someMatrix(rng, 2, 2)
	p.FineTuneRate = 0.4 // so far that projections bind
	got := newHorizontal(t, &p, model.Indices(2), rows).Tune(v.Clone(), 1, serial{})
	near := func(x, y *model.Matrix) bool { return apart(x.Data(), y.Data()) <= 1e-12 }
	matches, distinct := 0, 0
	var orders [][][2]int
	permute([][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, 0, &orders)
	natural := sequence(&p, rows, v, orders[0], 0.4)
	for _, order := range orders {
		want := sequence(&p, rows, v, order, 0.4)
		if near(want.Users, got.Users) && near(want.Items, got.Items) {
			matches++
		}
		if !near(want.Users, natural.Users) {
			distinct++
		}
	}
	if matches == 0 || distinct == 0 {
		t.Errorf("one pass gives %v, %v: as %d of %d orders do, of which %d differ from the first", got.Users, got.Items, matches, len(orders), distinct)
	}
	// No pass: the fit, and V as it came.
	if none := newHorizontal(t, &p, model.Indices(2), rows).Tune(v.Clone(), 0, serial{}); !near(none.Items, v) || !near(none.Users, sequence(&p, rows, v, nil, 0).Users) {
		t.Errorf("no pass gives %v, %v", none.Users, none.Items)
	}
}

// permute appends every order of x.
func permute(x [][2]int, from int, out *[][][2]int) {
	if from == len(x) {
		*out = append(*out, slices.Clone(x))
		return
	}
	for i := from; i < len(x); i++ {
		x[from], x[i] = x[i], x[from]
		permute(x, from+1, out)
		x[from], x[i] = x[i], x[from]
	}
}

// Every further pass lowers the error on the ratings of the passes. The second pass of two is
// slower: 0.4375 of the rate. If no two ratings share a user or an item, the order does not matter.
func TestTunePasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	p := soundParams(20, 15, 3)
	p.FineTuneRate = 0.01
	rows := someRatings(rng, 20, 15, 0.4)
	v := someMatrix(rng, 15, 3)
	before := math.Inf(1)
	for _, passes := range []int{0, 1, 2, 5, 20, 60} {
		got := newHorizontal(t, &p, model.Indices(20), rows).Tune(v.Clone(), passes, serial{})
		var loss float64
		for i, r := range rows {
			for k, j := range r.Items {
				e := float64(r.Values[k]) - model.Dot(got.Users.Row(i), got.Items.Row(int(j)))
				loss += e * e
			}
		}
		if !(loss < before) {
			t.Errorf("%d passes: squared error %v, after fewer %v", passes, loss, before)
		}
		before = loss
	}
	alone := []model.Ratings{{Items: []int32{1}, Values: []float32{5}}, {Items: []int32{0}, Values: []float32{0}}}
	p = soundParams(2, 2, 3)
	p.FineTuneRate = 0.1
	v = someMatrix(rng, 2, 3)
	got := newHorizontal(t, &p, model.Indices(2), alone).Tune(v.Clone(), 2, serial{})
	for i, r := range alone {
		u, w := model.NewMatrix(1, 3), model.NewMatrix(1, 3)
		copy(u.Data(), p.User(r, v))
		copy(w.Data(), v.Row(int(r.Items[0])))
		for _, rate := range []float64{0.1, 0.1 * second} {
			e := float64(r.Values[0]) - model.Dot(u.Data(), w.Data())
			for c, x := range slices.Clone(u.Data()) {
				u.Data()[c] += 2 * rate * e * w.Data()[c]
				w.Data()[c] += 2 * rate * e * x
			}
			Project(u.Data(), 5)
			Project(w.Data(), 5)
		}
		if apart(u.Data(), got.Users.Row(i)) > 1e-12 || apart(w.Data(), got.Items.Row(int(r.Items[0]))) > 1e-12 {
			t.Errorf("user %d: two passes give %v and %v, want %v and %v", i, got.Users.Row(i), got.Items.Row(int(r.Items[0])), u.Data(), w.Data())
		}
	}
}
