package client

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Samplers keeps the tables that noise is drawn from. They depend on public
// numbers only, so all clients of a process share one Samplers. It is safe for
// concurrent use; the zero value is ready.
type Samplers struct{ tables noise.Tables }

// shares holds the seeds of a client's noise in a round. The noise is drawn again from them once,
// thinned and forgotten.
type shares struct {
	noise, thinning entropy.Seed
}

// draw returns inputs with the client's share of the noise, dense where a release is
// noised, and the seeds of it; nil where none is. The inputs stay as they are.
func (s *Samplers) draw(p *protocol.Plan, src entropy.Source, inputs []protocol.Integers) ([]protocol.Integers, *shares, error) {
	sh := new(shares)
	var err error
	if sh.noise, err = entropy.NewSeed(src, "noise-seed", p.Round); err != nil {
		return nil, nil, err
	}
	if sh.thinning, err = entropy.NewSeed(src, "thinning-seed", p.Round); err != nil {
		return nil, nil, err
	}
	noised, out := false, slices.Clone(inputs)
	for i, r := range p.Releases {
		if r.Noise.Variance == 0 {
			continue
		}
		noised = true
		variance := r.Noise.Share(p.Cohort)
		if r.Noise.Kind == protocol.Split && variance/2 > noise.MaxThinningMean {
			// Noise that could not be thinned later must not be added now.
			return nil, nil, fmt.Errorf("release %q: a share of variance %g cannot be thinned; at most %g can", r.Name, variance, 2.*noise.MaxThinningMean)
		}
		sampler, err := s.tables.Skellam(variance)
		if err != nil {
			return nil, nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
		out[i] = dense(inputs[i], r.Len)
		if err := sampler.Add(out[i].Value, sh.bits(r)); err != nil {
			return nil, nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	if !noised {
		return inputs, nil, nil
	}
	return out, sh, nil
}

// remove returns the change of the client's noise when survivors sent a masked input: minus the
// part that thinning takes away, or, where the plan replaces noise, the new noise minus the old.
func (s *Samplers) remove(p *protocol.Plan, sh *shares, survivors int) ([]protocol.Integers, error) {
	out := make([]protocol.Integers, len(p.Releases))
	for i, r := range p.Releases {
		if !r.Noise.Reduced() {
			out[i].Index = []uint32{}
			continue
		}
		out[i].Value = make([]int64, r.Len)
		var err error
		if r.Noise.Kind == protocol.TwoRound {
			err = s.replace(out[i].Value, p.Cohort, r, sh, survivors)
		} else {
			err = s.split(out[i].Value, p.Cohort, r, sh, survivors)
		}
		if err != nil {
			return nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	return out, nil
}

// split draws the share again and thins it: of each Poisson variate a part
// b/a = w/u stays.
func (s *Samplers) split(dst []int64, c protocol.Cohort, r protocol.Release, sh *shares, survivors int) error {
	a := c.ShareVariance(r.Noise.Variance)
	sampler, err := s.tables.Skellam(a)
	if err != nil {
		return err
	}
	thinning, err := s.tables.Thinning(a/2, uint64(c.Honest(c.Required())), uint64(c.Honest(survivors)))
	if err != nil {
		return err
	}
	return sampler.Removal(dst, sh.bits(r), noise.NewBits(sh.thinning.Stream(r.Name)), thinning)
}

// replace takes the share out again and adds a fresh one of variance V/u.
func (s *Samplers) replace(dst []int64, c protocol.Cohort, r protocol.Release, sh *shares, survivors int) error {
	old, err := s.tables.Skellam(c.ShareVariance(r.Noise.Variance))
	if err != nil {
		return err
	}
	if err = old.Add(dst, sh.bits(r)); err != nil {
		return err
	}
	for j := range dst {
		dst[j] = -dst[j]
	}
	fresh, err := s.tables.Skellam(r.Noise.Variance / float64(c.Honest(survivors)))
	if err != nil {
		return err
	}
	return fresh.Add(dst, noise.NewBits(sh.thinning.Stream(r.Name)))
}

func (sh *shares) bits(r protocol.Release) *noise.Bits {
	return noise.NewBits(sh.noise.Stream(r.Name))
}

func dense(v protocol.Integers, n int) protocol.Integers {
	out := protocol.Integers{Value: make([]int64, n)}
	v.AddTo(out.Value)
	return out
}
