package cond

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// categorical makes examples whose values are Zipf-like and whose labels are sums of a weight for each value, plus noise.
func categorical(n, public, private, size int, seed uint64) *Categorical {
	rng := rand.New(rand.NewPCG(seed, 5))
	c := &Categorical{Y: make([]float64, n)}
	weights := make([]float64, size)
	for v := range weights {
		weights[v] = rng.NormFloat64()
	}
	for k := range public + private {
		f := dataset.Field{Name: string(rune('a' + k)), Size: size, Values: make([]int32, n)}
		for i := range n {
			v := int(math.Exp(rng.Float64()*math.Log(float64(size)))) - 1
			f.Values[i] = int32(min(v, size-1))
			c.Y[i] += weights[(int(f.Values[i])+k)%size] / math.Sqrt(float64(public+private))
		}
		if k < public {
			c.Public = append(c.Public, f)
		} else {
			c.Private = append(c.Private, f)
		}
	}
	for i := range c.Y {
		c.Y[i] += .1 * rng.NormFloat64()
	}
	return c
}

func mlpOptions(epsilon float64) MLPOptions {
	return MLPOptions{
		Width: 3, Hidden: [2]int{5, 4}, Spread: 0.01, Steps: 20, SamplingRate: .25, Rate: .01, Clip: 1,
		Budget: dp.Budget{Epsilon: epsilon, Delta: 1e-6, Accountant: dp.PLD}, Run: protocol.Workers(1),
	}
}

