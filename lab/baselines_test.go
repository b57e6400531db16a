package lab_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// likes draws who likes what: groups of users like groups of items, and every user some more.
func likes(users, items int) dataset.Ratings {
	rng := rand.New(rand.NewPCG(1, 2))
	r := dataset.Ratings{Users: users, Items: items}
	for u := range users {
		for j := range items - 1 { // no user likes the last item
			if chance := map[bool]float64{true: 0.5, false: 0.1}[u%3 == j%3]; rng.Float64() < chance {
				r.User, r.Item, r.Value = append(r.User, int32(u)), append(r.Item, int32(j)), append(r.Value, 1)
			}
		}
	}
	return r
}

// dense returns the ratings as a matrix of 0 and 1.
func denseOf(r dataset.Ratings) *mat.Dense {
	x := mat.NewDense(r.Users, r.Items, nil)
	r.Each(func(u, j int32, _ float32) { x.Set(int(u), int(j), 1) })
	return x
}

// started opens a method on ratings.
func started(t *testing.T, r dataset.Ratings, settings string) algorithm.Central {
	t.Helper()
	c, err := config.Resolve(opened.Settings(settings))
	if err != nil {
		t.Fatal(err)
	}
	x, err := algorithm.Of(c).Open(&algorithm.Setup{Config: c, Data: &dataset.Set{Ratings: r}, Train: r.ByUser(), Ratings: r})
	if err != nil {
		t.Fatal(err)
	}
	return x.(algorithm.Central)
}

