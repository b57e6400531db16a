package sim

import (
	"context"
	"testing"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/relay"
)

// Relays sets the number of relays between the clients and the aggregator, and when they fail. Each
// relay has equally many clients. Between a relay and the aggregator a message takes the network's latency,
// whatever its size.
type Relays struct {
	Count   int
	Outages []Outage
}

// Outage is the failure of a relay. In a round the relay takes what clients send in a stage,
// and falls silent before it gives the aggregator their sum. In the next round it is back, with
// no memory.
type Outage struct {
	Relay int // from 0
	Round uint64
	Stage protocol.Stage // masked-input or unmask
}

// runThrough runs a federation whose clients reach the aggregator through relays; without any if there are none.
func runThrough(t *testing.T, cfg Config, r Relays, fates calendar) (*Outcome, *relays, error) {
	t.Helper()
	f, err := newFederation(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if fates != nil {
		f.faults = fates
	}
	through := &relays{f: f, outages: r.Outages, number: make([]int, r.Count)}
	for place := range through.number {
		through.arrives(place)
	}
	if r.Count > 0 {
		f.role, f.route = through.role, through.route
	}
	out, err := f.run(context.Background())
	return out, through, err
}

// relays holds the relays of a run. A relay that returns after a failure is a new relay, with the
// next number.
type relays struct {
	f        *federation
	outages  []Outage
	up, down int64 // bytes that the aggregator got from all relays and sent them

	roles  []*relay.Relay
	place  []int  // by number: the place among Count
	failed []bool // by number
	number []int  // by place: the number of the relay there
}

func (r *relays) arrives(place int) {
	cfg, n := r.f.cfg, len(r.roles)
	role := relay.New(relay.Config{Number: n, Clients: len(cfg.Trainers), Rounds: cfg.Rounds})
	for c := place; c < len(cfg.Trainers); c += len(r.number) {
		// the aggregator need not hear of it
		role.Step(epoch, protocol.Connected{Client: protocol.ClientID(c), Connection: 1})
	}
	r.roles, r.place, r.failed = append(r.roles, role), append(r.place, place), append(r.failed, false)
	r.number[place] = n
}

// open replaces the relays that have failed.
func (r *relays) open() {
	for place, n := range r.number {
		if r.failed[n] {
			r.arrives(place)
		}
	}
}

func (r *relays) role(p protocol.Party) role {
	switch p.Role {
	case protocol.Relay:
		return r.roles[p.Client]
	case protocol.Aggregator:
		return wrapping{r}
	default:
		return r.f.own(p)
	}
}

// wrapping is the aggregator, with relays before it.
type wrapping struct{ *relays }

func (w wrapping) Step(now time.Time, in protocol.Input) protocol.Effects {
	if m, ok := in.(protocol.Received); ok && m.Envelope.Message.Kind() == protocol.KindOpen {
		w.open()
	}
	eff := w.f.aggregator.Step(now, in)
	eff.Send = relay.Wrap(eff.Send, w.through)
	return eff
}

// through returns the relay of a client.
func (r *relays) through(c protocol.ClientID) (protocol.Party, bool) {
	return protocol.RelayParty(r.number[int(c)%len(r.number)]), true
}

// fails reports whether a relay fails as it is asked for a sum.
func (r *relays) fails(number protocol.ClientID, m protocol.Message) bool {
	collect, ok := m.(*protocol.RelayCollect)
	if !ok {
		return false
	}
	for _, o := range r.outages {
		if o.Relay == r.place[number] && o.Round == collect.Round && o.Stage == collect.Stage {
			return true
		}
	}
	return false
}

// route returns the next recipient of a message, and books the message if it passes between a relay
// and the aggregator. It returns false if there is no recipient, because a relay has failed.
func (r *relays) route(e protocol.Envelope) (to protocol.Party, ok bool) {
	switch {
	case e.From.Role == protocol.Client:
		through, _ := r.through(e.From.Client)
		return through, !r.failed[through.Client]
	case e.From.Role == protocol.Relay:
		r.up += int64(protocol.Size(e.Message))
	case e.To.Role == protocol.Relay:
		r.down += int64(protocol.Size(e.Message))
		if !r.failed[e.To.Client] && r.fails(e.To.Client, e.Message) {
			r.failed[e.To.Client] = true
			r.f.queue.arrive(r.f.now.Add(r.f.cfg.Network.Latency), arrival{to: e.From, what: protocol.RelayLost{Number: int(e.To.Client)}})
		}
		return e.To, !r.failed[e.To.Client]
	}
	return e.To, true
}
