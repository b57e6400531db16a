package cond

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// inversion says how singular values are inverted.
type inversion struct {
	invert bool    // otherwise features are only scaled
	floor  float64 // lower values count as this part of the largest
	// ridge returns the weight of zero in an item's own weight, in labels, by the number of noised directions; nil: none.
	ridge func(directions float64) float64
}

// whiten returns VΣ⁻¹Vᵀ (key design 1), a symmetric matrix, of features with the second moments XᵀX/n = VΣ²Vᵀ. Squares below the
// floor's count as that, and below noise, the noise of the moments, as noise, because they cannot be known. The result depends on no
// label. Features that are all zero, or not finite, are an error.
func whiten(moments *mat.SymDense, floor, noise float64) (*model.Matrix, error) {
	if dense.NotFinite(moments.RawSymmetric().Data) >= 0 {
		return nil, errors.New("cond: features are not finite, or too large to square; scale them")
	}
	eigen, err := eigenOf(moments, true)
	if err != nil {
		return nil, err
	}
	squares := eigen.Values(nil) // ascending
	p := len(squares)
	if !(squares[p-1] > 0) {
		return nil, errors.New("cond: all features are zero; there is nothing to condition")
	}
	var v, c mat.Dense
	eigen.VectorsTo(&v)
	inverse := mat.NewDiagDense(p, nil)
	for i, s := range squares {
		inverse.SetDiag(i, 1/math.Sqrt(max(s, floor*floor*squares[p-1], noise)))
	}
	c.Product(&v, inverse, v.T())
	return model.Wrap(p, p, c.RawMatrix().Data), nil
}

// eigenOf decomposes a matrix of moments.
func eigenOf(m *mat.SymDense, vectors bool) (*mat.EigenSym, error) {
	eigen := new(mat.EigenSym)
	if !eigen.Factorize(m, vectors) {
		return nil, fmt.Errorf("cond: the spectrum of %d features was not found; scale them to a similar size", m.SymmetricDim())
	}
	return eigen, nil
}

// settle finds the ridge of items, as a share of all examples, that fits the number of directions left with it: an item with far
// fewer labels hardly counts as a direction. All other features count.
func (i *inversion) settle(m moments, rest int) (ridge float64) {
	if i.ridge == nil {
		return 0
	}
	for range 20 {
		n := float64(rest)
		for _, share := range m.shares {
			if share > 0 {
				n += share / (share + ridge)
			}
		}
		ridge = i.ridge(n) / m.examples
	}
	return ridge
}

// transform multiplies features before training: one number, or a block each for the profile and
// the features of items, and a number for each item's own feature.
type transform struct {
	scale             float64
	profile, features *model.Matrix // without scale; nil: the identity
	ids               []float64     // without scale; nil: the identity
	ridge             float64       // of items' own plain weights, in shares of all examples
	curvature         float64       // upper bound on the largest eigenvalue of the transformed features' second moments
}

// newTransform conditions public features, or only scales them, such that ‖Cx‖² has the mean 1:
// rates and clips then mean the same for all features. m holds exact or noisy moments.
func newTransform(l layout, m moments, how inversion) (*transform, error) {
	t := &transform{}
	if l.ids > 0 {
		t.ridge = how.settle(m, l.profile+l.features)
	}
	if how.invert {
		if err := t.condition(l, m, how); err != nil {
			return nil, err
		}
	}
	var trace float64
	for _, b := range []struct {
		n       int
		moments *mat.SymDense
		c       *model.Matrix
	}{{l.profile, m.profile, t.profile}, {l.features, m.features, t.features}} {
		if b.n == 0 {
			continue
		}
		after := mat.NewDense(b.n, b.n, nil)
		after.Copy(b.moments)
		if b.c != nil {
			c := mat.NewDense(b.n, b.n, b.c.Data())
			after.Product(c, b.moments, c.T())
		}
		trace += mat.Trace(after)
		top, err := largest(after)
		if err != nil {
			return nil, err
		}
		t.curvature += top
	}
	if l.ids > 0 {
		top := 0.
		for j, share := range m.shares {
			square := 1.
			if t.ids != nil {
				square = t.ids[j] * t.ids[j]
			}
			share *= square
			trace += share
			top = max(top, share+t.ridge*square)
		}
		t.curvature += top
	}
	if !(trace > 0) || math.IsInf(trace, 1) {
		return nil, errors.New("cond: all features are zero, or not finite; there is nothing to learn from")
	}
	t.scale = 1 / math.Sqrt(trace)
	t.curvature /= trace
	return t, nil
}

