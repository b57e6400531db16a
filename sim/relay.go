package sim

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/relay"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Relays sets the number of relays between the clients and the aggregator, and when they fail. Each
// relay has equally many clients. The zero value means none. Relays change no sum. Between a relay
// and the aggregator a message takes the network's latency, whatever its size.
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

// checkRelays reports settings that relays cannot work with.
func (c Config) checkRelays() error {
	var errs []error
	if c.Relays.Count < 0 || c.Relays.Count > 0 && c.Relays.Count > len(c.Trainers) {
		errs = append(errs, fmt.Errorf("%d relays for %d clients; there must be from none to one for each", c.Relays.Count, len(c.Trainers)))
	}
	if c.Relays.Count > 0 && (!c.Real || c.Mode != graph.SemiHonest) {
		errs = append(errs, errors.New("relays add up what is masked in semi-honest mode; sums are ideal, or the mode is active"))
	}
	if len(c.Relays.Outages) > 0 && (c.From != nil || c.Between != nil) {
		errs = append(errs, errors.New("relays fail in a run that is gone on with: what they lost is not known again"))
	}
	for _, o := range c.Relays.Outages {
		if o.Relay < 0 || o.Relay >= c.Relays.Count {
			errs = append(errs, fmt.Errorf("relay %d fails; there are %d, from 0", o.Relay, c.Relays.Count))
		}
		if o.Stage != protocol.StageMaskedInput && o.Stage != protocol.StageUnmask {
			errs = append(errs, fmt.Errorf("a relay fails in the stage %s, but a relay adds nothing up there; it must be %s or %s", o.Stage, protocol.StageMaskedInput, protocol.StageUnmask))
		}
	}
	return errors.Join(errs...)
}

// relays holds the relays of a run. A relay that returns after a failure is a new relay, with the
// next number.
type relays struct {
	roles  []*relay.Relay
	place  []int  // by number: the place among Count
	failed []bool // by number
	number []int  // by place: the number of the relay there
}

func newRelays(cfg Config) *relays {
	r := &relays{number: make([]int, cfg.Relays.Count)}
	for place := range r.number {
		r.arrives(cfg, place)
	}
	return r
}

// arrives puts a new relay in a place.
func (r *relays) arrives(cfg Config, place int) {
	n := len(r.roles)
	role := relay.New(relay.Config{Number: n, Clients: len(cfg.Trainers), Rounds: cfg.Rounds})
	for c := place; c < len(cfg.Trainers); c += cfg.Relays.Count {
		// the aggregator need not hear of it
		role.Step(epoch, protocol.Connected{Client: protocol.ClientID(c), Connection: 1})
	}
	r.roles, r.place, r.failed = append(r.roles, role), append(r.place, place), append(r.failed, false)
	r.number[place] = n
}

// renew replaces the relays that have failed.
func (r *relays) renew(cfg Config) {
	for place, n := range r.number {
		if r.failed[n] {
			r.arrives(cfg, place)
		}
	}
}

// through returns the relay of a client.
func (r *relays) through(c protocol.ClientID) (protocol.Party, bool) {
	if len(r.number) == 0 {
		return protocol.Party{}, false
	}
	return protocol.RelayParty(r.number[int(c)%len(r.number)]), true
}

// fails reports whether a relay fails as it is asked for a sum.
func (r *relays) fails(outages []Outage, number protocol.ClientID, m protocol.Message) bool {
	collect, ok := m.(*protocol.RelayCollect)
	if !ok {
		return false
	}
	for _, o := range outages {
		if o.Relay == r.place[number] && o.Round == collect.Round && o.Stage == collect.Stage {
			return true
		}
	}
	return false
}

// route returns the next recipient of a message, and books the message if it passes between a relay
// and the aggregator. It returns false if there is no recipient, because a relay has failed.
func (f *federation) route(e protocol.Envelope) (to protocol.Party, ok bool) {
	r := f.relays
	switch {
	case e.From.Role == protocol.Client:
		if through, is := r.through(e.From.Client); is {
			return through, !r.failed[through.Client]
		}
	case e.From.Role == protocol.Relay:
		f.out.RelayUp += int64(protocol.Size(e.Message))
	case e.To.Role == protocol.Relay:
		f.out.RelayDown += int64(protocol.Size(e.Message))
		if !r.failed[e.To.Client] && r.fails(f.cfg.Relays.Outages, e.To.Client, e.Message) {
			r.failed[e.To.Client] = true
			f.arrive(f.now.Add(f.cfg.Network.Latency), arrival{to: e.From, what: protocol.RelayLost{Number: int(e.To.Client)}})
		}
		return e.To, !r.failed[e.To.Client]
	}
	return e.To, true
}
