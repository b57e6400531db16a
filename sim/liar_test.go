package sim

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// liar is the client that breaks the protocol in these tests.
const liar = protocol.ClientID(5)

// lying changes one client's messages on their way to the aggregator, as a lying client would, and
// returns the aggregator's reports.
func lying(t *testing.T, cfg Config, lie func(protocol.Message)) (*Outcome, []protocol.Event) {
	t.Helper()
	f, err := newFederation(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var events []protocol.Event
	f.aggregator = heard{tap{f.aggregator, func(in protocol.Input) {
		if m, ok := in.(protocol.Received); ok && m.Envelope.From == protocol.ClientParty(liar) {
			lie(m.Envelope.Message)
			if r := protocol.Piggyback(m.Envelope.Message); r != nil {
				lie(r)
			}
		}
	}}, &events}
	out, err := f.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return out, events
}

// heard is a role whose events are kept.
type heard struct {
	role
	events *[]protocol.Event
}

func (h heard) Step(now time.Time, in protocol.Input) protocol.Effects {
	eff := h.role.Step(now, in)
	*h.events = append(*h.events, eff.Events...)
	return eff
}

// checkExcluded checks that the liar is named once, and no other client. No round is lost, and no
// later sum contains the liar's input.
func checkExcluded(t *testing.T, out *Outcome, events []protocol.Event) {
	t.Helper()
	var at []uint64
	for _, e := range events {
		if e.Kind != protocol.ClientExcluded {
			continue
		}
		if e.Party != protocol.ClientParty(liar) || e.Err == nil {
			t.Errorf("excluded: %v, %v", e.Party, e.Err)
		}
		at = append(at, e.Round)
	}
	if len(at) != 1 {
		t.Fatalf("the liar was excluded %d times, want once", len(at))
	}
	if got := out.Skipped(); got != 0 {
		t.Errorf("%d rounds lost, want none", got)
	}
	for _, it := range out.Rounds {
		want := aheadClients
		if it.Number > at[0] {
			want--
		}
		if it.Skipped == nil && it.Survivors > want {
			t.Errorf("round %d is over %d clients, the liar was excluded in %d", it.Number, it.Survivors, at[0])
		}
		if it.Sent > want {
			t.Errorf("round %d took %d masked inputs of %d clients", it.Number, it.Sent, want)
		}
	}
}

// One client lies about its shares, or sends messages that are refused, in all rounds. No lie
// costs a round. From the first on the liar is excluded, also from everything that was set up
// ahead.
func TestLiarCostsNoRound(t *testing.T) {
	for name, c := range map[string]struct {
		dealt bool
		lie   func(protocol.Message)
	}{
		"the point of its seed": {true, func(m protocol.Message) {
			if s, ok := m.(*protocol.Shares); ok {
				s.SeedHash[0] ^= 1
			}
		}},
		"the point of its seed, of what is set up ahead": {true, func(m protocol.Message) {
			if s, ok := m.(*protocol.Shares); ok && s.Ahead {
				s.SeedHash[0] ^= 1
			}
		}},
		"a share at unmask": {false, func(m protocol.Message) {
			if u, ok := m.(*protocol.Unmask); ok {
				u.Shares[0].Share[0] ^= 1
			}
		}},
		"a signature over survivors": {false, func(m protocol.Message) {
			if s, ok := m.(*protocol.Consistency); ok {
				s.Signature[0] ^= 1
			}
		}},
		"its keys": {false, func(m protocol.Message) {
			if a, ok := m.(*protocol.Advertise); ok {
				a.Keys.Mask[0] ^= 1
			}
		}},
		"what it deals to one": {false, func(m protocol.Message) {
			if s, ok := m.(*protocol.Shares); ok {
				s.Shares[2].Ciphertext[0] ^= 1
			}
		}},
		"a vector that is too short": {false, func(m protocol.Message) {
			if in, ok := m.(*protocol.MaskedInput); ok {
				in.Masked[0] = in.Masked[0][1:]
			}
		}},
		"what others dealt to it, in a round that was set up ahead": {false, func(m protocol.Message) {
			// It accuses two where one may lie, when round 3 is being set up, and then continues as an honest client.
			if p, ok := m.(*protocol.Prepared); ok && p.Round == 2 {
				p.Accused = protocol.NewBitmap(aheadClients)
				p.Accused.Set(0)
				p.Accused.Set(1)
			}
		}},
		"what it takes out of its noise": {false, func(m protocol.Message) {
			if u, ok := m.(*protocol.Unmask); ok {
				big := make([]int64, aheadClients)
				big[0] = 1 << 20
				u.Removed[0] = protocol.AppendRemoval(nil, big)
			}
		}},
	} {
		for _, sitOut := range []float64{0, 0.2} {
			if sitOut == 0 && (!c.dealt || testing.Short()) && !effort.Long() {
				continue // a client that sits out is set up ahead differently, and the lie is the same
			}
			cfg, strategy := aheadConfig(active, sitOut)
			cfg.Rounds, strategy.rounds = 3, 3
			out, events := lying(t, cfg, c.lie)
			t.Run(name, func(t *testing.T) {
				checkExcluded(t, out, events)
				if len(strategy.sums) != cfg.Rounds {
					t.Errorf("%d sums, want %d", len(strategy.sums), cfg.Rounds)
				}
			})
		}
	}
}

// With proofs about inputs a client gains nothing by a larger vector. Without a proof of it the client is excluded, and no round is
// lost. With the proof of another vector nothing is released of the rounds that it spoils. They are skipped and charged like others.
func TestInputsAreVerified(t *testing.T) {
	effort.NotShort(t, "dozens of proofs")
	const rounds = 4
	cfg, strategy := aheadConfig(proved, 0)
	cfg.Rounds, strategy.rounds = rounds, rounds
	cfg.Workers = 2
	release := strategy.plan.Releases[0]
	_, l2 := strategy.plan.InputBound(release, rounds)
	out, events := lying(t, cfg, func(m protocol.Message) {
		if in, ok := m.(*protocol.MaskedInput); ok {
			pushed(t, in, release, int64(1.1*l2))
			in.Proof = provedBeyond(t, &strategy.plan, rounds, 1.1)
		}
	})
	checkExcluded(t, out, events)
	if len(strategy.sums) != rounds {
		t.Errorf("%d sums, want %d", len(strategy.sums), rounds)
	}

	cfg, strategy = aheadConfig(proved, 0)
	cfg.Rounds, strategy.rounds = rounds, rounds
	out, events = lying(t, cfg, func(m protocol.Message) {
		if in, ok := m.(*protocol.MaskedInput); ok && in.Round%2 == 0 {
			pushed(t, in, release, 1)
		}
	})
	for _, it := range out.Rounds {
		_, spoilt := errors.AsType[*protocol.Unproved](it.Skipped)
		if spoilt != (it.Number%2 == 0) || it.Sent != aheadClients {
			t.Errorf("round %d was skipped with %v, and charged %d times", it.Number, it.Skipped, it.Sent)
		}
	}
	if len(strategy.sums) != rounds/2 || slices.ContainsFunc(events, func(e protocol.Event) bool { return e.Kind == protocol.ClientExcluded }) {
		t.Errorf("%d sums, want %d; nobody is to be excluded: %v", len(strategy.sums), rounds/2, events)
	}
}

// provedBeyond is a proof of a vector that is so many times as long as the bound.
func provedBeyond(t *testing.T, p *protocol.Plan, rounds int, times float64) []byte {
	t.Helper()
	r := p.Releases[0]
	_, l2 := p.InputBound(r, rounds)
	wide := int64(math.Ceil(times * l2))
	s, err := inputproof.New([]inputproof.Bound{{Len: r.Len, LInf: wide, Squares: wide * wide}})
	if err != nil {
		t.Fatal(err)
	}
	vector := make([]int64, r.Len)
	vector[0] = wide
	proof, _, err := s.Prove(make([]byte, 32), [][]int64{vector}, entropy.System().Stream("proof", 0), protocol.Workers(1))
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

// In semi-honest mode no client lies: malformed messages are ignored, and no client is excluded.
func TestNobodyIsExcludedWhereNobodyLies(t *testing.T) {
	for _, k := range everySum {
		if k.mode == secagg.Active {
			continue
		}
		cfg, _ := aheadConfig(k, 0)
		_, events := lying(t, cfg, func(m protocol.Message) {
			if in, ok := m.(*protocol.MaskedInput); ok {
				in.Masked, in.Vectors = nil, nil
			}
		})
		for _, e := range events {
			if e.Kind == protocol.ClientExcluded {
				t.Errorf("%s: %v excluded: %v", k.name, e.Party, e.Err)
			}
		}
	}
}

// pushed adds to every coordinate of a client's masked input. The masks stay, so the sum is wrong
// by the same number.
func pushed(t *testing.T, m *protocol.MaskedInput, r protocol.Release, by int64) {
	t.Helper()
	v, err := mask.NewVector(r.Width, r.Len)
	if err == nil {
		err = v.AddPacked(m.Masked[0])
	}
	add := make([]int64, r.Len)
	for j := range add {
		add[j] = by
	}
	if err == nil {
		err = v.AddInts(add)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Masked[0] = v.AppendPacked(nil)
}

// A client adds 65,536 to each coordinate. An honest client has at most one coordinate other than
// 0, which is 1. Nothing of it reaches the strategy, by any kind of real sum, with noise and
// without. The rounds are skipped, and charged like others.
func TestPushedSumsAreRefused(t *testing.T) {
	for _, k := range []kindOfSum{semiHonest, active} {
		for _, noise := range []protocol.NoiseKind{protocol.NoNoise, protocol.Split} {
			if k == active && noise == protocol.NoNoise {
				continue // the check is of the sum, whose kind it does not know
			}
			cfg, strategy := aheadConfig(k, 0)
			r := noisy(aheadClients, noise)
			r.Width = 32
			if noise == protocol.NoNoise {
				r.Noise = protocol.Noise{}
			}
			strategy.plan.Releases[0] = r
			out, _ := lying(t, cfg, func(m protocol.Message) {
				if in, ok := m.(*protocol.MaskedInput); ok && in.Round%2 == 0 {
					pushed(t, in, r, 1<<16)
				}
			})
			if out.Skipped() != aheadRounds/2 || len(strategy.sums) != aheadRounds-aheadRounds/2 || len(strategy.skipped) != aheadRounds/2 {
				t.Errorf("%s, %s: %d skipped, %d sums of %d", k.name, noise, out.Skipped(), len(strategy.sums), aheadRounds)
			}
			for _, it := range out.Rounds {
				if (it.Skipped != nil) != (it.Number%2 == 0) || it.Sent != aheadClients {
					t.Errorf("%s, %s: round %d was skipped with %v, and charged %d times", k.name, noise, it.Number, it.Skipped, it.Sent)
				}
			}
		}
	}
}
