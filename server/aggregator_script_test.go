package server_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
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

// The stages of a sum that does not confirm its survivors, and of a sum whose noise is replaced.
var (
	stages          = []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StagePrepared, protocol.StageMaskedInput, protocol.StageUnmask}
	replacingStages = append(slices.Clone(stages), protocol.StageReplace)
)

const stageTimeout = 10 * time.Second

var (
	epoch     = time.Unix(1000, 0)
	theServer = protocol.Party{Role: protocol.Server}
)

// newPlan is a plan for n clients; lose of them may be lost. It has one exact release of a
// coordinate for each client.
func newPlan(round uint64, n, lose int) *protocol.Plan {
	return &protocol.Plan{
		Round: round, Cohort: protocol.Cohort{Clients: n, Tolerance: float64(lose) / float64(n)},
		Releases: []protocol.Release{{Name: "g", Len: n, L2: 1, MaxNonZero: 1, Scale: 1, Width: 8}},
	}
}

// bench drives an aggregator of N clients by hand. Client i contributes 1 at
// coordinate i, so that a sum shows who is in it.
type bench struct {
	t          *testing.T
	aggregator *aggregator.Aggregator
	n, lose    int
	replaces   bool   // plans replace noise
	ownNoise   bool   // clients add noise of their own as they train
	opened     uint64 // the round of the latest plan that was not refused
	now        time.Time
	works      []protocol.Work
	last       protocol.Effects
	waits      bool // clients are prepared when the script says so; else as soon as they are asked
}

func newBench(t *testing.T, n, lose int) *bench {
	return benchOf(t, lose, aggregator.Config{Clients: n})
}

// benchOf is of an aggregator with more to its configuration.
func benchOf(t *testing.T, lose int, cfg aggregator.Config) *bench {
	b := &bench{t: t, n: cfg.Clients, lose: lose, now: epoch}
	cfg.StageTimeout = stageTimeout
	if cfg.NewSum == nil {
		cfg.NewSum = func(s protocol.Setup) (aggregator.Sum, error) {
			return secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)), nil
		}
	}
	b.aggregator = aggregator.New(cfg)
	return b
}

func (b *bench) step(in protocol.Input) protocol.Effects {
	b.last = b.aggregator.Step(b.now, in)
	b.works = append(b.works, b.last.Work...)
	for _, e := range b.last.Events {
		if e.Kind == protocol.RoundOpened {
			b.opened = e.Round
		}
	}
	eff := b.last
	if !b.waits {
		b.prepare(eff)
	}
	return eff
}

// prepare has the clients that are asked for their inputs say that these are ready, and checks that this only tells
// them to proceed.
func (b *bench) prepare(eff protocol.Effects) {
	b.t.Helper()
	for _, e := range eff.Send {
		m := e.Message
		if a, ok := m.(*protocol.Announce); ok {
			m = protocol.Piggyback(a)
		}
		d, ok := m.(*protocol.Delivery)
		if !ok {
			continue
		}
		for _, out := range b.receive(e.To, &protocol.Prepared{Round: d.Round}).Send {
			if m, ok := out.Message.(*protocol.Proceed); !ok || m.Round != d.Round {
				b.t.Errorf("clients that are prepared for round %d are sent %v", d.Round, out.Message)
			}
		}
		b.last = eff
	}
}

func (b *bench) receive(from protocol.Party, m protocol.Message) protocol.Effects {
	return b.step(protocol.Received{Envelope: protocol.Envelope{From: from, To: protocol.Party{Role: protocol.Aggregator}, Message: m}})
}

// script feeds inputs, one a line, and compares the effects that stand behind
// the arrow:
//
//	open 1       the server's plan of round 1
//	2 share 1    client 2's message of the stage share of round 1
//	0-2 share 1  the same of clients 0, 1 and 2
//	2 masked-input 1 + advertise 2, the same with what travels with it
//	2 prepared 1, which a bench that does not wait adds by itself
//	2 share 2 ahead, of the setup before there is a plan, as all that travels with others is
//	2 share 2 anew 1, of the second setup of round 2, after the first was given up
//	malformed 2 masked-input 1, the same with nothing sound in it
//	registered 2 client 2 has come up anew
//	connected 2 7    client 2 has a connection, the 7th of the aggregator
//	disconnected 2 7 and has lost it
//	transfer 2 7 begins, 2 7 12s: a long message begins to pass that, and has; it arrives at 12s
//	final M      the server ends the session
//	tick 12s     the time is 12s, and the aggregator is woken
//	run          the oldest work, and its Done; fail: it fails
//
// Effects are given in the order in which they are carried out. A message to clients is KIND(n)
// 0,1,2, with n its count where it has one, "of 2" if it is of another round than the latest plan,
// and + its rider. Others are result and abort; wake and when; work; and events by their words.
func (b *bench) script(text string) {
	b.t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		command, want, _ := strings.Cut(line, "->")
		command, want = strings.TrimSpace(command), strings.TrimSpace(want)
		if got := b.describe(b.command(command)); got != want {
			b.t.Errorf("%s -> %s\n\twant %s", command, got, want)
		}
	}
}

