// Package aggregator is the aggregator role, between the server and the clients. It
// relays the server's plan to the clients, leads them through the stages of one secure
// sum, and gives the server the sum, or the reason why there is none. It knows no model
// and no algorithm.
//
// The role is a state machine without I/O: [Aggregator.Step] takes an input and the time,
// and returns effects for its driver to carry out. So the same code runs in a simulation
// and over a network. The secure sum itself is behind [Sum].
//
// While no client is missing, rounds are set up ahead: keys for the next round
// travel with the masked inputs of the present one, and shares with the answers to
// unmask. A round then takes three exchanges with each client instead of five.
// Confirming survivors takes one more, and so does replacing noise.
//
// A client that has its masked input ready says that it is prepared, and waits until the
// aggregator tells it to proceed. Clients charge their ledgers only then. So a round that
// loses too many clients before costs nothing, and waits until they are back.
package aggregator

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Sum is one secure sum in progress, as its aggregator sees it (package secagg).
type Sum interface {
	// Begin takes the plan, before the first masked input is received. The stages before
	// that may run while the previous round is under way.
	Begin(*protocol.Plan) error
	// Receive takes a client's message of the present stage; each client is heard once
	// per stage. An error says what is wrong with the message, which then counts as not
	// sent.
	Receive(from protocol.ClientID, m protocol.StageMessage) error
	// Verify is the first part of Receive, for a message of which the signatures are to
	// be verified as work, and nil for any other. The function it returns verifies them,
	// and returns the second part of Receive. It runs beside anything but Close; the
	// second part does not.
	Verify(from protocol.ClientID, m protocol.StageMessage) func(protocol.Runner) (receive func() error)
	// Confirms reports whether clients confirm the survivors, in the stage
	// consistency, before they unmask; otherwise there is no such stage.
	Confirms() bool
	// Close ends the present stage: no more messages of it are received. It is called
	// before Next or Sum. An error that is a protocol.Reason ends the round without a
	// sum.
	Close(protocol.Stage) error
	// Next is the message that opens the stage after the closed one, for a client
	// that answered it.
	Next(closed protocol.Stage, to protocol.ClientID) protocol.Message
	// Sum computes the released integers, per release of the plan, once the last
	// stage is closed. It is heavy. An error that is a protocol.Reason ends the
	// round without a sum.
	Sum(protocol.Runner) ([][]int64, error)
	// Culprits are the clients that have been proved to lie so far. It is not asked
	// for while Sum computes.
	Culprits() []protocol.Culprit
	// Drop gives up what the sum keeps outside memory. It is called once the round is over or given up,
	// perhaps beside Sum.
	Drop()
}

// Config configures an aggregator. Clients, NewSum and StageTimeout are required.
type Config struct {
	Clients int // enrolled; a plan that names another number is refused
	NewSum  func(protocol.Setup) (Sum, error)
	// StageTimeout is the time that a stage waits for clients that do not answer.
	StageTimeout time.Duration
	// Rounds is T, the number of rounds. Each round up to T is set up ahead, during the previous
	// round. 0: none is.
	Rounds uint64
	// SitOut is the share of the clients, in [0, 1), that a round set up ahead may begin without:
	// clients that were lost in the previous round. They sit the round out and are set up for the
	// next. If more are missing (by default, if any is), the round is set up anew with every
	// client.
	SitOut float64
	// Presence says that the driver reports who is connected. A stage then ends as soon as enough
	// clients have answered and no other connected client may answer. A client that has lost its
	// connection is awaited for Grace, in case it comes back.
	Presence bool
	Grace    time.Duration
	// Tail is the time that a stage continues for the others, once enough clients have answered. 0:
	// until StageTimeout.
	Tail time.Duration
	// Gather is the time that all rounds of a session together wait until as many clients are
	// connected, and then prepared, as they require. A round costs nothing before. 0: a round
	// begins at once, and once only. It goes by Presence.
	Gather time.Duration
	// Excluded are clients that the session is without from the start: they were excluded before
	// its aggregator was made anew.
	Excluded []protocol.ClientID
}

