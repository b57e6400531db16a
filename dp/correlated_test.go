package dp

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Noise that is correlated over rounds (matrix mechanisms: Denisov et al. 2022) gains nothing if
// every user is in every round. docs/adr/0012-noise-of-rounds-is-independent.md says why.
//
// The sums that are read after T rounds are the rows of A·G, with a row of G for each round. A
// mechanism releases C·G + Z and reads A·G + B·Z for an A = B·C. Its total error in a coordinate is
// sens(C)²·|B|². With a_s the columns of A, the error is at least (Σ|a_s|)². Independent noise
// reaches this bound if its variance in round s is in proportion to 1/|a_s|.

// prefixes returns the workload of the sums of the rounds so far, each round with a rate.
func prefixes(rates []float64) *mat.Dense {
	a := mat.NewDense(len(rates), len(rates), nil)
	for t := range rates {
		for s := range t + 1 {
			a.Set(t, s, rates[s])
		}
	}
	return a
}

// faded returns the workload of the means of the rounds so far. Each round weighs rho times the
// next round.
func faded(rounds int, rho float64) *mat.Dense {
	a := mat.NewDense(rounds, rounds, nil)
	for t := range rounds {
		for s := range t + 1 {
			a.Set(t, s, math.Pow(rho, float64(t-s))*(1-rho)/(1-math.Pow(rho, float64(t+1))))
		}
	}
	return a
}

// falling returns the learning rates of LFL relative to the first: they fall linearly to a tenth
// over 80% of the rounds.
func falling(rounds int) []float64 {
	rates := make([]float64, rounds)
	for t := range rates {
		rates[t] = 1 - 0.9*min(float64(t)/(0.8*float64(rounds)), 1)
	}
	return rates
}

// last returns the last row of a workload.
func last(a *mat.Dense) *mat.Dense {
	n, m := a.Dims()
	return mat.NewDense(1, m, mat.Row(nil, n-1, a))
}

func columnNorms(a mat.Matrix) []float64 {
	_, m := a.Dims()
	norms := make([]float64, m)
	for s := range norms {
		norms[s] = mat.Norm(mat.NewVecDense(len(mat.Col(nil, s, a)), mat.Col(nil, s, a)), 2)
	}
	return norms
}

// floor returns the lower bound on the total error of every mechanism.
func floor(a mat.Matrix) float64 {
	sum := 0.0
	for _, norm := range columnNorms(a) {
		sum += norm
	}
	return sum * sum
}

// decoded returns |B|² of A = B·C.
func decoded(t *testing.T, a, c mat.Matrix) float64 {
	t.Helper()
	var inverse, b mat.Dense
	if err := inverse.Inverse(c); err != nil {
		t.Fatal(err)
	}
	b.Mul(a, &inverse)
	return math.Pow(mat.Norm(&b, 2), 2)
}

// attacked returns a lower bound on sens(C)²: |C·G|² for a user who gives, in round s, the vector
// of norm 1 in the direction of column s of A.
func attacked(a, c mat.Matrix) float64 {
	n, m := a.Dims()
	g := mat.NewDense(m, n, nil)
	for s, norm := range columnNorms(a) {
		for k := range n {
			g.Set(s, k, a.At(k, s)/norm)
		}
	}
	var moved mat.Dense
	moved.Mul(c, g)
	return math.Pow(mat.Norm(&moved, 2), 2)
}

// together returns sens(C)² of a C without negative entries: the worst user gives the same vector
// in all rounds.
func together(c mat.Matrix) float64 {
	n, m := c.Dims()
	sum := 0.0
	for i := range n {
		row := 0.0
		for j := range m {
			row += c.At(i, j)
		}
		sum += row * row
	}
	return sum
}

func diagonal(values []float64) *mat.DiagDense { return mat.NewDiagDense(len(values), values) }

// root returns the square root of prefix sums: binom(2k, k)/4^k on the k-th diagonal. It is the
// optimal factorization up to a constant if each user is in one round only (Henzinger, Upadhyay and
// Upadhyay 2023).
func root(rounds int) *mat.Dense {
	c, f := mat.NewDense(rounds, rounds, nil), 1.0
	for k := range rounds {
		for t := k; t < rounds; t++ {
			c.Set(t, t-k, f)
		}
		f *= (2*float64(k) + 1) / (2*float64(k) + 2)
	}
	return c
}

func TestCorrelatedNoiseGainsNothing(t *testing.T) {
	ones := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	random := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		a *mat.Dense
		// placed is the least error of independent noise, divided by the error of equal noise in
		// every round.
		placed float64
	}{
		// By hand: (Σ√t)² over 10·(1 + ... + 10), and (Σ η)² over 10·Ση².
		"sums":                           {prefixes(ones), 22.4683 * 22.4683 / 550},
		"the last sum":                   {last(prefixes(ones)), 1},
		"LFL, the last V":                {last(prefixes(falling(10))), 5.05 * 5.05 / 34.92},
		"LFL, all V":                     {prefixes(falling(10)), 0.6296},
		"statistics, 6 rounds of .5":     {faded(6, 0.5), 0.9348},
		"statistics, 12 rounds of .8":    {faded(12, 0.8), 0.7932},
		"the last of 12 rounds of .8":    {last(faded(12, 0.8)), 0.6535},
		"statistics, the last, 6 of 0.5": {last(faded(6, 0.5)), 0.4846},
	} {
		t.Run(name, func(t *testing.T) {
			_, rounds := c.a.Dims()
			least, norms := floor(c.a), columnNorms(c.a)
			for s := range norms {
				norms[s] = math.Sqrt(norms[s])
			}
			if got := decoded(t, c.a, diagonal(norms)) * together(diagonal(norms)); math.Abs(got/least-1) > 1e-12 {
				t.Errorf("independent noise has %v, the floor is %v", got, least)
			}
			same := float64(rounds) * math.Pow(mat.Norm(c.a, 2), 2)
			if got := least / same; math.Abs(got-c.placed) > 1e-4 {
				t.Errorf("it is %v of the same noise in every round, want %v", got, c.placed)
			}
			if got := decoded(t, c.a, root(rounds)) * together(root(rounds)); !(got >= least) {
				t.Errorf("the square root has %v, below the floor %v", got, least)
			}
			for range 1000 { // triangular matrices around the best, with entries of all signs
				m := mat.NewDense(rounds, rounds, nil)
				spread := math.Exp(-6 * random.Float64())
				for i := range rounds {
					for j := range i {
						m.Set(i, j, spread*random.NormFloat64())
					}
					m.Set(i, i, norms[i]*math.Exp(spread*random.NormFloat64()))
				}
				if got := decoded(t, c.a, m) * attacked(c.a, m); !(got >= least*(1-1e-9)) {
					t.Fatalf("a factorization has %v, below the floor %v", got, least)
				}
			}
		})
	}
}

// If each user is in one round only, the same square root has half the variance of independent
// noise. So the comparison above can tell the two apart.
func TestCorrelatedNoiseGainsWhereUsersComeOnce(t *testing.T) {
	a, c := prefixes([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), root(10)
	once := math.Pow(columnNorms(c)[0], 2)
	if got := decoded(t, a, c) * once / 55; math.Abs(got-0.497) > 0.01 { // independent: 1 + ... + 10
		t.Errorf("its variance is %v of that of independent noise, want about half", got)
	}
}
