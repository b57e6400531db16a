package audit

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// excesses are the factors by which offered vectors exceed a bound.
var excesses = []float64{1.01, 1.4, 10}

// offer gives the unit's client vectors beyond each bound of each release, and returns what it did not refuse.
func (a *auditor) offer() (accepted []string, offered int, err error) {
	seen := make(map[string]bool)
	for t, p := range a.plans {
		for i, r := range p.Releases {
			if seen[r.Name] {
				continue
			}
			seen[r.Name] = true
			for _, x := range beyond(r) {
				offered++
				refused, err := a.refuses(t, i, x.vector)
				if err != nil {
					return nil, 0, err
				}
				if !refused {
					accepted = append(accepted, fmt.Sprintf("release %s: a vector at %g times the bound of %s was sent", r.Name, x.factor, x.bound))
				}
			}
		}
	}
	return accepted, offered, nil
}

// refuses has the unit's client contribute a vector to a release, and reports whether the client refuses it.
func (a *auditor) refuses(t, release int, v protocol.Vector) (bool, error) {
	plan := a.told(t)
	offered := target{map[string]protocol.Vector{plan.Releases[release].Name: v}}
	for i := range plan.Releases {
		plan.Releases[i].Noise.SamplingRate = 0 // no coin leaves the vector out
	}
	c := a.party(0, t, offered, simulated.New(a.cfg.Seed, "audit/offer"))
	_, err := c.hear(&protocol.Announce{Plan: plan})
	if err == nil || errors.Is(err, client.ErrOutOfBounds) {
		return err != nil, nil
	}
	return false, err
}

// excess is a vector beyond one bound.
type excess struct {
	bound  string
	factor float64
	vector protocol.Vector
}

// beyond returns vectors beyond each bound of a release. Where other bounds allow it, no other bound is exceeded.
func beyond(r protocol.Release) []excess {
	var list []excess
	r.Sensitivity = 0 // a bound of what a unit changes, which no client can see
	for _, f := range excesses {
		add := func(bound string, r protocol.Release, reached func(size) bool) {
			if v := worst(r); reached(sizeOf(v)) {
				list = append(list, excess{bound, f, v})
			}
		}
		wide := r
		wide.L2 *= f
		add("the L2 norm", wide, func(s size) bool { return s.l2 > r.L2*(1+1e-6) })
		if r.LInf > 0 {
			wide = r
			wide.LInf, wide.L2, wide.L1 = f*r.LInf, math.Inf(1), 0
			wide.MaxNonZero = 1
			add("a coordinate", wide, func(s size) bool { return s.largest > r.LInf })
		}
		if r.L1 > 0 {
			wide = r
			wide.L1 *= f
			add("the L1 norm", wide, func(s size) bool { return s.l1 > r.L1*(1+1e-6) })
		}
		if n := int(math.Ceil(f * float64(r.MaxNonZero))); n <= r.Len {
			v := protocol.Vector{Value: make([]float64, r.Len)}
			for j := range n {
				v.Value[j] = 1 / r.Scale
			}
			list = append(list, excess{"coordinates other than zero", f, v})
		}
	}
	return list
}

// size holds the norms of a vector.
type size struct {
	l1, l2, largest float64
	nonZero         int
}

func sizeOf(v protocol.Vector) (s size) {
	v.Each(func(_ int, x float64) {
		a := math.Abs(x)
		s.l1, s.l2, s.largest = s.l1+a, math.Hypot(s.l2, a), max(s.largest, a)
		if a > 0 {
			s.nonZero++
		}
	})
	return s
}
