package serving

import (
	"fmt"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Donor is a user who gave its ratings openly. No ε covers a donor, and a donor is no client: the server computes what
// the donor adds to a sum, by the code of clients and without noise.
type Donor interface {
	Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error)
}

// donated sums what the donors add to the releases of a plan, in the order of donors; nil without donors.
func (s *Strategy) donated(plan *protocol.Plan, run protocol.Runner) (map[string][]float64, error) {
	if s.Params.Donors == nil {
		return nil, nil
	}
	sums := make(map[string][]float64, len(plan.Releases))
	for _, r := range plan.Releases {
		sums[r.Name] = make([]float64, r.Len)
	}
	for _, x := range s.Params.Donors {
		vectors, err := x.Contribute(plan, entropy.Source{}, run) // a donor draws nothing
		if err != nil {
			return nil, fmt.Errorf("a donor: %w", err)
		}
		for i, v := range vectors {
			sum := sums[plan.Releases[i].Name]
			v.Each(func(j int, x float64) { sum[j] += x })
		}
	}
	return sums, nil
}

// add adds the donors' sums to the sums of the clients who answered, times the share of clients who answered. In batches it also
// multiplies by the sampling rate. Scaled to all clients, a sum then has every donor once.
func (r *Absorbed) add(p *StrategyParams, sums map[string][]float64) {
	if r.Donated = sums; sums == nil {
		return
	}
	answered := r.Users / float64(p.Cohort.Clients)
	for name, x := range sums {
		part := answered
		if p.Batched() && kernel.InStatistics(name) {
			part *= p.SamplingRate
		}
		r.Values[name] = dense.Scaled(r.Values[name], 1)
		dense.Axpy(r.Values[name], part, x)
	}
	r.Users += answered * float64(len(p.Donors))
}

// Private returns sums of all clients without what the donors added, given sums of a release that are scaled to all.
func (r Absorbed) Private(name string, sums []float64) []float64 {
	if x := r.Donated[name]; x != nil {
		dense.Axpy(sums, -1, x)
	}
	return sums
}

// GivenWeights returns the weights of the donors' ratings of each item; nil without donors, and before these are known.
func (s *Strategy) GivenWeights() []float64 {
	if s.given == nil || s.Chosen == nil || len(s.given) == len(s.Chosen.Items) {
		return s.given
	}
	return model.At(s.given, s.Chosen.Items)
}
