package chaos

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/fedsim/fedsim/protocol"
)

// planner is a server's strategy whose model is a hash of all sums so far: parties
// hold the same one only if they saw the same history.
type planner struct {
	w     *world
	at    int
	model []byte
}

// Next implements server.Strategy. The federation is healed before the last
// round is planned.
func (p *planner) Next() (*protocol.Plan, bool, error) {
	s := p.w.schedule
	if p.at > s.Rounds {
		return nil, true, nil
	}
	if p.at == s.Rounds {
		p.w.heal()
	}
	p.at++
	plan := &protocol.Plan{
		Session: p.w.session, Round: uint64(p.at), Phase: "chaos",
		Cohort: s.Cohort, Releases: s.Releases, Broadcast: p.model,
	}
	p.w.observe(Planned{Plan: plan, Healed: p.w.healed})
	return plan, false, nil
}

func (p *planner) Absorb(plan *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	p.w.observe(Absorbed{Round: plan.Round, Sums: sums})
	h := sha256.New()
	h.Write(p.model)
	var b []byte
	for _, values := range sums.Values {
		for _, x := range values {
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	h.Write(b)
	p.model = h.Sum(nil)
	return nil
}

func (p *planner) Skip(*protocol.Plan, error) {}

func (p *planner) Model() []byte { return p.model }
