package cond

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// Categorical holds examples with public and private fields, and a private label each
// (semi-sensitive features). The public fields, the number of examples, and the sizes of the
// private fields are public.
type Categorical struct {
	Public, Private []dataset.Field
	Y               []float64
}

// Validate reports every fault of the examples.
func (c *Categorical) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cond: "+format, args...)) }
	if len(c.Y) < 1 || len(c.Y) > math.MaxInt32 {
		bad("there are %d labels; there must be from 1 to 2^31-1", len(c.Y))
	}
	if len(c.fields()) == 0 {
		bad("there is no field to learn from")
	}
	for _, f := range c.fields() {
		if f.Size < 1 || f.Size > math.MaxInt32 {
			bad("field %s has the size %d; it must be from 1 to 2^31-1", f.Name, f.Size)
		}
		if len(f.Values) != len(c.Y) {
			bad("field %s has %d values for %d labels; each example needs one of both", f.Name, len(f.Values), len(c.Y))
		}
		for i, v := range f.Values {
			if v < 0 || int(v) >= f.Size {
				bad("field %s has the value %d in example %d; it must be from 0 to %d", f.Name, v, i, f.Size-1)
				break
			}
		}
	}
	return errors.Join(errs...)
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
	// Switch is the step before which conditioning ends, in [1, Steps) (key design 3); 0:
	// conditioning does not end.
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

// DefaultMLPOptions returns the paper's model sizes: embeddings of 16, hidden layers of 64 and 32
// units, and a start of N(0, 0.01²). The caller must set steps, rates, clip and budget.
func DefaultMLPOptions() MLPOptions {
	return MLPOptions{Width: 16, Hidden: [2]int{64, 32}, Spread: 0.01, Run: protocol.Workers(1)}
}

// Validate reports every fault of the options with the examples, which must be valid.
func (o MLPOptions) Validate(c *Categorical) error {
	errs := []error{o.Budget.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cond: "+format, args...)) }
	for name, x := range map[string]float64{"rate": o.Rate, "clip": o.Clip, "spread": o.Spread} {
		if !(x > 0) || math.IsInf(x, 1) {
			bad("%s is %v; it must be above 0 and finite", name, x)
		}
	}
	if o.Width < 1 || o.Hidden[0] < 1 || o.Hidden[1] < 1 {
		bad("embeddings of %d and hidden layers of %d; all must be at least 1", o.Width, o.Hidden)
	}
	if o.Steps < 1 {
		bad("steps are %d; there must be at least 1", o.Steps)
	}
	if !(o.SamplingRate >= 0x1p-32 && o.SamplingRate <= 1) {
		bad("sampling rate is %v; it must be from 2^-32 to 1", o.SamplingRate)
	}
	if o.Switch != 0 && (o.C == nil || o.Switch < 0 || o.Switch >= o.Steps) {
		bad("switch is %d of %d steps; it must be 0, or from 1 to %d and with a conditioning to end", o.Switch, o.Steps, o.Steps-1)
	}
	if o.Run == nil {
		bad("there is no runner; protocol.Workers(1) is one")
	}
	return errors.Join(append(errs, o.checkConditioning(c))...)
}

// checkConditioning requires a positive number for each value in the examples.
func (o MLPOptions) checkConditioning(c *Categorical) error {
	if o.C == nil {
		return nil
	}
	if len(o.C) != len(c.Public) {
		return fmt.Errorf("cond: conditioning is of %d fields; there are %d public ones, and private ones may not condition", len(o.C), len(c.Public))
	}
	for k, f := range c.Public {
		if len(o.C[k]) != f.Size {
			return fmt.Errorf("cond: conditioning of field %s has %d values; it has %d", f.Name, len(o.C[k]), f.Size)
		}
		for _, v := range f.Values {
			if x := o.C[k][v]; !(x > 0 && x < mostConditioning) {
				return fmt.Errorf("cond: conditioning of value %d of field %s is %v; it must be above 0 and below %g", v, f.Name, x, float64(mostConditioning))
			}
		}
	}
	return nil
}

// mostConditioning keeps products of embeddings and conditioning far from overflow.
const mostConditioning = 1e12

// FieldConditioning returns C of public fields, by field and value: the factor of the value's
// embedding, 0 for a value in no example.
//
// The features of a field are one-hot, so its second moments are diagonal. VΣ⁻¹Vᵀ of the field
// alone is diagonal with n_v^-1/2 for a value in n_v examples. C takes that block for each field
// and nothing between fields, because VΣ⁻¹Vᵀ of all fields together would be a dense square matrix
// of all values. Singular values below floor of the field's largest count as that floor.
//
// One scale makes the mean of ‖Cx‖² equal the mean of ‖x‖², the number of public fields, so that
// rates and clips mean the same with and without. Fixing the largest ‖Cx‖ instead would be wrong:
// it belongs to a value of one example, and all others would hardly move.
func FieldConditioning(c *Categorical, floor float64) ([][]float64, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
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
		for v := range field {
			field[v] *= scale
		}
	}
	return out, nil
}