// condition chooses the blocks.
func (t *transform) condition(l layout, m moments, how inversion) (err error) {
	if l.profile > 0 {
		t.profile, err = whiten(m.profile, how.floor, m.noise)
	}
	if err == nil {
		t.features, err = whiten(m.features, how.floor, 0)
	}
	if l.ids == 0 || err != nil {
		return err
	}
	least := how.floor * how.floor * slices.Max(m.shares)
	t.ids = make([]float64, l.ids)
	for j, share := range m.shares { // the singular values of one-hot features are the roots of their shares
		t.ids[j] = 1 / math.Sqrt(max(share, least)+t.ridge)
	}
	return nil
}

// largest returns the largest eigenvalue of a symmetric matrix.
func largest(m *mat.Dense) (float64, error) {
	n, _ := m.Dims()
	s := mat.NewSymDense(n, nil)
	for a := range n {
		for b := range a + 1 {
			s.SetSym(a, b, (m.At(a, b)+m.At(b, a))/2)
		}
	}
	eigen, err := eigenOf(s, false)
	if err != nil {
		return 0, err
	}
	return eigen.Values(nil)[n-1], nil
}

// apply returns Cθ: the weights of plain features.
func (t *transform) apply(l layout, theta []float64) []float64 {
	out := make([]float64, len(theta))
	times := func(c *model.Matrix, from, n int) {
		for j := range n {
			if c == nil {
				out[from+j] = t.scale * theta[from+j]
			} else {
				out[from+j] = t.scale * model.Dot(c.Row(j), theta[from:from+n])
			}
		}
	}
	times(t.profile, 0, l.profile)
	times(t.features, l.profile, l.features)
	for j := range l.ids {
		k := l.profile + l.features + j
		out[k] = t.scale * theta[k]
		if t.ids != nil {
			out[k] *= t.ids[j]
		}
	}
	return out
}

// penalise adds the ridge of items' own weights to a sum of gradients of so many examples: 2·examples·ridge·C(Cθ) there.
func (t *transform) penalise(l layout, gradient, theta []float64, examples float64) {
	if t.ridge == 0 {
		return
	}
	for k := l.profile + l.features; k < l.len(); k++ {
		c := t.scale
		if t.ids != nil {
			c *= t.ids[k-l.profile-l.features]
		}
		gradient[k] += 2 * examples * t.ridge * c * c * theta[k]
	}
}

// numbers returns the transform as it is broadcast.
func (t *transform) numbers() []float64 {
	out := []float64{t.scale}
	for _, c := range []*model.Matrix{t.profile, t.features} {
		if c != nil {
			out = append(out, c.Data()...)
		}
	}
	return append(out, t.ids...)
}

// size returns the number of numbers in a broadcast transform.
func (l layout) size(conditioned bool) int {
	if !conditioned {
		return 1
	}
	return 1 + l.profile*l.profile + l.features*l.features + l.ids
}

// readTransform reads the output of numbers.
func readTransform(l layout, v []float64) *transform {
	t := &transform{scale: v[0]}
	if len(v) == 1 {
		return t
	}
	v = v[1:]
	take := func(n int) *model.Matrix {
		if n == 0 {
			return nil
		}
		m := model.Wrap(n, n, v[:n*n])
		v = v[n*n:]
		return m
	}
	t.profile = take(l.profile)
	t.features = take(l.features)
	t.ids = v[:l.ids]
	return t
}
