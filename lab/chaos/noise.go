package chaos

import (
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// redrawer draws the noise of clients again, from the source of their randomness, which only a
// simulator knows. The result is the noise that they must really have added, and taken back.
type redrawer struct {
	shares    map[float64]*noise.Skellam // by variance
	thinnings map[thinning]*noise.Thinning
}

type thinning struct {
	mean      float64
	keep, all uint64
}

func newRedrawer() *redrawer {
	return &redrawer{shares: make(map[float64]*noise.Skellam), thinnings: make(map[thinning]*noise.Thinning)}
}

// draw returns a client's noise in a round, by release; zero if it adds none. With survivors
// above 0 it returns the change of that noise for so many: less a part if it is split, fresh for
// old if it is replaced.
func (n *redrawer) draw(p *protocol.Plan, src entropy.Source, survivors int) ([][]int64, error) {
	added, err := entropy.NewSeed(src, "noise-seed", p.Round)
	if err != nil {
		return nil, err
	}
	thinned, err := entropy.NewSeed(src, "thinning-seed", p.Round)
	if err != nil {
		return nil, err
	}
	out := make([][]int64, len(p.Releases))
	for i, r := range p.Releases {
		out[i] = make([]int64, r.Len)
		if !r.Noise.Distributed() || survivors > 0 && !r.Noise.Reduced() {
			continue
		}
		share, err := n.share(r.Noise.Share(p.Cohort))
		if err != nil {
			return nil, err
		}
		bits := noise.NewBits(added.Stream(r.Name))
		changes := noise.NewBits(thinned.Stream(r.Name))
		switch {
		case survivors == 0:
			err = share.Add(out[i], bits)
		case r.Noise.Kind == protocol.Split:
			err = n.thin(out[i], share, p.Cohort, survivors, bits, changes)
		default:
			err = n.replace(out[i], share, r.Noise.Variance/float64(p.Cohort.Honest(survivors)), bits, changes)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// thin takes a part of the share away.
func (n *redrawer) thin(dst []int64, share *noise.Skellam, c protocol.Cohort, survivors int, bits, changes *noise.Bits) error {
	t, err := n.thinning(thinning{share.Variance() / 2, uint64(c.Honest(c.Required())), uint64(c.Honest(survivors))})
	if err != nil {
		return err
	}
	return share.Removal(dst, bits, changes, t)
}

// replace takes the share away and adds a fresh one of another variance.
func (n *redrawer) replace(dst []int64, share *noise.Skellam, variance float64, bits, changes *noise.Bits) error {
	if err := share.Add(dst, bits); err != nil {
		return err
	}
	for j, x := range dst {
		dst[j] = -x
	}
	fresh, err := n.share(variance)
	if err != nil {
		return err
	}
	return fresh.Add(dst, changes)
}

func (n *redrawer) share(variance float64) (*noise.Skellam, error) {
	if s := n.shares[variance]; s != nil {
		return s, nil
	}
	s, err := noise.NewSkellam(variance)
	n.shares[variance] = s
	return s, err
}

func (n *redrawer) thinning(k thinning) (*noise.Thinning, error) {
	if t := n.thinnings[k]; t != nil {
		return t, nil
	}
	t, err := noise.NewThinning(k.mean, k.keep, k.all)
	n.thinnings[k] = t
	return t, err
}
