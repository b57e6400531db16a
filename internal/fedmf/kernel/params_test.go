package kernel_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

func params(items, rank int) kernel.Params {
	return kernel.Params{Items: items, Rank: rank, MaxRating: 5, StartMean: 3.5, Spread: 0.01, Seed: 1, Contribution: kernel.OneRating, Fit: kernel.Fit{Steps: 50}}
}

// The projection onto {x >= 0, |x|² <= r} is characterised by feasibility and
// <x - Πx, y - Πx> <= 0 for every feasible y (variational inequality).
func TestProjectIsTheNearestPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(0.1, 10).Draw(t, "r")
		x := rapid.SliceOfN(rapid.Float64Range(-5, 5), 1, 6).Draw(t, "x")
		got := append([]float64(nil), x...)
		kernel.Project(got, r)
		var norm2 float64
		for _, v := range got {
			if v < 0 {
				t.Fatalf("%v is negative", got)
			}
			norm2 += v * v
		}
		if norm2 > r*(1+1e-12) {
			t.Fatalf("squared norm %v of %v is above %v", norm2, got, r)
		}
		// Any feasible y: non-negative, on or in the ball.
		y := rapid.SliceOfN(rapid.Float64Range(0, 1), len(x), len(x)).Draw(t, "y")
		var n2 float64
		for _, v := range y {
			n2 += v * v
		}
		scale := math.Sqrt(r / max(n2, r))
		var inner float64
		for i := range x {
			inner += (x[i] - got[i]) * (scale*y[i] - got[i])
		}
		if inner > 1e-9 {
			t.Fatalf("Π%v = %v, but %v is nearer in that direction (%g)", x, got, y, inner)
		}
	})
}

// The start predicts the mean everywhere, up to the spread, for any rank.
func TestStartPredictsTheMean(t *testing.T) {
	for _, rank := range []int{1, 2, 20} {
		p := params(50, rank)
		v, u := p.StartItems(), p.StartUser()
		for j := range 50 {
			// 3.5 · (1 ± 5 deviations of a mean of rank spreads)
			if got := model.Dot(u, v.Row(j)); math.Abs(got-3.5) > 3.5*5*0.01 {
				t.Errorf("rank %d: item %d starts at %v", rank, j, got)
			}
		}
		if again := p.StartItems(); !mat.Equal(dense(v), dense(again)) {
			t.Error("the same seed gives another start")
		}
	}
}

func dense(m *model.Matrix) *mat.Dense {
	r, c := m.Dims()
	return mat.NewDense(r, c, m.Data())
}

// Without constraints in the way the fit is the ridge regression, solved here
// by gonum from the normal equations.
func TestFitIsTheRidgeRegression(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rank := range []int{1, 2, 3} {
		p := params(30, rank)
		p.Fit = kernel.Fit{Steps: 20000, Ridge: 0.5}
		p.MaxRating = 1000 // the ball is out of reach
		v := model.NewMatrix(30, rank)
		for i := range v.Data() {
			v.Data()[i] = rng.Float64() + 0.2
		}
		truth := make([]float64, rank)
		for i := range truth {
			truth[i] = 1 + rng.Float64()
		}
		var r model.Ratings
		for j := range 30 {
			r.Items = append(r.Items, int32(j))
			r.Values = append(r.Values, float32(model.Dot(truth, v.Row(j))+0.05*rng.NormFloat64()))
		}
		got := p.User(r, v)

		weight := 0.5 * 3.5 // weight 0.5 ratings; an item starts with |v|² = 3.5
		var gram mat.Dense
		gram.Mul(dense(v).T(), dense(v))
		right := mat.NewVecDense(rank, nil)
		for i := range rank {
			gram.Set(i, i, gram.At(i, i)+weight)
			right.SetVec(i, weight*p.StartUser()[i])
		}
		for k, j := range r.Items {
			right.AddScaledVec(right, float64(r.Values[k]), mat.NewVecDense(rank, v.Row(int(j))))
		}
		var want mat.VecDense
		if err := want.SolveVec(&gram, right); err != nil {
			t.Fatal(err)
		}
		for i := range rank {
			if math.Abs(got[i]-want.AtVec(i)) > 1e-6 {
				t.Errorf("rank %d: u = %v, ridge regression gives %v", rank, got, want.RawVector().Data)
				break
			}
		}
	}
}

