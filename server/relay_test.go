package server_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// partSum is a sum that takes parts: a sum of a relay is a byte for each of its clients. It is an
// ideal one otherwise.
type partSum struct {
	*secagg.Ideal
	stage protocol.Stage            // that vectors were held in last
	parts map[protocol.Stage][]byte // all that came
}

func (s *partSum) Held(from protocol.ClientID, m protocol.StageMessage) error {
	if in, ok := m.(*protocol.MaskedInput); ok && len(in.Masked) > 0 {
		return errors.New("vectors")
	}
	if _, s.stage = m.At(); s.stage == protocol.StageMaskedInput {
		return s.Receive(from, &protocol.MaskedInput{Round: 1, Vectors: []protocol.Integers{{Index: []uint32{}}}})
	}
	return s.Receive(from, &protocol.Unmask{Round: 1})
}

func (s *partSum) AddPart(clients protocol.Bitmap, sums [][]byte) error {
	if len(sums) != 1 || len(sums[0]) != clients.Count() {
		return errors.New("of another form")
	}
	s.parts[s.stage] = append(s.parts[s.stage], sums[0]...)
	return nil
}

// relayBench is an aggregator of 6 clients at the stage masked-input; 2 may be lost. Clients 0 to 2
// are at relay 7, clients 3 and 4 at relay 8, and 5 at none.
type relayBench struct {
	*bench
	sum *partSum
}

func newRelayBench(t *testing.T, tail time.Duration) *relayBench {
	b := new(relayBench)
	b.bench = benchOf(t, 2, aggregator.Config{Clients: 6, Tail: tail, NewSum: func(s protocol.Setup) (aggregator.Sum, error) {
		b.sum = &partSum{Ideal: secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)),
			parts: make(map[protocol.Stage][]byte)}
		return b.sum, nil
	}})
	b.command("open 1")
	b.command("0-5 advertise 1")
	b.command("0-5 share 1")
	return b
}

// held has a relay hold a client's vectors.
func (b *relayBench) held(relay int, client protocol.ClientID, m protocol.Message) string {
	return b.say(relay, &protocol.Forward{Client: client, Held: true, Message: m})
}

var (
	input1  = &protocol.MaskedInput{Round: 1}
	answer1 = &protocol.Unmask{Round: 1}
)

// part has a relay give a sum over clients.
func (b *relayBench) part(relay int, stage protocol.Stage, clients ...int) string {
	list := protocol.NewBitmap(6)
	for _, c := range clients {
		list.Set(c)
	}
	return b.say(relay, &protocol.Partial{Round: 1, Stage: stage, Clients: list, Sums: [][]byte{make([]byte, len(clients))}})
}

// say tells what comes of a relay's message, in words: "relay 7: counted 2".
func (b *relayBench) say(relay int, m protocol.Message) string {
	return b.told(b.receive(protocol.RelayParty(relay), m))
}

func (b *relayBench) told(eff protocol.Effects) string {
	var out []string
	for _, e := range eff.Send {
		switch m := e.Message.(type) {
		case *protocol.RelayAck:
			out = append(out, e.To.String()+": counted "+protocol.ClientParty(m.Client).String()+" "+m.Stage.String())
		case *protocol.RelayCollect:
			out = append(out, e.To.String()+": collect "+m.Stage.String())
		case *protocol.Survivors:
			out = append(out, e.To.String()+": survivors")
		default:
			out = append(out, e.To.String()+": "+m.Kind().String())
		}
	}
	for range eff.Work {
		out = append(out, "work")
	}
	for _, e := range eff.Events {
		if e.Kind == protocol.ClientLost || e.Kind == protocol.MessageIgnored {
			out = append(out, e.Kind.String()+" "+e.Party.String())
		}
	}
	return strings.Join(out, "; ")
}

func (b *relayBench) want(got string, want ...string) {
	b.t.Helper()
	if got != strings.Join(want, "; ") {
		b.t.Errorf("got  %s\nwant %s", got, strings.Join(want, "; "))
	}
}

// inputs has all clients answer the stage masked-input, except client 4.
func (b *relayBench) inputs() {
	for c := range protocol.ClientID(4) {
		b.held(7+int(c)/3, c, input1)
	}
	b.command("5 masked-input 1")
}

