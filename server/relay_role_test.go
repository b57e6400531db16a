package server_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/relay"
)

// relayRole is a relay with number 3, of a federation of 9 clients. The plan of round 4 has one release
// of 5 coordinates in bytes, and one of 2 in 16 bits whose noise is split.
type relayRole struct {
	t     *testing.T
	relay *relay.Relay
	plan  *protocol.Plan
}

func newRelayRole(t *testing.T) *relayRole {
	b := &relayRole{t: t, relay: relay.New(relay.Config{Number: 3, Clients: 9, Rounds: 5})}
	b.plan = &protocol.Plan{Round: 4, Cohort: protocol.Cohort{Clients: 9, Tolerance: 0.25}, Releases: []protocol.Release{
		{Name: "g", Len: 5, L2: 1, MaxNonZero: 5, Scale: 1, Width: 8},
		{Name: "h", Len: 2, L2: 1, MaxNonZero: 2, Scale: 1, Width: 16, Noise: protocol.Noise{Kind: protocol.Split, Variance: 9}},
	}}
	if err := b.plan.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

var upstream = protocol.Party{Role: protocol.Aggregator}

func (b *relayRole) receive(from protocol.Party, m protocol.Message) protocol.Effects {
	return b.relay.Step(time.Time{}, protocol.Received{Envelope: protocol.Envelope{From: from, Message: m}})
}

// begun has the plan announced.
func (b *relayRole) begun() *relayRole {
	b.t.Helper()
	if eff := b.receive(upstream, &protocol.Announce{Plan: b.plan}); !cmp.Equal(eff, protocol.Effects{}) {
		b.t.Fatalf("the plan has effects %+v", eff)
	}
	return b
}

// relayInput is a masked input whose vectors are filled with a number.
func relayInput(x byte) *protocol.MaskedInput {
	return &protocol.MaskedInput{Round: 4, Masked: [][]byte{bytes.Repeat([]byte{x}, 5), bytes.Repeat([]byte{x}, 4)}, Next: &protocol.Advertise{Round: 5, Ahead: true}}
}

func relayAnswer(x, y int64) *protocol.Unmask {
	return &protocol.Unmask{Round: 4, Removed: [][]byte{nil, protocol.AppendRemoval(nil, []int64{x, y})}, Shares: []protocol.RevealedShare{{Of: 2}}}
}

// says what comes up from a client's message: "held", "whole", "ignored", or both of the last.
func (b *relayRole) says(client protocol.ClientID, m protocol.StageMessage) string {
	b.t.Helper()
	eff := b.receive(protocol.ClientParty(client), m)
	var out []string
	for _, e := range eff.Send {
		f, ok := e.Message.(*protocol.Forward)
		switch {
		case !ok || e.To != upstream || e.From != protocol.RelayParty(3) || f.Client != client || f.Opens:
			b.t.Errorf("client %d's message goes on as %+v", client, e)
		case f.Held:
			if got, full := protocol.Size(f.Message), protocol.Size(m); got >= full {
				b.t.Errorf("of a held message of %d bytes, %d go up", full, got)
			}
			out = append(out, "held")
		case f.Message != m:
			b.t.Errorf("another message goes on: %+v", f.Message)
		default:
			out = append(out, "whole")
		}
	}
	for _, e := range eff.Events {
		if e.Kind != protocol.MessageIgnored || e.Party != protocol.ClientParty(client) {
			b.t.Errorf("event %+v", e)
		}
		out = append(out, "ignored")
	}
	return strings.Join(out, ", ")
}

func (b *relayRole) want(got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%q, want %q", got, want)
	}
}

func (b *relayRole) counted(stage protocol.Stage, clients ...protocol.ClientID) {
	b.t.Helper()
	for _, c := range clients {
		if eff := b.receive(upstream, &protocol.RelayAck{Round: 4, Stage: stage, Client: c}); !cmp.Equal(eff, protocol.Effects{}) {
			b.t.Errorf("counting client %d has effects %+v", c, eff)
		}
	}
}

// collected is the sum of a stage.
func (b *relayRole) collected(stage protocol.Stage) *protocol.Partial {
	b.t.Helper()
	eff := b.receive(upstream, &protocol.RelayCollect{Round: 4, Stage: stage})
	if len(eff.Send) != 1 || len(eff.Events) != 0 {
		b.t.Fatalf("asked for the sum: %+v", eff)
	}
	return eff.Send[0].Message.(*protocol.Partial)
}

