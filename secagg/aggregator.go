package secagg

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
)

// Aggregator is the aggregator's side of the real sum of one round. Each message is checked, added and dropped: besides keys and
// shares it holds one vector for each release, whatever the number of clients. It is not safe for concurrent use.
type Aggregator struct {
	setup   protocol.Setup
	plan    *protocol.Plan // nil before Begin
	params  Params
	known   *Agreements // of a simulation, else nil
	setting protocol.Hash
	stage   protocol.Stage
	heard   map[protocol.ClientID]protocol.Stage // the stage that a client answered last

	keys      map[protocol.ClientID]*protocol.Keys
	roster    *roster
	graph     *Graph
	dealt     *shelf                  // sealed shares, with their commitments
	hashes    [layers][]protocol.Hash // of seeds, by place on the roster
	weights   *weightsCache           // for what is dealt in active mode
	arrived   protocol.Bitmap         // whose shares arrived
	above     int64                   // bytes of shares that stay in memory
	openSpool OpenSpool               // nil: all stay in memory
	spooled   bool                    // the round's shares are in spools
	broken    error                   // a spool failed
	sums      []*mask.Vector
	verified  *verified                  // nil unless inputs are verified
	held      map[protocol.ClientID]bool // whose vectors of the present stage a relay holds
	u1, u2    protocol.Bitmap            // whose masked inputs arrived; who of them replaced noise
	latest    partialView                // the set that clients were last told parts of
	signed    []protocol.Signed

	complaints map[edge][32]byte // with the secret of the mask that is missing on one side

	contexts [layers]mask.Context    // each from the end of the stage on in which masks were put on
	revealed [layers]*shelf          // shares
	answers  [layers]protocol.Bitmap // who revealed shares
	culprits []protocol.Culprit
	finished bool
}

// NewAggregator sets up a round. It returns the errors of Params.Validate, as far as they do not need the plan.
func NewAggregator(s protocol.Setup, params Params) (*Aggregator, error) {
	if err := errors.Join(s.Cohort.Validate(), params.validateSetup(s)); err != nil {
		return nil, err
	}
	return &Aggregator{
		setup: s, params: params, setting: params.setting(s), weights: new(weightsCache),
		heard: make(map[protocol.ClientID]protocol.Stage), keys: make(map[protocol.ClientID]*protocol.Keys),
		complaints: make(map[edge][32]byte), held: make(map[protocol.ClientID]bool),
	}, nil
}

// Use has the aggregator of a simulation take what lost clients had in common with others from the keys that its
// parties left there. Signatures of earlier rounds are forgotten.
func (a *Aggregator) Use(known *Agreements) {
	a.known = known
	known.verified.Clear()
}

// Begin takes the plan of the round that was set up, once, before the first masked input at the latest. It returns ErrPlan for a
// plan of another setup, and otherwise the errors of protocol.Plan.Validate.
func (a *Aggregator) Begin(plan *protocol.Plan) error {
	if plan.Setup() != a.setup || a.plan != nil {
		return ErrPlan
	}
	if err := plan.Validate(); err != nil {
		return err
	}
	var err error
	if a.sums, err = vectors(plan); err != nil {
		return err
	}
	if err = a.verifies(plan); err != nil {
		return err
	}
	a.plan = plan
	return nil
}

// Confirms reports whether clients sign the survivors before they unmask.
func (a *Aggregator) Confirms() bool { return a.params.Mode == Active }

// Receive takes a client's message of the present stage. A client is heard once a stage, and only if it answered every stage
// before. An error is a *Fault: the message counts as not sent, and nothing of it was added.
func (a *Aggregator) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	return a.receive(from, m, func() error { return a.take(from, m, a.check(from, m, protocol.Workers(1))) })
}

// Verify is the first part of Receive, for a message with signatures, a proof or revealed shares, and nil for any other message. It
// returns a function that verifies them. That function returns the second part, which takes the message or says what is wrong with it. Verifying
// reads only state that is fixed as long as the stage is, so it may run on any goroutine, beside anything but Close.
func (a *Aggregator) Verify(from protocol.ClientID, m protocol.StageMessage) func(protocol.Runner) (receive func() error) {
	if round, stage := m.At(); !a.Confirms() || a.expects(from, round, stage) != nil {
		return nil
	}
	switch m.(type) {
	case *protocol.Advertise, *protocol.Shares, *protocol.Consistency, *protocol.Unmask:
	case *protocol.MaskedInput:
		if a.verified == nil {
			return nil
		}
		a.inputContext() // which is read
	default:
		return nil
	}
	return func(run protocol.Runner) func() error {
		err := a.check(from, m, run)
		return func() error { return a.receive(from, m, func() error { return a.take(from, m, err) }) }
	}
}