// Every step of the fit lowers its loss, also where the constraints bind.
func TestFitDescends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rank := rapid.IntRange(1, 4).Draw(t, "rank")
		p := params(6, rank)
		p.Fit.Ridge = rapid.SampledFrom([]float64{0, 1}).Draw(t, "ridge")
		v := model.NewMatrix(6, rank)
		for i := range v.Data() {
			v.Data()[i] = rapid.Float64Range(0, 2.2/math.Sqrt(float64(rank))).Draw(t, "v")
		}
		var r model.Ratings
		for j := range 6 {
			r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, float32(rapid.IntRange(0, 5).Draw(t, "x")))
		}
		loss := func(u []float64) (sum float64) {
			for k, j := range r.Items {
				d := float64(r.Values[k]) - model.Dot(u, v.Row(int(j)))
				sum += d * d
			}
			for i, s := range p.StartUser() {
				sum += p.Fit.Ridge * p.StartMean * (u[i] - s) * (u[i] - s)
			}
			return sum
		}
		before := math.Inf(1)
		for steps := range 6 {
			p.Fit.Steps = steps
			now := loss(p.User(r, v))
			if now > before+1e-9 {
				t.Fatalf("step %d raises the loss from %v to %v", steps, before, now)
			}
			before = now
		}
	})
}

// plan returns the plan of a round, with the current V.
func plan(p kernel.Params, v *model.Matrix, round uint64) *protocol.Plan {
	return &protocol.Plan{Round: round, Phase: kernel.ItemGradient, Broadcast: v.Encode(), Releases: []protocol.Release{release(p)}}
}

// release returns a release with the scale that a run would choose: rounding costs a thousandth.
func release(p kernel.Params) protocol.Release {
	r := p.Release()
	r.Scale, r.Width = 500*math.Sqrt(float64(r.MaxNonZero))/r.L2, 32
	return r
}

