package secagg

import (
	"errors"
	"fmt"
	"maps"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/mask"
)

// A relay between some of the clients and the aggregator adds up their vectors. There is one sum
// over all clients as without the relay. A part of the sum is of no use to any party: masks with
// clients elsewhere are still on it.
//
// The aggregator takes the rest of a client's message with [Aggregator.Held], and the vectors of
// all of a relay's clients at once with [Aggregator.AddPart]. A client whose vectors have not come
// when the stage is closed has not answered it. So U1 has exactly the clients whose vectors are in
// the sum, whichever way they took.

// ErrRelay is returned in active mode. A client that lies is excluded there for a message that it
// was seen to send. In a relay's sum no party sees which client sent what.
var ErrRelay = errors.New("secagg: relays add vectors up in semi-honest mode alone")

// PartialSum adds up, at a relay, what clients send in one stage of a round: their masked
// inputs in the stage masked-input, in the stage unmask what their noise changes by. It is
// not safe for concurrent use.
type PartialSum struct {
	plan   *protocol.Plan
	stage  protocol.Stage
	rounds int
	sums   []*mask.Vector
}

// NewPart makes an empty part of a plan's round, in a session of so many rounds. It returns the
// errors of protocol.Plan.Validate, and ErrOrder for a stage without vectors.
func NewPart(plan *protocol.Plan, stage protocol.Stage, rounds int) (*PartialSum, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if stage != protocol.StageMaskedInput && stage != protocol.StageUnmask {
		return nil, fmt.Errorf("%w: nothing is added up in the stage %s", ErrOrder, stage)
	}
	sums, err := vectors(plan)
	return &PartialSum{plan: plan, stage: stage, rounds: rounds, sums: sums}, err
}

// Read checks the vectors of a client's message, as the aggregator would, and returns them
// as residues, packed per release. The error says what is wrong with them.
func (p *PartialSum) Read(m protocol.StageMessage) ([][]byte, error) {
	switch m := m.(type) {
	case *protocol.MaskedInput:
		if p.stage == protocol.StageMaskedInput && m.Round == p.plan.Round {
			return m.Masked, checkMasked(p.plan, m)
		}
	case *protocol.Unmask:
		if p.stage == protocol.StageUnmask && m.Round == p.plan.Round {
			return p.removals(m)
		}
	}
	round, stage := m.At()
	return nil, fmt.Errorf("%w: %s of round %d", ErrOrder, stage, round)
}

// removals returns a client's removals as residues.
func (p *PartialSum) removals(m *protocol.Unmask) ([][]byte, error) {
	if err := checkRemovals(p.plan, m); err != nil {
		return nil, err
	}
	out := make([][]byte, len(m.Removed))
	for i, r := range p.plan.Releases {
		removal, err := checkRemoved(p.plan.Cohort, p.rounds, r, m.Removed[i])
		if err != nil {
			return nil, fmt.Errorf("%w: release %q: %w", ErrMalformed, r.Name, err)
		}
		if removal == nil {
			out[i] = m.Removed[i] // residues already, or nothing
			continue
		}
		v, err := mask.NewVector(r.Width, r.Len)
		if err == nil {
			err = v.AddInts(removal)
		}
		if err != nil {
			return nil, err
		}
		out[i] = v.AppendPacked(make([]byte, 0, mask.PackedSize(r.Width, r.Len)))
	}
	return out, nil
}

// Add adds residues that Read returned.
func (p *PartialSum) Add(residues [][]byte) error {
	if err := p.fits(residues); err != nil {
		return err
	}
	for i, v := range p.sums {
		if len(residues[i]) == 0 {
			continue
		}
		if err := v.AddPacked(residues[i]); err != nil {
			return err
		}
	}
	return nil
}

