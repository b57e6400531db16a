package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/model"
)

// plainPass is Pass as a reader would write it: the oracle of TestPassIsThePlainPass and the limit
// for BenchmarkPass.
func plainPass(p Params, u, v *model.Matrix, users, items []int32, values []float32, order []int32, rate float64) {
	for _, k := range order {
		ui, vj := u.Row(int(users[k])), v.Row(int(items[k]))
		step := 2 * rate * (float64(values[k]) - model.Dot(ui, vj))
		for c, x := range ui {
			ui[c] += step * vj[c]
			vj[c] += step * x
		}
		Project(ui, p.MaxRating)
		Project(vj, p.MaxRating)
	}
}

// ratingsToPass returns n random ratings, an order of them, and random matrices for them.
func ratingsToPass(n, users, items, rank int) (u, v *model.Matrix, user, item []int32, value []float32, order []int32) {
	random := rand.New(rand.NewPCG(1, 2))
	u, v = model.NewMatrix(users, rank), model.NewMatrix(items, rank)
	for _, m := range []*model.Matrix{u, v} {
		for i := range m.Data() {
			m.Data()[i] = random.Float64()
		}
	}
	for range n {
		user, item = append(user, random.Int32N(int32(users))), append(item, random.Int32N(int32(items)))
		value = append(value, 5*random.Float32())
	}
	order = model.Indices(n)
	random.Shuffle(n, func(a, b int) { order[a], order[b] = order[b], order[a] })
	return u, v, user, item, value, order
}

// A user and an item meet several times in a block here, and 77 is no multiple of a block's size.
func TestPassIsThePlainPass(t *testing.T) {
	t.Parallel()
	p := Params{MaxRating: 5}
	u, v, user, item, value, order := ratingsToPass(77, 3, 4, 5)
	wantU, wantV := u.Clone(), v.Clone()
	plainPass(p, wantU, wantV, user, item, value, order, 0.3)
	p.Pass(u, v, user, item, value, order, 0.3)
	if !slices.Equal(u.Data(), wantU.Data()) || !slices.Equal(v.Data(), wantV.Data()) {
		t.Errorf("%v and %v, want %v and %v", u.Data(), v.Data(), wantU.Data(), wantV.Data())
	}
}

// BenchmarkPass makes a pass over ratings of MovieLens 1M's shape, and a plain pass beside it.
func BenchmarkPass(b *testing.B) {
	p := Params{MaxRating: 5}
	u, v, user, item, value, order := ratingsToPass(900_000, 6040, 3706, 20)
	for name, pass := range map[string]func(){
		"pass":  func() { p.Pass(u, v, user, item, value, order, 1e-4) },
		"plain": func() { plainPass(p, u, v, user, item, value, order, 1e-4) },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				pass()
			}
		})
	}
}