func mlpRunOf(t testing.TB, c *Categorical, o MLPOptions, seed uint64) *mlpRun {
	t.Helper()
	cal, err := o.calibrate(c.relation())
	if err != nil {
		t.Fatal(err)
	}
	r, err := newMLPRun(c, o, cal, simulated.New(seed, "mlp"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func trainMLP(t testing.TB, c *Categorical, o MLPOptions, seed uint64) *FittedMLP {
	t.Helper()
	f, err := TrainMLP(c, o, simulated.New(seed, "mlp"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fieldConditioning(t testing.TB, c *Categorical) [][]float64 {
	t.Helper()
	return FieldConditioning(c, 1e-3)
}

// naive predicts one example and returns the gradient of (ŷ - y)² by all parameters, loop by loop from the definition of the model.
func (r *mlpRun) naive(theta []float64, i int) (predicted float64, g []float64) {
	m, d, h1, h2 := r.m, r.m.width, r.m.hidden[0], r.m.hidden[1]
	var x []float64
	for f := range m.fields {
		c := 1.
		if f < len(r.scale) {
			c = r.scale[f][r.at[f][i]]
		}
		for _, v := range m.row(theta, f, int(r.at[f][i])) {
			x = append(x, c*v)
		}
	}
	layer := func(w, b, in []float64, relu bool) (out []float64) {
		for k := range b {
			sum := b[k]
			for j, v := range in {
				sum += w[k*len(in)+j] * v
			}
			if relu && sum < 0 {
				sum = 0
			}
			out = append(out, sum)
		}
		return out
	}
	a1 := layer(theta[:m.b1], theta[m.b1:m.b1+h1], x, true)
	a2 := layer(theta[m.w2:m.b2], theta[m.b2:m.b2+h2], a1, true)
	predicted = layer(theta[m.w3:m.w3+h2], theta[m.w3+h2:m.w3+h2+1], a2, false)[0]
	g = make([]float64, len(theta))
	back := func(w, b int, in, e []float64) (before []float64) {
		before = make([]float64, len(in))
		for k, v := range e {
			g[b+k] += v
			for j, a := range in {
				g[w+k*len(in)+j] += v * a
				before[j] += v * theta[w+k*len(in)+j]
			}
		}
		return before
	}
	through := func(e, a []float64) []float64 {
		for j := range e {
			if a[j] <= 0 {
				e[j] = 0
			}
		}
		return e
	}
	e2 := through(back(m.w3, m.w3+h2, a2, []float64{2 * (predicted - r.c.Y[i])}), a2)
	e1 := through(back(m.w2, m.b2, a1, e2), a1)
	e0 := back(0, m.b1, x, e1)
	for f := range m.fields {
		c := 1.
		if f < len(r.scale) {
			c = r.scale[f][r.at[f][i]]
		}
		for j := range d {
			m.row(g, f, int(r.at[f][i]))[j] += c * e0[f*d+j]
		}
	}
	return predicted, g
}

// spread gives all parameters a size at which none is near zero.
func (r *mlpRun) spread(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 8))
	for j := range r.m.theta {
		r.m.theta[j] = .5 * rng.NormFloat64()
	}
}

// Finite differences are the oracle of the naive gradient, and the naive gradient is the oracle of
// the tests below.
func TestNaiveGradientIsTheDerivative(t *testing.T) {
	c := categorical(6, 2, 1, 4, 1)
	o := mlpOptions(1)
	o.C = fieldConditioning(t, c)
	r := mlpRunOf(t, c, o, 1)
	r.spread(1)
	const h = 1e-6
	for i := range c.Y {
		_, g := r.naive(r.m.theta, i)
		theta := slices.Clone(r.m.theta)
		for j := range theta {
			loss := func(x float64) float64 {
				theta[j] = x
				p, _ := r.naive(theta, i)
				return (p - c.Y[i]) * (p - c.Y[i])
			}
			at := r.m.theta[j]
			want := (loss(at+h) - loss(at-h)) / (2 * h)
			theta[j] = at
			if math.Abs(g[j]-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("example %d: the gradient is %v at %d; by differences %v", i, g[j], j, want)
			}
		}
	}
}

// Clipping example by example, as written in the definition, is the oracle of ghost norms and sums by products; with and without conditioning, by any number of workers.
func TestGhostNormsClipEachExample(t *testing.T) {
	c := categorical(300, 2, 1, 9, 2)
	for name, conditioning := range map[string][][]float64{"plain": nil, "conditioned": fieldConditioning(t, c)} {
		o := mlpOptions(1)
		o.C = conditioning
		r := mlpRunOf(t, c, o, 1)
		r.spread(2)
		rows := []int32{}
		for i := range 290 {
			rows = append(rows, int32(i+7))
		}
		length := func(g []float64) (square float64) {
			for _, v := range g {
				square += v * v
			}
			return math.Sqrt(square)
		}
		var lengths []float64
		for _, i := range rows {
			_, g := r.naive(r.m.theta, int(i))
			lengths = append(lengths, length(g))
		}
		slices.Sort(lengths)
		clip := lengths[len(rows)/2] // half of the examples are clipped
		want := make([]float64, r.m.len())
		for _, i := range rows {
			_, g := r.naive(r.m.theta, int(i))
			factor := min(1, clip/length(g))
			for j, v := range g {
				want[j] += factor * v
			}
		}
		got := make([]float64, r.m.len())
		r.batch.forward(r.at, rows, r.scale, o.Run)
		for k, i := range rows {
			if p, _ := r.naive(r.m.theta, int(i)); math.Abs(p-r.batch.out[k]) > 1e-10 {
				t.Fatalf("%s: example %d is predicted as %v; loop by loop %v", name, i, r.batch.out[k], p)
			}
		}
		r.batch.gradient(got, rows, c.Y, clip, o.Run)
		for j, w := range want {
			if math.Abs(got[j]-w) > 1e-10*clip {
				t.Fatalf("%s: the gradient is %v at %d; example by example %v", name, got[j], j, w)
			}
		}
		again := make([]float64, r.m.len())
		r.batch.forward(r.at, rows, r.scale, protocol.Workers(4))
		r.batch.gradient(again, rows, c.Y, clip, protocol.Workers(4))
		if !slices.Equal(got, again) {
			t.Errorf("%s: four workers add up to something else", name)
		}
	}
}

// Another label, or other private fields and label, move the sum by at most 2·clip; leaving an
// example out by at most clip. Over 300 random examples the sum reaches nearly that.
func TestMLPSensitivity(t *testing.T) {
	c := categorical(200, 2, 1, 9, 3)
	o := mlpOptions(1)
	o.C = fieldConditioning(t, c)
	r := mlpRunOf(t, c, o, 1)
	r.spread(3)
	const clip = .7
	rng := rand.New(rand.NewPCG(3, 3))
	all := make([]int32, len(c.Y))
	for i := range all {
		all[i] = int32(i)
	}
	sum := func(rows []int32) []float64 {
		g := make([]float64, r.m.len())
		r.batch.forward(r.at, rows, r.scale, o.Run)
		r.batch.gradient(g, rows, c.Y, clip, o.Run)
		return g
	}
	distance := func(a, b []float64) (d float64) {
		for j := range a {
			d += (a[j] - b[j]) * (a[j] - b[j])
		}
		return math.Sqrt(d)
	}
	var mostReplaced, mostRemoved float64
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308}
	for n := range 300 {
		i := rng.IntN(len(c.Y))
		y, value := c.Y[i], r.at[2][i]
		c.Y[i] = 100 * rng.NormFloat64()
		if n < len(odd) {
			c.Y[i] = odd[n]
		}
		a := sum(all)
		c.Y[i] = 100 * rng.NormFloat64()
		if n%2 == 1 {
			r.at[2][i] = int32(rng.IntN(9))
		}
		b := sum(all)
		without := sum(slices.Delete(slices.Clone(all), i, i+1))
		c.Y[i], r.at[2][i] = y, value
		replaced, removed := distance(a, b), max(distance(a, without), distance(b, without))
		if !(replaced <= 2*clip+1e-9 && removed <= clip+1e-9) {
			t.Fatalf("example %d: the sum moved by %v, and by %v without it; at most %v and %v are accounted for", i, replaced, removed, 2*clip, clip)
		}
		mostReplaced, mostRemoved = max(mostReplaced, replaced), max(mostRemoved, removed)
	}
	if mostReplaced < 1.99*clip || mostRemoved < .99*clip {
		t.Errorf("the sum moved by at most %v and %v; examples this far apart must come near %v and %v", mostReplaced, mostRemoved, 2*clip, clip)
	}
}

// Remark 4.11: with C = I parameters equal DP-SGD's to the bit, noise included.
func TestMLPIdentityIsDPSGD(t *testing.T) {
	c := categorical(400, 2, 1, 9, 4)
	o := mlpOptions(1)
	plain := trainMLP(t, c, o, 7).Model.theta
	for _, f := range c.Public {
		o.C = append(o.C, slices.Repeat([]float64{1}, f.Size))
	}
	if !slices.Equal(trainMLP(t, c, o, 7).Model.theta, plain) {
		t.Error("with C = I other parameters come out than by DP-SGD")
	}
	o.Run = protocol.Workers(3)
	if !slices.Equal(trainMLP(t, c, o, 7).Model.theta, plain) {
		t.Error("with three workers other parameters come out")
	}
	if slices.Equal(trainMLP(t, c, o, 8).Model.theta, plain) {
		t.Error("another seed of noise and samples gave the same parameters")
	}
	o.C = fieldConditioning(t, c)
	if slices.Equal(trainMLP(t, c, o, 7).Model.theta, plain) {
		t.Error("a conditioning that is not I changed nothing")
	}
}

// Predictions before and after the switch are equal, Adam's moments are zero, and later steps
// differ.
func TestMLPSwitchMovesNoPrediction(t *testing.T) {
	c := categorical(400, 2, 1, 9, 5)
	o := mlpOptions(1)
	o.C = fieldConditioning(t, c)
	r := mlpRunOf(t, c, o, 1)
	all := make([]int32, len(c.Y))
	for i := range all {
		all[i] = int32(i)
	}
	for step := range uint64(5) {
		if err := r.step(step); err != nil {
			t.Fatal(err)
		}
	}
	r.batch.forward(r.at, all, r.scale, o.Run)
	before := slices.Clone(r.batch.out)
	if slices.Max(r.second) == 0 {
		t.Fatal("five steps left Adam without moments")
	}
	r.plain()
	r.batch.forward(r.at, all, r.scale, o.Run)
	for i, want := range before {
		if math.Abs(r.batch.out[i]-want) > 1e-12 {
			t.Fatalf("example %d: prediction was %v, is %v", i, want, r.batch.out[i])
		}
	}
	if slices.Max(r.second) != 0 || slices.Max(r.first) != 0 || slices.Min(r.first) != 0 || r.age != 0 || r.scale != nil {
		t.Error("the switch left moments or conditioning behind")
	}
	throughout := trainMLP(t, c, o, 1).Model.theta
	o.Switch = 10
	if slices.Equal(trainMLP(t, c, o, 1).Model.theta, throughout) {
		t.Error("the switch changed nothing that came after it")
	}
}

// By hand: a field with 4, 1 and 0 examples of three values has n^-1/2 of 1/2, 1; alone, (4·1/4 + 1·1)·k² = 5·1 makes k = √2.5.
func TestFieldConditioningByHand(t *testing.T) {
	c := &Categorical{Public: []dataset.Field{{Name: "a", Size: 3, Values: []int32{0, 0, 1, 0, 0}}}, Y: make([]float64, 5)}
	got := fieldConditioning(t, c)[0]
	for v, want := range []float64{math.Sqrt(2.5) / 2, math.Sqrt(2.5), 0} {
		if math.Abs(got[v]-want) > 1e-12 {
			t.Errorf("value %d is multiplied by %v; by hand %v", v, got[v], want)
		}
	}
}

// FittedMLP is a trained model of embeddings.
type FittedMLP struct {
	// Model is the average over the last half of the steps, of plain embeddings: conditioning is multiplied in.
	Model     *MLP
	Statement dp.Statement
}

// TrainMLP makes a whole run.
func TrainMLP(c *Categorical, o MLPOptions, secret entropy.Source) (*FittedMLP, error) {
	cal, err := o.calibrate(c.relation())
	if err != nil {
		return nil, err
	}
	r, err := newMLPRun(c, o, cal, secret)
	if err != nil {
		return nil, err
	}
	for r.done < o.Steps {
		if err := r.next(); err != nil {
			return nil, err
		}
	}
	return &FittedMLP{r.model(), cal.statement}, nil
}

// MSE returns the mean squared error on examples.
func (m *MLP) MSE(c *Categorical, run protocol.Runner) float64 {
	var sum float64
	for i, p := range m.Predict(c, run) {
		sum += (p - c.Y[i]) * (p - c.Y[i])
	}
	return sum / float64(len(c.Y))
}
