package chaos

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
