package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// serial runs one after the other.
type serial struct{}

func (serial) Each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// trainer contributes what it is told to.
type trainer struct {
	vectors  []protocol.Vector
	err      error
	asked    []uint64 // rounds
	finished []string // models
}

func (t *trainer) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	t.asked = append(t.asked, p.Round)
	return t.vectors, t.err
}

func (t *trainer) Finish(model []byte, _ protocol.Runner) error {
	t.finished = append(t.finished, string(model))
	return t.err
}

// charge is one call of a ledger.
type charge struct {
	Session [16]byte
	Round   uint64
	Events  []dp.Event
}

// ledger accepts the first charges, as many as it has left, and refuses the rest.
type ledger struct {
	left    int
	charges []charge
}

var errSpent = errors.New("the budget is spent")

func (l *ledger) Charge(session [16]byte, round uint64, events []dp.Event) error {
	if l.left == 0 {
		return errSpent
	}
	l.left--
	l.charges = append(l.charges, charge{session, round, events})
	return nil
}

var session = protocol.SessionID{7: 42}

// newPlan is a plan with N = 5, ω = 0.4 (3 required) and γ = 0.2 (c = 1), so that a client adds
// V/2. Its bounds are D2 = 1·10 + √4/2 = 11 and D1 = √4·11 = 22.
func newPlan(round uint64) *protocol.Plan {
	return &protocol.Plan{
		Session: session, Round: round, Cohort: protocol.Cohort{Clients: 5, Tolerance: 0.4, Colluders: 0.2},
		Releases: []protocol.Release{{Name: "g", Len: 4, L2: 1, MaxNonZero: 4, Scale: 10, Width: 32,
			Noise: protocol.Noise{Kind: protocol.Split, Variance: 60}}},
	}
}

// bench drives one client by hand.
type bench struct {
	t       *testing.T
	client  *client.Client
	trainer *trainer
	ledger  *ledger
	plan    func(uint64) *protocol.Plan // of an announced round
	works   []protocol.Work             // asked for and not yet run
	last    protocol.Effects
	waits   bool // prepared, the client is told to proceed by the script alone; else at once
}

func newBench(t *testing.T, draw secagg.Draw) *bench {
	return benchOf(t, client.Config{NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, draw), nil }})
}

// benchOf is of client 3 with more to its configuration.
func benchOf(t *testing.T, cfg client.Config) *bench {
	b := &bench{t: t, trainer: &trainer{vectors: []protocol.Vector{{Index: []uint32{2}, Value: []float64{1}}}},
		ledger: &ledger{left: 100}, plan: newPlan}
	cfg.ID, cfg.Session, cfg.Trainer, cfg.Ledger = 3, session, b.trainer, b.ledger
	cfg.Noise, cfg.Entropy = new(client.Samplers), simulated.New(1, "client/3")
	b.client = client.New(cfg)
	return b
}

func (b *bench) step(in protocol.Input) protocol.Effects {
	eff := b.client.Step(time.Time{}, in)
	b.works = append(b.works, eff.Work...)
	if b.last = eff; b.waits || len(eff.Send) == 0 {
		return eff
	}
	if m, ok := eff.Send[0].Message.(*protocol.Prepared); ok {
		went := b.receive(&protocol.Proceed{Round: m.Round})
		eff.Persist, eff.Send = append(eff.Persist, went.Persist...), went.Send
		eff.Events = append(went.Events, eff.Events...)
		b.last = eff
	}
	return eff
}

func (b *bench) receive(m protocol.Message) protocol.Effects {
	return b.step(protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, To: protocol.ClientParty(3), Message: m}})
}

// script feeds inputs, one a line, and compares the effects that stand behind the arrow:
//
//	announce 1    the plan of round 1            roster 1 5      5 clients advertised
//	delivery 1 5  the shares of 5 clients            survivors 1 5   5 masked inputs arrived
//	quorum 1      the survivors are confirmed        run             the oldest work, and its Done
//	answered 1 4  4 clients unmasked                 final M         the model M, which ends it
//	announce 2 delivery 5        the plan, with the shares of the setup ahead
//	survivors 1 5 + roster 2 5   with the next round's roster
//	invite 3                     to set up round 3
//	announce 2 anew 1            the plan again, after a setup that was given up
//	proceed 2                    enough clients are prepared
//
// Effects are given in the order in which they are carried out. They are charged 1; work; and
// events by their words. A message to the aggregator is KIND 1, with "ahead" if it is of a setup
// ahead, "anew 1" if one was given up before, and + its rider, which is ahead. Unless the bench
// waits, the client is told to proceed whenever it is prepared, which is not shown.
func (b *bench) script(text string) {
	b.t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		command, want, _ := strings.Cut(line, "->")
		command, want = strings.TrimSpace(command), strings.TrimSpace(want)
		if got := describe(b.t, b.command(command)); got != want {
			b.t.Errorf("%s -> %s\n\twant %s", command, got, want)
		}
	}
}