// The sum is over the counted clients, in any order, and no others; by hand, bytes wrap at 256.
func TestSumOfTheCounted(t *testing.T) {
	b := newRelayRole(t).begun()
	for c, x := range []byte{100, 7, 200, 1, 50} {
		b.want(b.says(protocol.ClientID(c), relayInput(x)), "held")
	}
	b.counted(protocol.StageMaskedInput, 4, 0, 2)
	got := b.collected(protocol.StageMaskedInput)
	// 50 + 100 + 200 = 350 = 256 + 94; of 16 bits, (50 + 100 + 200) · 257 = 89950 = 65536 + 24414 = 0x5f5e.
	want := &protocol.Partial{Round: 4, Stage: protocol.StageMaskedInput, Clients: protocol.Bitmap{0b10101, 0},
		Sums: [][]byte{bytes.Repeat([]byte{94}, 5), {0x5e, 0x5f, 0x5e, 0x5f}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the sum (-want +got):\n%s", d)
	}
	for c, v := range [][2]int64{{3, -1}, {4, -5}, {1, 1}} {
		b.want(b.says(protocol.ClientID(c), relayAnswer(v[0], v[1])), "held")
	}
	b.counted(protocol.StageUnmask, 1, 0)
	got = b.collected(protocol.StageUnmask)
	want = &protocol.Partial{Round: 4, Stage: protocol.StageUnmask, Clients: protocol.Bitmap{0b11, 0}, Sums: [][]byte{nil, {7, 0, 0xfa, 0xff}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the sum of surplus noise (-want +got):\n%s", d)
	}
}

// A client is heard once a stage, until the stage is over; what is late is dropped.
func TestOnceAStage(t *testing.T) {
	b := newRelayRole(t).begun()
	b.want(b.says(1, relayInput(1)), "held")
	b.want(b.says(1, relayInput(2)), "ignored")
	b.counted(protocol.StageMaskedInput, 1)
	b.want(b.says(1, relayInput(2)), "ignored")
	b.want(b.says(2, relayInput(2)), "held")
	if got := b.collected(protocol.StageMaskedInput); !cmp.Equal(got.Clients, protocol.Bitmap{0b10, 0}) || got.Sums[0][0] != 1 {
		t.Errorf("the sum is %+v, want client 1's", got)
	}
	b.want(b.says(3, relayInput(3)), "ignored")
	late := relayInput(1)
	late.Round = 3
	b.want(b.says(4, late), "ignored")
	for _, m := range []protocol.Message{
		&protocol.RelayAck{Round: 4, Stage: protocol.StageMaskedInput, Client: 2}, // after the sum
		&protocol.RelayCollect{Round: 4, Stage: protocol.StageMaskedInput},        // again
		&protocol.RelayAck{Round: 4, Stage: protocol.StageUnmask, Client: 2},      // of whom nothing is held
		&protocol.RelayAck{Round: 4, Stage: protocol.StageShare, Client: 2},
		&protocol.RelayAck{Round: 4, Stage: protocol.Stages, Client: 2},
		&protocol.RelayCollect{Round: 5, Stage: protocol.StageUnmask},
		&protocol.Survivors{Round: 4},
	} {
		if eff := b.receive(upstream, m); len(eff.Send) != 0 || len(eff.Events) != 1 || eff.Events[0].Kind != protocol.MessageIgnored {
			t.Errorf("%s: %+v", protocol.Describe(m), eff)
		}
	}
}

// A message without vectors, with wrong vectors, or without a plan goes up whole.
func TestHandedOnWhole(t *testing.T) {
	b := newRelayRole(t)
	b.want(b.says(1, relayInput(1)), "whole") // before a plan
	b.begun()
	for _, m := range []protocol.StageMessage{&protocol.Advertise{Round: 5}, &protocol.Shares{Round: 4}, &protocol.Consistency{Round: 4}, &protocol.Replacement{Round: 4}} {
		b.want(b.says(1, m), "whole")
	}
	refusal := &protocol.Refusal{Round: 5}
	if eff := b.receive(protocol.ClientParty(1), refusal); len(eff.Send) != 1 || *eff.Send[0].Message.(*protocol.Forward) != (protocol.Forward{Client: 1, Message: refusal}) {
		t.Errorf("a refusal: %+v", eff)
	}
	next := relayInput(1)
	next.Round = 5
	b.want(b.says(1, next), "whole")
	short := relayInput(1)
	short.Masked[1] = short.Masked[1][1:]
	b.want(b.says(1, short), "whole, ignored")
	b.want(b.says(1, relayAnswer(1<<40, 0)), "whole, ignored")
	if eff := b.receive(protocol.ClientParty(9), relayInput(1)); len(eff.Send) != 0 || len(eff.Events) != 1 {
		t.Errorf("a client that there is not: %+v", eff)
	}
	if eff := b.receive(protocol.Party{Role: protocol.Server}, &protocol.Open{Plan: b.plan}); len(eff.Send) != 0 || len(eff.Events) != 1 {
		t.Errorf("a plan of the server: %+v", eff)
	}
	bad := *b.plan
	bad.Releases = nil
	if eff := b.receive(upstream, &protocol.Announce{Plan: &bad}); len(eff.Events) != 1 || eff.Events[0].Kind != protocol.PlanRefused {
		t.Errorf("a plan that is not sound: %+v", eff)
	}
	b.want(b.says(1, relayInput(1)), "whole")
}

// A client gets the plan that the relay was given, with its own delivery, and all else as it came.
func TestHandedDown(t *testing.T) {
	b := newRelayRole(t)
	if eff := b.receive(upstream, &protocol.Forward{Client: 2, Opens: true}); len(eff.Send) != 0 || len(eff.Events) != 1 {
		t.Errorf("an announcement before a plan: %+v", eff)
	}
	b.begun()
	delivery, roster := &protocol.Delivery{Round: 4}, &protocol.Roster{Round: 4}
	for _, c := range []struct {
		f    *protocol.Forward
		want protocol.Message
	}{
		{&protocol.Forward{Client: 2, Opens: true, Message: delivery}, &protocol.Announce{Plan: b.plan, Delivery: delivery}},
		{&protocol.Forward{Client: 2, Opens: true}, &protocol.Announce{Plan: b.plan}},
		{&protocol.Forward{Client: 2, Message: delivery}, delivery},
		{&protocol.Forward{Client: 2, Message: roster}, roster},
	} {
		eff := b.receive(upstream, c.f)
		want := protocol.Effects{Send: []protocol.Envelope{{From: upstream, To: protocol.ClientParty(2), Message: c.want}}}
		if d := cmp.Diff(want, eff); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.f, d)
		}
	}
	if eff := b.receive(upstream, &protocol.Forward{Client: 2}); !cmp.Equal(eff, protocol.Effects{}) {
		t.Errorf("nothing for a client: %+v", eff)
	}
}

