package fmf

import (
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// A pass over blocks takes the steps of the plain pass over the same ratings, diagonal by diagonal
// and block by block, for any number of workers. A rank of 6 is no multiple of four. Every rating is
// in one block, and no stripe has far more ratings than another.
func TestBlocksTakeThePlainSteps(t *testing.T) {
	t.Parallel()
	const n, r, rate = 3000, 5, 0.01
	u, v, user, item, value, _ := ratingsToPass(n, 90, 70, 6)
	grid := newBlocks(dataset.Ratings{Users: 90, Items: 70, User: user, Item: item, Value: value}, rand.New(rand.NewPCG(1, 1)))
	var users, items, order []int32
	var values []float32
	for _, diagonal := range rand.New(rand.NewPCG(2, 2)).Perm(grid.stripes) {
		for i := range grid.stripes {
			at := i*grid.stripes + (i+diagonal)%grid.stripes
			for _, x := range grid.ratings[grid.start[at]:grid.start[at+1]] {
				users, items, values = append(users, x.user), append(items, x.item), append(values, x.value)
			}
		}
	}
	order = model.Indices(len(users))
	if got, want := tally(users, items, values), tally(user, item, value); !maps.Equal(got, want) {
		t.Fatal("the blocks hold other ratings")
	}
	for i := range grid.stripes {
		if got := grid.start[(i+1)*grid.stripes] - grid.start[i*grid.stripes]; got > 2*n/grid.stripes {
			t.Errorf("stripe %d has %d of %d ratings", i, got, n)
		}
	}
	wantU, wantV := u.Clone(), v.Clone()
	plainPass(kernel.Params{MaxRating: r}, wantU, wantV, users, items, values, order, rate)
	var first *model.Factors
	for _, workers := range []int{1, 2, 7} {
		f := &model.Factors{Users: u.Clone(), Items: v.Clone()}
		grid.pass(f, r, rate, rand.New(rand.NewPCG(2, 2)), protocol.Workers(workers))
		if first == nil {
			first = f
		}
		if !slices.Equal(f.Users.Data(), first.Users.Data()) || !slices.Equal(f.Items.Data(), first.Items.Data()) {
			t.Errorf("the bits of %d workers differ", workers)
		}
	}
	for i, x := range slices.Concat(first.Users.Data(), first.Items.Data()) {
		if want := slices.Concat(wantU.Data(), wantV.Data())[i]; math.Abs(x-want) > 1e-9 {
			t.Fatalf("coordinate %d is %v, want %v", i, x, want)
		}
	}
}

// tally counts equal ratings.
func tally(users, items []int32, values []float32) map[placed]int {
	count := make(map[placed]int)
	for k := range users {
		count[placed{users[k], items[k], values[k]}]++
	}
	return count
}

// BenchmarkCentralPass makes passes over ratings of MovieLens 1M's shape on all cores. of-reading is
// the ratio of the time to the time of a bare pass, which only takes the inner product of both rows of each rating,
// in the same order and on as many cores. of-plain is the ratio to the time of a plain pass in a random
// order on one core.
func BenchmarkCentralPass(b *testing.B) {
	p := kernel.Params{MaxRating: 5}
	u, v, user, item, value, order := ratingsToPass(900_000, 6040, 3706, 20)
	rng, f := rand.New(rand.NewPCG(1, 1)), &model.Factors{Users: u, Items: v}
	grid := newBlocks(dataset.Ratings{Users: 6040, Items: 3706, User: user, Item: item, Value: value}, rng)
	run := protocol.Workers(runtime.GOMAXPROCS(0))
	var pass, reading, plain time.Duration
	timed := func(of *time.Duration, f func()) {
		begin := time.Now()
		f()
		*of += time.Since(begin)
	}
	for b.Loop() {
		timed(&pass, func() { grid.pass(f, p.MaxRating, 1e-4, rng, run) })
		timed(&reading, func() { grid.read(f, run) })
		timed(&plain, func() { plainPass(p, u, v, user, item, value, order, 1e-4) })
	}
	b.ReportMetric(float64(pass)/float64(reading), "of-reading")
	b.ReportMetric(float64(pass)/float64(plain), "of-plain")
	b.ReportMetric(float64(pass)/float64(b.N)/900_000, "ns/rating")
	b.ReportMetric(0, "ns/op")
}

// read is a bare pass.
func (b *blocks) read(f *model.Factors, run protocol.Runner) {
	sums, rank := make([]float64, b.stripes), f.Users.Cols()
	for diagonal := range b.stripes {
		run.Each(b.stripes, func(i int) {
			at := i*b.stripes + (i+diagonal)%b.stripes
			var sum float64
			for _, x := range b.ratings[b.start[at]:b.start[at+1]] {
				u, v := f.Users.Data()[int(x.user)*rank:][:rank], f.Items.Data()[int(x.item)*rank:][:rank]
				sum += float64(x.value) - dot(u, v)
			}
			sums[i] += sum
		})
	}
	runtime.KeepAlive(sums)
}

// plainPass is a pass as a reader would write it.
func plainPass(p kernel.Params, u, v *model.Matrix, users, items []int32, values []float32, order []int32, rate float64) {
	for _, k := range order {
		ui, vj := u.Row(int(users[k])), v.Row(int(items[k]))
		step := 2 * rate * (float64(values[k]) - model.Dot(ui, vj))
		for c, x := range ui {
			ui[c] += step * vj[c]
			vj[c] += step * x
		}
		kernel.Project(ui, p.MaxRating)
		kernel.Project(vj, p.MaxRating)
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
