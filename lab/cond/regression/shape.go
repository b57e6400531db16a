package regression

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Alignment is which singular directions of the features the labels lie in.
type Alignment string

// The alignments.
const (
	TopLabels     Alignment = "top"     // the direction of the largest singular value
	UniformLabels Alignment = "uniform" // all alike
	BottomLabels  Alignment = "bottom"  // the direction of the smallest singular value
)

// Shape describes synthetic regressions: X = √n·UΣVᵀ with singular values
// Σ_i = i^-Decay, and labels √n·U·ŷ + N(0, Noise²) with ‖ŷ‖ = 1, which are a linear function
// of the features plus noise. √n makes the mean square of a label without noise 1 at any n.
type Shape struct {
	Rows, Cols int       // Rows >= Cols >= 1
	Decay      float64   // a of σ_i = i^-a, at least 0; 0: a flat spectrum
	Labels     Alignment // where ŷ lies
	Noise      float64   // standard deviation of what no feature explains, at least 0
}

// Validate reports the first value that describes no regression.
func (s Shape) Validate() error {
	switch {
	case s.Cols < 1 || s.Rows < s.Cols:
		return fmt.Errorf("dataset: regression has %d rows and %d columns; it needs at least one column, and as many rows as columns", s.Rows, s.Cols)
	case !(s.Decay >= 0) || math.IsInf(s.Decay, 1):
		return fmt.Errorf("dataset: regression's decay is %v; it must be at least 0 and finite", s.Decay)
	case !(s.Noise >= 0) || math.IsInf(s.Noise, 1):
		return fmt.Errorf("dataset: regression's noise is %v; it must be at least 0 and finite", s.Noise)
	case s.Labels != TopLabels && s.Labels != UniformLabels && s.Labels != BottomLabels:
		return fmt.Errorf("dataset: regression's labels are %q; they must be %s, %s or %s", s.Labels, TopLabels, UniformLabels, BottomLabels)
	}
	return nil
}

// New makes a regression of the shape. The same seed makes the same. It takes
// time in Rows·Cols².
func New(s Shape, seed uint64) (*Data, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x72656772657373)) // "regress"
	u, v := orthonormal(rng, s.Rows, s.Cols), orthonormal(rng, s.Cols, s.Cols)
	r := &Data{Rows: s.Rows, Cols: s.Cols, X: make([]float64, s.Rows*s.Cols), Y: make([]float64, s.Rows)}
	scale := math.Sqrt(float64(s.Rows))
	for k := range s.Cols {
		sigma, share := math.Pow(float64(k+1), -s.Decay), s.share(k)
		for i := range s.Rows {
			r.Y[i] += scale * share * u[k][i]
			row := r.X[i*s.Cols : (i+1)*s.Cols]
			for j := range row {
				row[j] += scale * sigma * u[k][i] * v[k][j]
			}
		}
	}
	for i := range r.Y {
		r.Y[i] += s.Noise * rng.NormFloat64()
	}
	return r, nil
}

// share is ŷ_k.
func (s Shape) share(k int) float64 {
	switch {
	case s.Labels == UniformLabels:
		return 1 / math.Sqrt(float64(s.Cols))
	case s.Labels == TopLabels && k == 0, s.Labels == BottomLabels && k == s.Cols-1:
		return 1
	}
	return 0
}

// orthonormal returns count random orthonormal vectors of n values, n >= count. Each is made
// orthogonal twice: once leaves errors where little of a vector remains.
func orthonormal(rng *rand.Rand, n, count int) [][]float64 {
	vs := make([][]float64, count)
	for k := range vs {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		for range 2 {
			for _, w := range vs[:k] {
				along := product(v, w)
				for i := range v {
					v[i] -= along * w[i]
				}
			}
		}
		norm := math.Sqrt(product(v, v))
		for i := range v {
			v[i] /= norm
		}
		vs[k] = v
	}
	return vs
}

func product(v, w []float64) float64 {
	var sum float64
	for i := range v {
		sum += v[i] * w[i]
	}
	return sum
}
