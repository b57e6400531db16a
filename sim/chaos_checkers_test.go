package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/fedsim/fedsim/protocol"
)

// Checker checks one rule over a schedule. It is called with every observation, in order, and
// returns an error if the rule is broken. The error says what happened and to which client.
type Checker interface {
	Rule() string // its name
	Observe(Observation) error
}

// Checkers are one checker for each rule, for the schedule given.
func Checkers(s *Schedule) []Checker {
	return []Checker{
		&progress{},
		honest{},
		&exactSum{schedule: s, rounds: make(map[uint64]*contributions)},
		&threshold{schedule: s, rosters: make(map[uint64]int)},
		&oneKind{seen: make(map[holding][32]byte)},
		&oneSecret{schedule: s, rosters: make(map[clientRound]*protocol.Roster), shown: make(map[shownTo]protocol.Bitmap), held: make(map[dealing]*holders)},
		&oneAnswer{sent: make(map[answer]protocol.Message)},
		&freshKeys{first: make(map[protocol.Key]clientRound)},
		&nobodyForgotten{schedule: s, told: make(map[protocol.ClientID]bool)},
		&charged{schedule: s, spent: make(map[protocol.ClientID]float64), records: make(map[clientRound]protocol.Charged)},
		&forward{},
		newTravels(s),
		&oneModel{schedule: s, models: make(map[protocol.ClientID][]byte)},
	}
}

// clientRound is a client in a round.
type clientRound struct {
	client protocol.ClientID
	round  uint64
}

// progress: no computation fails, the round after healing ends in a sum, and
// the session ends.
type progress struct {
	healed, summed bool
	round          uint64 // the latest that was planned
}

func (*progress) Rule() string { return "a healed federation ends in a sum" }

func (c *progress) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.healed, c.round = o.Healed, o.Plan.Round
	case Absorbed:
		c.summed = c.healed
	case Failed:
		return fmt.Errorf("round %d: a computation of %s failed: %w", o.Event.Round, o.Event.Party, o.Event.Err)
	case Left:
		// A plan that arrives once more after its round is answered by an abort of that round, and changes nothing.
		if m, ok := o.Envelope.Message.(*protocol.Abort); ok && c.healed && m.Round == c.round {
			return fmt.Errorf("the healed round was abandoned: %w", m.Reason)
		}
	case Ended:
		if !o.Over {
			return errors.New("it came to a halt, or would not end, before its session was over")
		}
		if !c.summed {
			return errors.New("the session ended without the sum of the healed round")
		}
	}
	return nil
}

// honest: since no client lies, enough shares restore the right secret, no client is excluded, and
// every sum is within the reach of honest clients.
type honest struct{}

func (honest) Rule() string { return "no client is taken for a liar" }

func (honest) Observe(o Observation) error {
	if b, ok := o.(Blamed); ok {
		return fmt.Errorf("round %d: %s: %s: %w", b.Event.Round, b.Event.Party, b.Event.Kind, b.Event.Err)
	}
	left, _ := o.(Left)
	m, ok := left.Envelope.Message.(*protocol.Abort)
	if !ok {
		return nil
	}
	if lost, ok := errors.AsType[*protocol.Unrecoverable](m.Reason); ok && lost.Left >= lost.Required {
		return lost
	}
	return nil
}

// threshold: with fewer survivors than ⌈(1-ω)N⌉, with no more than c, or with fewer answers than
// restore a secret, no aggregate exists, and no client reveals a share for one. If noise is
// replaced, the same holds for the clients that replaced it.
type threshold struct {
	schedule     *Schedule
	round        uint64
	inputs       int            // masked inputs that the aggregator took
	answers      int            // answers to unmask
	replacements int            // answers to replace
	rosters      map[uint64]int // how many clients are on a round's
}

func (*threshold) Rule() string { return "below the threshold no aggregate exists" }

func (c *threshold) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.round, c.inputs, c.answers, c.replacements = o.Plan.Round, 0, 0, 0
	case Heard:
		c.heard(o)
	case Left:
		switch m := o.Envelope.Message.(type) {
		case *protocol.Roster:
			c.rosters[m.Round] = m.Clients
		case *protocol.Unmask:
			if m.Round == c.round {
				return c.enough(c.inputs, fmt.Sprintf("%s reveals shares of the inputs' secrets", o.Envelope.From))
			}
		case *protocol.Replacement:
			if m.Round == c.round {
				return c.enough(c.answers, fmt.Sprintf("%s reveals shares of the replacements' secrets", o.Envelope.From))
			}
		case *protocol.Result:
			return c.released()
		}
	}
	return nil
}