var errWork = errors.New("the work failed")

func (b *bench) command(text string) protocol.Effects {
	b.t.Helper()
	w := strings.Fields(text)
	switch w[0] {
	case "open":
		return b.receive(theServer, &protocol.Open{Plan: b.plan(b.number(w[1]))})
	case "alone":
		return b.step(protocol.Alone{})
	case "registered":
		return b.step(protocol.Registered{Client: protocol.ClientID(b.number(w[1]))})
	case "connected":
		return b.step(protocol.Connected{Client: protocol.ClientID(b.number(w[1])), Connection: b.number(w[2])})
	case "disconnected":
		return b.step(protocol.Disconnected{Client: protocol.ClientID(b.number(w[1])), Connection: b.number(w[2])})
	case "transfer":
		in := protocol.Transfer{Client: protocol.ClientID(b.number(w[1])), Connection: b.number(w[2]), Begins: w[3] == "begins"}
		if !in.Begins {
			d, err := time.ParseDuration(w[3])
			if err != nil {
				b.t.Fatal(err)
			}
			in.Until = epoch.Add(d)
		}
		return b.step(in)
	case "final":
		return b.receive(theServer, &protocol.Final{Model: []byte(w[1])})
	case "tick":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			b.t.Fatal(err)
		}
		b.now = epoch.Add(d)
		return b.step(protocol.Tick{})
	case "run", "fail":
		if len(b.works) == 0 {
			b.t.Fatal("no work to run")
		}
		done := b.do(b.works[0])
		if w[0] == "fail" {
			done.Err = errWork
		}
		b.works = b.works[1:]
		return b.step(done)
	case "malformed":
		client := protocol.ClientParty(protocol.ClientID(b.number(w[1])))
		m := b.message(0, w[2:], false)
		if masked, ok := m.(*protocol.MaskedInput); ok {
			masked.Vectors = nil
		}
		return b.receive(client, m)
	}
	return b.clients(w[0], w[1:])
}

// do runs work, which must not write to the aggregator: that is for Step, with the Done.
func (b *bench) do(w protocol.Work) protocol.Done {
	b.t.Helper()
	before := testutil.Fields(b.aggregator, "cfg")
	done := w.Do(serial{})
	if d := cmp.Diff(before, testutil.Fields(b.aggregator, "cfg")); d != "" {
		b.t.Errorf("work wrote to the aggregator (-before +after):\n%s", d)
	}
	return done
}

// clients has a range of clients send a message each.
func (b *bench) clients(ids string, words []string) protocol.Effects {
	b.t.Helper()
	first, last, several := strings.Cut(ids, "-")
	if !several {
		last = first
	}
	var all protocol.Effects
	for id := b.number(first); id <= b.number(last); id++ {
		var m protocol.Message
		if words[0] == "refusal" {
			m = &protocol.Refusal{Round: b.number(words[1])}
		} else {
			m = b.message(protocol.ClientID(id), words, false)
		}
		eff := b.receive(protocol.ClientParty(protocol.ClientID(id)), m)
		all.Send, all.Work, all.Events = append(all.Send, eff.Send...), append(all.Work, eff.Work...), append(all.Events, eff.Events...)
		if !eff.Wake.IsZero() {
			all.Wake = eff.Wake
		}
	}
	return all
}

// plan is the server's of a round.
func (b *bench) plan(round uint64) *protocol.Plan {
	p := newPlan(round, b.n, b.lose)
	if b.replaces {
		p.Releases[0].Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: 1}
	}
	if b.ownNoise {
		p.Releases[0].Noise = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 1, Steps: 1}
	}
	return p
}

// stages returns the stages of its rounds.
func (b *bench) stages() []protocol.Stage {
	if b.replaces {
		return replacingStages
	}
	return stages
}

