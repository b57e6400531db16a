package sim

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// In an ideal sum nothing happens to an input between the client that computes it and the adder,
// and losses are drawn when a round opens. So the inputs of clients that will send are added
// up as they are computed. The inputs of a million clients on their way at one instant would take
// more memory than all ratings.
//
// Messages keep their sizes, but carry no vectors. Sums are of integers, so that their order
// changes nothing. If a caller looks at messages (Config.Sent), they carry their vectors.

// folding adds up the inputs of the round in progress.
type folding struct {
	workers int
	sends   func(protocol.ClientID) bool // whether a client will send its input in the round in progress

	round  uint64
	parts  []part
	folded []bool // by client
}

// part is a part of the sums, of some of the clients.
type part struct {
	mu   sync.Mutex
	sums [][]int64 // nil: none yet
}

// foldedMemory limits the memory of partial sums, in bytes; a single part may exceed it.
const foldedMemory = 64 << 20

func (f *federation) fold(s sums) sums {
	if f.cfg.Real || f.cfg.Sent != nil {
		return s
	}
	x := &folding{workers: int(f.cfg.Workers), folded: make([]bool, len(f.cfg.Trainers)),
		sends: func(c protocol.ClientID) bool { return f.lost[c] > protocol.StageMaskedInput }}
	var latest atomic.Pointer[foldingClient] // the clients of an ideal sum share one side
	return sums{
		aggregator: func(p protocol.Setup) (aggregator.Sum, error) {
			sum, err := s.aggregator(p)
			if ideal, ok := sum.(*secagg.Ideal); ok {
				return &foldedSum{Ideal: ideal, folding: x}, err
			}
			return sum, err
		},
		client: func(id protocol.ClientID, p protocol.Setup) (client.Sum, error) {
			side, err := s.client(id, p)
			ideal, ok := side.(*secagg.IdealClient)
			if !ok {
				return side, err
			}
			c := latest.Load()
			if c == nil || c.IdealClient != ideal {
				c = &foldingClient{ideal, x}
				latest.Store(c)
			}
			return c, err
		},
	}
}

// foldingClient is the clients' side of an ideal sum that takes an input as soon as it is computed.
type foldingClient struct {
	*secagg.IdealClient
	folding *folding
}

func (c *foldingClient) Fold(id protocol.ClientID, p *protocol.Plan, inputs []protocol.Integers) ([]protocol.Integers, error) {
	for i, v := range inputs {
		if err := v.Validate(p.Releases[i].Len); err != nil {
			return nil, fmt.Errorf("release %q: %w", p.Releases[i].Name, err)
		}
	}
	if p.Cohort.Goal > 0 || !c.folding.add(id, p, inputs) { // with a goal, latecomers are not drawn
		return inputs, nil
	}
	return nil, nil
}

// begin clears the previous round.
func (x *folding) begin(p *protocol.Plan) {
	length := 0
	for _, r := range p.Releases {
		length += r.Len
	}
	x.round = p.Round
	x.parts = make([]part, min(max(foldedMemory/(8*max(length, 1)), 1), max(x.workers, 1)))
	clear(x.folded)
}

// add adds a client's inputs, if they are for the round in progress.
func (x *folding) add(id protocol.ClientID, p *protocol.Plan, inputs []protocol.Integers) bool {
	if p.Round != x.round {
		return false
	}
	x.folded[id] = true
	if !x.sends(id) {
		return true
	}
	to := &x.parts[0]
	for i := range x.parts { // a part that no other worker uses, if there is one
		if to = &x.parts[(int(id)+i)%len(x.parts)]; to.mu.TryLock() {
			to.add(p, inputs)
			return true
		}
	}
	to.mu.Lock()
	to.add(p, inputs)
	return true
}

// add adds to a part that is locked, and unlocks it.
func (t *part) add(p *protocol.Plan, inputs []protocol.Integers) {
	defer t.mu.Unlock()
	if t.sums == nil {
		t.sums = make([][]int64, len(p.Releases))
		for i, r := range p.Releases {
			t.sums[i] = make([]int64, r.Len)
		}
	}
	for i, v := range inputs {
		v.AddTo(t.sums[i])
	}
}

// foldedSum is the adder of an ideal sum whose inputs are added up already.
type foldedSum struct {
	*secagg.Ideal
	folding  *folding
	plan     *protocol.Plan
	nothing  protocol.MaskedInput // of zeros
	received int
}

func (s *foldedSum) Begin(p *protocol.Plan) error {
	if err := s.Ideal.Begin(p); err != nil {
		return err
	}
	s.plan, s.nothing = p, protocol.MaskedInput{Round: p.Round, Vectors: p.Zeros()}
	s.folding.begin(p)
	return nil
}

func (s *foldedSum) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	if _, ok := m.(*protocol.MaskedInput); !ok || !s.folding.folded[from] {
		return s.Ideal.Receive(from, m)
	}
	if !s.folding.sends(from) {
		return fmt.Errorf("client %d was to be lost before its input left it", from)
	}
	s.received++
	return s.Ideal.Receive(from, &s.nothing)
}

func (s *foldedSum) Sum(run protocol.Runner) ([][]int64, error) {
	sent := 0
	for id, folded := range s.folding.folded {
		if folded && s.folding.sends(protocol.ClientID(id)) {
			sent++
		}
	}
	if sent != s.received || s.folding.round != s.plan.Round {
		return nil, fmt.Errorf("sim: the inputs of %d clients were added up, and %d arrived", sent, s.received)
	}
	for i := range s.folding.parts {
		part := &s.folding.parts[i]
		if part.sums == nil {
			continue
		}
		if err := s.Ideal.Add(part.sums, 0, 0); err != nil { // each client was heard already
			return nil, err
		}
		part.sums = nil
	}
	return s.Ideal.Sum(run)
}
