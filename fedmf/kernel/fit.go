package kernel

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/fedsim/fedsim/model"
)

// Fit is the local fit of a user's client: it fits u_i to its ratings with V held fixed, by
// projected gradient steps on
//
//	Σ_j (x_j - <u, v_j>)² + ridge·mean·‖u - start‖².
//
// The client sends none of it.
type Fit struct {
	Steps int     // gradient steps; the same budget before and after cooperation
	Ridge float64 // weight of the start, in ratings: an item's embedding starts with ‖v‖² = mean
}

// Validate reports every fault of the settings.
func (f Fit) Validate() error {
	var errs []error
	if f.Steps < 0 {
		errs = append(errs, fmt.Errorf("fit steps is %d; it must not be negative", f.Steps))
	}
	if !(f.Ridge >= 0) || math.IsInf(f.Ridge, 1) {
		errs = append(errs, fmt.Errorf("fit ridge is %v; it must be at least 0", f.Ridge))
	}
	return errors.Join(errs...)
}

// rows gives item embeddings; dst is scratch of the rank's length.
type rows interface {
	Row(j int, dst []float64) []float64
}

// matrixRows makes a Matrix a source of rows.
type matrixRows struct{ *model.Matrix }

func (m matrixRows) Row(j int, _ []float64) []float64 { return m.Matrix.Row(j) }

// User fits a user against V and returns u.
func (p Params) User(r model.Ratings, v *model.Matrix) []float64 {
	u := make([]float64, p.Rank)
	p.fit(r, matrixRows{v}, u)
	return u
}

// fitting holds the memory of a fit; it is used again from user to user.
type fitting struct {
	gram                 []float64 // rank x rank
	right, scratch, grad []float64
}

var fittings = sync.Pool{New: func() any { return new(fitting) }}

// of makes room for rank d.
func (f *fitting) of(d int) {
	if len(f.right) == d {
		return
	}
	all := make([]float64, d*d+3*d)
	f.gram, all = all[:d*d], all[d*d:]
	f.right, f.scratch, f.grad = all[:d], all[d:2*d], all[2*d:]
}

// fit writes the fit to u. It works on the Gram matrix Σ v vᵀ, so that a step costs p² for any
// number of ratings.
func (p *Params) fit(r model.Ratings, v rows, u []float64) {
	start := p.startValue()
	for i := range u {
		u[i] = start
	}
	if len(r.Items) == 0 {
		return
	}
	f := fittings.Get().(*fitting)
	defer fittings.Put(f)
	f.of(p.Rank)
	p.normalEquations(r, v, f)
	// The trace bounds the largest eigenvalue, so that 1/trace is a step
	// that never overshoots.
	var trace float64
	for i := range p.Rank {
		trace += f.gram[i*p.Rank+i]
	}
	if trace == 0 {
		return
	}
	for range p.Fit.Steps {
		for i := range f.grad {
			f.grad[i] = model.Dot(f.gram[i*p.Rank:(i+1)*p.Rank], u) - f.right[i]
		}
		for i := range u {
			u[i] -= f.grad[i] / trace
		}
		Project(u, p.MaxRating)
	}
}

// normalEquations computes Σ v vᵀ + ridge·mean·I and Σ x v + ridge·mean·start.
func (p *Params) normalEquations(r model.Ratings, v rows, f *fitting) {
	d, gram, right := p.Rank, f.gram, f.right
	clear(gram)
	clear(right)
	for k, j := range r.Items {
		row := v.Row(int(j), f.scratch)
		x := float64(r.Values[k])
		for a, va := range row {
			right[a] += x * va
			g := gram[a*d : a*d+a+1]
			for b := range g {
				g[b] += va * row[b]
			}
		}
	}
	weight, start := p.Fit.Ridge*p.StartMean, p.startValue()
	for a := range d {
		for b := range a {
			gram[b*d+a] = gram[a*d+b]
		}
		gram[a*d+a] += weight
		right[a] += weight * start
	}
}