// A round with relays: each client is counted at its relay, sums are asked for when a stage is over, and
// the next opens when they are here.
func TestRelaysAreAskedAtTheEnd(t *testing.T) {
	b := newRelayBench(t, 0)
	b.want(b.held(7, 0, input1), "relay 7: counted client 0 masked-input")
	b.held(7, 1, input1)
	b.held(7, 2, input1)
	b.want(b.told(b.command("5 masked-input 1")), "")
	b.held(8, 3, input1)
	b.want(b.held(8, 4, input1), "relay 8: counted client 4 masked-input", "relay 7: collect masked-input", "relay 8: collect masked-input")
	b.want(b.part(8, protocol.StageMaskedInput, 3, 4), "")
	b.want(b.part(8, protocol.StageMaskedInput, 3, 4), "message-ignored relay 8") // twice
	b.want(b.part(7, protocol.StageMaskedInput, 0, 1, 2), "client 0: survivors", "client 1: survivors", "client 2: survivors",
		"client 3: survivors", "client 4: survivors", "client 5: survivors")
	for c := range protocol.ClientID(5) {
		b.held(7+int(c)/3, c, answer1)
	}
	b.want(b.told(b.command("5 unmask 1")), "relay 7: collect unmask", "relay 8: collect unmask")
	b.part(7, protocol.StageUnmask, 0, 1, 2)
	b.want(b.part(8, protocol.StageUnmask, 3, 4), "work")
	if n, m := len(b.sum.parts[protocol.StageMaskedInput]), len(b.sum.parts[protocol.StageUnmask]); n != 5 || m != 5 {
		t.Errorf("parts of %d inputs and %d answers, want 5 and 5", n, m)
	}
	result := b.command("run").Send[0].Message.(*protocol.Result)
	if result.Survivors != 6 || result.Answered != 6 {
		t.Errorf("%+v, want 6 survivors who all answered", result)
	}
}

// A client whose vectors two relays hold is counted at the first, and a client that has sent its own at none.
func TestClientIsCountedOnce(t *testing.T) {
	b := newRelayBench(t, 0)
	b.held(7, 0, input1)
	b.want(b.held(8, 0, input1), "message-ignored client 0")
	b.want(b.held(7, 0, input1), "message-ignored client 0")
	b.command("5 masked-input 1")
	b.want(b.held(7, 5, input1), "message-ignored client 5")
	// Whole, through a relay, is as from the client itself.
	whole := &protocol.MaskedInput{Round: 1, Vectors: []protocol.Integers{{Index: []uint32{1}, Value: []int64{1}}}}
	b.want(b.say(7, &protocol.Forward{Client: 1, Message: whole}), "")
	b.want(b.held(7, 1, input1), "message-ignored client 1")
	b.want(b.held(7, 2, &protocol.MaskedInput{Round: 1, Masked: [][]byte{{1}}}), "message-ignored client 2")
	b.want(b.held(7, 2, &protocol.MaskedInput{Round: 2}), "message-ignored client 2")
	b.want(b.held(7, 2, answer1), "message-ignored client 2")
	b.want(b.held(7, 9, input1), "message-ignored client 9")
}

// Once a stage is over, nothing is counted any more: relays give the sums they were asked for.
func TestNothingIsCountedWhileSumsAreAwaited(t *testing.T) {
	b := newRelayBench(t, 0)
	b.inputs()
	b.want(b.told(b.command("tick 10s")), "relay 7: collect masked-input", "relay 8: collect masked-input")
	b.want(b.held(8, 4, input1), "message-ignored client 4")
	b.want(b.told(b.command("4 masked-input 1")), "message-ignored client 4")
	b.part(7, protocol.StageMaskedInput, 0, 1, 2)
	// The stage closes with the last sum, although client 4 has not answered.
	b.want(b.part(8, protocol.StageMaskedInput, 3), "client 0: survivors", "client 1: survivors", "client 2: survivors", "client 3: survivors",
		"client 5: survivors", "client-lost client 4")
}

// A faulty relay loses its clients, and no others: a relay that is gone, that says nothing, or that
// gives the sum of other clients than were counted there.
func TestRelayIsLost(t *testing.T) {
	lost := []string{"client 0: survivors", "client 1: survivors", "client 2: survivors", "client 5: survivors"}
	for name, c := range map[string]struct {
		happens func(b *relayBench) string
		want    []string
	}{
		"gone":     {func(b *relayBench) string { return b.told(b.step(protocol.RelayLost{Number: 8})) }, []string{"client-lost client 3", "client-lost client 4"}},
		"silent":   {func(b *relayBench) string { return b.told(b.command("tick 20s")) }, []string{"client-lost client 3", "client-lost client 4"}},
		"too many": {func(b *relayBench) string { return b.part(8, protocol.StageMaskedInput, 2, 3) }, []string{"message-ignored relay 8", "client-lost client 3", "client-lost client 4"}},
		"too few":  {func(b *relayBench) string { return b.part(8, protocol.StageMaskedInput) }, []string{"message-ignored relay 8", "client-lost client 3", "client-lost client 4"}},
		"of another form": {func(b *relayBench) string {
			list := protocol.NewBitmap(6)
			list.Set(3)
			return b.say(8, &protocol.Partial{Round: 1, Stage: protocol.StageMaskedInput, Clients: list, Sums: [][]byte{{1, 2}}})
		}, []string{"message-ignored relay 8", "client-lost client 3", "client-lost client 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRelayBench(t, 0)
			b.inputs()
			b.command("tick 10s")
			b.part(7, protocol.StageMaskedInput, 0, 1, 2)
			got := strings.Split(c.happens(b), "; ")
			want := append(slices.Clone(lost), c.want...)
			slices.Sort(got)
			slices.Sort(want)
			b.want(strings.Join(got, "; "), want...)
		})
	}
}

