package eval_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/eval"
	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// small has four users and three items, made by hand.
var small = dataset.Ratings{
	Users: 4, Items: 3,
	User:  []int32{0, 0, 1, 1, 1, 2},
	Item:  []int32{0, 1, 0, 1, 2, 2},
	Value: []float32{5, 3, 4, 2, 3, 1},
}

func predict(p model.Predictor, user int, items ...int32) []float64 {
	out := make([]float64, len(items))
	p.Predict(user, items, out)
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestMeans(t *testing.T) {
	test := eval.NewTest(&split.Parts{Train: small}, 1, 5, 1)
	near(t, "global mean", float64(test.GlobalMean()), 3, 1e-12)
	if got, want := test.Popularity(), (eval.Popular{2, 2, 2}); !slices.Equal(got, want) {
		t.Errorf("popularity %v, want %v", got, want)
	}
	means := eval.UserMean(small.ByUser(), 3, protocol.Workers(2))
	for u, want := range []float64{4, 3, 1, 3} { // the last user has no rating
		near(t, "user mean", predict(means, u, 0)[0], want, 1e-6)
	}
}

// The biases are the minimum of the ridge problem, which gonum solves at once:
// (XᵀX + 5I) b = Xᵀ(x - mean), X the indicator of user and item.
func TestItemBiasIsTheRidgeSolution(t *testing.T) {
	got := eval.ItemBias(small, protocol.Workers(2))
	const n = 7
	a, right := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		a.Set(i, i, 5)
	}
	for k, x := range small.Value {
		u, j := int(small.User[k]), 4+int(small.Item[k])
		for _, r := range []int{u, j} {
			right.SetVec(r, right.AtVec(r)+float64(x)-3)
			for _, c := range []int{u, j} {
				a.Set(r, c, a.At(r, c)+1)
			}
		}
	}
	var want mat.VecDense
	if err := want.SolveVec(a, right); err != nil {
		t.Fatal(err)
	}
	for u := range 4 {
		near(t, "user bias", got.Users[u], want.AtVec(u), 1e-6)
	}
	for j := range 3 {
		near(t, "item bias", got.Item[j], want.AtVec(4+j), 1e-6)
	}
	near(t, "prediction", predict(got, 1, 2)[0], 3+want.AtVec(1)+want.AtVec(6), 1e-6)
}

// With more users than one part holds, the biases are still where the ridge problem has no slope.
// They are the same bits with any number of workers. A bias times (5 + its ratings) is the sum of
// its ratings less mean and the other biases.
func TestItemBiasOfManyUsers(t *testing.T) {
	const users, items = 300_000, 7
	r := dataset.Ratings{Users: users, Items: items}
	for u := range int32(users) {
		for k := range 1 + u%3 {
			r.User, r.Item = append(r.User, u), append(r.Item, (u/5+2*k)%items)
			r.Value = append(r.Value, float32(1+(u*7+k*3)%5))
		}
	}
	got := eval.ItemBias(r, protocol.Workers(1))
	if others := eval.ItemBias(r, protocol.Workers(3)); !slices.Equal(got.Users, others.Users) || !slices.Equal(got.Item, others.Item) {
		t.Error("the bits depend on the number of workers")
	}
	slopes := make([]float64, users+items)
	for u, b := range got.Users {
		slopes[u] = -5 * b
	}
	for j, b := range got.Item {
		slopes[users+j] = -5 * b
	}
	for k, x := range r.Value {
		u, j := r.User[k], r.Item[k]
		left := float64(x) - got.Mean - got.Users[u] - got.Item[j]
		slopes[u] += left
		slopes[users+j] += left
	}
	for i, slope := range slopes {
		if tolerance := map[bool]float64{true: 1e-9, false: 1}[i < users]; math.Abs(slope) > tolerance { // items, of 85,000 ratings each, moved before users did
			t.Fatalf("slope %v of bias %d", slope, i)
		}
	}
}