// Aggregator leads rounds. Its methods are for one goroutine at a time.
type Aggregator struct {
	cfg       Config
	work      uint64
	round     *round                     // the round in progress
	next      *round                     // the round that is set up ahead; nil if none is
	session   protocol.SessionID         // of the latest plan
	last      uint64                     // its round; an earlier or equal one is refused
	signature []byte                     // the server's of the plan; none in a simulation
	held      *heldPlan                  // waits for clients; nil: no plan does
	waited    time.Duration              // how long plans of the session have waited, with the setups that were given up
	anew      uint32                     // the setups of the latest plan that were given up
	lines     []connection               // by client; none without Config.Presence
	refusals  map[protocol.ClientID]bool // clients that take no part in the round of the latest plan
	silent    []int                      // by client: the rounds in a row that have waited for it in vain; none without Config.Presence
	blame     blame                      // of who lied in the session

	verification verification
}

// New makes an aggregator.
func New(cfg Config) *Aggregator {
	a := &Aggregator{cfg: cfg, blame: newBlame(), refusals: make(map[protocol.ClientID]bool)}
	if cfg.Presence {
		a.lines, a.silent = make([]connection, cfg.Clients), make([]int, cfg.Clients)
	}
	for _, id := range cfg.Excluded {
		a.blame.excluded[id] = true
	}
	return a
}

// Step feeds one input. It never blocks and never panics on what a peer sent.
func (a *Aggregator) Step(now time.Time, in protocol.Input) protocol.Effects {
	if in, ok := in.(protocol.Received); ok {
		return a.Receive(now, in.Envelope)
	}
	defer a.drop(a.round, a.next)
	switch in := in.(type) {
	case protocol.Tick:
		return a.woken(now)
	case protocol.Connected:
		return a.connected(now, in)
	case protocol.Disconnected:
		return a.disconnected(now, in)
	case protocol.Transfer:
		a.transfer(in)
	case protocol.Registered:
		a.forget(in.Client)
		return a.settle(now)
	case protocol.Alone:
		return a.alone(now)
	case protocol.RelayLost:
		return a.relayLost(now, in)
	case protocol.Done:
		return a.done(now, in)
	}
	return protocol.Effects{}
}

// drop drops the sums of rounds that have been left.
func (a *Aggregator) drop(rounds ...*round) {
	for _, r := range rounds {
		if r != nil && r != a.round && r != a.next {
			r.sum.Drop()
		}
	}
}

// Drop drops what the sums of all rounds keep outside memory. The role is of no use afterwards.
func (a *Aggregator) Drop() {
	rounds := []*round{a.round, a.next}
	a.round, a.next = nil, nil
	a.drop(rounds...)
}

// Receive is Step with a message.
func (a *Aggregator) Receive(now time.Time, e protocol.Envelope) protocol.Effects {
	defer a.drop(a.round, a.next)
	if e.From.Role == protocol.Relay {
		return a.fromRelay(now, e)
	}
	switch m := e.Message.(type) {
	case *protocol.Open:
		if e.From.Role == protocol.Server && m.Plan != nil {
			return a.open(now, m.Plan)
		}
	case *protocol.Final:
		if e.From.Role == protocol.Server {
			a.stopWaiting(now)
			a.round, a.next = nil, nil
			eff := protocol.Effects{Send: make([]protocol.Envelope, a.cfg.Clients)}
			for c := range eff.Send {
				eff.Send[c] = protocol.ToClient(protocol.ClientID(c), m)
			}
			return eff
		}
	case protocol.StageMessage:
		if e.From.Role == protocol.Client {
			return a.stageMessage(now, e.From, m)
		}
	case *protocol.Refusal:
		if e.From.Role == protocol.Client {
			return a.refusal(now, e.From.Client, m)
		}
	}
	return protocol.Ignored(e.From, 0, 0, fmt.Errorf("%s is not expected from %s", protocol.Describe(e.Message), e.From))
}

