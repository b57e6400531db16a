package serving

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// Donor is a user who gave its ratings openly. No ε covers a donor, and a donor is no client: the server computes what
// the donor adds to a sum, by the code of clients and without noise.
type Donor interface {
	Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error)
}

// add adds what the donors contribute to a plan, times the share of clients who answered, and in batches the sampling rate.
// Scaled to all clients, a sum then has every donor once.
func (r *Absorbed) add(p *StrategyParams, plan *protocol.Plan, run protocol.Runner) error {
	if p.Donors == nil {
		return nil
	}
	r.Donated = make(map[string][]float64, len(plan.Releases))
	for _, x := range plan.Releases {
		r.Donated[x.Name] = make([]float64, x.Len)
	}
	for _, x := range p.Donors {
		vectors, err := x.Contribute(plan, entropy.Source{}, run) // a donor draws nothing
		if err != nil {
			return fmt.Errorf("a donor: %w", err)
		}
		for i, v := range vectors {
			sum := r.Donated[plan.Releases[i].Name]
			v.Each(func(j int, x float64) { sum[j] += x })
		}
	}
	answered := r.Users / float64(p.Cohort.Clients)
	for name, x := range r.Donated {
		part := answered
		if p.Batched() && kernel.InStatistics(name) {
			part *= p.SamplingRate
		}
		r.Values[name] = slices.Clone(r.Values[name])
		dense.Axpy(r.Values[name], part, x)
	}
	r.Users += answered * float64(len(p.Donors))
	return nil
}

// Ungiven returns the weights of clients' ratings, at least 0, among the weights of all ratings.
func (s *Strategy) Ungiven(all []float64) []float64 {
	out := slices.Clone(all)
	for j, c := range s.Given {
		out[j] = max(out[j]-c, 0)
	}
	return out
}