// check says what is wrong with a message that is expected, as far as that changes
// nothing; what it does not look at is checked as it is taken.
func (a *Aggregator) check(from protocol.ClientID, m protocol.StageMessage, run protocol.Runner) error {
	switch m := m.(type) {
	case *protocol.Advertise:
		return a.checkAdvertised(from, m)
	case *protocol.Shares:
		return a.checkShared(from, m, run)
	case *protocol.MaskedInput:
		if a.verified == nil {
			return nil // keep refuses a proof
		}
		return a.verified.shape.Verify(proofContext(a.inputContext(), from), m.Proof)
	case *protocol.Consistency:
		if !a.known.verifies(a.params, from, signedSurvivors(a.contexts[ofInputs].Binding, from, a.u1), m.Signature) {
			return ErrSignature
		}
		return nil
	case *protocol.Unmask:
		return a.checkRevealed(ofInputs, a.roster.find(from), m.Shares)
	case *protocol.Replacement:
		return a.checkRevealed(ofChanges, a.roster.find(from), m.Shares)
	default:
		return nil
	}
}

// receive has a message taken, if one is expected.
func (a *Aggregator) receive(from protocol.ClientID, m protocol.StageMessage, take func() error) error {
	round, stage := m.At()
	if err := a.expects(from, round, stage); err != nil {
		return a.fault(from, stage, err)
	}
	err := take()
	if errors.Is(err, ErrSpool) {
		a.broken = err
		return err
	}
	if err != nil {
		err = a.fault(from, stage, err)
		a.blame(from, err)
		return err
	}
	a.heard[from] = stage
	return nil
}

// take takes a message, unless its check found something wrong.
func (a *Aggregator) take(from protocol.ClientID, m protocol.StageMessage, wrong error) error {
	if wrong != nil {
		return wrong
	}
	switch m := m.(type) {
	case *protocol.Advertise:
		a.keys[from] = m.Keys
	case *protocol.Shares:
		return a.shared(a.roster.find(from), m)
	case *protocol.MaskedInput:
		return a.input(from, m)
	case *protocol.Consistency:
		a.signed = append(a.signed, protocol.Signed{Client: from, Signature: m.Signature})
	case *protocol.Unmask:
		return a.unmasked(from, m)
	case *protocol.Replacement:
		return a.reveal(ofChanges, a.roster.find(from), m.Shares)
	default:
		return fmt.Errorf("%w: %s", ErrMalformed, protocol.Describe(m))
	}
	return nil
}

// Culprits returns the clients that have been proved to break the protocol, in the order in which they were found out. It is empty
// in semi-honest mode, where clients are assumed not to lie. A culprit is a client whose message was refused for its content, or a
// dealer of whom so many complain that its secret is lost. Complaints by no more clients than may lie never make a client a culprit.
// Culprits must not be called while Sum computes.
func (a *Aggregator) Culprits() []protocol.Culprit { return a.culprits }

func (a *Aggregator) blame(id protocol.ClientID, err error) {
	if a.Confirms() {
		a.culprits = append(a.culprits, protocol.Culprit{Client: id, Err: err})
	}
}

// expects says why a message does not come at its time, if it does not.
func (a *Aggregator) expects(from protocol.ClientID, round uint64, stage protocol.Stage) error {
	if round != a.setup.Round || stage != a.stage || a.finished {
		return fmt.Errorf("%w: %s of round %d", ErrOrder, stage, round)
	}
	last, any := a.heard[from]
	switch {
	case stage == protocol.StageMaskedInput && a.plan == nil:
		return fmt.Errorf("%w: there is no plan yet", ErrOrder)
	case !a.setup.Chooses(from):
		return fmt.Errorf("%w: %d clients may take part, and this is none of them", ErrOrder, a.setup.Cohort.Clients)
	case stage == protocol.StageAdvertise && !any && len(a.keys) >= a.setup.Cohort.Wanted():
		return fmt.Errorf("%w: %d clients have advertised, and more are not waited for", ErrOrder, len(a.keys))
	case any && last == stage:
		return fmt.Errorf("%w: the client has answered", ErrOrder)
	case stage != protocol.StageAdvertise && (!any || a.course().After(last) != stage):
		return fmt.Errorf("%w: the client was lost before", ErrOrder)
	}
	return nil
}

