package cond

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// mlpRun is a training run in progress. It fits labels by embeddings under a perceptron, with the square loss and noisy Adam, whose
// decay rates are 0.9 and 0.999. Without a conditioning it is DP-SGD, with a conditioning Cond-DP, and with a step that ends the
// conditioning Switch-Cond-DP. An infinite Budget.Epsilon trains without noise, still clipped.
//
// Each step takes a Poisson sample with secret coins, adds up clipped gradients by all parameters, and releases the sum with normal
// noise on every parameter, for any values in the sample. It rounds to a grid that depends on the noise only, and divides by the
// expected size of a sample. All parameters are the whole tables of private fields, and the rows of public fields' values that
// occur, which are public. Computing with the releases costs no more privacy.
//
// Private is the label of an example and, if there are any, its private fields: relation [dp.Label] or [dp.PrivatePart]. With a
// sampling rate of 1, other private values move a sum by at most 2·Clip. Noise is then z·2·Clip, with z for plain Gaussians. With a
// smaller rate, noise is z·Clip, with z for samples in which an example is present or absent. The budget of z is
// [dp.Budget.ForReplacement], which costs 2% more noise than 2·Clip would with ε = 4 and δ = 1e-6, and less below. Adam's moments
// and conditioning see released sums and public fields only.
type mlpRun struct {
	o     MLPOptions
	c     *Categorical
	m     *MLP
	batch *mlpBatch
	at    [][]int32
	scale [][]float64 // conditioning by field and table row, nil: none
	calibration

	seed entropy.Seed
	done int // steps

	rows          []int32   // of the sample
	gradient      []float64 // of the step
	first, second []float64 // Adam's moments
	age           int       // steps since they were zero
	average       []float64
	failed        []error // by block
}

func newMLPRun(c *Categorical, o MLPOptions, cal calibration, secret entropy.Source) (*mlpRun, error) {
	m := newMLP(c, o)
	r := &mlpRun{o: o, c: c, m: m, batch: newMLPBatch(m), at: m.at(c), calibration: cal}
	for k := range o.C {
		scale := make([]float64, m.rows[k])
		for v, slot := range m.slots[k] {
			if slot >= 0 {
				scale[slot] = o.C[k][v]
			}
		}
		r.scale = append(r.scale, scale)
	}
	n := m.len()
	r.gradient, r.first, r.second, r.average = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	r.failed = make([]error, (n+noiseBlock-1)/noiseBlock)
	var err error
	r.seed, err = entropy.NewSeed(secret, "mlp", 0)
	return r, err
}

// next takes the next step, ends conditioning when it is due, and adds the parameters to the average.
func (r *mlpRun) next() error {
	if r.o.Switch > 0 && r.done == r.o.Switch {
		r.plain()
	}
	if err := r.step(uint64(r.done)); err != nil {
		return err
	}
	r.done++
	if r.done > r.o.Steps/2 {
		r.addPlain(r.average)
	}
	return nil
}

// model returns the average over the steps of the last half so far; before the last half, the current parameters.
func (r *mlpRun) model() *MLP {
	m := &MLP{mlpShape: r.m.mlpShape, slots: r.m.slots, theta: make([]float64, r.m.len())}
	if n := r.done - r.o.Steps/2; n > 0 {
		for j, v := range r.average {
			m.theta[j] = v / float64(n)
		}
		return m
	}
	r.addPlain(m.theta)
	return m
}

// calibration is the noise of a run, and its statement.
type calibration struct {
	statement dp.Statement
	coin      uint64 // an example is in a sample if 32 bits are below it: q in units of 2^-32
	*gridded         // noise; nil: none
}

// gridded is normal noise on sums that are rounded to a grid. The grid depends on the noise alone. It is coarse against the spacing of
// draws, whose low bits may betray the numbers under them, and costs no accuracy.
type gridded struct {
	normal *noise.Gaussian
	grid   float64
}

// gridBits says how much finer than the noise the grid is.
const gridBits = 20

func newGridded(deviation float64) (*gridded, error) {
	normal, err := noise.NewGaussian(deviation)
	_, exponent := math.Frexp(deviation)
	return &gridded{normal, math.Ldexp(1, exponent-gridBits)}, err
}

// addTo adds noise to a sum, and rounds it.
func (n *gridded) addTo(sum []float64, bits *noise.Bits) error {
	if err := n.normal.Add(sum, bits); err != nil {
		return fmt.Errorf("noise: %w", err)
	}
	inverse := 1 / n.grid // both are powers of two
	for j, v := range sum {
		sum[j] = math.RoundToEven(v*inverse) * n.grid
	}
	return nil
}

