package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// alpha is the false-alarm rate of each statistical test of parties: correct code fails a test with
// that probability, over the choice of its fixed seed. There are fewer than 100 tests, which stay
// below 1e-4 together.
const alpha = 1e-6

// limit is the two-sided limit of a standard normal at alpha.
var limit = distuv.UnitNormal.Quantile(1 - alpha/2)

// checkChiSquared takes a sum of squares of k independent standard normals.
func checkChiSquared(t *testing.T, name string, x float64, k int) {
	t.Helper()
	law := distuv.ChiSquared{K: float64(k)}
	if p := min(law.CDF(x), law.Survival(x)); !(p >= alpha/2) {
		t.Errorf("%s: %g is no draw of a chi-square of %d degrees, which has p = %.2g", name, x, k, p)
	}
}

// checkCounts compares counts with their expected values (at least 5, or the test shows nothing) by
// Pearson's chi-square.
func checkCounts(t *testing.T, name string, counts, want []float64) {
	t.Helper()
	var x float64
	for i, c := range counts {
		if want[i] < 5 {
			t.Fatalf("%s: bin %d expects %v only", name, i, want[i])
		}
		x += (c - want[i]) * (c - want[i]) / want[i]
	}
	if p := (distuv.ChiSquared{K: float64(len(counts) - 1)}).Survival(x); !(p >= alpha) {
		t.Errorf("%s: counts %v, want %v on average: p = %.2g", name, counts, want, p)
	}
}

// checkNormal tests that x are draws of N(0, sigma²): the whole law by Kolmogorov and Smirnov
// (limit of Massart 1990), the variance by chi-square, and that no coordinate was left out.
func checkNormal(t *testing.T, name string, x []float64, sigma float64) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(x))
	n, law := float64(len(x)), distuv.Normal{Sigma: sigma}
	var d, square float64
	for i, v := range sorted {
		if v == 0 {
			t.Fatalf("%s: a coordinate without noise", name) // a draw is never zero
		}
		f := law.CDF(v)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
		square += v * v / sigma / sigma
	}
	if most := math.Sqrt(math.Log(2/alpha) / 2 / n); d > most {
		t.Errorf("%s: the law is %.4f away from N(0, %.4g²), limit %.4f", name, d, sigma, most)
	}
	checkChiSquared(t, name+": sum of squares over variance", square, len(x))
}

// apart returns the largest distance of two vectors' coordinates; it is infinite for a NaN, so that
// no comparison passes by a NaN.
func apart(x, y []float64) (d float64) {
	if len(x) != len(y) {
		return math.Inf(1)
	}
	for i := range x {
		if e := math.Abs(x[i] - y[i]); e <= math.MaxFloat64 {
			d = max(d, e)
		} else {
			d = math.Inf(1)
		}
	}
	return d
}

// serial runs one after the other.
type serial struct{}

func (serial) Each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// soundParams returns valid settings: every rating in every step, no noise.
func soundParams(users, items, rank int) PartyParams {
	return PartyParams{
		Params: Params{Items: items, Rank: rank, MaxRating: 5, StartMean: 3.5, Spread: 0.01, Seed: 1, Fit: Fit{Steps: 50}},
		Users:  users, Unit: dp.Rating, Clipping: EmbeddingClipping,
		Rounds: 1, LocalSteps: 1, SamplingRate: 1, Density: 1, UserRate: 1e-3, ItemRate: 1e-3,
	}
}

// planOf asks for the shared embeddings x.
func planOf(p *PartyParams, round uint64, x *model.Matrix, n protocol.Noise) *protocol.Plan {
	r := p.Release(x.Rows())
	r.Width, r.Noise = 40, n
	return &protocol.Plan{Round: round, Phase: Shared, Cohort: protocol.Cohort{Clients: 1},
		Releases: []protocol.Release{r}, Broadcast: x.Encode()}
}

// someRatings returns ratings of a scale from 0 to 5; each user rates an item with the given
// chance.
func someRatings(rng *rand.Rand, users, items int, chance float64) []model.Ratings {
	rows := make([]model.Ratings, users)
	for i := range rows {
		for j := range items {
			if rng.Float64() < chance {
				rows[i].Items = append(rows[i].Items, int32(j))
				rows[i].Values = append(rows[i].Values, float32(rng.IntN(11))/2)
			}
		}
	}
	return rows
}

// someMatrix has rows inside the ball of squared norm 5, away from its edges.
func someMatrix(rng *rand.Rand, rows, cols int) *model.Matrix {
	m := model.NewMatrix(rows, cols)
	for i := range m.Data() {
		m.Data()[i] = (0.3 + 1.2*rng.Float64()) / math.Sqrt(float64(cols))
	}
	return broadcast(m)
}