func (c *threshold) heard(o Heard) {
	if o.Ignored || o.Envelope.To.Role != protocol.Aggregator {
		return
	}
	switch o.Envelope.Message.(type) {
	case *protocol.MaskedInput:
		c.inputs++
	case *protocol.Unmask:
		c.answers++
	case *protocol.Replacement:
		c.replacements++
	}
}

// enough says whether a sum may be over so many.
func (c *threshold) enough(clients int, what string) error {
	cohort := c.schedule.Cohort
	if need := max(cohort.Required(), cohort.Colluding()+1); clients < need {
		return fmt.Errorf("round %d: %s although %d clients are in the sum, %d required", c.round, what, clients, need)
	}
	return nil
}

func (c *threshold) released() error {
	if err := c.enough(c.inputs, "a sum is released"); err != nil {
		return err
	}
	t, err := c.schedule.threshold(c.rosters[c.round])
	if err != nil {
		return err
	}
	need := max(c.schedule.Cohort.Required(), t)
	if c.answers < need {
		return fmt.Errorf("round %d: a sum is released although %d clients answered, %d required", c.round, c.answers, need)
	}
	if c.schedule.setup().Replaces && c.replacements < need {
		return fmt.Errorf("round %d: a sum is released although %d clients answered for what noise changes by, %d required", c.round, c.replacements, need)
	}
	return nil
}

// oneAnswer: for one round a client sends, over all its lives, one masked
// input, one signature over survivors, one answer to unmask and one to replace; the
// same once more would do no harm.
type oneAnswer struct{ sent map[answer]protocol.Message }

type answer struct {
	clientRound
	kind protocol.Kind
}

func (*oneAnswer) Rule() string { return "a client answers a stage in one way" }

func (c *oneAnswer) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	m, ok := left.Envelope.Message.(protocol.StageMessage)
	if !ok || m.Kind() == protocol.KindAdvertise || m.Kind() == protocol.KindShares {
		return nil // a client that restarted before it sent anything masked may begin anew
	}
	round, _ := m.At()
	key := answer{clientRound{left.Envelope.From.Client, round}, m.Kind()}
	first := c.sent[key]
	if first == nil {
		c.sent[key] = m
		return nil
	}
	if !reflect.DeepEqual(first, m) {
		return fmt.Errorf("round %d: client %d sends two different messages %s", round, key.client, key.kind)
	}
	return nil
}

// oneModel: at the end all clients are present and hold the server's model.
type oneModel struct {
	schedule *Schedule
	models   map[protocol.ClientID][]byte
}

func (*oneModel) Rule() string { return "all hold the same model at the end" }

func (c *oneModel) Observe(o Observation) error {
	switch o := o.(type) {
	case ModelReceived:
		c.models[o.Client] = o.Model
	case Ended:
		for id := range protocol.ClientID(c.schedule.Cohort.Clients) {
			if m, ok := c.models[id]; !ok || !bytes.Equal(m, o.Model) {
				return fmt.Errorf("client %d holds the model %x, the server has %x", id, m, o.Model)
			}
		}
	}
	return nil
}

// charged: what a client has durably spent never falls and never exceeds its
// budget, and every masked input that left was charged, at what the plan costs,
// and durable before.
type charged struct {
	schedule *Schedule
	plans    []*protocol.Plan // by round, from 1
	spent    map[protocol.ClientID]float64
	records  map[clientRound]protocol.Charged
}

func (*charged) Rule() string { return "all that leaves was charged, and stays charged" }

func (c *charged) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.plans = append(c.plans, o.Plan)
	case Durable:
		if r, ok := o.Record.(protocol.Charged); ok {
			c.records[clientRound{o.Client, r.Round}] = r
		}
		if o.Spent > o.Budget {
			return fmt.Errorf("client %d has spent epsilon %v of a budget of %v", o.Client, o.Spent, o.Budget)
		}
		return c.risen(o.Client, o.Spent)
	case Restarted:
		return c.risen(o.Client, o.Spent)
	case Left:
		if m, ok := o.Envelope.Message.(*protocol.MaskedInput); ok {
			return c.covered(clientRound{o.Envelope.From.Client, m.Round})
		}
	}
	return nil
}

