// Package relay is the relay role, between some of the clients and the aggregator. It hands their
// messages through, except the vectors in masked inputs and in answers to unmask: of these it hands
// on one sum, which is still under masks. It knows no model and no algorithm, and holds no secret.
//
// The role is a state machine without I/O, like the others: [Relay.Step] takes an input, and
// returns effects for its driver to carry out. The aggregator decides which vectors it adds up, and
// when: a client's vectors are held until they are counted (protocol.RelayAck), then added and
// forgotten. A message that a relay cannot read is handed on whole, so that the aggregator says
// what is wrong.
//
// [Wrap] is the other end: it turns an aggregator's messages to clients behind relays into messages
// to the relays.
package relay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Config configures a relay.
type Config struct {
	Number  int // as the aggregator knows it
	Clients int // N, of the whole federation
	Rounds  int // of the session
}

// Relay is a relay. Its methods are for one goroutine at a time.
type Relay struct {
	cfg   Config
	plan  *protocol.Plan // the latest; nil before the first
	anew  uint32         // as it was announced
	parts [protocol.Stages]*part
	here  map[protocol.ClientID]uint64 // the connection of each client that has one
}

// part is the sum that the relay adds up in a stage.
type part struct {
	sum     *secagg.PartialSum
	held    map[protocol.ClientID][][]byte // vectors that are not counted
	counted protocol.Bitmap                // whose are in the sum
	sent    bool                           // the sum has gone up
}

// New makes a relay.
func New(cfg Config) *Relay {
	return &Relay{cfg: cfg, here: make(map[protocol.ClientID]uint64)}
}

// Step feeds one input: a message, Connected or Disconnected of a client, or Start, which says that
// the connection to the aggregator is a new one. It never blocks, and never panics on a peer's
// message.
func (r *Relay) Step(_ time.Time, in protocol.Input) protocol.Effects {
	switch in := in.(type) {
	case protocol.Start:
		return r.start()
	case protocol.Received:
		if in.Envelope.From.Role == protocol.Aggregator {
			return r.down(in.Envelope.Message)
		}
		return r.up(in.Envelope)
	case protocol.Connected:
		if in.Connection > r.here[in.Client] {
			r.here[in.Client] = in.Connection
			return r.present(in.Client, true)
		}
	case protocol.Disconnected:
		if r.here[in.Client] == in.Connection {
			delete(r.here, in.Client)
			return r.present(in.Client, false)
		}
	}
	return protocol.Effects{}
}

// start begins anew with the aggregator, which counts nothing that the relay held before.
func (r *Relay) start() (eff protocol.Effects) {
	r.plan, r.parts = nil, [protocol.Stages]*part{}
	for _, c := range slices.Sorted(maps.Keys(r.here)) {
		eff.Send = append(eff.Send, r.present(c, true).Send...)
	}
	return eff
}

// present tells the aggregator of a client that has come or gone. The driver says of which incarnation.
func (r *Relay) present(c protocol.ClientID, connected bool) protocol.Effects {
	return r.tell(&protocol.RelayStatus{Client: c, Connected: connected})
}

func (r *Relay) tell(m protocol.Message) protocol.Effects {
	return protocol.Effects{Send: []protocol.Envelope{{From: r.party(), To: protocol.Party{Role: protocol.Aggregator}, Message: m}}}
}

func (r *Relay) party() protocol.Party { return protocol.RelayParty(r.cfg.Number) }

func (r *Relay) up(e protocol.Envelope) protocol.Effects {
	c := e.From.Client
	m, ok := e.Message.(protocol.StageMessage)
	_, declines := e.Message.(*protocol.Refusal)
	switch {
	case !ok && !declines, e.From.Role != protocol.Client, int64(c) >= int64(r.cfg.Clients):
		return protocol.Ignored(e.From, 0, 0, fmt.Errorf("%s is not expected from %s", protocol.Describe(e.Message), e.From))
	case declines:
		return r.tell(&protocol.Forward{Client: c, Message: e.Message})
	}
	round, stage := m.At()
	p := r.parts[stage]
	if p == nil || round > r.plan.Round {
		return r.tell(&protocol.Forward{Client: c, Message: m}) // it has no vectors, or the relay no plan for them
	}
	switch {
	case round < r.plan.Round || p.sent:
		return protocol.Ignored(e.From, round, stage, errors.New("the stage is over"))
	case p.held[c] != nil || p.counted.Has(int(c)):
		return protocol.Ignored(e.From, round, stage, errors.New("the client has answered already"))
	}
	vectors, err := p.sum.Read(m)
	if err != nil {
		eff := r.tell(&protocol.Forward{Client: c, Message: m})
		eff.Events = protocol.Ignored(e.From, round, stage, err).Events
		return eff
	}
	p.held[c] = vectors
	return r.tell(&protocol.Forward{Client: c, Held: true, Message: bare(m)})
}

// bare is a message without its vectors.
func bare(m protocol.StageMessage) protocol.Message {
	switch m := m.(type) {
	case *protocol.MaskedInput:
		b := *m
		b.Masked = nil
		return &b
	case *protocol.Unmask:
		b := *m
		b.Removed = nil
		return &b
	default:
		return m
	}
}