// open begins the round of a plan, or holds it until enough clients are connected. It leaves a
// round that is still in progress.
func (a *Aggregator) open(now time.Time, p *protocol.Plan) protocol.Effects {
	err := p.Validate()
	if err == nil && p.Cohort.All() != a.cfg.Clients {
		err = fmt.Errorf("the plan names %d clients, %d are enrolled", p.Cohort.All(), a.cfg.Clients)
	}
	if err != nil {
		return refused(p, err)
	}
	if p.Session == a.session && p.Round <= a.last {
		return a.past(p)
	}
	if p.Session != a.session && a.last > 0 {
		a.blame, a.next, a.waited = newBlame(), nil, 0 // who lied in another session did not in this
		clear(a.silent)
	}
	a.stopWaiting(now)
	a.anew = 0
	clear(a.refusals)
	if a.holds(p) {
		return a.await(now, p)
	}
	return a.start(now, p)
}

// start begins the round of a plan: as it was set up ahead, if enough of its clients are
// still connected.
func (a *Aggregator) start(now time.Time, p *protocol.Plan) protocol.Effects {
	r := a.next
	if r == nil || r.setup != p.Setup() || r.stage != protocol.StagePrepared || !a.usable(r) {
		var err error
		if r, err = a.newRound(p.Setup()); err != nil {
			return refused(p, err)
		}
		r.anew = a.anew
	}
	if err := r.sum.Begin(p); err != nil {
		return refused(p, err)
	}
	a.session, a.last, a.signature = p.Session, p.Round, p.Signature
	a.round, a.next = r, nil
	a.verification.closing = false
	r.plan, r.begun = p, now
	r.begin(now.Add(a.cfg.StageTimeout))
	var eff protocol.Effects
	if r.ahead {
		eff = a.begin(r)
	} else {
		eff.Send = make([]protocol.Envelope, len(r.chosen))
		for i, id := range r.chosen {
			eff.Send[i] = protocol.ToClient(id, &protocol.Announce{Plan: p, Anew: r.anew})
		}
	}
	a.sent(r, eff.Send)
	for c := range a.refusals {
		r.missed[c] = true
	}
	eff.Wake = r.deadline
	eff.Events = []protocol.Event{{Kind: protocol.RoundOpened, Round: p.Round, Party: protocol.Party{Role: protocol.Server}}}
	return eff
}

func (a *Aggregator) newRound(s protocol.Setup) (*round, error) {
	sum, err := a.cfg.NewSum(s)
	r := &round{setup: s, sum: sum, chosen: s.Chosen(), awaited: slices.Repeat([]protocol.Stage{gone}, a.cfg.Clients),
		missed: make([]bool, a.cfg.Clients), verifying: make([]bool, a.cfg.Clients)}
	r.chosen = slices.DeleteFunc(r.chosen, func(id protocol.ClientID) bool { return a.blame.excluded[id] })
	for _, id := range r.chosen {
		r.awaited[id] = protocol.StageAdvertise
	}
	r.expected = len(r.chosen)
	return r, err
}

// past answers the plan of a round that was opened before. The server says the plan of the present round again when its
// connection has broken. A plan of an earlier round comes from a server whose state was restored from an older copy: clients
// use no number twice, so the round is given up at once.
func (a *Aggregator) past(p *protocol.Plan) protocol.Effects {
	err := fmt.Errorf("round %d is not later than %d, the last one opened", p.Round, a.last)
	if p.Round == a.last && bytes.Equal(p.Signature, a.signature) {
		return refused(p, err)
	}
	why := &protocol.TooFew{Round: p.Round, Stage: protocol.StageAdvertise, Required: p.Cohort.Required()}
	return aborted(p.Round, why, fmt.Errorf("%w: the state of the server was restored from an older copy", err))
}