// learned trains a method from some passes on, to the end. It returns the states after the further passes.
func learned(t *testing.T, r dataset.Ratings, settings string, from algorithm.Passes, workers int) (p model.Predictor, states [][]byte) {
	t.Helper()
	m, err := started(t, r, settings).Train(t.Context(), protocol.Workers(workers), from, entropy.Source{}, func(e algorithm.Epoch) error {
		states = append(states, e.Save())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Predictor, states
}

// scorer trains a method that ranks.
func scorer(t *testing.T, r dataset.Ratings, settings string) eval.Scorer {
	t.Helper()
	p, _ := learned(t, r, settings, algorithm.Passes{}, 2)
	return p.(eval.Scorer)
}

// unpacked reads matrices of some columns from the end of a state, which holds users and, last, items.
func unpacked(t *testing.T, state []byte, r dataset.Ratings, userColumns, itemColumns int) *model.Factors {
	t.Helper()
	f := &model.Factors{Users: model.NewMatrix(r.Users, userColumns), Items: model.NewMatrix(r.Items, itemColumns)}
	cut := len(state) - 8*len(f.Items.Data())
	if err := errors.Join(model.ReadFloats(f.Users.Data(), state[cut-8*len(f.Users.Data()):cut]), model.ReadFloats(f.Items.Data(), state[cut:])); err != nil {
		t.Fatal(err)
	}
	return f
}

// The weights are the only ones with a zero diagonal at which the slope of |X - XB|² + ridge·|B|² is
// zero off the diagonal: the problem is convex. gonum's matrices compute the slope, and the unit
// histories show the weights.
func TestEASEIsTheMinimum(t *testing.T) {
	r := likes(40, 12)
	l := scorer(t, r, "algorithm=ease ease.ridge=7")
	x, b := denseOf(r), mat.NewDense(12, 12, nil)
	for i := range 12 {
		l.Score(0, []int32{int32(i)}, nil, b.RawRowView(i))
	}
	var left, slope mat.Dense
	left.Mul(x, b)
	left.Sub(&left, x)
	slope.Mul(x.T(), &left)
	for i := range 12 {
		for j := range 12 {
			switch at := slope.At(i, j) + 7*b.At(i, j); {
			case i == j && b.At(i, j) != 0:
				t.Errorf("weight %d of itself is %v", i, b.At(i, j))
			case i != j && math.Abs(at) > 1e-9:
				t.Errorf("the slope at %d, %d is %v", i, j, at)
			}
		}
	}
}

// NumPy's inverse gives the same scores: with P = (XᵀX + 2)⁻¹ (Steck 2019, algorithm 1) they are X·P/(-diag P) with a zero diagonal.
func TestEASEByNumPy(t *testing.T) {
	r := dataset.Ratings{Users: 6, Items: 5}
	for u, row := range []string{"11001", "10100", "01110", "11100", "00111", "10011"} {
		for j, like := range row {
			if like == '1' {
				r.User, r.Item, r.Value = append(r.User, int32(u)), append(r.Item, int32(j)), append(r.Value, 1)
			}
		}
	}
	l := scorer(t, r, "algorithm=ease ease.ridge=2")
	got := make([]float64, 5)
	l.Score(0, []int32{0, 1, 4}, nil, got)
	for j, want := range []float64{0.5952380952, 0.2765957447, 0.4047619048, 0.34, 0.32} {
		if math.Abs(got[j]-want) > 1e-9 {
			t.Errorf("item %d scores %v, want %v", j, got[j], want)
		}
	}
}

// A brute force over all pairs of items gives the same scores.
func TestItemKNN(t *testing.T) {
	r := likes(40, 12)
	l := scorer(t, r, "algorithm=item-knn knn.neighbours=4 knn.shrinkage=3")
	x := denseOf(r)
	cosine := func(i, j int) float64 {
		a, b := x.ColView(i), x.ColView(j)
		return mat.Dot(a, b) / (math.Sqrt(mat.Dot(a, a)*mat.Dot(b, b)) + 3)
	}
	history := []int32{0, 3, 4, 7}
	got := make([]float64, 12)
	l.Score(0, history, nil, got)
	for j := range 12 {
		var others []int32
		for i := range int32(12) {
			if int(i) != j {
				others = append(others, i)
			}
		}
		slices.SortStableFunc(others, func(a, b int32) int {
			switch p, q := cosine(int(a), j), cosine(int(b), j); {
			case p > q:
				return -1
			case p < q:
				return 1
			}
			return 0
		})
		var want float64
		for _, i := range others[:4] {
			if slices.Contains(history, i) {
				want += cosine(int(i), j)
			}
		}
		if j == 11 {
			want = 0 // no user likes it
		}
		if math.Abs(got[j]-want) > 1e-12 {
			t.Errorf("item %d scores %v, want %v", j, got[j], want)
		}
	}
}

// The weight of unobserved items, and the ridge, in tests of ials and fcf.
const (
	unobserved   = 0.2
	ialsRidge    = 0.02
	ialsSettings = " rank=3 ials.ridge=0.02 ials.unobserved=0.2"
)

// ialsObjective is the objective of iALS, written out over all pairs.
func ialsObjective(l *model.Factors, r dataset.Ratings) float64 {
	x := denseOf(r)
	var users, items []float64
	for u := range r.Users {
		users = append(users, mat.Sum(x.RowView(u))+unobserved*float64(r.Items))
	}
	for j := range r.Items {
		items = append(items, mat.Sum(x.ColView(j))+unobserved*float64(r.Users))
	}
	sqr := func(v []float64) (sum float64) {
		for _, a := range v {
			sum += a * a
		}
		return sum
	}
	var sum float64
	for u := range r.Users {
		sum += ialsRidge * users[u] * sqr(l.Users.Row(u))
		for j := range r.Items {
			p := mat.Dot(mat.NewVecDense(3, l.Users.Row(u)), mat.NewVecDense(3, l.Items.Row(j)))
			sum += unobserved * p * p
			if x.At(u, j) > 0 {
				sum += (p - 1) * (p - 1)
			}
		}
	}
	for j := range r.Items {
		sum += ialsRidge * items[j] * sqr(l.Items.Row(j))
	}
	return sum
}

// After many passes the slope of the objective is zero in every number of the model, by finite
// differences of the objective as the paper writes it. No pass raises the objective.
func TestIALSIsAMinimum(t *testing.T) {
	r := likes(20, 9)
	_, states := learned(t, r, "algorithm=ials ials.passes=200"+ialsSettings, algorithm.Passes{}, 2)
	var l *model.Factors
	last := math.Inf(1)
	for n, state := range states {
		l = unpacked(t, state, r, 3, 3)
		now := ialsObjective(l, r)
		if now > last+1e-9 {
			t.Fatalf("pass %d raises the objective from %v to %v", n, last, now)
		}
		last = now
	}
	for _, m := range [][]float64{l.Users.Data(), l.Items.Data()} {
		for i := range m {
			at := m[i]
			slope := fd.Derivative(func(v float64) float64 { m[i] = v; return ialsObjective(l, r) }, at, &fd.Settings{Formula: fd.Central})
			m[i] = at
			if math.Abs(slope) > 1e-3 {
				t.Errorf("the slope in number %d is %v", i, slope)
			}
		}
	}
}

// startOfFCF draws a state of fcf after a pass: Adam's means of slopes and of their squares, users and items.
func startOfFCF(r dataset.Ratings, rank int) (from algorithm.Passes, first, second, users, items []float64) {
	rng := rand.New(rand.NewPCG(7, 8))
	draw := func(rows int) []float64 {
		m := make([]float64, rows*rank)
		for i := range m {
			m[i] = 0.05 * rng.NormFloat64()
		}
		return m
	}
	first, second, users, items = draw(r.Items), draw(r.Items), draw(r.Users), draw(r.Items)
	floats.Mul(second, second)
	return algorithm.Passes{Done: 1, State: model.AppendFloats(nil, slices.Concat(first, second, users, items)...)}, first, second, users, items
}

// FCF ends where ials ends: Ammad-ud-din et al. find no difference between the two.
func TestFCFApproachesIALS(t *testing.T) {
	r := likes(60, 15)
	from, _, _, users, items := startOfFCF(r, 3)
	start := ialsObjective(&model.Factors{Users: model.Wrap(r.Users, 3, users), Items: model.Wrap(r.Items, 3, items)}, r)
	_, exact := learned(t, r, "algorithm=ials ials.passes=300"+ialsSettings, algorithm.Passes{}, 2)
	_, moved := learned(t, r, "algorithm=fcf fcf.rate=0.01 fcf.passes=1501"+ialsSettings, from, 2)
	a, b := ialsObjective(unpacked(t, exact[299], r, 3, 3), r), ialsObjective(unpacked(t, moved[1499], r, 3, 3), r)
	if b-a > 0.01*(start-a) {
		t.Errorf("the objective ends at %v, and that of ials at %v, from %v", b, a, start)
	}
}

// Passes of FCF are rounds of algorithm 1 of Ammad-ud-din et al. (2019), written out: each client solves for its own user
// by gonum, from its own row of likes, and sends its part of every item's slope. Adam moves the items by the sum.
func TestFCFByClients(t *testing.T) {
	r := likes(25, 11)
	const ridge, rate, passes = ialsRidge, 0.03, 6
	from, firstMeans, secondMeans, _, start := startOfFCF(r, 3)
	x, items := denseOf(r), mat.NewDense(11, 3, start)
	first, second := mat.NewDense(11, 3, firstMeans), mat.NewDense(11, 3, secondMeans)
	client := func(u int) *mat.VecDense {
		var weighted, left mat.Dense
		weighted.CloneFrom(items)
		var right mat.VecDense
		right.MulVec(items.T(), x.RowView(u))
		for j := range 11 {
			floats.Scale(x.At(u, j)+unobserved, weighted.RawRowView(j))
		}
		left.Mul(items.T(), &weighted)
		for c := range 3 {
			left.Set(c, c, left.At(c, c)+ridge*(mat.Sum(x.RowView(u))+unobserved*11))
		}
		var w mat.VecDense
		if err := w.SolveVec(&left, &right); err != nil {
			t.Fatal(err)
		}
		return &w
	}
	for n := range passes {
		sum := mat.NewDense(11, 3, nil)
		for u := range r.Users {
			w := client(u)
			for j := range 11 {
				score := mat.Dot(w, items.RowView(j))
				for c := range 3 {
					slope := 2 * ((x.At(u, j)*(score-1)+unobserved*score)*w.AtVec(c) + ridge*(x.At(u, j)+unobserved)*items.At(j, c))
					sum.Set(j, c, sum.At(j, c)+slope)
				}
			}
		}
		step := float64(n + 2) // the state is after a pass
		for j := range 11 {
			for c := range 3 {
				g := sum.At(j, c)
				first.Set(j, c, 0.9*first.At(j, c)+0.1*g)
				second.Set(j, c, 0.999*second.At(j, c)+0.001*g*g)
				a, b := first.At(j, c)/(1-math.Pow(0.9, step)), second.At(j, c)/(1-math.Pow(0.999, step))
				items.Set(j, c, items.At(j, c)-rate*a/(math.Sqrt(b)+1e-8))
			}
		}
	}
	_, states := learned(t, r, fmt.Sprintf("algorithm=fcf fcf.rate=%v fcf.passes=%d", rate, passes+1)+ialsSettings, from, 2)
	l := unpacked(t, states[passes-1], r, 3, 3)
	if !floats.EqualApprox(l.Items.Data(), items.RawMatrix().Data, 1e-9) {
		t.Errorf("the items are %v, and %v by clients", l.Items.Data(), items.RawMatrix().Data)
	}
	for u := range r.Users {
		if w := client(u); !floats.EqualApprox(l.Users.Row(u), w.RawVector().Data, 1e-9) {
			t.Errorf("user %d is %v, and %v by its client", u, l.Users.Row(u), w.RawVector().Data)
		}
	}
}

// A step goes along the slope of ln σ(x) less the ridge, by finite differences. Of one user who likes one of two items there is one pair,
// and a pass is one step.
func TestBPRStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([]float64, 2+3+3) // a user, a liked item and another, each item with a bias
	for i := range all {
		all[i] = rng.NormFloat64()
	}
	gain := func(v []float64) float64 {
		u, a, b := v[:2], v[2:5], v[5:]
		x := u[0]*(a[0]-b[0]) + u[1]*(a[1]-b[1]) + a[2] - b[2]
		sum := -math.Log(1 + math.Exp(-x))
		for _, p := range v {
			sum -= 0.3 / 2 * p * p
		}
		return sum
	}
	want := fd.Gradient(nil, gain, all, &fd.Settings{Formula: fd.Central})
	r := dataset.Ratings{Users: 1, Items: 2, User: []int32{0}, Item: []int32{0}, Value: []float32{1}}
	from := algorithm.Passes{Done: 1, State: model.AppendFloats(nil, all...)}
	_, states := learned(t, r, "algorithm=bpr-mf rank=2 bpr.passes=2 bpr.rate=0.1 bpr.ridge=0.3", from, 1)
	f := unpacked(t, states[0], r, 2, 3)
	for i, x := range slices.Concat(f.Users.Data(), f.Items.Data()) {
		if got := (x - all[i]) / 0.1; math.Abs(got-want[i]) > 1e-6 {
			t.Errorf("number %d goes by %v, want %v", i, got, want[i])
		}
	}
}

// Every method puts what a user's group likes before the rest: for users of training in the mean, and for
// a user that training has not seen.
func TestGroupsAreFound(t *testing.T) {
	r := likes(300, 30)
	hidden := int32(299) // a user of group 2, whose ratings are taken out
	keep := dataset.Ratings{Users: r.Users, Items: r.Items}
	r.Each(func(u, j int32, x float32) {
		if u != hidden {
			keep.User, keep.Item, keep.Value = append(keep.User, u), append(keep.Item, j), append(keep.Value, x)
		}
	})
	for _, name := range []string{"ease", "item-knn", "ials rank=4", "fcf rank=4", "bpr-mf rank=4"} {
		t.Run(name, func(t *testing.T) {
			l := scorer(t, keep, "algorithm="+name)
			scores := make([]float64, r.Items)
			rows, mean := keep.ByUser(), 0.0
			for u := range int(hidden) {
				history, _ := rows.Row(u)
				l.Score(u, history, nil, scores)
				mean += share(scores[:29], u%3) / float64(hidden)
			}
			if mean < 0.9 {
				t.Errorf("%v of the pairs are in order", mean)
			}
			l.Score(int(hidden), []int32{2, 5, 8, 11}, nil, scores)
			if of := share(scores[12:29], 2); of < 0.95 {
				t.Errorf("a new user: %v of the pairs are in order", of)
			}
		})
	}
}

// share returns the share of pairs of an item of a group and another item that are in order.
func share(scores []float64, group int) float64 {
	var right, all float64
	for i, a := range scores {
		for j, b := range scores {
			if i%3 == group && j%3 != group {
				all++
				if a > b {
					right++
				}
			}
		}
	}
	return right / all
}

// Training that continues from a state gives the same bits as training in one go, with any number of
// workers.
func TestContinued(t *testing.T) {
	r := likes(60, 20)
	for name, passes := range map[string]string{"ials": "ials.passes", "fcf": "fcf.passes", "bpr-mf": "bpr.passes"} {
		settings := fmt.Sprintf("algorithm=%s rank=4 %s=3", name, passes)
		_, whole := learned(t, r, settings, algorithm.Passes{}, 2)
		_, one := learned(t, r, settings, algorithm.Passes{}, 1)
		_, rest := learned(t, r, settings, algorithm.Passes{Done: 1, State: one[0]}, 3)
		if len(rest) != 2 || !bytes.Equal(whole[2], rest[1]) {
			t.Errorf("%s: other bits after a pause", name)
		}
		from := algorithm.Passes{Done: 1, State: one[0][8:]}
		if _, err := started(t, r, settings).Train(t.Context(), protocol.Workers(1), from, entropy.Source{}, nil); err == nil {
			t.Errorf("%s: a state that is too short is taken", name)
		}
	}
}