func (b *bench) number(s string) uint64 {
	b.t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// answer is a client's message of a stage, of the only setup of the round.
func (b *bench) answer(id protocol.ClientID, stage string, round uint64) protocol.Effects {
	b.t.Helper()
	return b.receive(protocol.ClientParty(id), b.message(id, []string{stage, strconv.FormatUint(round, 10)}, false))
}

// message is a client's, in words. Riders are of a setup ahead.
func (b *bench) message(id protocol.ClientID, w []string, rider bool) protocol.StageMessage {
	b.t.Helper()
	round := b.number(w[1])
	ahead := rider || len(w) == 3 && w[2] == "ahead"
	var anew uint32
	if len(w) > 3 && w[2] == "anew" {
		anew = uint32(b.number(w[3]))
	}
	var next protocol.StageMessage
	if len(w) > 3 && w[2] == "+" {
		next = b.message(id, w[3:], true)
	}
	switch w[0] {
	case "advertise":
		return &protocol.Advertise{Round: round, Ahead: ahead, Anew: anew}
	case "share":
		return &protocol.Shares{Round: round, Ahead: ahead, Anew: anew}
	case "prepared":
		m := &protocol.Prepared{Round: round, Anew: anew}
		if at := slices.Index(w, "accusing"); at >= 0 {
			m.Accused = protocol.NewBitmap(b.n)
			m.Accused.Set(int(b.number(w[at+1])))
		}
		return m
	case "masked-input":
		m := &protocol.MaskedInput{Round: round, Vectors: []protocol.Integers{{Index: []uint32{uint32(id)}, Value: []int64{1}}}}
		m.Next, _ = next.(*protocol.Advertise)
		return m
	case "consistency":
		return &protocol.Consistency{Round: round}
	case "unmask":
		m := &protocol.Unmask{Round: round}
		if b.replaces { // noise changes by 10 at the client's own coordinate
			m.Removals = []protocol.Integers{{Index: []uint32{uint32(id)}, Value: []int64{10}}}
		}
		m.Next, _ = next.(*protocol.Shares)
		return m
	case "replace":
		return &protocol.Replacement{Round: round}
	default:
		b.t.Fatalf("no such stage: %q", w[0])
		return nil
	}
}

func (b *bench) describe(eff protocol.Effects) string {
	var out []string
	kind := ""
	for _, e := range eff.Send {
		if e.From != (protocol.Party{Role: protocol.Aggregator}) {
			out = append(out, "from "+e.From.String())
		}
		said := b.word(e.Message)
		switch {
		case e.To.Role != protocol.Client:
			out = append(out, said)
		case said == kind:
			out[len(out)-1] += fmt.Sprint(",", e.To.Client)
		default:
			out = append(out, fmt.Sprint(said, " ", e.To.Client))
		}
		kind = said
	}
	if !eff.Wake.IsZero() {
		out = append(out, fmt.Sprint("wake ", eff.Wake.Sub(epoch)))
	}
	for range eff.Work {
		out = append(out, "work")
	}
	for _, e := range eff.Events {
		if e.Kind == protocol.StageClosed {
			continue // see TestStagesAreReported: every message that opens a stage says the same
		}
		if e.Kind == protocol.ClientLost {
			out = append(out, fmt.Sprintf("lost %d %s", e.Party.Client, e.Stage))
			continue
		}
		out = append(out, e.Kind.String())
	}
	return strings.Join(out, ", ")
}

func (b *bench) word(m protocol.Message) string {
	said := word(m)
	var round uint64
	switch m := m.(type) {
	case *protocol.Roster:
		round = m.Round
	case *protocol.Delivery:
		round = m.Round
	case *protocol.Survivors:
		round = m.Round
	default:
		round = b.opened // it says so itself, or goes to the server
	}
	if round != b.opened {
		said += fmt.Sprint(" of ", round)
	}
	if r := protocol.Piggyback(m); r != nil {
		said += " + " + b.word(r)
	}
	return said
}

func word(m protocol.Message) string {
	switch m := m.(type) {
	case *protocol.Announce:
		if m.Anew > 0 {
			return fmt.Sprintf("announce(%d anew %d)", m.Plan.Round, m.Anew)
		}
		return fmt.Sprintf("announce(%d)", m.Plan.Round)
	case *protocol.Invite:
		return fmt.Sprintf("invite(%d)", m.Setup.Round)
	case *protocol.Roster:
		return fmt.Sprintf("roster(%d)", m.Clients)
	case *protocol.Delivery:
		return fmt.Sprintf("delivery(%d)", m.Clients)
	case *protocol.Survivors:
		return fmt.Sprintf("survivors(%d)", m.Count)
	case *protocol.Answered:
		return fmt.Sprintf("answered(%d)", m.Count)
	case *protocol.Result:
		return fmt.Sprintf("result %d %v of %d, %d answered", m.Round, m.Integers, m.Survivors, m.Answered)
	case *protocol.Held:
		return fmt.Sprintf("held %d (%d of %d)", m.Round, m.Connected, m.Required)
	case *protocol.Abort:
		return fmt.Sprintf("abort %d: %v", m.Round, m.Reason)
	default:
		return m.Kind().String()
	}
}