// The aggregator hears which clients are there, from the newest connection of each, and again when
// the relay's connection to it is a new one. The end goes to all clients that are there.
func TestPresence(t *testing.T) {
	b := newRelayRole(t).begun()
	b.want(b.says(1, relayInput(1)), "held")
	b.counted(protocol.StageMaskedInput, 1)
	step := func(in protocol.Input, want ...protocol.RelayStatus) {
		t.Helper()
		var got []protocol.RelayStatus
		for _, e := range b.relay.Step(time.Time{}, in).Send {
			got = append(got, *e.Message.(*protocol.RelayStatus))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%T %+v (-want +got):\n%s", in, in, d)
		}
	}
	step(protocol.Connected{Client: 4, Connection: 7}, protocol.RelayStatus{Client: 4, Connected: true})
	step(protocol.Connected{Client: 2, Connection: 9}, protocol.RelayStatus{Client: 2, Connected: true})
	step(protocol.Connected{Client: 4, Connection: 6}) // overtaken
	step(protocol.Connected{Client: 4, Connection: 10}, protocol.RelayStatus{Client: 4, Connected: true})
	step(protocol.Disconnected{Client: 4, Connection: 7}) // old news
	step(protocol.Start{}, protocol.RelayStatus{Client: 2, Connected: true}, protocol.RelayStatus{Client: 4, Connected: true})
	b.want(b.says(1, relayInput(1)), "whole") // what it held is forgotten
	step(protocol.Disconnected{Client: 2, Connection: 9}, protocol.RelayStatus{Client: 2})
	final := &protocol.Final{Model: []byte("m")}
	eff := b.receive(upstream, final)
	if d := cmp.Diff(protocol.Effects{Send: []protocol.Envelope{{From: upstream, To: protocol.ClientParty(4), Message: final}}}, eff); d != "" {
		t.Errorf("the end (-want +got):\n%s", d)
	}
}

