package sim

import (
	"crypto/sha256"
	"fmt"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// streams is where the parties of a run take their randomness from. All of it is
// bound to the run, so that runs of one seed that release differently do not share
// their noise: what one released could be taken out of the other.
//
// A session that the caller chose says which run it is. Without one it is the
// configuration that says so and, of what is drawn for a round, the plan, which
// nobody knows before the strategy makes it: equal noise takes equal plans.
type streams struct {
	seed uint64
	run  string
	// plans are the hashes of the plans so far, by round; nil where the session
	// was chosen. It changes between computations only.
	plans map[uint64][sha256.Size]byte
}

func newStreams(c Config) *streams {
	if c.Session != (protocol.SessionID{}) {
		return &streams{seed: c.Seed, run: fmt.Sprintf("%x", c.Session)}
	}
	return &streams{seed: c.Seed, run: fmt.Sprintf("unnamed/%x", c.identity()), plans: make(map[uint64][sha256.Size]byte)}
}

// identity binds everything in the configuration that bears on who is in a sum, and so
// on what is released. How sums are computed is left out: real and ideal ones release
// the same.
func (c Config) identity() [sha256.Size]byte {
	t := protocol.NewTranscript("fedsim/sim/run/v1").
		Uint(uint64(len(c.Trainers))).Uint(uint64(c.Rounds)).Float(c.SitOut)
	f := c.Faults
	t.Float(f.Dropout).Uint(uint64(len(f.Stages)))
	for _, stage := range f.Stages {
		t.Uint(uint64(stage))
	}
	t.Float(f.Leave).Float(f.Away).Uint(uint64(f.AwayRounds))
	n := c.Network
	return t.Uint(uint64(n.Latency)).Float(n.Up).Float(n.Down).
		Uint(uint64(n.Compute)).Uint(uint64(n.StageTimeout)).Sum()
}

// Entropy is where the parties of a run of a session draw, for a driver that computes a part of it.
type Entropy struct{ streams *streams }

// EntropyOf is that of a run with a seed and a session ([Config]), which must not be zero.
func EntropyOf(seed uint64, session protocol.SessionID) Entropy {
	return Entropy{newStreams(Config{Seed: seed, Session: session})}
}

// Client is where the client with that ID draws.
func (e Entropy) Client(i int) entropy.Source { return e.streams.noise(clientName(i)) }

// Sum is where an ideal sum draws its noise.
func (e Entropy) Sum() entropy.Source { return e.streams.noise(idealSum) }

// Apart is where a run without clients draws what is secret, bound to its session.
func Apart(seed uint64, session protocol.SessionID) entropy.Source {
	return newStreams(Config{Seed: seed, Session: session}).keys("apart")
}

// planned takes note of a plan, before anything is drawn for it.
func (s *streams) planned(p *protocol.Plan) {
	if s.plans != nil {
		s.plans[p.Round] = p.Hash()
	}
}

// keys is where a party draws what hides nothing of a simulation: the keys and masks of
// the secure sum.
func (s *streams) keys(party string) entropy.Source { return simulated.New(s.seed, s.run+"/"+party) }

// noise is where a party draws its noise: from streams numbered by round.
func (s *streams) noise(party string) entropy.Source {
	if s.plans == nil {
		return s.keys(party)
	}
	return simulated.Numbered(func(round uint64) entropy.Source { return s.of(party, round) })
}

// of is where a party draws for one round, however its streams are numbered.
func (s *streams) of(party string, round uint64) entropy.Source {
	return simulated.New(s.seed, fmt.Sprintf("%s/%x/%s", s.run, s.plans[round], party))
}

// trainer has a trainer draw from streams of the plan, where it is plans that tell runs
// apart: it may number its streams as it likes.
func (s *streams) trainer(t client.Trainer, id protocol.ClientID) client.Trainer {
	if s.plans == nil {
		return t
	}
	return planned{t, s, clientName(int(id))}
}

// planned is a trainer that draws from streams of the plan.
type planned struct {
	client.Trainer
	streams *streams
	party   string
}

// Contribute implements client.Trainer.
func (t planned) Contribute(p *protocol.Plan, _ entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	return t.Trainer.Contribute(p, t.streams.of(t.party, p.Round), run)
}