// FMF paper, section 4.2, except for the user's √ (the design says why), with R = 4 so that R^{3/2}
// = 8, and θ = 3: by hand.
func TestSensitivity(t *testing.T) {
	for _, c := range []struct {
		unit       dp.Unit
		clipping   Clipping
		clip       float64
		both, item float64
	}{
		{dp.Rating, EmbeddingClipping, 0, 22.627416997969522, 16}, // 16√2, 16
		{dp.User, EmbeddingClipping, 0, 55.42562584220407, 27.712812921102035},
		{dp.Rating, GradientClipping, 100, 100, 100}, // only C bounds it
		{dp.User, GradientClipping, 7, 7, 7},
		{dp.Rating, BothClippings, 20, 20, 16},
		{dp.User, BothClippings, 100, 55.42562584220407, 27.712812921102035},
		{dp.User, BothClippings, 30, 30, 27.712812921102035},
		{dp.User, BothClippings, 1, 1, 1},
	} {
		p := soundParams(5, 5, 2)
		p.MaxRating, p.Unit, p.Clipping, p.Clip = 4, c.unit, c.clipping, c.clip
		if c.unit == dp.User {
			p.ClipRatings = 3
		}
		both, item := p.Sensitivity(true), p.Sensitivity(false)
		if apart([]float64{both, item}, []float64{c.both, c.item}) > 1e-12*c.both {
			t.Errorf("unit %s, clipping %s at %v: %v and %v, want %v and %v", c.unit, c.clipping, c.clip, both, item, c.both, c.item)
		}
	}
}

// sensitive is one case of measuring a unit's influence.
type sensitive struct {
	unit     dp.Unit
	clipping Clipping
	moved    bool // U is trained
	itemOnly bool // only V is seen, as in HFL
}

// The measured sensitivity, over 1,000 cases for each form. They are random and chosen to be worst:
// embeddings at the ball's edge, ratings at the scale's ends, all θ ratings of the user agreeing.
// Taking one unit out moves the sum over the whole sample by no more than the noise covers, and the
// worst case comes within a hundredth of that.
func TestMeasuredSensitivityOfParties(t *testing.T) {
	for _, unit := range []dp.Unit{dp.Rating, dp.User} {
		for _, clipping := range []Clipping{EmbeddingClipping, GradientClipping, BothClippings} {
			for _, c := range []sensitive{{unit, clipping, true, false}, {unit, clipping, false, true}, {unit, clipping, true, true}} {
				rng := rand.New(rand.NewPCG(3, 4))
				worst := 0.0
				for n := range 400 {
					moved, declared := measure(t, rng, c, n)
					if !(moved <= declared*(1+1e-12)) {
						t.Fatalf("%+v, case %d: a unit moves the sum by %v, declared %v", c, n, moved, declared)
					}
					worst = max(worst, moved/declared)
				}
				// Clipped together with U's, V's part cannot reach C.
				reached := !(c.moved && c.itemOnly && c.clipping != EmbeddingClipping)
				if reached && worst < 0.99 {
					t.Errorf("%+v: the worst unit reached only %.3f of the bound", c, worst)
				}
			}
		}
	}
}

// measure builds the n-th case and returns how far a unit moves the sum.
func measure(t *testing.T, rng *rand.Rand, c sensitive, n int) (moved, declared float64) {
	t.Helper()
	const users, items = 4, 7
	rank := 2 + n%3
	p := soundParams(users, items, rank)
	p.Unit, p.Clipping = c.unit, c.clipping
	p.Clip = []float64{0.5, 5, 20, 1000}[rng.IntN(4)]
	if c.unit == dp.User {
		p.ClipRatings = 1 + rng.IntN(items)
	}
	if c.clipping == GradientClipping {
		p.Clip = min(p.Clip, 20) // so that ratings up to 5 reach it
	}
	u, v, rows := someMatrix(rng, users, rank), someMatrix(rng, items, rank), someRatings(rng, users, items, 0.7)
	victim := rng.IntN(users)
	if n%2 == 0 {
		for j := range items {
			edge(v.Row(j), 0)
		}
		edge(u.Row(victim), 1) // predicts 0: the error is the whole rating
		rows[victim] = model.Ratings{}
		for j := range items {
			rows[victim].Items, rows[victim].Values = append(rows[victim].Items, int32(j)), append(rows[victim].Values, 5)
		}
	} else if n%4 == 1 {
		edge(u.Row(victim), 0) // predicts 5 where V does the same: an error of the other sign
		edge(v.Row(rng.IntN(items)), 0)
		rows[victim].Values = make([]float32, len(rows[victim].Values))
	}
	trained := party{params: &p, ratings: newTable(rows)}
	if err := trained.prepare(v, simulated.New(uint64(n), "party")); err != nil {
		t.Fatal(err)
	}
	table := trained.steps.ratings
	with := sumOfGradients(t, &p, table, u, v, c)
	without := sumOfGradients(t, &p, neighbour(rng, table, victim, c.unit), u, v, c)
	for i := range with {
		moved = math.Hypot(moved, with[i]-without[i])
	}
	return moved, p.Sensitivity(!c.itemOnly)
}

// edge makes x the point √5·e_k of the ball's edge.
func edge(x []float64, k int) {
	clear(x)
	x[k] = math.Sqrt(5)
}