// rate returns the sampling rate of the draws, which is accounted for.
func (x *calibration) rate() float64 { return float64(x.coin) * 0x1p-32 }

// calibrate chooses the noise and writes the statement.
func (o MLPOptions) calibrate(relation dp.Relation) (calibration, error) {
	b := o.Budget
	x := calibration{coin: uint64(math.Floor(o.SamplingRate * 0x1p32)), statement: dp.Statement{
		Epsilon: math.Inf(1), Delta: b.Delta, Unit: dp.Example, Relation: relation,
		Accountant: dp.Unaccounted, Sampling: dp.NoSampling, Noise: dp.NoNoise,
	}}
	q := x.rate()
	if q < 1 {
		x.statement.Sampling = dp.PoissonSampling
	}
	if math.IsInf(b.Epsilon, 1) {
		return x, x.statement.Validate()
	}
	moved, budget := 2*o.Clip, b
	if q < 1 {
		moved, budget = o.Clip, b.ForReplacement()
	}
	z, cost, err := dp.NoiseMultiplier(budget, o.Steps, q)
	if err != nil {
		return x, err
	}
	if q < 1 {
		cost = b.Replaced(cost)
	}
	if x.gridded, err = newGridded(z * moved); err != nil {
		return x, err
	}
	x.statement.Epsilon, x.statement.Accountant, x.statement.Noise = cost.Epsilon, cost.Accountant, dp.FloatGaussianNoise
	return x, x.statement.Validate()
}

// plain ends conditioning. Embeddings become conditioned embeddings, so that no prediction moves.
// Adam's moments, which belong to other parameters, begin again.
func (r *mlpRun) plain() {
	for field, scale := range r.scale {
		for slot, c := range scale {
			floats.Scale(c, r.m.row(r.m.theta, field, slot))
		}
	}
	r.scale = nil
	clear(r.first)
	clear(r.second)
	r.age = 0
}

// sample draws the examples of a step.
func (r *mlpRun) sample(step uint64) error {
	r.rows = r.rows[:0]
	n := len(r.c.Y)
	if r.coin == 1<<32 {
		for i := range n {
			r.rows = append(r.rows, int32(i))
		}
		return nil
	}
	bits := noise.NewBits(r.stream("coins", step, 0))
	for i := 0; i < n; i += 2 {
		w := bits.Uint64()
		if w>>32 < r.coin {
			r.rows = append(r.rows, int32(i))
		}
		if w&math.MaxUint32 < r.coin && i+1 < n {
			r.rows = append(r.rows, int32(i+1))
		}
	}
	if err := bits.Err(); err != nil {
		return fmt.Errorf("cond: sample of step %d: %w", step, err)
	}
	return nil
}

func (r *mlpRun) stream(what string, step uint64, block int) io.Reader {
	return r.seed.Stream(fmt.Sprintf("%s/%d/%d", what, step, block))
}

// step makes a release and moves the parameters by it.
func (r *mlpRun) step(step uint64) error {
	if err := r.sample(step); err != nil {
		return err
	}
	r.batch.forward(r.at, r.rows, r.scale, r.o.Run)
	r.batch.gradient(r.gradient, r.rows, r.c.Y, r.o.Clip, r.o.Run)
	r.age++
	r.o.Run.Each(len(r.failed), func(block int) {
		from, to := block*noiseBlock, min((block+1)*noiseBlock, len(r.gradient))
		r.failed[block] = nil
		if r.gridded != nil {
			r.failed[block] = r.addTo(r.gradient[from:to], noise.NewBits(r.stream("noise", step, block)))
		}
		if r.failed[block] == nil {
			r.failed[block] = r.adam(from, to)
		}
	})
	for _, err := range r.failed {
		if err != nil {
			return fmt.Errorf("cond: step %d: %w", step, err)
		}
	}
	return nil
}

// noiseBlock is the number of parameters for one stream of noise. Workers share blocks, and blocks
// do not depend on the number of workers.
const noiseBlock = 8192

const (
	adamFirst  = 0.9
	adamSecond = 0.999
	adamLeast  = 1e-8
	// mostParameter is far beyond any useful parameter, and keeps all products finite.
	mostParameter = 1e9
)

