package fmf

import (
	"math"

	"github.com/fedsim/fedsim/model"
)

// quadratic is vᵀAv - 2bᵀv with A positive definite, rows one after the other.
type quadratic struct {
	a, b []float64
}

// feasible returns the v that minimises q over the feasible embeddings, v >= 0 and ‖v‖² <= r. It is
// exact up to the rounding of float64. In one dimension it is a quotient, cut to the interval. In
// more it is the minimiser over v >= 0 of an active set. If that is outside the ball, it is the
// minimiser with A + τI, for the τ that puts it on the ball's edge.
func (q quadratic) feasible(r float64) []float64 {
	v := q.positive(0)
	if model.Dot(v, v) <= r {
		return v
	}
	// ‖v‖ falls in τ: v minimises over v >= 0, so vᵀ(A+τI)v = bᵀv, and τ‖v‖² <= bᵀv <= ‖b‖‖v‖.
	low, high := 0., math.Sqrt(model.Dot(q.b, q.b)/r)
	for {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			return v
		}
		at := q.positive(middle)
		if model.Dot(at, at) > r {
			low = middle
		} else {
			high, v = middle, at // inside, so that the returned v is feasible
		}
	}
}

// positive minimises q + τ‖v‖² over v >= 0 (Lawson and Hanson 1974, chapter 23, on the Gram
// matrix). Coordinates enter by the steepest gain, unless it is rounding. The value falls with
// every set that is left, so no set comes back and it ends.
func (q quadratic) positive(tau float64) []float64 {
	d := len(q.b)
	v, free, refused := make([]float64, d), make([]bool, d), make([]bool, d)
	least := 1e-14 * math.Sqrt(model.Dot(q.b, q.b))
	for {
		enter, most := -1, least
		for i := range d {
			if gain := q.b[i] - model.Dot(q.a[i*d:(i+1)*d], v) - tau*v[i]; !free[i] && !refused[i] && gain > most {
				enter, most = i, gain
			}
		}
		if enter < 0 {
			return v
		}
		free[enter] = true
		if !q.settle(v, free, enter, tau) {
			refused[enter] = true // its gain was rounding
			continue
		}
		clear(refused)
	}
}

// settle moves v to the minimiser over its free coordinates, and fixes at 0 the coordinates that
// reach 0 on the way. It reports false if the coordinate that entered last would be negative at
// once.
func (q quadratic) settle(v []float64, free []bool, entered int, tau float64) bool {
	for first := true; ; first = false {
		to := q.solve(free, tau)
		if first && to[entered] <= 0 {
			free[entered] = false
			return false
		}
		share := 1. // share of the way without a negative coordinate
		for i := range v {
			if free[i] && to[i] <= 0 {
				share = min(share, v[i]/(v[i]-to[i]))
			}
		}
		done := true
		for i := range v {
			if !free[i] {
				continue
			}
			blocked := to[i] <= 0 && v[i]/(v[i]-to[i]) <= share
			if v[i] += share * (to[i] - v[i]); blocked {
				v[i], free[i], done = 0, false, false
			}
		}
		if done {
			copy(v, to)
			return true
		}
	}
}

// solve solves (A + τI)x = b over the free coordinates by Cholesky's decomposition; the others are 0.
func (q quadratic) solve(free []bool, tau float64) []float64 {
	d := len(q.b)
	var which []int
	for i := range d {
		if free[i] {
			which = append(which, i)
		}
	}
	n := len(which)
	l, x := make([]float64, n*n), make([]float64, n)
	for i, a := range which {
		for j, b := range which[:i+1] {
			s := q.a[a*d+b]
			if i == j {
				s += tau
			}
			s -= model.Dot(l[i*n:i*n+j], l[j*n:j*n+j])
			if i == j {
				l[i*n+i] = math.Sqrt(s)
			} else {
				l[i*n+j] = s / l[j*n+j]
			}
		}
		x[i] = (q.b[a] - model.Dot(l[i*n:i*n+i], x[:i])) / l[i*n+i]
	}
	out := make([]float64, d)
	for i := n - 1; i >= 0; i-- {
		s := x[i]
		for k := i + 1; k < n; k++ {
			s -= l[k*n+i] * x[k]
		}
		x[i] = s / l[i*n+i]
		out[which[i]] = x[i]
	}
	return out
}