// An aggregator's messages reach each client the same, in the same order, through relays or not. An
// oracle sends the same messages to clients directly.
func TestWrap(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := newRelayRole(t)
	final := &protocol.Final{Model: []byte("m")}
	for range 200 {
		at := make([]int, 9) // 0: no relay
		for c := range at {
			at[c] = rng.IntN(4)
		}
		var list []protocol.Envelope
		plans := []*protocol.Plan{b.plan, {Round: 5, Cohort: b.plan.Cohort, Releases: b.plan.Releases}}
		for range 30 {
			c := protocol.ClientID(rng.IntN(9))
			to := protocol.ClientParty(c)
			var m protocol.Message
			switch rng.IntN(5) {
			case 0:
				m = &protocol.Announce{Plan: plans[rng.IntN(2)]}
			case 1:
				m = &protocol.Announce{Plan: plans[rng.IntN(2)], Delivery: &protocol.Delivery{Round: 5, Clients: rng.IntN(100)}}
			case 2:
				m = &protocol.Roster{Round: 4, Clients: rng.IntN(100)}
			case 3:
				m = &protocol.Delivery{Round: 4, Clients: rng.IntN(100)}
			default:
				m, to = &protocol.Result{Round: 4, Survivors: rng.IntN(9)}, protocol.Party{Role: protocol.Server}
			}
			list = append(list, protocol.Envelope{From: upstream, To: to, Message: m})
		}
		for c := range protocol.ClientID(9) {
			list = append(list, protocol.Envelope{From: upstream, To: protocol.ClientParty(c), Message: final})
		}
		want := make(map[protocol.Party][]protocol.Message)
		for _, e := range list {
			want[e.To] = append(want[e.To], e.Message)
		}
		relays := make(map[protocol.Party]*relay.Relay)
		for k := 1; k <= 3; k++ {
			r := relay.New(relay.Config{Number: k, Clients: 9, Rounds: 5})
			for c := range at {
				if at[c] == k {
					r.Step(time.Time{}, protocol.Connected{Client: protocol.ClientID(c), Connection: 1})
				}
			}
			relays[protocol.RelayParty(k)] = r
		}
		got := make(map[protocol.Party][]protocol.Message)
		ends := 0
		for _, e := range relay.Wrap(list, func(c protocol.ClientID) (protocol.Party, bool) { return protocol.RelayParty(at[c]), at[c] > 0 }) {
			r := relays[e.To]
			if r == nil {
				got[e.To] = append(got[e.To], e.Message)
				continue
			}
			if e.Message == final {
				ends++
			}
			for _, x := range r.Step(time.Time{}, protocol.Received{Envelope: e}).Send {
				got[x.To] = append(got[x.To], x.Message)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("clients get (-directly +through relays):\n%s", d)
		}
		if ends > 3 {
			t.Fatalf("the end goes to 3 relays %d times", ends)
		}
	}
}

// Clients' words that they are prepared go up and the word to proceed goes down, whole. A plan that is announced again
// is announced to clients with the number of the setups that were given up, by one message for the relay.
func TestPreparedClientsBehindARelay(t *testing.T) {
	b := newRelayRole(t).begun()
	b.want(b.says(2, &protocol.Prepared{Round: 4}), "whole")
	if eff := b.receive(upstream, &protocol.Announce{Plan: b.plan, Anew: 2}); !cmp.Equal(eff, protocol.Effects{}) {
		t.Fatalf("the plan again has effects %+v", eff)
	}
	for _, c := range []struct {
		down *protocol.Forward
		want protocol.Message
	}{
		{&protocol.Forward{Client: 2, Opens: true}, &protocol.Announce{Plan: b.plan, Anew: 2}},
		{&protocol.Forward{Client: 2, Message: &protocol.Proceed{Round: 4}}, &protocol.Proceed{Round: 4}},
	} {
		eff := b.receive(upstream, c.down)
		if len(eff.Send) != 1 || eff.Send[0].To != protocol.ClientParty(2) || !cmp.Equal(eff.Send[0].Message, c.want) {
			t.Errorf("%+v goes down as %+v", c.down, eff)
		}
	}
	b.want(b.says(2, &protocol.Prepared{Round: 4, Anew: 2}), "whole")
	b.want(b.says(2, relayInput(1)), "held")
	var list []protocol.Envelope
	for c := range protocol.ClientID(3) {
		list = append(list, protocol.Envelope{From: upstream, To: protocol.ClientParty(c), Message: &protocol.Announce{Plan: b.plan, Anew: 2}})
	}
	got := relay.Wrap(list, func(protocol.ClientID) (protocol.Party, bool) { return protocol.RelayParty(3), true })
	if len(got) != 4 || !cmp.Equal(got[0].Message, &protocol.Announce{Plan: b.plan, Anew: 2}) {
		t.Errorf("the plan again for three clients goes to their relay as %+v", got)
	}
}