func (b *bench) command(text string) protocol.Effects {
	b.t.Helper()
	var verb, model string
	var round, next uint64
	var n int
	if _, err := fmt.Sscanf(text, "announce %d delivery %d", &round, &n); err == nil {
		return b.receive(&protocol.Announce{Plan: b.plan(round), Delivery: &protocol.Delivery{Round: round, Clients: n}})
	}
	var anew uint32
	if _, err := fmt.Sscanf(text, "announce %d anew %d", &round, &anew); err == nil {
		return b.receive(&protocol.Announce{Plan: b.plan(round), Anew: anew})
	}
	var advertised int
	if _, err := fmt.Sscanf(text, "survivors %d %d + roster %d %d", &round, &n, &next, &advertised); err == nil {
		return b.receive(&protocol.Survivors{Round: round, Count: n, Next: &protocol.Roster{Round: next, Clients: advertised}})
	}
	if _, err := fmt.Sscanf(text, "final %s", &model); err == nil {
		return b.receive(&protocol.Final{Model: []byte(model)})
	}
	if words, err := fmt.Sscan(text, &verb, &round, &n); words == 0 {
		b.t.Fatalf("%q: %v", text, err)
	}
	switch verb {
	case "announce":
		return b.receive(&protocol.Announce{Plan: b.plan(round)})
	case "invite":
		return b.receive(&protocol.Invite{Setup: b.plan(round).Setup()})
	case "roster":
		return b.receive(&protocol.Roster{Round: round, Clients: n})
	case "delivery":
		return b.receive(&protocol.Delivery{Round: round, Clients: n})
	case "proceed":
		return b.receive(&protocol.Proceed{Round: round})
	case "survivors":
		return b.receive(&protocol.Survivors{Round: round, Count: n})
	case "quorum":
		return b.receive(&protocol.Quorum{Round: round})
	case "answered":
		return b.receive(&protocol.Answered{Round: round, Count: n})
	case "run":
		if len(b.works) == 0 {
			b.t.Fatal("no work to run")
		}
		w := b.works[0]
		b.works = b.works[1:]
		return b.step(b.do(w))
	}
	b.t.Fatalf("no such command: %q", text)
	return protocol.Effects{}
}

// do runs work, which must not write to the client: that is for Step, with the Done.
func (b *bench) do(w protocol.Work) protocol.Done {
	b.t.Helper()
	before := testutil.Fields(b.client, "Shared")
	done := w.Do(serial{})
	if d := cmp.Diff(before, testutil.Fields(b.client, "Shared")); d != "" {
		b.t.Errorf("work wrote to the client (-before +after):\n%s", d)
	}
	return done
}

func describe(t *testing.T, eff protocol.Effects) string {
	t.Helper()
	var out []string
	for _, r := range eff.Persist {
		switch r := r.(type) {
		case protocol.Charged:
			out = append(out, fmt.Sprint("charged ", r.Round))
		case protocol.Trained:
			out = append(out, fmt.Sprintf("trained %d %s", r.Round, r.State))
		}
	}
	for _, e := range eff.Send {
		if m, ok := e.Message.(*protocol.Refusal); ok {
			out = append(out, fmt.Sprint("refusal ", m.Round))
			continue
		}
		m := e.Message.(protocol.StageMessage)
		if e.From != protocol.ClientParty(3) || e.To != (protocol.Party{Role: protocol.Aggregator}) {
			t.Errorf("%s goes from %s to %s", m.Kind(), e.From, e.To)
		}
		said := word(m)
		if r, ok := protocol.Piggyback(m).(protocol.StageMessage); ok {
			said += " + " + strings.TrimSuffix(word(r), " ahead")
			if !ahead(r) {
				t.Errorf("%s, which is not said to be of a setup ahead", said)
			}
		}
		out = append(out, said)
	}
	if !eff.Wake.IsZero() {
		out = append(out, "wake")
	}
	for range eff.Work {
		out = append(out, "work")
	}
	for _, e := range eff.Events {
		if e.Err == nil && e.Kind != protocol.SessionEnded {
			t.Errorf("event %s gives no reason", e.Kind)
		}
		out = append(out, e.Kind.String())
	}
	return strings.Join(out, ", ")
}

func word(m protocol.StageMessage) string {
	round, _ := m.At()
	said := fmt.Sprint(m.Kind(), " ", round)
	if ahead(m) {
		said += " ahead"
	}
	var anew uint32
	switch m := m.(type) {
	case *protocol.Advertise:
		anew = m.Anew
	case *protocol.Shares:
		anew = m.Anew
	case *protocol.Prepared:
		anew = m.Anew
	}
	if anew > 0 {
		said += fmt.Sprint(" anew ", anew)
	}
	return said
}

// ahead says whether a message is said to be of a setup ahead.
func ahead(m protocol.StageMessage) bool {
	switch m := m.(type) {
	case *protocol.Advertise:
		return m.Ahead
	case *protocol.Shares:
		return m.Ahead
	default:
		return false
	}
}

// err is why, of the only event of the last step.
func (b *bench) err() error {
	b.t.Helper()
	if len(b.last.Events) != 1 {
		b.t.Fatalf("%d events, want 1: %+v", len(b.last.Events), b.last.Events)
	}
	return b.last.Events[0].Err
}
