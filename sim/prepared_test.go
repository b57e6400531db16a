package sim

import (
	"context"
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// mortal is a client that dies when it hears the plan of a round, with all that it knew. Start begins another life.
type mortal struct {
	role
	round  uint64
	dies   func()
	reborn func() role
	dead   bool
}

func (m *mortal) Step(now time.Time, in protocol.Input) protocol.Effects {
	switch in := in.(type) {
	case protocol.Start:
		m.role, m.dead = m.reborn(), false
	case protocol.Received:
		if a, ok := in.Envelope.Message.(*protocol.Announce); ok && a.Plan.Round == m.round && a.Anew == 0 {
			m.dead = true
			m.dies()
		}
	}
	if m.dead {
		return protocol.Effects{}
	}
	return m.role.Step(now, in)
}

// More clients than are tolerated die between the plan of a round, which was set up ahead, and its inputs, and are back
// after half a minute. An aggregator that knows who is connected has the round wait. It costs each client one charge,
// and all sums are over all clients.
func TestRoundWaitsForClientsThatDie(t *testing.T) {
	const n, die, rounds, down = 10, 4, 3, 30 * time.Second
	release := exact(n)
	release.Noise, release.Width = protocol.Noise{Kind: protocol.Split, Variance: 1000}, 32
	trainers, _ := bits(n)
	strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.2}, release, rounds)
	ledgers := make([]client.Ledger, n)
	for i := range ledgers {
		var err error
		if ledgers[i], err = dp.NewLedger(dp.Budget{Epsilon: 100, Delta: 1e-5, Accountant: dp.RDP}, nil); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Session: testSession, Strategy: strategy, Trainers: trainers, Ledgers: ledgers, Rounds: rounds, Network: network, Real: true, Seed: 3, Workers: 1}
	f, err := newFederation(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := f.newSums()
	if err != nil {
		t.Fatal(err)
	}
	f.aggregator = aggregator.New(aggregator.Config{Clients: n, StageTimeout: network.StageTimeout, NewSum: sums.aggregator, Rounds: rounds,
		Presence: true, Grace: time.Second, Gather: time.Hour})
	to := protocol.Party{Role: protocol.Aggregator}
	for c := range protocol.ClientID(n) {
		f.queue.arrive(epoch, arrival{to: to, what: protocol.Connected{Client: c, Connection: uint64(c) + 1}})
	}
	instead := make(map[protocol.ClientID]role)
	f.listen(instead)
	for c := range protocol.ClientID(die) {
		m := &mortal{role: &f.clients[c], round: 2, reborn: func() role {
			return client.New(client.Config{ID: c, Session: f.cfg.Session, Trainer: f.cfg.Trainers[c], Ledger: f.cfg.Ledgers[c],
				NewSum: func(s protocol.Setup) (client.Sum, error) { return sums.client(c, s) }, Noise: new(client.Samplers),
				Entropy: f.streams.Client(int(c)), Rounds: rounds, Last: 1})
		}}
		m.dies = func() {
			f.queue.arrive(f.now.Add(time.Millisecond), arrival{to: to, what: protocol.Disconnected{Client: c, Connection: uint64(c) + 1}})
			back := f.now.Add(down)
			f.queue.arrive(back, arrival{to: protocol.ClientParty(c), what: protocol.Start{}})
			f.queue.arrive(back.Add(time.Millisecond), arrival{to: to, what: protocol.Registered{Client: c}})
			f.queue.arrive(back.Add(time.Millisecond), arrival{to: to, what: protocol.Connected{Client: c, Connection: n + uint64(c) + 1}})
		}
		instead[c] = m
	}
	out, err := f.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(strategy.sums) != rounds || out.Skipped() != 0 {
		t.Fatalf("%d sums, %d rounds skipped: %v", len(strategy.sums), out.Skipped(), strategy.skipped)
	}
	for i := uint64(1); i <= rounds; i++ {
		if got := strategy.sums[i].Survivors; got != n {
			t.Errorf("round %d is of %d clients, want %d", i, got, n)
		}
	}
	for c, charged := range out.Charged {
		if charged != rounds {
			t.Errorf("client %d was charged %d times, want once a round", c, charged)
		}
	}
	if took := out.Rounds[1].Duration; took < down || took > down+network.StageTimeout {
		t.Errorf("round 2 took %v, and its clients were away for %v", took, down)
	}
}