// adam moves a block of parameters (Kingma and Ba 2015) by released sums, divided by the expected size of a sample.
func (r *mlpRun) adam(from, to int) error {
	per := 1 / (r.rate() * float64(len(r.c.Y)))
	rate := r.o.Rate / (1 - math.Pow(adamFirst, float64(r.age)))
	correct := 1 / (1 - math.Pow(adamSecond, float64(r.age)))
	theta, g, first, second := r.m.theta[from:to], r.gradient[from:to], r.first[from:to], r.second[from:to]
	for j, v := range g {
		v *= per
		first[j] += (1 - adamFirst) * (v - first[j])
		second[j] += (1 - adamSecond) * (v*v - second[j])
		theta[j] -= rate * first[j] / (math.Sqrt(second[j]*correct) + adamLeast)
		if !(math.Abs(theta[j]) <= mostParameter) {
			return fmt.Errorf("a parameter is %v; training diverges: lower the rate", theta[j])
		}
	}
	return nil
}

// addPlain adds the parameters, of plain embeddings, to sums.
func (r *mlpRun) addPlain(sums []float64) {
	head := r.m.tables[0]
	floats.Add(sums[:head], r.m.theta[:head])
	r.o.Run.Each(r.m.fields, func(field int) {
		for slot := range r.m.rows[field] {
			by := 1.
			if field < len(r.scale) {
				by = r.scale[field][slot]
			}
			floats.AddScaled(r.m.row(sums, field, slot), by, r.m.row(r.m.theta, field, slot))
		}
	})
}

// Categorical holds examples with public and private fields, and a private label each (semi-sensitive features). The public fields,
// the number of examples, and the sizes of the private fields are public.
type Categorical struct {
	Public, Private []dataset.Field
	Y               []float64
}

// fields returns the public fields, then the private fields.
func (c *Categorical) fields() []dataset.Field {
	return append(append(make([]dataset.Field, 0, len(c.Public)+len(c.Private)), c.Public...), c.Private...)
}

// relation says which part of an example is private.
func (c *Categorical) relation() dp.Relation {
	if len(c.Private) > 0 {
		return dp.PrivatePart
	}
	return dp.Label
}

// MLPOptions says how to train a model of embeddings under a perceptron.
type MLPOptions struct {
	Width  int    // d, of embeddings, at least 1
	Hidden [2]int // units of the two hidden layers, at least 1 each
	// C is the conditioning of public fields, by field and value: see [FieldConditioning]. nil:
	// none, which is DP-SGD (Remark 4.11). It must be a function of public fields alone.
	C [][]float64
	// Switch is the step before which conditioning ends, in [1, Steps) (key design 3); 0: conditioning does not end.
	Switch       int
	Steps        int     // at least 1
	SamplingRate float64 // q, the chance of an example to be in a step's Poisson sample, in [2^-32, 1]; it is rounded down to a multiple of 2^-32
	Rate         float64 // of Adam, above 0
	Clip         float64 // L2 bound of one example's gradient of all parameters, above 0
	Spread       float64 // standard deviation of embeddings at the start, above 0
	Seed         uint64  // of the start, which is public
	Budget       dp.Budget
	Run          protocol.Runner // does not change the result

	whole bool // tables have all values of public fields: for a model that is read, not trained
}

// FieldConditioning returns C of public fields, by field and value: the factor of the value's
// embedding, 0 for a value in no example.
//
// The features of a field are one-hot, so its second moments are diagonal. VΣ⁻¹Vᵀ of the field alone is diagonal with n_v^-1/2 for
// a value in n_v examples. C takes that block for each field and nothing between fields, because VΣ⁻¹Vᵀ of all fields together
// would be a dense square matrix of all values. Singular values below floor of the field's largest count as that floor.
//
// One scale makes the mean of ‖Cx‖² equal the mean of ‖x‖², the number of public fields, so that
// rates and clips mean the same with and without. Fixing the largest ‖Cx‖ instead would be wrong:
// it belongs to a value of one example, and all others would hardly move.
func FieldConditioning(c *Categorical, floor float64) [][]float64 {
	out := make([][]float64, len(c.Public))
	var square float64 // the sum of ‖Cx‖² without the scale
	for k, f := range c.Public {
		counts, top := make([]float64, f.Size), 0.
		for _, v := range f.Values {
			counts[v]++
			top = max(top, counts[v])
		}
		out[k] = make([]float64, f.Size)
		for v, n := range counts {
			if n > 0 {
				u := 1 / max(math.Sqrt(n), floor*math.Sqrt(top))
				out[k][v] = u
				square += n * u * u
			}
		}
	}
	scale := math.Sqrt(float64(len(c.Public)) * float64(len(c.Y)) / square)
	for _, field := range out {
		floats.Scale(scale, field)
	}
	return out
}
