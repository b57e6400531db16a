package serving

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// Limits calls hear with inequalities that the vector of each honest client keeps ([server.Limited]):
//
//   - |w_j·e_j| <= ClipBias·w_j of biases, as each clipped residual e_j is at most ClipBias;
//   - |Σ y|/k <= n/k of the mean, as places on the scale are at most 1;
//   - 0 <= w_j of weights, and 0 <= n_j of counts;
//   - 0 <= g_aa and √2·|g_ab| <= g_aa + g_bb of a packed Gramian, which is positive semi-definite.
func (s *Strategy) Limits(p *protocol.Plan, hear func(terms ...protocol.Term)) {
	weights := slices.IndexFunc(p.Releases, func(r protocol.Release) bool { return r.Name == kernel.WeightCounts })
	for i, r := range p.Releases {
		switch {
		case r.Name == kernel.Bias && weights >= 0:
			for j := range r.Len {
				most := protocol.Term{Release: weights, Coordinate: j, Factor: -s.Params.ClipBias}
				hear(protocol.Term{Release: i, Coordinate: j, Factor: 1}, most)
				hear(protocol.Term{Release: i, Coordinate: j, Factor: -1}, most)
			}
		case r.Name == kernel.Mean:
			most := protocol.Term{Release: i, Coordinate: 1, Factor: -1}
			hear(protocol.Term{Release: i, Factor: 1}, most)
			hear(protocol.Term{Release: i, Factor: -1}, most)
		case r.Name == kernel.WeightCounts || r.Name == kernel.Counts:
			for j := range r.Len {
				hear(protocol.Term{Release: i, Coordinate: j, Factor: -1})
			}
		case r.Name == kernel.Gramian && r.Len == s.Params.Packed():
			gramianLimits(i, s.Params.Rank, hear)
		}
	}
}

// gramianLimits are the limits of svec(G), whose row a begins at a(a+1)/2.
func gramianLimits(release, rank int, hear func(terms ...protocol.Term)) {
	at := func(a, b int, factor float64) protocol.Term {
		return protocol.Term{Release: release, Coordinate: a*(a+1)/2 + b, Factor: factor}
	}
	for a := range rank {
		hear(at(a, a, -1))
		for b := range a {
			hear(at(a, b, math.Sqrt2), at(a, a, -1), at(b, b, -1))
			hear(at(a, b, -math.Sqrt2), at(a, a, -1), at(b, b, -1))
		}
	}
}
