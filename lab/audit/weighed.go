package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// weigher is a trainer whose contributions are compared with the bounds of their releases, apart from the client role,
// which does so too. It keeps the contributions of clients that hold the unit.
type weigher struct {
	client.Trainer
	id protocol.ClientID
	w  *witness
}

// weighed identifies a contribution.
type weighed struct {
	client  protocol.ClientID
	round   uint64
	release string
}

// sentVector is a contribution of a client that holds the unit.
type sentVector struct {
	vector protocol.Vector
	to     protocol.Release
}

// Contribute notes what the trainer contributes.
func (t *weigher) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	list, err := t.Trainer.Contribute(p, src, run)
	if err != nil {
		return nil, err
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	for i, v := range list {
		r := p.Releases[i]
		t.w.contributions++
		if what := exceeded(sizeOf(v), r); what != "" {
			t.w.beyond = append(t.w.beyond, fmt.Sprintf("client %d sends to release %s in round %d a vector whose %s", t.id, r.Name, p.Round, what))
		}
		if t.w.owners[t.id] && r.Noise.Kind != protocol.PartyNoise { // a party's own noise is in its vector already
			kept := protocol.Vector{Value: make([]float64, r.Len)}
			v.Each(func(j int, x float64) { kept.Value[j] = x })
			t.w.own[weighed{t.id, p.Round, r.Name}] = sentVector{kept, r}
		}
	}
	return list, nil
}

// exceeded says which bound of a release a vector is beyond; "" where it is within all.
func exceeded(s size, r protocol.Release) string {
	const rounding = 1e-9
	for _, b := range []struct {
		what      string
		is, bound float64
	}{
		{"L2 norm", s.l2, r.L2}, {"L1 norm", s.l1, r.L1}, {"largest coordinate", s.largest, r.LInf},
		{"number of coordinates other than zero", float64(s.nonZero), float64(r.MaxNonZero)},
	} {
		if b.bound > 0 && b.is > b.bound*(1+rounding) {
			return fmt.Sprintf("%s is %.4g times its bound of %g", b.what, b.is/b.bound, b.bound)
		}
	}
	return ""
}

// apart compares what the clients that hold the unit contribute with it and without it. The two may be as far apart as the
// sensitivity of their release says, in integers. If the unit is a whole client, its empty record must add zero.
func apart(with, without map[weighed]sentVector, whole bool) (differences []string, err error) {
	for key, empty := range without {
		if s := sizeOf(empty.vector); whole && s.nonZero > 0 {
			differences = append(differences, fmt.Sprintf("client %d sends to release %s in round %d a vector of L2 norm %.4g although its record is empty; it must send zeros",
				key.client, key.release, key.round, s.l2))
		}
	}
	for key, full := range with {
		empty, there := without[key]
		if !there {
			empty.vector = protocol.Vector{}
		}
		a, err1 := integers(full.vector, full.to)
		b, err2 := integers(empty.vector, full.to)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		var l1, l2 float64
		for j := range a {
			d := math.Abs(float64(a[j] - b[j]))
			l1, l2 = l1+d, l2+d*d
		}
		d2, d1 := full.to.Bounds()
		if l2 = math.Sqrt(l2); l2 > d2*(1+1e-9) || l1 > d1*(1+1e-9) {
			differences = append(differences, fmt.Sprintf("client %d moves release %s in round %d by %.4g (L2) and %.4g (L1), in integers; its sensitivity is %.4g and %.4g",
				key.client, key.release, key.round, l2, l1, d2, d1))
		}
	}
	slices.Sort(differences)
	return differences, nil
}