// aborted tells the server that a round released nothing.
func aborted(round uint64, why protocol.Reason, err error) protocol.Effects {
	return protocol.Effects{
		Send:   []protocol.Envelope{protocol.ToServer(&protocol.Abort{Round: round, Reason: why})},
		Events: []protocol.Event{event(protocol.RoundAborted, round, err)},
	}
}

// event is an event of the aggregator's own.
func event(kind protocol.EventKind, round uint64, err error) protocol.Event {
	return protocol.Event{Kind: kind, Round: round, Party: protocol.Party{Role: protocol.Aggregator}, Err: err}
}

// stageMessage counts a client's answer, and closes the stage with the last one.
func (a *Aggregator) stageMessage(now time.Time, from protocol.Party, m protocol.StageMessage) protocol.Effects {
	a.spoke(from.Client, m)
	r, err := a.roundOf(m)
	if err != nil {
		round, stage := m.At()
		return protocol.Ignored(from, round, stage, err)
	}
	return a.goOn(now, a.offer(r, from, m))
}

// roundOf is the round that a client's message is of, if anything of that is heard now.
func (a *Aggregator) roundOf(m protocol.StageMessage) (*round, error) {
	round, _ := m.At()
	r := a.round
	if a.next != nil && a.next.setup.Round == round {
		r = a.next
	}
	if r == nil || r.summing != 0 || r.setup.Round != round {
		return nil, errors.New("that round is not in progress")
	}
	if a.verification.closing || r == a.round && r.collecting() {
		return nil, errors.New("the stage is over")
	}
	return r, nil
}

// accepted sees to what a message says besides that it answers its stage. It reports whom the client complains of.
func (a *Aggregator) accepted(r *round, from protocol.Party, m protocol.StageMessage) []protocol.Event {
	var events []protocol.Event
	if ready, ok := m.(*protocol.Prepared); ok && r.sum.Confirms() {
		for _, id := range r.chosen {
			if ready.Accused.Has(int(id)) {
				events = append(events, a.accused(r, from, id)...)
			}
		}
	}
	if in, ok := m.(*protocol.MaskedInput); ok {
		for _, c := range in.Complaints {
			events = append(events, a.accused(r, from, c.Of)...)
		}
	}
	if rider, ok := protocol.Piggyback(m).(protocol.StageMessage); ok && a.next != nil { // else too many are missing
		if round, _ := rider.At(); a.next.setup.Round == round {
			events = append(events, a.offer(a.next, from, rider)...)
		}
	}
	return events
}

// accused books that a client complains of what a dealer dealt, and says so once for each pair of them.
func (a *Aggregator) accused(r *round, from protocol.Party, of protocol.ClientID) []protocol.Event {
	var events []protocol.Event
	if !a.blame.by[from.Client][of] {
		events = append(events, protocol.Event{Kind: protocol.ClientAccused, Round: r.setup.Round,
			Party: protocol.ClientParty(of), By: from, Err: fmt.Errorf("%s was dealt shares of which no use can be made", from)})
	}
	return append(events, a.exclude(r.setup.Round, a.blame.complain(from.Client, of, r.setup.Cohort))...)
}

