package sim

import (
	"crypto/sha256"
	"fmt"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// streams gives the parties of a run their randomness. All of it is bound to the run, so that runs
// of one seed with different releases do not share their noise. Otherwise one run's released noise
// could be subtracted from the other's sums.
//
// A session that the caller chose identifies the run. Without a session the configuration does and,
// for draws of a round, the plan, which is unknown before the strategy makes it: equal noise
// needs equal plans.
type streams struct {
	seed uint64
	run  string
	// plans holds the hashes of the plans so far, by round; nil if the caller chose the
	// session. It changes between computations only.
	plans map[uint64][sha256.Size]byte
}

func newStreams(c Config) *streams {
	if c.Session != (protocol.SessionID{}) {
		return &streams{seed: c.Seed, run: fmt.Sprintf("%x", c.Session)}
	}
	return &streams{seed: c.Seed, run: fmt.Sprintf("unnamed/%x", c.identity()), plans: make(map[uint64][sha256.Size]byte)}
}

// identity hashes everything in the configuration that influences which clients are in a sum, and
// so the releases. It leaves out how sums are computed: real and ideal sums release the same.
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

// Entropy gives the randomness of the parties of a session's run, for a driver that computes a part
// of it.
type Entropy struct{ streams *streams }

// EntropyOf returns the Entropy of a run with a seed and a session ([Config]), which must not be
// zero.
func EntropyOf(seed uint64, session protocol.SessionID) Entropy {
	return Entropy{newStreams(Config{Seed: seed, Session: session})}
}

// Client returns the source of the client with that ID.
func (e Entropy) Client(i int) entropy.Source { return e.streams.noise(clientName(i)) }

// Sum returns the source of an ideal sum's noise.
func (e Entropy) Sum() entropy.Source { return e.streams.noise(idealSum) }

// Apart returns the source of secrets for a run without clients, bound to its session.
func Apart(seed uint64, session protocol.SessionID) entropy.Source {
	return newStreams(Config{Seed: seed, Session: session}).keys("apart")
}

// planned records a plan before any draw for it.
func (s *streams) planned(p *protocol.Plan) {
	if s.plans != nil {
		s.plans[p.Round] = p.Hash()
	}
}

// keys returns a party's source for the keys and masks of the secure sum, which hide nothing in a
// simulation.
func (s *streams) keys(party string) entropy.Source { return simulated.New(s.seed, s.run+"/"+party) }

// noise returns a party's source of noise: streams numbered by round.
func (s *streams) noise(party string) entropy.Source {
	if s.plans == nil {
		return s.keys(party)
	}
	return simulated.Numbered(func(round uint64) entropy.Source { return s.of(party, round) })
}

// of returns a party's source for one round, however its streams are numbered.
func (s *streams) of(party string, round uint64) entropy.Source {
	return simulated.New(s.seed, fmt.Sprintf("%s/%x/%s", s.run, s.plans[round], party))
}

// trainer makes a trainer draw from streams of the plan, if plans distinguish runs. The trainer may
// number its streams as it likes.
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

func (t planned) Contribute(p *protocol.Plan, _ entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	return t.Trainer.Contribute(p, t.streams.of(t.party, p.Round), run)
}
