package baselines

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/eval"
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

// open starts a method on ratings.
func open(t *testing.T, r dataset.Ratings, settings string) (*instance, learner) {
	t.Helper()
	var list []config.Setting
	for f := range strings.FieldsSeq(settings) {
		key, value, _ := strings.Cut(f, "=")
		list = append(list, config.Setting{Key: key, Value: value})
	}
	c, err := config.Resolve(list)
	if err != nil {
		t.Fatal(err)
	}
	set := &dataset.Set{Ratings: r}
	s := &algorithm.Setup{Config: c, Data: set, Train: r.ByUser(), Ratings: r}
	x, err := algorithm.Of(c).Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return x.(*instance), x.(*instance).learner
}

// passed trains for some passes.
func passed(t *testing.T, l learner, passes int) {
	t.Helper()
	for n := range passes {
		if err := l.pass(n+1, protocol.Workers(2)); err != nil {
			t.Fatal(err)
		}
	}
}

// The weights are the only ones with a zero diagonal at which the slope of |X - XB|² + ridge·|B|² is
// zero off the diagonal: the problem is convex. gonum's matrices compute the slope, and the unit
// histories show the weights.
func TestEASEIsTheMinimum(t *testing.T) {
	r := likes(40, 12)
	_, l := open(t, r, "algorithm=ease ease.ridge=7")
	passed(t, l, 1)
	x, b := denseOf(r), mat.NewDense(12, 12, nil)
	for i := range 12 {
		l.(eval.Scorer).Score(0, []int32{int32(i)}, nil, b.RawRowView(i))
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
	_, l := open(t, r, "algorithm=ease ease.ridge=2")
	passed(t, l, 1)
	got := make([]float64, 5)
	l.(eval.Scorer).Score(0, []int32{0, 1, 4}, nil, got)
	for j, want := range []float64{0.5952380952, 0.2765957447, 0.4047619048, 0.34, 0.32} {
		if math.Abs(got[j]-want) > 1e-9 {
			t.Errorf("item %d scores %v, want %v", j, got[j], want)
		}
	}
}

// A brute force over all pairs of items gives the same scores.
func TestItemKNN(t *testing.T) {
	r := likes(40, 12)
	_, l := open(t, r, "algorithm=item-knn knn.neighbours=4 knn.shrinkage=3")
	passed(t, l, 1)
	x := denseOf(r)
	cosine := func(i, j int) float64 {
		a, b := x.ColView(i), x.ColView(j)
		return mat.Dot(a, b) / (math.Sqrt(mat.Dot(a, a)*mat.Dot(b, b)) + 3)
	}
	history := []int32{0, 3, 4, 7}
	got := make([]float64, 12)
	l.(eval.Scorer).Score(0, history, nil, got)
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

// objective is the objective of iALS, written out over all pairs.
func objective(l *implicit, r dataset.Ratings) float64 {
	x := denseOf(r)
	var users, items []float64
	for u := range r.Users {
		users = append(users, mat.Sum(x.RowView(u))+l.unobserved*float64(r.Items))
	}
	for j := range r.Items {
		items = append(items, mat.Sum(x.ColView(j))+l.unobserved*float64(r.Users))
	}
	sqr := func(v []float64) (sum float64) {
		for _, a := range v {
			sum += a * a
		}
		return sum
	}
	var sum float64
	for u := range r.Users {
		sum += l.ridge * users[u] * sqr(l.users.Row(u))
		for j := range r.Items {
			p := mat.Dot(mat.NewVecDense(3, l.users.Row(u)), mat.NewVecDense(3, l.items.Row(j)))
			sum += l.unobserved * p * p
			if x.At(u, j) > 0 {
				sum += (p - 1) * (p - 1)
			}
		}
	}
	for j := range r.Items {
		sum += l.ridge * items[j] * sqr(l.items.Row(j))
	}
	return sum
}

// After many passes the slope of the objective is zero in every number of the model, by finite
// differences of the objective as the paper writes it. No pass raises the objective.
func TestIALSIsAMinimum(t *testing.T) {
	r := likes(20, 9)
	_, started := open(t, r, "algorithm=ials rank=3 ials.ridge=0.02 ials.unobserved=0.2")
	l := started.(*implicit)
	last := math.Inf(1)
	for n := range 200 {
		passed(t, l, 1)
		now := objective(l, r)
		if now > last+1e-9 {
			t.Fatalf("pass %d raises the objective from %v to %v", n, last, now)
		}
		last = now
	}
	for _, m := range [][]float64{l.users.Data(), l.items.Data()} {
		for i := range m {
			at := m[i]
			slope := fd.Derivative(func(v float64) float64 { m[i] = v; return objective(l, r) }, at, &fd.Settings{Formula: fd.Central})
			m[i] = at
			if math.Abs(slope) > 1e-3 {
				t.Errorf("the slope in number %d is %v", i, slope)
			}
		}
	}
}

// The server's slope of an item is the derivative of the objective that a dense matrix of all likes gives,
// by finite differences. It is also the sum of what single clients would send: each knows its own likes.
func TestFCFSlope(t *testing.T) {
	r := likes(20, 9)
	_, started := open(t, r, "algorithm=fcf rank=3 ials.ridge=0.02 ials.unobserved=0.2")
	l := started.(*federated)
	passed(t, l, 3)
	gram := l.gram(l.users)
	for j := range r.Items {
		got := make([]float64, 3)
		l.slope(j, gram, got)
		v := l.items.Row(j)
		for c := range v {
			at := v[c]
			want := fd.Derivative(func(x float64) float64 { v[c] = x; return objective(l.implicit, r) }, at, &fd.Settings{Formula: fd.Central})
			v[c] = at
			if math.Abs(got[c]-want) > 1e-4 {
				t.Errorf("item %d, number %d: slope %v, want %v", j, c, got[c], want)
			}
		}
	}
}

// FCF ends where ials ends: Ammad-ud-din et al. find no difference between the two.
func TestFCFApproachesIALS(t *testing.T) {
	r := likes(60, 15)
	const settings = " rank=3 ials.ridge=0.02 ials.unobserved=0.2"
	_, exact := open(t, r, "algorithm=ials"+settings)
	_, moved := open(t, r, "algorithm=fcf fcf.rate=0.01"+settings)
	start := objective(moved.(*federated).implicit, r)
	passed(t, exact, 300)
	passed(t, moved, 1500)
	a, b := objective(exact.(*implicit), r), objective(moved.(*federated).implicit, r)
	if b-a > 0.01*(start-a) {
		t.Errorf("the objective ends at %v, and that of ials at %v, from %v", b, a, start)
	}
}

// Passes of FCF are rounds of algorithm 1 of Ammad-ud-din et al. (2019), written out: each client solves for its own user
// by gonum, from its own row of likes, and sends its part of every item's slope. Adam moves the items by the sum.
func TestFCFByClients(t *testing.T) {
	r := likes(25, 11)
	const ridge, unobserved, rate, passes = 0.02, 0.2, 0.03, 6
	_, started := open(t, r, fmt.Sprintf("algorithm=fcf rank=3 ials.ridge=%v ials.unobserved=%v fcf.rate=%v", ridge, unobserved, rate))
	l := started.(*federated)
	x, items := denseOf(r), mat.DenseCopyOf(mat.NewDense(11, 3, l.items.Data()))
	first, second := mat.NewDense(11, 3, nil), mat.NewDense(11, 3, nil)
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
		step := float64(n + 1)
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
	passed(t, l, passes)
	if !floats.EqualApprox(l.items.Data(), items.RawMatrix().Data, 1e-9) {
		t.Errorf("the items are %v, and %v by clients", l.items.Data(), items.RawMatrix().Data)
	}
	for u := range r.Users {
		if w := client(u); !floats.EqualApprox(l.users.Row(u), w.RawVector().Data, 1e-9) {
			t.Errorf("user %d is %v, and %v by its client", u, l.users.Row(u), w.RawVector().Data)
		}
	}
}

// Adam's first two steps, worked out by hand: slopes 3 and 1 have the means 3 and (0.9·0.3 + 0.1)/0.19
// after correction, and the mean squares 9 and (0.999·0.009 + 0.001)/0.001999.
func TestAdam(t *testing.T) {
	x, first, second := []float64{5}, []float64{0}, []float64{0}
	adam(x, []float64{3}, first, second, 1, 0.5)
	if math.Abs(x[0]-4.5) > 1e-8 {
		t.Errorf("the first step ends at %v, want 4.5", x[0])
	}
	adam(x, []float64{1}, first, second, 2, 0.5)
	if want := 4.5 - 0.5*(0.37/0.19)/math.Sqrt(0.009991/0.001999); math.Abs(x[0]-want) > 1e-8 {
		t.Errorf("the second step ends at %v, want %v", x[0], want)
	}
}

// A step goes along the slope of ln σ(x) less the ridge, by finite differences.
func TestBPRStep(t *testing.T) {
	l := &pairwise{rate: 0.1, ridge: 0.3}
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
	before := slices.Clone(all)
	l.step(all[:2], all[2:5], all[5:], true)
	for i := range all {
		if got := (all[i] - before[i]) / 0.1; math.Abs(got-want[i]) > 1e-6 {
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
			x, l := open(t, keep, "algorithm="+name)
			passed(t, l, x.Epochs())
			scores := make([]float64, r.Items)
			rows, mean := keep.ByUser(), 0.0
			for u := range int(hidden) {
				history, _ := rows.Row(u)
				l.(eval.Scorer).Score(u, history, nil, scores)
				mean += share(scores[:29], u%3) / float64(hidden)
			}
			if mean < 0.9 {
				t.Errorf("%v of the pairs are in order", mean)
			}
			l.(eval.Scorer).Score(int(hidden), []int32{2, 5, 8, 11}, nil, scores)
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
	for _, name := range []string{"ials", "fcf", "bpr-mf"} {
		settings := fmt.Sprintf("algorithm=%s rank=4", name)
		_, whole := open(t, r, settings)
		passed(t, whole, 3)
		_, first := open(t, r, settings)
		if err := first.pass(1, protocol.Workers(1)); err != nil {
			t.Fatal(err)
		}
		_, second := open(t, r, settings)
		if err := second.restore(first.state()); err != nil {
			t.Fatal(err)
		}
		for n := 2; n <= 3; n++ {
			if err := second.pass(n, protocol.Workers(3)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(whole.state(), second.state()) {
			t.Errorf("%s: other bits after a pause", name)
		}
		if err := second.restore(first.state()[8:]); err == nil {
			t.Errorf("%s: a state that is too short is taken", name)
		}
	}
}
