package cond

import (
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
		for v := range field {
			field[v] *= scale
		}
	}
	return out
}