func (r *Relay) down(m protocol.Message) protocol.Effects {
	switch m := m.(type) {
	case *protocol.Announce:
		return r.begin(m)
	case *protocol.Forward:
		return r.hand(m)
	case *protocol.RelayAck:
		return r.count(m)
	case *protocol.RelayCollect:
		return r.collect(m)
	case *protocol.Final:
		var eff protocol.Effects
		r.plan, r.parts = nil, [protocol.Stages]*part{}
		for _, c := range slices.Sorted(maps.Keys(r.here)) {
			eff.Send = append(eff.Send, protocol.ToClient(c, m))
		}
		return eff
	default:
		return protocol.Ignored(protocol.Party{Role: protocol.Aggregator}, 0, 0, fmt.Errorf("%s is not for a relay", protocol.Describe(m)))
	}
}

// begin takes the plan of a round, which may be the same again. Nothing was held of that before, as no client was told
// to proceed.
func (r *Relay) begin(m *protocol.Announce) protocol.Effects {
	plan := m.Plan
	r.plan, r.anew, r.parts = plan, m.Anew, [protocol.Stages]*part{}
	for _, stage := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageUnmask} {
		sum, err := secagg.NewPart(plan, stage, r.cfg.Rounds)
		if err != nil {
			r.parts = [protocol.Stages]*part{} // its clients refuse it too
			return protocol.Effects{Events: []protocol.Event{{Kind: protocol.PlanRefused, Round: plan.Round, Party: r.party(), Err: err}}}
		}
		r.parts[stage] = &part{sum: sum, held: make(map[protocol.ClientID][][]byte), counted: protocol.NewBitmap(r.cfg.Clients)}
	}
	return protocol.Effects{}
}

func (r *Relay) hand(f *protocol.Forward) protocol.Effects {
	m := f.Message
	if f.Opens {
		if r.plan == nil {
			return protocol.Ignored(protocol.Party{Role: protocol.Aggregator}, 0, 0, errors.New("there is no plan to announce"))
		}
		delivery, _ := m.(*protocol.Delivery)
		m = &protocol.Announce{Plan: r.plan, Delivery: delivery, Anew: r.anew}
	}
	if m == nil {
		return protocol.Effects{}
	}
	return protocol.Effects{Send: []protocol.Envelope{protocol.ToClient(f.Client, m)}}
}

// count adds a client's vectors. If there are none, the aggregator will find that the sum is
// not of those it has counted.
func (r *Relay) count(m *protocol.RelayAck) protocol.Effects {
	p, err := r.partOf(m.Round, m.Stage)
	if err == nil && p.held[m.Client] == nil {
		err = errors.New("nothing is held of the client")
	}
	if err == nil {
		err = p.sum.Add(p.held[m.Client])
	}
	if err != nil {
		return protocol.Ignored(protocol.Party{Role: protocol.Aggregator}, m.Round, m.Stage, err)
	}
	delete(p.held, m.Client)
	p.counted.Set(int(m.Client))
	return protocol.Effects{}
}

// collect gives the sum of a stage, and forgets whatever else was held in it.
func (r *Relay) collect(m *protocol.RelayCollect) protocol.Effects {
	p, err := r.partOf(m.Round, m.Stage)
	if err != nil {
		return protocol.Ignored(protocol.Party{Role: protocol.Aggregator}, m.Round, m.Stage, err)
	}
	eff := r.tell(&protocol.Partial{Round: m.Round, Stage: m.Stage, Clients: p.counted, Sums: p.sum.Sums()})
	p.sent, p.sum, p.held = true, nil, nil
	return eff
}

// partOf returns the sum that is being added up in a stage.
func (r *Relay) partOf(round uint64, stage protocol.Stage) (*part, error) {
	if r.plan == nil || r.plan.Round != round || stage >= protocol.Stages || r.parts[stage] == nil || r.parts[stage].sent {
		return nil, errors.New("nothing is being added up in that stage")
	}
	return r.parts[stage], nil
}

// Wrap replaces an aggregator's messages to clients behind relays by messages to the relays, in the
// same order for each client. A plan goes to a relay once, however many of its clients are
// announced it in the list, and so does the end. through returns the relay of a client; it is false
// for a client that is connected to the aggregator itself or not at all.
func Wrap(list []protocol.Envelope, through func(protocol.ClientID) (protocol.Party, bool)) []protocol.Envelope {
	out := make([]protocol.Envelope, 0, len(list))
	knows := make(map[protocol.Party]protocol.Message) // the plan, or the end, that a relay was given last
	plan := new(protocol.Announce)                     // the latest, one for all relays
	for _, e := range list {
		relay, ok := protocol.Party{}, false
		if e.To.Role == protocol.Client {
			relay, ok = through(e.To.Client)
		}
		if !ok {
			out = append(out, e)
			continue
		}
		switch m := e.Message.(type) {
		case *protocol.Final:
			if knows[relay] != m {
				knows[relay] = m
				out = append(out, protocol.Envelope{From: e.From, To: relay, Message: m})
			}
		case *protocol.Announce:
			if plan.Plan != m.Plan {
				plan = &protocol.Announce{Plan: m.Plan, Anew: m.Anew}
			}
			if last, same := knows[relay].(*protocol.Announce); !same || last.Plan != m.Plan {
				knows[relay] = plan
				out = append(out, protocol.Envelope{From: e.From, To: relay, Message: plan})
			}
			f := &protocol.Forward{Client: e.To.Client, Opens: true}
			if m.Delivery != nil {
				f.Message = m.Delivery
			}
			out = append(out, protocol.Envelope{From: e.From, To: relay, Message: f})
		default:
			out = append(out, protocol.Envelope{From: e.From, To: relay, Message: &protocol.Forward{Client: e.To.Client, Message: m}})
		}
	}
	return out
}