func (c *charged) risen(id protocol.ClientID, spent float64) error {
	if before := c.spent[id]; spent < before {
		return fmt.Errorf("client %d had durably spent epsilon %v, and now only %v", id, before, spent)
	}
	c.spent[id] = spent
	return nil
}

func (c *charged) covered(key clientRound) error {
	record, ok := c.records[key]
	if !ok {
		return fmt.Errorf("round %d: the masked input of client %d left before a record of it was durable", key.round, key.client)
	}
	if !c.schedule.private() {
		return nil
	}
	want, err := c.plans[key.round-1].Charges()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(want, record.Events) {
		return fmt.Errorf("round %d: client %d charged %v, the plan costs %v", key.round, key.client, record.Events, want)
	}
	return nil
}

// forward: a client charges later and later rounds. It sends the setup of the latest charged
// one and of later ones only, and what comes after the setup of that one only. A client that
// restarted sends nothing of that one.
type forward struct {
	clients map[protocol.ClientID]*progressOf
}

// progressOf is the progress of a client.
type progressOf struct {
	charged   uint64 // the latest round with a durable record of its cost
	restarted uint64 // what charged was when it restarted last
}

func (*forward) Rule() string { return "rounds only go up" }

func (c *forward) Observe(o Observation) error {
	switch o := o.(type) {
	case Durable:
		return c.of(o.Client).record(o)
	case Restarted:
		p := c.of(o.Client)
		if o.Last != p.charged {
			return fmt.Errorf("client %d restarted at round %d, its last record is of %d", o.Client, o.Last, p.charged)
		}
		p.restarted = o.Last
	case Left:
		if m, ok := o.Envelope.Message.(protocol.StageMessage); ok {
			return c.of(o.Envelope.From.Client).sends(o.Envelope.From, m)
		}
	}
	return nil
}

func (p *progressOf) record(o Durable) error {
	if r, ok := o.Record.(protocol.Charged); ok {
		if r.Round <= p.charged {
			return fmt.Errorf("client %d charges round %d after it charged %d", o.Client, r.Round, p.charged)
		}
		p.charged = r.Round
	}
	return nil
}

func (p *progressOf) sends(from protocol.Party, m protocol.StageMessage) error {
	round, stage := m.At()
	setup := stage < protocol.StageMaskedInput
	if round <= p.restarted || round < p.charged || !setup && round != p.charged {
		return fmt.Errorf("%s sends %s of round %d, after it charged %d, and %d before a restart", from, stage, round, p.charged, p.restarted)
	}
	return nil
}

func (c *forward) of(id protocol.ClientID) *progressOf {
	if c.clients == nil {
		c.clients = make(map[protocol.ClientID]*progressOf)
	}
	if c.clients[id] == nil {
		c.clients[id] = new(progressOf)
	}
	return c.clients[id]
}

// freshKeys: a mask key lives for one setup. No client advertises a key a second time: for another
// round, for the round again, or in another life.
type freshKeys struct {
	first map[protocol.Key]clientRound
}

func (*freshKeys) Rule() string { return "a mask key is advertised once" }

func (c *freshKeys) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	m, ok := left.Envelope.Message.(*protocol.Advertise)
	if !ok {
		return nil
	}
	if first, ok := c.first[m.Keys.Mask]; ok {
		return fmt.Errorf("round %d: client %d advertises the mask key that client %d advertised for round %d",
			m.Round, left.Envelope.From.Client, first.client, first.round)
	}
	c.first[m.Keys.Mask] = clientRound{left.Envelope.From.Client, m.Round}
	return nil
}

// nobodyForgotten: every client is told of every round or, if that begins
// without it, is invited to the next; only of the last one it may hear nothing.
type nobodyForgotten struct {
	schedule *Schedule
	round    uint64
	told     map[protocol.ClientID]bool
}

func (*nobodyForgotten) Rule() string { return "a client left out of a round is asked to the next" }

func (c *nobodyForgotten) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		for id := range protocol.ClientID(c.schedule.Cohort.Clients) {
			if c.round > 0 && !c.told[id] {
				return fmt.Errorf("round %d: client %d is told nothing, neither of it nor of the next", c.round, id)
			}
		}
		c.round = o.Plan.Round
		clear(c.told)
	case Left:
		switch m := o.Envelope.Message.(type) {
		case *protocol.Announce:
			c.told[o.Envelope.To.Client] = m.Plan.Round == c.round
		case *protocol.Invite:
			c.told[o.Envelope.To.Client] = m.Setup.Round == c.round+1
		}
	}
	return nil
}