// fits says whether residues are of the form that the stage has.
func (p *PartialSum) fits(residues [][]byte) error {
	if len(residues) != len(p.sums) {
		return fmt.Errorf("%w: %d vectors for %d releases", ErrMalformed, len(residues), len(p.sums))
	}
	for i, r := range p.plan.Releases {
		if p.has(r) && !packedFits(r, residues[i]) || !p.has(r) && len(residues[i]) != 0 {
			return fmt.Errorf("%w: release %q: %d bytes are no sum of the stage %s", ErrMalformed, r.Name, len(residues[i]), p.stage)
		}
	}
	return nil
}

// has says whether clients send a vector of a release in the stage.
func (p *PartialSum) has(r protocol.Release) bool {
	return p.stage == protocol.StageMaskedInput || r.Noise.Reduced()
}

// Sums are the sums of what was added, packed per release, as protocol.Partial has them.
func (p *PartialSum) Sums() [][]byte {
	out := make([][]byte, len(p.sums))
	for i, r := range p.plan.Releases {
		if p.has(r) {
			out[i] = p.sums[i].AppendPacked(make([]byte, 0, mask.PackedSize(r.Width, r.Len)))
		}
	}
	return out
}

// Held is Receive for a message of which a relay holds the vectors: it counts as answered
// if these come, with AddPart, before the stage is closed. In active mode ErrRelay is returned.
func (a *Aggregator) Held(from protocol.ClientID, m protocol.StageMessage) error {
	if a.Confirms() {
		return ErrRelay
	}
	err := a.receive(from, m, func() error { return a.hold(from, m) })
	if err == nil {
		a.held[from] = true
	}
	return err
}

func (a *Aggregator) hold(from protocol.ClientID, m protocol.StageMessage) error {
	at := a.roster.find(from)
	switch m := m.(type) {
	case *protocol.MaskedInput:
		if len(m.Masked) != 0 || len(m.Vectors) != 0 || len(m.Complaints) != 0 {
			return fmt.Errorf("%w: vectors or complaints in a message whose vectors are held", ErrMalformed)
		}
	case *protocol.Unmask:
		if len(m.Removed) != 0 || len(m.Removals) != 0 {
			return fmt.Errorf("%w: vectors in a message whose vectors are held", ErrMalformed)
		}
		if err := a.checkRevealed(ofInputs, at, m.Shares); err != nil {
			return err
		}
		return a.reveal(ofInputs, at, m.Shares)
	default:
		return fmt.Errorf("%w: %s has no vectors", ErrMalformed, protocol.Describe(m))
	}
	return nil
}

// AddPart adds a relay's sum of clients' vectors. The sum must be over all of these clients, and no
// others. Held must have taken each client's message of the present stage, and the client's vectors
// must not have come since. Bit c of clients is client c. With an error nothing was added.
func (a *Aggregator) AddPart(clients protocol.Bitmap, sums [][]byte) error {
	if a.Confirms() {
		return ErrRelay
	}
	part := &PartialSum{plan: a.plan, stage: a.stage, sums: a.sums}
	if a.plan == nil || a.finished || a.stage != protocol.StageMaskedInput && a.stage != protocol.StageUnmask {
		return fmt.Errorf("%w: nothing is added up in the stage %s", ErrOrder, a.stage)
	}
	if n := a.setup.Cohort.All(); !clients.Fits(n) {
		return fmt.Errorf("%w: %d bytes are no set of %d clients", ErrMalformed, len(clients), n)
	}
	for c := range protocol.ClientID(a.setup.Cohort.All()) {
		if clients.Has(int(c)) && !a.held[c] {
			return fmt.Errorf("%w: a sum with client %d, whose vectors were not held, or are in the sum", ErrOrder, c)
		}
	}
	if err := part.Add(sums); err != nil {
		return err
	}
	maps.DeleteFunc(a.held, func(c protocol.ClientID, _ bool) bool { return clients.Has(int(c)) })
	return nil
}

// unheld has those not have answered the present stage whose vectors did not come.
func (a *Aggregator) unheld() {
	for c := range a.held {
		delete(a.heard, c)
		if a.stage == protocol.StageUnmask {
			a.answers[ofInputs].Clear(a.roster.find(c))
		}
	}
	clear(a.held)
}
