package baselines

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

func startOfALS(t *testing.T) *alternating {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	train := dataset.Ratings{Users: 12, Items: 9}
	for u := range int32(11) { // the last user rated nothing
		for j := range int32(8) { // no user rated the last item
			if rng.IntN(3) > 0 {
				train.User, train.Item, train.Value = append(train.User, u), append(train.Item, j), append(train.Value, float32(1+rng.IntN(5)))
			}
		}
	}
	s := opened.Experiment(t, "algorithm=als data=synthetic:small rank=3").Setup
	return startALS(train, 3, algorithm.Seed.Of(s.Config))
}

// objective is the function that als minimises, as its keys define it: squared errors, a ridge on
// embeddings for each rating, and a constant ridge on embeddings and biases.
func (f *alternating) objective() float64 {
	sum := 0.
	for u := range f.byUser.Len() {
		items, values := f.byUser.Row(u)
		out := make([]float64, len(items))
		f.Predict(u, items, out)
		for k, v := range values {
			sum += (float64(v) - out[k]) * (float64(v) - out[k])
		}
	}
	for _, side := range []struct {
		rows    *model.Matrix
		ratings *dataset.Rows
	}{{f.users, f.byUser}, {f.items, f.byItem}} {
		for i := range side.rows.Rows() {
			at, _ := side.ratings.Row(i)
			row := side.rows.Row(i)
			for c, x := range row {
				ridge := float64(alsShrink)
				if c < len(row)-1 {
					ridge += alsRidge * float64(len(at))
				}
				sum += ridge * x * x
			}
		}
	}
	return sum
}

// Every half of a pass ends where the objective has no slope towards that side's rows, by
// differences of the objective itself; so it never rises.
func TestALSMinimises(t *testing.T) {
	f := startOfALS(t)
	run := protocol.Workers(1)
	flat := func(m *model.Matrix, side string) {
		t.Helper()
		for i, x := range m.Data() {
			const h = 1e-4
			m.Data()[i] = x + h
			above := f.objective()
			m.Data()[i] = x - h
			below := f.objective()
			m.Data()[i] = x
			if slope := (above - below) / (2 * h); math.Abs(slope) > 1e-6 {
				t.Fatalf("coordinate %d of %s has a slope of %v", i, side, slope)
			}
		}
	}
	before := math.Inf(1)
	for range 5 {
		run.Each(f.users.Rows(), func(u int) { f.solve(f.users.Row(u), f.items, f.byUser, u) })
		flat(f.users, "users")
		run.Each(f.items.Rows(), func(j int) { f.solve(f.items.Row(j), f.users, f.byItem, j) })
		flat(f.items, "items")
		if now := f.objective(); now >= before {
			t.Fatalf("the objective rose from %v to %v", before, now)
		} else {
			before = now
		}
	}
	if slices.ContainsFunc(slices.Concat(f.users.Row(11), f.items.Row(8)), func(x float64) bool { return x != 0 }) {
		t.Error("who has no ratings has an embedding")
	}
}

// The result does not depend on the number of workers.
func TestALSWorkers(t *testing.T) {
	one, four := startOfALS(t), startOfALS(t)
	for range 3 {
		_ = one.pass(1, protocol.Workers(1)) // the pass has no way to fail
		_ = four.pass(1, protocol.Workers(4))
	}
	if !slices.Equal(one.users.Data(), four.users.Data()) || !slices.Equal(one.items.Data(), four.items.Data()) {
		t.Error("four workers end elsewhere than one")
	}
}
