package sim_test

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
)

// role is a role that the world drives.
type role interface {
	Step(time.Time, protocol.Input) protocol.Effects
}

// world is a schedule being carried out, by one goroutine.
type world struct {
	schedule *Schedule
	session  protocol.SessionID
	params   secagg.Params
	samplers *client.Samplers
	redrawer redrawer
	prices   *dp.Cache
	dice     dice
	listener Tell // nil: no listener

	queue      queue
	now        time.Time
	busy       map[protocol.Party]time.Time // until when a role computes
	planner    *planner
	server     role
	aggregator role
	machines   []*machine
	round      uint64 // the last planned round
	healed     bool
	over       bool

	checkers []Checker
	result   *result
}

// most limits the events of a schedule; beyond it the schedule counts as endless.
const most = 1 << 20

// epoch is when virtual time starts; only differences matter.
var epoch = time.Unix(0, 0)

func newWorld(s *Schedule, prices *dp.Cache, tell Tell) (*world, error) {
	w := &world{
		schedule: s, params: s.Params(), samplers: new(client.Samplers),
		prices: prices, listener: tell,
		dice: entropy.Public(s.Seed, "chaos/faults"), now: epoch, busy: make(map[protocol.Party]time.Time),
		machines: make([]*machine, s.Cohort.Clients), checkers: Checkers(s), result: &result{schedule: s, messages: make(map[protocol.Kind]int)},
	}
	binary.BigEndian.PutUint64(w.session[:], s.Seed)
	w.planner = &planner{w: w, model: []byte("start")}
	w.server = server.New(w.planner)
	for i := range w.machines {
		w.machines[i] = &machine{id: protocol.ClientID(i), w: w}
	}
	if s.Mode == secagg.Active {
		for _, d := range w.machines {
			var err error
			if d.identity, err = newIdentity(s.Seed, d.id); err != nil {
				return nil, err
			}
			w.params.Identities = append(w.params.Identities, d.identity.Public().(ed25519.PublicKey))
		}
	}
	if err := w.budgets(); err != nil {
		return nil, err
	}
	w.aggregator = aggregator.New(aggregator.Config{Clients: len(w.machines), StageTimeout: stageTimeout,
		NewSum: func(s protocol.Setup) (aggregator.Sum, error) { return secagg.NewAggregator(s, w.params) },
		Rounds: uint64(s.Rounds) + 1, SitOut: s.SitOut})
	for _, d := range w.machines {
		if err := d.start(); err != nil {
			return nil, err
		}
	}
	for line := range strings.Lines(s.String()) {
		w.tell("%s", strings.TrimSuffix(line, "\n"))
	}
	return w, nil
}

// budgets gives each client what its rounds cost, and not a bit more.
func (w *world) budgets() error {
	s := w.schedule
	if !s.private() {
		return nil
	}
	plan := protocol.Plan{Cohort: s.Cohort, Releases: s.Releases}
	events, err := plan.Charges()
	if err != nil {
		return err
	}
	budget := dp.Budget{Epsilon: math.Inf(1), Delta: 1e-6, Accountant: dp.RDP}
	ledger, err := dp.NewLedger(budget, w.prices)
	if err != nil {
		return err
	}
	costs := []float64{math.SmallestNonzeroFloat64} // a budget must be positive
	for i := range s.Rounds + 1 {
		if err = ledger.Charge(w.session, uint64(i)+1, events); err != nil {
			return err
		}
		costs = append(costs, ledger.Spent().Epsilon)
	}
	for i, d := range w.machines {
		d.budget = budget
		d.budget.Epsilon = costs[s.Rounds+1]
		if i < s.Poor {
			d.budget.Epsilon = costs[s.PoorRounds]
		}
	}
	return nil
}

// run goes through the happenings until nothing is left, a rule is broken, or it
// does not look like ever ending.
func (w *world) run() {
	w.queue.add(&happening{at: w.now, to: protocol.Party{Role: protocol.Server}, in: protocol.Start{}})
	for range most {
		h := w.queue.next()
		if h == nil || w.result.violation != nil {
			break
		}
		w.now = h.at
		w.happen(h)
	}
	w.observe(Ended{Model: w.planner.Model(), Over: w.over})
}

