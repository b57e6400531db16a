package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// nearAll fails the test if two lists of numbers differ by more than a tolerance, relative to 1 and the wanted number.
func nearAll(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: %v at %d, want %v", what, got[i], i, want[i])
		}
	}
}

// expectedDrift is the oracle: the regression of a Gaussian process on ratings, by the covariance
// matrix of all of them, solved densely by gonum.
func expectedDrift(t *testing.T, times, left []float64, variance, tau float64, at []float64) []float64 {
	t.Helper()
	n := len(times)
	of := func(a, b float64) float64 { return variance * math.Exp(-math.Abs(a-b)/tau) }
	k := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			k.Set(i, j, of(times[i], times[j]))
		}
		k.Set(i, i, k.At(i, i)+1)
	}
	var alpha mat.VecDense
	if err := alpha.SolveVec(k, mat.NewVecDense(n, left)); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(at))
	for i, x := range at {
		for j := range n {
			out[i] += of(times[j], x) * alpha.AtVec(j)
		}
	}
	return out
}

// expectedTrust is the oracle of what the drift is multiplied by: each rating is left out in turn,
// and what the others say of it regressed on it.
func expectedTrust(t *testing.T, times, left []float64, variance, tau float64) float64 {
	t.Helper()
	product, square := 0.5, 1.
	for k := range times {
		others := slices.Delete(slices.Clone(times), k, k+1)
		says := expectedDrift(t, others, slices.Delete(slices.Clone(left), k, k+1), variance, tau, times[k:k+1])[0]
		product += says * left[k]
		square += says * says
	}
	return max(0, product/square)
}

// The fit in linear time equals the regression of the whole process: between and at the times of
// ratings, some of them equal, before the first and after the last. It is the same in another unit
// of time and from another beginning.
func TestDriftIsARegression(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	trusted := 0
	for range 100 {
		n, variance := 2+rng.IntN(30), 0.05+rng.Float64()
		times, left := make([]float64, n), make([]float64, n)
		for k := range times {
			times[k] = float64(rng.IntN(10)*40 + rng.IntN(4)*rng.IntN(300))
			left[k] = rng.NormFloat64()
		}
		d := newDrift(times, left, variance)
		if d == nil {
			continue // all at one time
		}
		at := []float64{-1e9, -50, 5000, 1e9, times[0], times[n-1]}
		for range 20 {
			at = append(at, rng.Float64()*1500-100)
		}
		got, want := make([]float64, len(at)), expectedDrift(t, times, left, variance, d.tau, at)
		trust := expectedTrust(t, times, left, variance, d.tau)
		for i := range want {
			want[i] *= trust
		}
		if trust > 0 {
			trusted++
		}
		d.add(at, got)
		nearAll(t, "drift", got, want, 1e-9)
		for k := range times {
			times[k] = 1e12 + 1000*times[k]
		}
		for i := range at {
			at[i] = 1e12 + 1000*at[i]
		}
		again := make([]float64, len(at))
		newDrift(times, left, variance).add(at, again)
		nearAll(t, "in milliseconds of another era", again, got, 1e-6)
	}
	if trusted < 20 {
		t.Errorf("of 100 drifts only %d are not zero", trusted)
	}
}

// Times that say nothing about ratings, here noise alone, change almost nothing. Among 2,000
// ratings of variance 1 an expectation may be off by 0.05, which is 0.0025 of 1; without trust they
// were off by 0.18.
func TestDriftOfIdleTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	times, left := make([]float64, 2000), make([]float64, 2000)
	for k := range times {
		times[k], left[k] = float64(10*k), rng.NormFloat64()
	}
	out := make([]float64, len(times))
	newDrift(times, left, 0.25).add(times, out)
	var square float64
	for _, x := range out {
		square += x * x / float64(len(out))
	}
	if square > dense.Sqr(0.05) {
		t.Errorf("the drift of noise is %.3f", math.Sqrt(square))
	}
}

// By hand: gaps of 1, 2, 3 and 100, and two times twice, have the median 3.
func TestDriftGoesByTheUsersOwnPace(t *testing.T) {
	d := newDrift([]float64{106, 0, 1, 3, 6, 6, 3}, make([]float64, 7), 1)
	if want := 3. * driftGaps; d == nil || d.tau != want {
		t.Errorf("%+v, want tau %v", d, want)
	}
}

