package sim

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
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

func (x *folding) fold(id protocol.ClientID, p *protocol.Plan, inputs []protocol.Integers) ([]protocol.Integers, error) {
	for i, v := range inputs {
		if err := v.Validate(p.Releases[i].Len); err != nil {
			return nil, fmt.Errorf("release %q: %w", p.Releases[i].Name, err)
		}
	}
	if p.Cohort.Goal > 0 || !x.add(id, p, inputs) { // with a goal, latecomers are not drawn
		return inputs, nil
	}
	return nil, nil
}

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

type sums struct {
	aggregator func(protocol.Setup) (aggregator.Sum, error)
	client     func(protocol.ClientID, protocol.Setup) (client.Sum, error)
}

func (f *federation) newSums() (sums, error) {
	cfg, src := f.cfg, f.streams.Sum()
	if cfg.Real {
		return realSums(cfg, f.streams)
	}
	x := &folding{workers: int(cfg.Workers), folded: make([]bool, len(cfg.Trainers)),
		sends: func(c protocol.ClientID) bool { return f.lost[c] > protocol.StageMaskedInput }}
	tables := cmp.Or(cfg.Tables, new(noise.Tables))
	join := secagg.IdealClients(cfg.Draw, func(c *secagg.IdealClient) {
		if cfg.Sent == nil {
			c.Folds = x.fold
		}
	})
	return sums{
		aggregator: func(s protocol.Setup) (aggregator.Sum, error) {
			return &foldedSum{Ideal: secagg.NewIdeal(s, cfg.Draw, src, tables), folding: x}, nil
		},
		client: func(_ protocol.ClientID, s protocol.Setup) (client.Sum, error) { return join(s), nil },
	}, nil
}

// realSums returns sums with the whole cryptography, on repeatable secrets.
func realSums(cfg Config, from *Entropy) (sums, error) {
	params := secagg.Params{Mode: cfg.Mode, Rounds: cfg.Rounds, VerifyInputs: cfg.VerifyInputs}
	identities := make([]ed25519.PrivateKey, len(cfg.Trainers))
	if cfg.Mode == secagg.Active {
		params.Identities = make([]ed25519.PublicKey, len(identities))
		for i := range identities {
			seed := make([]byte, ed25519.SeedSize)
			if _, err := io.ReadFull(from.Client(i).Stream("identity", 0), seed); err != nil {
				return sums{}, err
			}
			identities[i] = ed25519.NewKeyFromSeed(seed)
			params.Identities[i] = identities[i].Public().(ed25519.PublicKey)
		}
	}
	agreements, parties := new(secagg.Agreements), make([]*secagg.Party, len(cfg.Trainers))
	s := sums{
		aggregator: func(s protocol.Setup) (aggregator.Sum, error) {
			a, err := secagg.NewAggregator(s, params)
			if err == nil {
				a.Use(agreements)
			}
			return a, err
		},
		client: func(id protocol.ClientID, s protocol.Setup) (client.Sum, error) { return parties[id].Join(s) },
	}
	for i := range parties {
		var err error
		parties[i], err = secagg.NewParty(secagg.PartyConfig{
			ID: protocol.ClientID(i), Session: cfg.Session, Params: params, Entropy: from.Client(i), Identity: identities[i],
			Agreements: agreements,
		})
		if err != nil {
			return sums{}, fmt.Errorf("client %d: %w", i, err)
		}
	}
	return s, nil
}

// Entropy gives the parties of a run their randomness. All of it is bound to the session, so that runs
// of one seed with different releases do not share their noise. Otherwise one run's released noise
// could be subtracted from the other's sums.
type Entropy struct {
	seed uint64
	run  string
}

// EntropyOf returns the Entropy of a run with a seed and a session ([Config]).
func EntropyOf(seed uint64, session protocol.SessionID) *Entropy {
	return &Entropy{seed, fmt.Sprintf("%x", session)}
}

// Client returns the source of the client with that ID.
func (s *Entropy) Client(i int) entropy.Source { return s.of("client/" + strconv.Itoa(i)) }

// Sum returns the source of an ideal sum's noise.
func (s *Entropy) Sum() entropy.Source { return s.of("ideal-sum") }

// Apart returns the source of secrets for a run without clients, bound to its session.
func Apart(seed uint64, session protocol.SessionID) entropy.Source {
	return EntropyOf(seed, session).of("apart")
}

func (s *Entropy) of(party string) entropy.Source { return simulated.New(s.seed, s.run+"/"+party) }