// neighbour returns the table without a user's ratings, or without one of them.
func neighbour(rng *rand.Rand, t *table, user int, unit dp.Unit) *table {
	rows := make([]model.Ratings, t.rows())
	for i := range rows {
		rows[i] = t.row(i)
	}
	r := rows[user]
	switch {
	case unit == dp.User || len(r.Items) == 0:
		rows[user] = model.Ratings{}
	default:
		k := rng.IntN(len(r.Items))
		rows[user] = model.Ratings{Items: slices.Delete(slices.Clone(r.Items), k, k+1), Values: slices.Delete(slices.Clone(r.Values), k, k+1)}
	}
	return newTable(rows)
}

// sumOfGradients returns the sum that noise would be added to: V's part, followed by U's if it is
// seen.
func sumOfGradients(t *testing.T, p *PartyParams, ratings *table, u, v *model.Matrix, c sensitive) []float64 {
	t.Helper()
	s := newStepper(p, ratings, v)
	if err := s.begin(protocol.Noise{SamplingRate: 1}, simulated.New(1, "party"), "local-steps", 1); err != nil {
		t.Fatal(err)
	}
	if err := s.gradients(u, c.moved); err != nil {
		t.Fatal(err)
	}
	if c.itemOnly {
		return slices.Clone(s.gradV.Data())
	}
	return append(slices.Clone(s.gradV.Data()), denseU(s, u).Data()...)
}

// denseU spreads the gradient of the touched rows of U over all rows.
func denseU(s *stepper, u *model.Matrix) *model.Matrix {
	out := model.NewMatrix(u.Rows(), u.Cols())
	for k, i := range s.touched {
		copy(out.Row(i), s.gradU[k*u.Cols():(k+1)*u.Cols()])
	}
	return out
}

func TestPartyParamsValidate(t *testing.T) {
	good := soundParams(3, 3, 2)
	if err := good.Validate(); err != nil {
		t.Errorf("sound settings: %v", err)
	}
	for want, change := range map[string]func(*PartyParams){
		"users is 0":        func(p *PartyParams) { p.Users = 0 },
		"0 items":           func(p *PartyParams) { p.Items = 0 },
		"clip-ratings is 0": func(p *PartyParams) { p.Unit = dp.User },
		"clip-ratings is 4": func(p *PartyParams) { p.ClipRatings = 4 },
		"at random":         func(p *PartyParams) { p.RandomUsers = true },
		`unit is "family"`:  func(p *PartyParams) { p.Unit = "family" },
	} {
		p := good
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Validate says %v; it must say %q and nothing else", err, want)
		}
	}
}

// A party of either kind accepts only its own release with noise that it draws itself, for at least
// as many steps as it will take.
func TestPartiesRefusePlans(t *testing.T) {
	p := soundParams(4, 4, 2)
	p.LocalSteps, p.ItemSteps = 3, 2
	for _, c := range []struct {
		name   string
		change func(*protocol.Plan)
		want   string
	}{
		{"", func(*protocol.Plan) {}, ""},
		{"with the last steps", func(pl *protocol.Plan) { pl.Releases[0].Noise.Steps = 5 }, ""},
		{"more steps", func(pl *protocol.Plan) { pl.Releases[0].Noise.Steps = 6 }, "pays for 6 local steps"},
		{"a unit with all parties", func(pl *protocol.Plan) { pl.Releases[0].Noise.Spread = true }, "spread=true"},
		{"exact", func(pl *protocol.Plan) { pl.Releases[0].Noise = protocol.Noise{} }, ""},
		{"too few steps", func(pl *protocol.Plan) { pl.Releases[0].Noise.Steps = 2 }, "pays for 2 local steps; a round takes 3"},
		{"split", func(pl *protocol.Plan) { pl.Releases[0].Noise = protocol.Noise{Kind: protocol.Split, Variance: 1} }, "noise of the kind split"},
		{"replace", func(pl *protocol.Plan) { pl.Releases[0].Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: 1} }, "noise of the kind replace"},
		{"no such noise", func(pl *protocol.Plan) { pl.Releases[0].Noise.Kind = 9 }, "noise of the kind"},
		{"another name", func(pl *protocol.Plan) { pl.Releases[0].Name = ItemGradient }, `"shared-embeddings" of 4 embeddings`},
		{"another length", func(pl *protocol.Plan) { pl.Releases[0].Len-- }, `"shared-embeddings" of 4 embeddings`},
		{"two releases", func(pl *protocol.Plan) { pl.Releases = append(pl.Releases, pl.Releases[0]) }, `"shared-embeddings" of 4 embeddings`},
		{"no release", func(pl *protocol.Plan) { pl.Releases = nil }, `"shared-embeddings" of 4 embeddings`},
		{"a short broadcast", func(pl *protocol.Plan) { pl.Broadcast = pl.Broadcast[1:] }, "the broadcast model has 31 bytes, 4 x 2 embeddings need 32"},
	} {
		pl := planOf(&p, 1, p.StartUsers(4), protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 1, Steps: 3})
		c.change(pl)
		for kind, party := range bothKinds(t, &p, make([]model.Ratings, 4)) {
			_, err := party.Contribute(pl, simulated.New(1, "party"), serial{})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: error %v, want %q", kind, c.name, err, c.want)
			}
		}
	}
}