// Where there is nothing to go by there is no drift, and what is predicted stays as it is.
func TestDriftOfNothing(t *testing.T) {
	for name, c := range map[string][2][]float64{
		"no rating":          {{}, {}},
		"one rating":         {{1}, {1}},
		"all at one time":    {{3, 3, 3}, {1, 2, 1}},
		"one time":           {{1, math.NaN(), 1}, {1, 1, 1}},
		"endless":            {{1, math.Inf(1), 2}, {1, 1, 1}},
		"farther than it is": {{-math.MaxFloat64, 0, math.MaxFloat64}, {1, 1, 1}},
		"left with none":     {{1, 2}, {math.NaN(), 1}},
	} {
		d := newDrift(c[0], c[1], 0.3)
		to := []float64{1, 2}
		d.add([]float64{1, 50}, to)
		if d != nil || to[0] != 1 || to[1] != 2 {
			t.Errorf("%s: %+v, and 1 and 2 become %v", name, d, to)
		}
	}
}

// TestDriftWithoutATime: a rating without a time changes nothing for the others, and no drift is
// added to it.
func TestDriftWithoutATime(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	want := newDrift([]float64{1, 5, 9, 40}, []float64{1, 2, 0.5, -1}, 0.3)
	got := newDrift([]float64{1, none, 5, 9, none, 40}, []float64{1, 7, 2, 0.5, -9, -1}, 0.3)
	if want == nil || !slices.Equal(got.state, want.state) || !slices.Equal(got.at, want.at) || got.tau != want.tau {
		t.Fatalf("%+v, want %+v", got, want)
	}
	to := []float64{2, 3}
	if got.add([]float64{none, 5}, to); to[0] != 2 || !(math.Abs(to[1]-3) > 0) {
		t.Errorf("predictions %v, want 2 and another than 3", to)
	}
}

// TestMeasureDrift: Measure, Validate, Slices and EachPrediction are the same with times and without. MeasureDrift has the RMSE of
// predictions that the dense regression corrects for each user, clamped to the scale, and nothing where a part has no times.
func TestMeasureDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	const users, items = 9, 40
	draw := func(odd bool) (r dataset.Ratings) {
		r.Users, r.Items = users, items
		for u := range int32(users) {
			for j := range int32(items) {
				if (rng.IntN(4) == 0) != odd {
					continue
				}
				r.User, r.Item = append(r.User, u), append(r.Item, j)
				r.Value = append(r.Value, float32(1+rng.IntN(5)))
				r.Times = append(r.Times, float64(10*j+int32(rng.IntN(5))))
			}
		}
		return r
	}
	train, tested := draw(false), draw(true)
	measured := func(train, tested dataset.Ratings, p model.Predictor) (all []float64, drift *float64) {
		test := NewTest(&split.Parts{Train: train, Test: tested, Validation: tested}, 1, 5, 1)
		run := protocol.Workers(2)
		all = append(all, test.Measure(p, run).RMSE, test.Validate(p, run).RMSE, *test.Slices(p, run)[0].RMSE)
		if err := test.EachPrediction(p, func(_ int, _ int32, _ float32, predicted float64) error {
			all = append(all, predicted)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all, test.MeasureDrift(p, run)
	}
	p := Biases{Mean: 3, Users: make([]float64, users), Item: make([]float64, items)}
	for j := range p.Item {
		p.Item[j] = rng.NormFloat64() / 3
	}
	got, drift := measured(train, tested, &p)
	var sum float64
	for u := range int32(users) {
		var at, left, when, predicted, stars []float64
		for k, v := range train.User {
			if v == u {
				at, left = append(at, train.Times[k]), append(left, float64(train.Value[k])-3-p.Item[train.Item[k]])
			}
		}
		for k, v := range tested.User {
			if v == u {
				when, stars = append(when, tested.Times[k]), append(stars, float64(tested.Value[k]))
				predicted = append(predicted, 3+p.Item[tested.Item[k]])
			}
		}
		tau := newDrift(at, left, 0.25).tau // TestDriftGoesByTheUsersOwnPace has it by hand
		trust := expectedTrust(t, at, left, 0.25, tau)
		for i, x := range expectedDrift(t, at, left, 0.25, tau, when) {
			sum += dense.Sqr(min(max(predicted[i]+trust*x, 1), 5) - stars[i])
		}
	}
	if want := math.Sqrt(sum / float64(tested.Len())); drift == nil || math.Abs(*drift-want) > 1e-9 || math.Abs(*drift-got[0]) < 1e-3 {
		t.Errorf("RMSE with drift %v, want %v; it is %v without", drift, want, got[0])
	}
	timeless := func(r dataset.Ratings) dataset.Ratings { r.Times = nil; return r }
	for _, part := range [][2]dataset.Ratings{{timeless(train), tested}, {train, timeless(tested)}} {
		again, none := measured(part[0], part[1], &p)
		if !slices.Equal(again, got) || none != nil {
			t.Errorf("without times %v, want %v; with drift %v, want none", again, got, none)
		}
	}
}