// closeStage ends the stage in progress, once the received messages are verified. A client that has
// not answered is lost.
func (a *Aggregator) closeStage(now time.Time) protocol.Effects {
	if a.verification.closing = a.verifies(); a.verification.closing {
		return protocol.Effects{}
	}
	r := a.round
	eff, waits := a.collects(now)
	if waits {
		return eff
	}
	for _, c := range a.left(r) {
		r.lose(protocol.ClientID(c))
		eff.Events = append(eff.Events, lost(r, c))
	}
	for c, stage := range r.awaited {
		if stage == r.stage {
			eff.Events = append(append(eff.Events, lost(r, c)), a.hushed(r, c, now)...)
		}
	}
	if a.spoilt(now, r) {
		return a.repeat(now, eff)
	}
	if err := r.close(); err != nil {
		a.next = nil
		eff.Events = append(eff.Events, a.exclude(r.setup.Round, r.sum.Culprits())...)
		if a.repeats(now, r, err) {
			return a.repeat(now, eff)
		}
		return a.failed(eff, err)
	}
	switch r.stage {
	case protocol.StageShare:
		a.openNext()
	case protocol.StageMaskedInput:
		r.inputs = r.answered
		a.closeNext()
	case protocol.StageUnmask:
		r.unmasked = r.answered
		a.closeNext()
	default: // the next round is set up while inputs and answers to unmask arrive
	}
	closed := event(protocol.StageClosed, r.setup.Round, nil)
	closed.Stage = r.stage
	eff.Events = append(eff.Events, closed)
	if r.following() == protocol.Stages {
		a.work++
		r.summing = a.work
		eff.Work = []protocol.Work{protocol.NewWork(a.work, r.sum.Sum, func(_ time.Time, released [][]int64) protocol.Effects {
			return a.summed(r, released)
		})}
		return eff
	}
	eff.Send = a.hand(r)
	if r.stage == protocol.StageMaskedInput {
		eff.Send = append(eff.Send, a.rosters()...)
	}
	r.advance()
	r.begin(now.Add(a.cfg.StageTimeout))
	a.sent(r, eff.Send)
	eff.Wake = r.deadline
	return eff
}

// hand gives the message that opens the next stage to the clients that answered the closed one.
func (a *Aggregator) hand(r *round) []protocol.Envelope {
	out := make([]protocol.Envelope, 0, r.answered)
	for c, stage := range r.awaited {
		if stage == r.following() {
			id := protocol.ClientID(c)
			out = append(out, protocol.ToClient(id, a.withRoster(id, r.opening(id))))
		}
	}
	return out
}

// failed ends a round without a result. If the reason is a reason of the protocol, the server hears
// it and continues.
func (a *Aggregator) failed(eff protocol.Effects, err error) protocol.Effects {
	ev := event(protocol.WorkFailed, a.round.setup.Round, err)
	if why, ok := errors.AsType[protocol.Reason](err); ok {
		ev.Kind, ev.Stage = protocol.RoundAborted, a.round.stage
		eff.Send = []protocol.Envelope{protocol.ToServer(&protocol.Abort{Round: ev.Round, Reason: why})}
	}
	a.round = nil
	eff.Events = append(eff.Events, ev)
	return eff
}

// done takes in what came of verifying messages, or of summing up.
func (a *Aggregator) done(now time.Time, in protocol.Done) protocol.Effects {
	if a.verification.batch != nil && in.ID == a.verification.work {
		if in.Err != nil {
			for _, x := range a.verification.batch {
				x.round.verifying[x.from.Client] = false
			}
			a.verification.batch = nil
			return a.goOn(now, []protocol.Event{event(protocol.WorkFailed, a.last, in.Err)})
		}
		return in.Apply(now)
	}
	r := a.round
	if r == nil || in.ID != r.summing {
		return protocol.Effects{} // of a round that the next one overtook
	}
	if in.Err != nil {
		return a.failed(protocol.Effects{Events: a.exclude(r.setup.Round, r.sum.Culprits())}, in.Err)
	}
	return in.Apply(now)
}

// summed takes the released sum to the server.
func (a *Aggregator) summed(r *round, released [][]int64) protocol.Effects {
	a.round = nil
	m := &protocol.Result{Round: r.setup.Round, Integers: released, Survivors: r.inputs, Answered: r.unmasked}
	return protocol.Effects{Send: []protocol.Envelope{protocol.ToServer(m)}, Events: []protocol.Event{event(protocol.RoundSummed, m.Round, nil)}}
}

func refused(p *protocol.Plan, err error) protocol.Effects {
	return protocol.Effects{Events: []protocol.Event{event(protocol.PlanRefused, p.Round, err)}}
}