// course is which stages the round goes through.
func (a *Aggregator) course() protocol.StageFlow {
	return protocol.StageFlow{Confirms: a.Confirms(), Replaces: a.setup.Replaces}
}

// Close ends the present stage: no more messages of it are received. An error that is a protocol.Reason says that no sum is
// possible any more, so that the next stage need not be run. An ErrSpool says that shares cannot be kept.
func (a *Aggregator) Close(s protocol.Stage) error {
	if s != a.stage {
		return fmt.Errorf("%w: %s", ErrOrder, s)
	}
	for c := range a.held { // the vectors of these did not come, so they have not answered
		delete(a.heard, c)
		if a.stage == protocol.StageUnmask {
			a.answers[ofInputs].Clear(a.roster.find(c))
		}
	}
	clear(a.held)
	a.stage = a.course().After(s)
	if a.broken != nil {
		return a.broken
	}
	switch s {
	case protocol.StageAdvertise:
		return a.closeAdvertise()
	case protocol.StageShare:
		a.weights.sets.Clear()
		return a.starved(a.arrived, a.arrived) // clients that dealt are the graph of masks
	case protocol.StageMaskedInput:
		return a.closeInput()
	case protocol.StageConsistency:
		slices.SortFunc(a.signed, func(x, y protocol.Signed) int { return cmp.Compare(x.Client, y.Client) })
		if need := Quorum(a.plan.Cohort, len(a.roster.members)); len(a.signed) < need { // too few for any client to unmask
			return &protocol.TooFew{Round: a.plan.Round, Stage: s, Left: len(a.signed), Required: need}
		}
	case protocol.StageUnmask:
		if a.setup.Replaces { // then U2, the clients whose answer arrived, must be able to restore the secrets of both sums
			a.u2 = slices.Clone(a.answers[ofInputs])
			a.contexts[ofChanges] = a.roster.changeContext(a.contexts[ofInputs], a.wholly(a.u1))
			return a.starved(a.arrived, a.u2)
		}
	default:
	}
	return nil
}

// Next is the message that opens the stage after the closed one, for a client that answered it. It is asked for once for each.
func (a *Aggregator) Next(closed protocol.Stage, to protocol.ClientID) protocol.Message {
	switch closed {
	case protocol.StageAdvertise:
		return a.showing(to)
	case protocol.StageShare:
		return a.delivery(to)
	case protocol.StageMaskedInput:
		t := a.told(a.u1, a.roster.find(to))
		return &protocol.Survivors{Round: a.setup.Round, Count: t.count, U1: t.known, Digest: t.digest}
	case protocol.StageConsistency:
		return &protocol.Quorum{Round: a.setup.Round, Signatures: a.signed}
	default:
		t := a.told(a.u2, a.roster.find(to))
		return &protocol.Answered{Round: a.setup.Round, Count: t.count, U2: t.known, Digest: t.digest}
	}
}

func (a *Aggregator) fault(from protocol.ClientID, s protocol.Stage, err error) error {
	return &Fault{Culprit: protocol.ClientParty(from), Round: a.setup.Round, Stage: s, Err: err}
}

// starved reports the first of the clients in set of whom fewer neighbours are in holders than it takes to restore a secret.
func (a *Aggregator) starved(set, holders protocol.Bitmap) error {
	for i := range a.roster.members {
		if !set.Has(i) {
			continue
		}
		left, lost := 0, 0
		for _, j := range a.graph.Neighbours(i) {
			switch {
			case !holders.Has(j):
			case a.holds(j, i):
				left++
			default:
				lost++
			}
		}
		if t := a.roster.choice.Threshold; left < t && a.needed(i) {
			// Among more than may collude there is one who does not lie.
			err := a.unrecoverable(i, left, left+lost >= t && lost > a.setup.Cohort.Liars())
			if err.Dealt {
				a.blame(err.Client, err)
			}
			return err
		}
	}
	return nil
}

// needed reports whether the client's secret must be reconstructed. It need not if the client
// dropped out and every neighbour complained, so that it shares no mask.
func (a *Aggregator) needed(place int) bool {
	if a.u1 == nil || a.u1.Has(place) {
		return true
	}
	return slices.ContainsFunc(a.graph.Neighbours(place), func(j int) bool { return a.u1.Has(j) && a.holds(j, place) })
}

func (a *Aggregator) unrecoverable(place, left int, dealt bool) *protocol.Unrecoverable {
	return &protocol.Unrecoverable{Round: a.setup.Round, Client: a.roster.members[place].Client,
		Left: left, Required: a.roster.choice.Threshold, Dealt: dealt}
}
