package aggregator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Relays stand between the aggregator and clients, hand small messages through and hold
// back vectors (package relay). The aggregator says of each client whose vectors a relay holds
// when it counts it, so that a client which comes by two relays is in one sum. When a
// stage with vectors is over, it first asks relays for what they have added up; whose vectors
// do not come by then is lost.
//
// That a message came through a relay is all that is different about it otherwise.

// RelayedSum is a Sum that takes clients' vectors in parts that relays have added up. Any other Sum
// has no use for relays.
type RelayedSum interface {
	Sum
	// Held is Receive for a message of which a relay holds the vectors.
	Held(from protocol.ClientID, m protocol.StageMessage) error
	// AddPart adds the vectors of exactly the clients given, whose messages Held took in
	// the present stage. Whose vectors have not come at Close has not answered.
	AddPart(clients protocol.Bitmap, sums [][]byte) error
}

// relayed holds the state of relays, by their numbers, in the present stage of a round.
type relayed struct {
	held  map[protocol.ClientID]relayNumber // of clients that are counted, and in no sum that came
	asked bool                              // for sums
	owing map[relayNumber]bool              // who has not given one
}

type relayNumber = protocol.ClientID

func (a *Aggregator) fromRelay(now time.Time, e protocol.Envelope) protocol.Effects {
	switch m := e.Message.(type) {
	case *protocol.Forward:
		if refusal, ok := m.Message.(*protocol.Refusal); ok && !m.Held {
			return a.refusal(now, m.Client, refusal)
		}
		inside, ok := m.Message.(protocol.StageMessage)
		switch {
		case !ok:
			return protocol.Ignored(e.From, 0, 0, fmt.Errorf("%s is not expected from a client", protocol.Describe(m.Message)))
		case m.Held:
			return a.heldMessage(now, e.From, m.Client, inside)
		default:
			return a.stageMessage(now, protocol.ClientParty(m.Client), inside)
		}
	case *protocol.Partial:
		return a.partial(now, e.From, m)
	}
	return protocol.Ignored(e.From, 0, 0, fmt.Errorf("%s is not expected from %s", protocol.Describe(e.Message), e.From))
}

// heldMessage takes a client's message of which a relay holds the vectors, and tells the relay if it counts.
func (a *Aggregator) heldMessage(now time.Time, relay protocol.Party, client protocol.ClientID, m protocol.StageMessage) protocol.Effects {
	from := protocol.ClientParty(client)
	round, stage := m.At()
	r, err := a.roundOf(m)
	if err == nil {
		err = r.hold(client, m)
	}
	if err != nil {
		return protocol.Ignored(from, round, stage, err)
	}
	if r.relayed.held == nil {
		r.relayed.held = make(map[protocol.ClientID]relayNumber)
	}
	r.relayed.held[client] = relay.Client
	eff := a.goOn(now, a.concluded(r, from, m, nil))
	// First of all, since the relay may be asked for its sum next.
	eff.Send = append([]protocol.Envelope{toRelay(relay, &protocol.RelayAck{Round: round, Stage: stage, Client: client})}, eff.Send...)
	return eff
}

func (r *round) hold(from protocol.ClientID, m protocol.StageMessage) error {
	sum, ok := r.sum.(RelayedSum)
	if !ok {
		return errors.New("this kind of sum takes no parts from relays")
	}
	if err := r.admits(from, m); err != nil {
		return err
	}
	return sum.Held(from, m)
}

// collects asks relays for their sums before the present stage is closed, and says whether
// these are still awaited.
func (a *Aggregator) collects(now time.Time) (eff protocol.Effects, waits bool) {
	r := a.round
	x := &r.relayed
	switch {
	case len(x.held) == 0:
		return eff, false
	case !x.asked:
		x.asked, x.owing = true, make(map[relayNumber]bool)
		for _, relay := range x.held {
			x.owing[relay] = true
		}
		for _, relay := range slices.Sorted(maps.Keys(x.owing)) { // in this order, so that a run repeats
			eff.Send = append(eff.Send, toRelay(protocol.RelayParty(int(relay)), &protocol.RelayCollect{Round: r.setup.Round, Stage: r.stage}))
		}
		r.begin(now.Add(a.cfg.StageTimeout))
		eff.Wake = r.deadline
		return eff, true
	case len(x.owing) > 0 && now.Before(r.deadline):
		return eff, true
	}
	for _, relay := range slices.Sorted(maps.Keys(x.owing)) {
		eff.Events = append(eff.Events, r.without(relay)...)
	}
	return eff, false
}

// collecting says whether the present stage waits only for sums of relays.
func (r *round) collecting() bool { return r.relayed.asked && len(r.relayed.owing) > 0 }

func (a *Aggregator) partial(now time.Time, relay protocol.Party, m *protocol.Partial) protocol.Effects {
	r := a.round
	if r == nil || r.setup.Round != m.Round || r.stage != m.Stage || !r.relayed.owing[relay.Client] {
		return protocol.Ignored(relay, m.Round, m.Stage, errors.New("no sum is awaited of the relay"))
	}
	var events []protocol.Event
	if err := r.add(relay.Client, m); err != nil {
		events = append(protocol.Ignored(relay, m.Round, m.Stage, err).Events, r.without(relay.Client)...)
	}
	delete(r.relayed.owing, relay.Client)
	return a.goOn(now, events)
}

// add adds the sum of a relay, if it is over exactly the clients that were counted there.
func (r *round) add(relay relayNumber, m *protocol.Partial) error {
	n := 0
	for c, at := range r.relayed.held {
		if at == relay {
			if n++; !m.Clients.Has(int(c)) {
				return fmt.Errorf("the sum is without client %d, whose vectors the relay held", c)
			}
		}
	}
	if got := m.Clients.Count(); got != n {
		return fmt.Errorf("the sum is over %d clients, %d were counted at the relay", got, n)
	}
	if err := r.sum.(RelayedSum).AddPart(m.Clients, m.Sums); err != nil { // held: the sum is one
		return err
	}
	maps.DeleteFunc(r.relayed.held, func(_ protocol.ClientID, at relayNumber) bool { return at == relay })
	return nil
}

// without loses the clients whose vectors of the present stage a relay holds.
func (r *round) without(relay relayNumber) []protocol.Event {
	var out []protocol.Event
	for _, c := range slices.Sorted(maps.Keys(r.relayed.held)) {
		if r.relayed.held[c] != relay {
			continue
		}
		delete(r.relayed.held, c)
		r.lose(c)
		event := lost(r, int(c))
		event.Err = fmt.Errorf("with %s, which held its vectors", protocol.RelayParty(int(relay)))
		out = append(out, event)
	}
	delete(r.relayed.owing, relay)
	return out
}

// relayLost gives up the vectors that a relay holds: nothing of them will come.
func (a *Aggregator) relayLost(now time.Time, in protocol.RelayLost) protocol.Effects {
	r := a.round
	if r == nil || r.summing != 0 {
		return protocol.Effects{}
	}
	return a.goOn(now, r.without(protocol.RelayParty(in.Number).Client))
}

func toRelay(relay protocol.Party, m protocol.Message) protocol.Envelope {
	return protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, To: relay, Message: m}
}