// A relay that is lost before the stage is over takes the vectors that it held along. The stage
// continues for the others, and too few are too few.
func TestRelayIsLostEarly(t *testing.T) {
	b := newRelayBench(t, 0)
	b.inputs()
	b.want(b.told(b.step(protocol.RelayLost{Number: 8})), "client-lost client 3")
	b.want(b.told(b.step(protocol.RelayLost{Number: 8})), "")
	b.want(b.held(9, 3, input1), "message-ignored client 3") // its masks are used up
	b.want(b.held(9, 4, input1), "relay 9: counted client 4 masked-input", "relay 7: collect masked-input", "relay 9: collect masked-input")
	b.want(b.told(b.step(protocol.RelayLost{Number: 7})), "client-lost client 0", "client-lost client 1", "client-lost client 2")
	b.want(b.part(9, protocol.StageMaskedInput, 4), "server: abort")
	few, ok := b.last.Send[0].Message.(*protocol.Abort).Reason.(*protocol.TooFew)
	if !ok || few.Left != 2 || few.Required != 4 {
		t.Errorf("aborted because of %v", b.last.Send[0].Message.(*protocol.Abort).Reason)
	}
}

// Relays may say what the protocol has for them, of the stage that there is, and nothing else.
func TestRelaysSayNothingElse(t *testing.T) {
	b := newRelayBench(t, 0)
	b.want(b.part(7, protocol.StageMaskedInput), "message-ignored relay 7") // it was not asked
	b.want(b.say(7, &protocol.Forward{Client: 1, Message: &protocol.Survivors{Round: 1}}), "message-ignored relay 7")
	b.want(b.say(7, &protocol.Forward{Client: 1, Opens: true}), "message-ignored relay 7")
	b.want(b.say(7, &protocol.Open{}), "message-ignored relay 7")
	b.want(b.say(7, &protocol.Final{}), "message-ignored relay 7")
	b.want(b.say(7, &protocol.RelayAck{}), "message-ignored relay 7")

	// A sum that takes no parts ignores what relays hold.
	plain := newBench(t, 3, 1)
	plain.command("open 1")
	plain.command("0-2 advertise 1")
	plain.command("0-2 share 1")
	eff := plain.receive(protocol.RelayParty(1), &protocol.Forward{Client: 1, Held: true, Message: input1})
	if len(eff.Send) != 0 || len(eff.Events) != 1 || eff.Events[0].Kind != protocol.MessageIgnored {
		t.Errorf("a message that a relay holds for an ideal sum: %+v", eff)
	}
}

// The time that a stage has once enough have answered ends in the question, too.
func TestTailAsksRelays(t *testing.T) {
	b := newRelayBench(t, time.Second)
	b.inputs()
	b.want(b.told(b.command("tick 1s")), "relay 7: collect masked-input", "relay 8: collect masked-input")
	b.want(b.told(b.command("tick 2s")), "")
	b.part(7, protocol.StageMaskedInput, 0, 1, 2)
	b.part(8, protocol.StageMaskedInput, 3)
	if n := len(b.last.Send); n != 5 {
		t.Errorf("%d messages after the sums of relays, want 5 of survivors", n)
	}
}

// A client behind a relay that takes no part is not awaited. A relay holds no vectors of a refusal.
func TestRefusalBehindARelay(t *testing.T) {
	b := newRelayBench(t, 0)
	refusal := &protocol.Refusal{Round: 2}
	b.command("open 2")
	b.want(b.held(7, 0, refusal), "message-ignored relay 7")
	eff := b.receive(protocol.RelayParty(7), &protocol.Forward{Message: refusal})
	if len(eff.Events) != 1 || eff.Events[0].Kind != protocol.PlanRefused || eff.Events[0].Party != protocol.ClientParty(0) {
		t.Errorf("a refusal: %+v", eff)
	}
}