func (w *world) happen(h *happening) {
	if h.to.Role != protocol.Client {
		r := w.server
		if h.to.Role == protocol.Aggregator {
			r = w.aggregator
		}
		w.carryOut(h.to, w.step(r, h))
		return
	}
	d := w.machines[h.to.Client]
	switch {
	case h.in == nil && h.work == nil:
		w.restart(d)
		return
	case !d.up || h.work != nil && h.life != d.life:
		return // lost with the life it was for
	case w.strikes(w.schedule.Faults.Before):
		w.crash(d, "before "+describe(h))
		return
	}
	eff := w.step(d.role, h)
	if !w.strikes(w.schedule.Faults.After) {
		w.persist(d, eff)
		w.carryOut(h.to, eff)
		return
	}
	// The effects are carried out in their order, up to some point.
	switch w.dice.IntN(3) {
	case 0:
		w.crash(d, "before the records of "+describe(h)+" are durable")
	case 1:
		w.persist(d, eff)
		w.crash(d, "before the answer to "+describe(h)+" leaves")
	default:
		w.persist(d, eff)
		w.carryOut(h.to, eff)
		w.crash(d, "after "+describe(h))
	}
}

// step gives a role its input, once the work that it reports of is done.
func (w *world) step(r role, h *happening) protocol.Effects {
	in := h.in
	if h.work != nil {
		in = h.work.Do(protocol.Workers(1))
	}
	eff := r.Step(w.now, in)
	ignored := false
	for _, e := range eff.Events {
		switch e.Kind {
		case protocol.MessageIgnored:
			ignored = true
		case protocol.WorkFailed:
			w.observe(Failed{e})
		case protocol.ClientExcluded, protocol.SumRefused:
			w.observe(Blamed{e})
		case protocol.SessionEnded:
			w.over = true
		default: // what is seen from messages and records
		}
		w.report(h.to, e)
	}
	if m, ok := in.(protocol.Received); ok {
		w.observe(Heard{Envelope: m.Envelope, Ignored: ignored})
	}
	return eff
}

func (w *world) persist(d *machine, eff protocol.Effects) {
	for _, r := range eff.Persist {
		d.persist(r)
	}
}

// carryOut does what a role wants done, after its records.
func (w *world) carryOut(by protocol.Party, eff protocol.Effects) {
	for _, e := range eff.Send {
		w.send(e)
	}
	if !eff.Wake.IsZero() {
		w.queue.add(&happening{at: eff.Wake, to: by, in: protocol.Tick{}})
	}
	for _, job := range eff.Work {
		h := &happening{at: w.workEnds(by), to: by, work: &job}
		if by.Role == protocol.Client {
			h.life = w.machines[by.Client].life
		}
		w.busy[by] = h.at
		w.queue.add(h)
	}
}

// workEnds returns when a computation that a role begins now is done. The computations of one role
// run one after the other. No two of them are slow in a row, so that work begun before healing is
// over before a stage of the healed round is.
func (w *world) workEnds(by protocol.Party) time.Time {
	d := compute/2 + w.upTo(compute/2)
	if until := w.busy[by]; until.After(w.now) {
		return until.Add(d)
	}
	if w.strikes(w.schedule.Faults.Slow) {
		w.result.faults.Slowed++
		d += w.upTo(stageTimeout / 2)
		w.tell("%s takes %v to compute", by, d)
	}
	return w.now.Add(d)
}

// observe tells every checker. The first violation ends the schedule.
func (w *world) observe(o Observation) {
	w.result.observe(o)
	if p, ok := o.(Planned); ok {
		w.round = p.Plan.Round
		w.tell("round %d is planned", w.round)
	}
	for _, c := range w.checkers {
		if err := c.Observe(o); err != nil && w.result.violation == nil {
			w.result.violation = &Violation{Seed: w.schedule.Seed, Mode: w.schedule.Mode.String(), Rule: c.Rule(), What: err.Error()}
			w.tell("%v", w.result.violation)
		}
	}
}

// tell lets the listener know what happens.
func (w *world) tell(format string, args ...any) {
	if w.listener != nil {
		w.listener(w.now.Sub(epoch), fmt.Sprintf(format, args...))
	}
}

// report reports a role's event, about itself or about another party.
func (w *world) report(by protocol.Party, e protocol.Event) {
	what := fmt.Sprintf("%s: %s", by, e.Kind)
	if e.Party != by {
		what += fmt.Sprintf(", %s", e.Party)
	}
	if e.Err != nil {
		what += ": " + e.Err.Error()
	}
	w.tell("%s", what)
}

func describe(h *happening) string {
	if m, ok := h.in.(protocol.Received); ok {
		return m.Envelope.Message.Kind().String()
	}
	return "a computation"
}
