package lab_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// someStars draws ratings of 12 users and 9 items.
func someStars() dataset.Ratings {
	rng := rand.New(rand.NewPCG(5, 6))
	r := dataset.Ratings{Users: 12, Items: 9}
	for u := range int32(11) { // the last user rated nothing
		for j := range int32(8) { // no user rated the last item
			if rng.IntN(3) > 0 {
				r.User, r.Item, r.Value = append(r.User, u), append(r.Item, j), append(r.Value, float32(1+rng.IntN(5)))
			}
		}
	}
	return r
}

// alsObjective is the function that als minimises, as Zhou et al. and the keys of als define it: squared errors, a ridge of 0.05 on
// embeddings for each rating, and a constant ridge of 5 on embeddings and biases, which are the last numbers of rows.
func alsObjective(f *model.Factors, r dataset.Ratings) float64 {
	sum, mean := 0., r.Mean()
	users, items := make([]float64, r.Users), make([]float64, r.Items)
	r.Each(func(u, j int32, value float32) {
		users[u]++
		items[j]++
		a, b := f.Users.Row(int(u)), f.Items.Row(int(j))
		d := len(a) - 1
		e := float64(value) - (mean + model.Dot(a[:d], b[:d]) + a[d] + b[d])
		sum += e * e
	})
	for m, counts := range map[*model.Matrix][]float64{f.Users: users, f.Items: items} {
		for i, n := range counts {
			row := m.Row(i)
			for c, x := range row {
				if sum += 5 * x * x; c < len(row)-1 {
					sum += 0.05 * n * x * x
				}
			}
		}
	}
	return sum
}

// Every half of a pass ends where the objective has no slope towards that side's rows, by
// differences of the objective itself; so it never rises.
func TestALSMinimises(t *testing.T) {
	r := someStars()
	p, states := learned(t, r, "algorithm=als rank=3 als.passes=5", algorithm.Passes{}, 1)
	flat := func(m *model.Matrix, f *model.Factors, side string) {
		t.Helper()
		for i, x := range m.Data() {
			const h = 1e-4
			m.Data()[i] = x + h
			above := alsObjective(f, r)
			m.Data()[i] = x - h
			below := alsObjective(f, r)
			m.Data()[i] = x
			if slope := (above - below) / (2 * h); math.Abs(slope) > 1e-6 {
				t.Fatalf("coordinate %d of %s has a slope of %v", i, side, slope)
			}
		}
	}
	var last *model.Factors
	for _, state := range states {
		f := unpacked(t, state, r, 4, 4)
		flat(f.Items, f, "items")
		if last != nil { // users are solved for before items
			half := &model.Factors{Users: f.Users, Items: last.Items}
			flat(half.Users, half, "users")
			if before, now := alsObjective(last, r), alsObjective(f, r); now >= before {
				t.Fatalf("the objective rose from %v to %v", before, now)
			}
		}
		last = f
	}
	if slices.ContainsFunc(slices.Concat(last.Users.Row(11), last.Items.Row(8)), func(x float64) bool { return x != 0 }) {
		t.Error("who has no ratings has an embedding")
	}
	a, b, out := last.Users.Row(2), last.Items.Row(3), make([]float64, 1)
	p.Predict(2, []int32{3}, out)
	if want := r.Mean() + model.Dot(a[:3], b[:3]) + a[3] + b[3]; math.Abs(out[0]-want) > 1e-12 {
		t.Errorf("the prediction is %v, want %v", out[0], want)
	}
}

// The result does not depend on the number of workers.
func TestALSWorkers(t *testing.T) {
	_, one := learned(t, someStars(), "algorithm=als rank=3 als.passes=3", algorithm.Passes{}, 1)
	_, four := learned(t, someStars(), "algorithm=als rank=3 als.passes=3", algorithm.Passes{}, 4)
	if !bytes.Equal(one[2], four[2]) {
		t.Error("four workers end elsewhere than one")
	}
}