// The contribution is the gradient of the squared error of one of the user's
// ratings: compared with central finite differences over all of V.
func TestContributionIsTheGradientOfOneRating(t *testing.T) {
	p := params(8, 3)
	v := p.StartItems()
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range v.Data() {
		v.Data()[i] = rng.Float64()
	}
	ratings := model.Ratings{Items: []int32{1, 4, 6}, Values: []float32{5, 1, 3}}
	user := kernel.NewUser(&p, ratings)
	src := simulated.New(1, "user")
	hits := map[int32]int{}
	for round := uint64(1); round <= 60; round++ {
		got, err := user.Contribute(plan(p, v, round), src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if g := got[0]; len(g.Index) != 1 || g.Block != 3 || len(g.Value) != 3 {
			t.Fatalf("round %d: %+v; want the row of one item", round, g)
		}
		item := int32(got[0].Index[0])
		hits[item]++
		var rating float64
		for k, j := range ratings.Items {
			if j == item {
				rating = float64(ratings.Values[k])
			}
		}
		for i, x := range got[0].Value {
			const h = 1e-6
			at := func(dx float64) float64 {
				w := v.Clone()
				w.Row(int(item))[i] += dx
				d := rating - model.Dot(user.U, w.Row(int(item)))
				return d * d
			}
			if want := (at(h) - at(-h)) / (2 * h); math.Abs(x-want) > 1e-5 {
				t.Fatalf("round %d, coordinate %d of item %d: %v, finite differences give %v", round, i, item, x, want)
			}
		}
	}
	// Each of three ratings 20 of 60 times; fewer than 3 happen with probability 1e-7.
	for _, j := range ratings.Items {
		if hits[j] < 3 {
			t.Errorf("item %d was sampled %d times of 60", j, hits[j])
		}
	}
}

// With all ratings the contribution is the gradient of the user's whole squared
// error, compared with finite differences; clipped, it keeps the direction and
// has norm C.
func TestContributionOfAllRatings(t *testing.T) {
	p := params(6, 2)
	p.Contribution, p.Clip = kernel.AllRatings, 1e6
	v := p.StartItems()
	ratings := model.Ratings{Items: []int32{0, 2, 5}, Values: []float32{5, 1, 3}}
	user := kernel.NewUser(&p, ratings)
	whole, err := user.Contribute(plan(p, v, 1), simulated.New(1, "user"), nil)
	if err != nil {
		t.Fatal(err)
	}
	loss := func(w *model.Matrix) (sum float64) {
		for k, j := range ratings.Items {
			d := float64(ratings.Values[k]) - model.Dot(user.U, w.Row(int(j)))
			sum += d * d
		}
		return sum
	}
	got := make([]float64, 12)
	for k, item := range whole[0].Index {
		copy(got[2*item:2*item+2], whole[0].Value[2*k:])
	}
	var norm2 float64
	for i := range got {
		const h = 1e-6
		w := v.Clone()
		w.Data()[i] += h
		up := loss(w)
		w.Data()[i] -= 2 * h
		if want := (up - loss(w)) / (2 * h); math.Abs(got[i]-want) > 1e-5 {
			t.Errorf("coordinate %d: %v, finite differences give %v", i, got[i], want)
		}
		norm2 += got[i] * got[i]
	}
	p.Clip = 0.5
	clipped, err := user.Contribute(plan(p, v, 2), simulated.New(1, "user"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, x := range clipped[0].Value {
		if want := whole[0].Value[k] * 0.5 / math.Sqrt(norm2); math.Abs(x-want) > 1e-12 {
			t.Errorf("clipped value %d is %v, want %v", k, x, want)
		}
	}
}

func TestUserWithoutRatingsContributesZero(t *testing.T) {
	p := params(8, 3)
	got, err := kernel.NewUser(&p, model.Ratings{}).Contribute(plan(p, p.StartItems(), 1), simulated.New(1, "u"), nil)
	if err != nil || got[0].Index == nil || len(got[0].Index) != 0 || len(got[0].Value) != 0 {
		t.Errorf("contribution %v, error %v; an empty sparse vector was expected", got, err)
	}
}

// The measured sensitivity. Emptying a record moves the sum by the contribution itself, since an
// empty record contributes zero. The test takes 1,000 users, random and chosen to be worst
// (embeddings at the edge of the ball, ratings at the ends of the scale). The sent integers stay
// within the declared D2 and D1, and the worst comes within a hundredth of D2: the bound is not
// loose by construction.
func TestMeasuredSensitivity(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	worst := map[kernel.Contribution]float64{}
	for n := range 1000 {
		rank := 1 + n%4
		p := params(10, rank)
		if n%3 == 0 {
			p.Contribution, p.Clip = kernel.AllRatings, 1+float64(n%5)
		}
		p.Fit.Steps = rng.IntN(60)
		v := p.StartItems()
		var r model.Ratings
		for j := range 10 {
			row := v.Row(j)
			for i := range row {
				row[i] = 3 * rng.Float64()
			}
			if n%2 == 0 { // adversarial: the server sends arbitrary values; only the last coordinate, or none, on the rated items
				clear(row)
				if j < 5 {
					row[rank-1] = math.Sqrt(5)
				}
			}
			kernel.Project(row, 5)
			if rng.IntN(3) > 0 || j == 0 {
				value := float32(5 * rng.IntN(2))
				if n%2 == 0 {
					value = 5 // u grows to the edge on items 0..4, and misses items 5..9 entirely
				}
				r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, value)
			}
		}
		if n%2 == 0 {
			p.StartMean = 5
		}
		user := kernel.NewUser(&p, r)
		rel := release(p)
		d2, d1 := rel.Bounds()
		for round := range uint64(5) {
			vectors, err := user.Contribute(plan(p, v, round+1), simulated.New(uint64(n), "u"), nil)
			if err != nil {
				t.Fatal(err)
			}
			sent, err := client.Quantize(vectors[0], rel)
			if err != nil {
				t.Fatalf("user %d: %v", n, err)
			}
			var l2, l1 float64
			moved := make([]int64, rel.Len)
			sent.AddTo(moved)
			for _, x := range moved {
				l2 += float64(x) * float64(x)
				l1 += math.Abs(float64(x))
			}
			if l2 = math.Sqrt(l2); l2 > d2 || l1 > d1 {
				t.Fatalf("user %d moves the integers by %v and %v, declared %v and %v", n, l2, l1, d2, d1)
			}
			worst[p.Contribution] = max(worst[p.Contribution], l2/d2)
		}
	}
	for _, c := range []kernel.Contribution{kernel.OneRating, kernel.AllRatings} {
		if worst[c] < 0.99 {
			t.Errorf("%s: the worst user reached only %.3f of D2: the test did not find the worst case", c, worst[c])
		}
	}
}

// Absorb against the formula of the FMF paper, written out.
func TestAbsorb(t *testing.T) {
	p := params(3, 2)
	schedule := protocol.Schedule{{Rounds: 10, Phase: kernel.ItemGradient, Releases: []protocol.Release{release(p)}}}
	lfl := kernel.NewLFL(p, 0.02, modelserver.Server{Cohort: protocol.Cohort{Clients: 9}, Schedule: schedule})
	before := p.StartItems()
	sum := []float64{3, -2, 0, 100, -100, 0.5}
	pl, done, err := lfl.Next()
	if err != nil || done {
		t.Fatal(done, err)
	}
	if err = lfl.Absorb(pl, protocol.Sums{Values: [][]float64{sum}, Survivors: 6}, each{}); err != nil {
		t.Fatal(err)
	}
	after, err := model.NewBroadcast(lfl.Model(), 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	for j := range 3 {
		want, got := make([]float64, 2), after.Matrix().Row(j)
		for i := range want {
			want[i] = before.Row(j)[i] - 0.02*3/6*sum[2*j+i] // η·m/|U1|, the first round has the full rate
		}
		kernel.Project(want, 5)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0x1p-23*want[i] { // the start and the result are rounded, by 2⁻²⁴ each
				t.Errorf("item %d: %v, want %v", j, got, want)
			}
		}
	}
}

type each struct{}

func (each) Each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// Linear to a tenth over the first 80%, then constant (design, section 5, 6).
func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		t, rounds int
		want      float64
	}{{1, 10, 1}, {5, 10, 0.55}, {9, 10, 0.1}, {10, 10, 0.1}, {1, 1, 1}, {41, 100, 0.55}, {100, 100, 0.1}} {
		if got := kernel.Schedule(1, c.t, c.rounds); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("round %d of %d: %v, want %v", c.t, c.rounds, got, c.want)
		}
	}
}

func TestUserRefusesBrokenBroadcast(t *testing.T) {
	p := params(4, 2)
	if _, err := kernel.NewUser(&p, model.Ratings{}).Contribute(&protocol.Plan{Broadcast: []byte{1}}, simulated.New(1, "u"), nil); err == nil {
		t.Error("a user took part with a broken broadcast")
	}
	if err := kernel.NewUser(&p, model.Ratings{}).Finish(nil, nil); err == nil {
		t.Error("a user finished with an empty model")
	}
}

func TestParamsValidate(t *testing.T) {
	for _, c := range []struct {
		change func(*kernel.Params)
		want   string
	}{
		{func(p *kernel.Params) { p.Items = 0 }, "0 items"},
		{func(p *kernel.Params) { p.Rank = 0 }, "rank 0"},
		{func(p *kernel.Params) { p.StartMean = p.MaxRating * 1.01 }, "start-mean"},
		{func(p *kernel.Params) { p.StartMean = 0 }, "start-mean"},
		{func(p *kernel.Params) { p.MaxRating = math.Inf(1) }, "start-mean"},
	} {
		p := params(4, 2)
		c.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate says %v; it must mention %q", err, c.want)
		}
	}
}
