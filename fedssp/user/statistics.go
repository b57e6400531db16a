package user

import (
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Fit solves for the user, clips u, and bounds the additions of the user's ratings. It needs the
// weights.
//
// slope returns the bounded factor of u for the chosen rating k. x is the user's own part of the
// prediction.
func (c *Contribution) Fit(slope func(k int, x float64) float64) {
	if c.Work != nil {
		return
	}
	p := c.Params
	c.Work = NewWorkspace(p)
	if c.fitted {
		c.Work.refer(p, c.Model, c.Ratings)
		c.Work.take(p, c.User)
	} else {
		c.Work.Gather(p, c.Model, c.Ratings)
		c.Work.Fit(p, c.Model)
	}
	ClipUser(c.Embedding(), p.ClipUser)
	if c.slopes == nil {
		c.slopes = make([]float64, len(c.Chosen))
	}
	u, own := c.Embedding(), c.Work.ownParts(p.Rank)
	for i, k := range c.Chosen {
		c.slopes[i] = c.Weights[i] * slope(k, c.Work.Offset[k]+own[k])
	}
	c.share = 1
	if p.NormItems > 0 {
		c.share = Restrain(c.slopes, dense.Norm(c.slopes)*dense.Norm(u), p.ItemsBound())
	}
}

// Embedding is u as it enters the statistics.
func (c *Contribution) Embedding() []float64 { return c.Work.Beta[:c.Params.Rank] }

// Target is a rating less everything in its prediction except the user's own part, x.
func (c *Contribution) Target(k int, x float64) float64 {
	return dense.Clamp(c.Work.Value[k]-x, c.Params.TargetBound())
}

// Gramian is svec(u uᵀ).
func (c *Contribution) Gramian() protocol.Vector {
	v := protocol.Vector{Value: make([]float64, c.Params.Packed())}
	dense.PackOuter(v.Value, c.Embedding())
	for i := range v.Value {
		v.Value[i] *= c.share
	}
	return v
}

// Statistics returns the user's addition to the rows of its items. Each row is a multiple of u or,
// for second order, of svec(u uᵀ) times the curvature of its rating; nil: 1. The addition of first
// order takes the memory of slopes, and is made once.
func (c *Contribution) Statistics(second bool, curvature func(k int) float64) protocol.Vector {
	p, u := c.Params, c.Embedding()
	if !second {
		return c.trainedOn(protocol.Vector{Index: c.Items(), Block: len(u), Factor: c.slopes, Value: slices.Clone(u)})
	}
	v := protocol.Vector{Index: c.Items(), Block: p.Packed(), Factor: make([]float64, len(c.Chosen)), Value: make([]float64, p.Packed())}
	dense.PackOuter(v.Value, u)
	for i, k := range c.Chosen {
		v.Factor[i] = c.share * c.Weights[i]
		if curvature != nil {
			v.Factor[i] *= curvature(k)
		}
	}
	return c.trainedOn(v)
}

// trainedOn keeps the rows of the items that statistics cover, by their places among those items,
// if weights chose them. Dropping coordinates never makes a vector longer.
func (c *Contribution) trainedOn(v protocol.Vector) protocol.Vector {
	if c.Model.Chosen == nil || !c.Model.Chosen.Late {
		return v
	}
	n := 0
	for i, j := range v.Index {
		if at, trainedOn := c.Model.Place(int(j)); trainedOn {
			v.Index[n], v.Factor[n] = uint32(at), v.Factor[i]
			n++
		}
	}
	v.Index, v.Factor = v.Index[:n], v.Factor[:n]
	return v
}
