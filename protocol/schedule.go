package protocol

import (
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
)

// Schedule lists the requests of the rounds of a run, in order. It is public: all parties know it before the first plan.
type Schedule []Step

// Step is a number of consecutive rounds that ask for the same.
type Step struct {
	Rounds int    `json:"rounds"` // at least 1
	Phase  string `json:"phase"`  // as in their plans
	// Releases are at least one, noise included.
	Releases []Release `json:"releases"`
	// Model is an upper limit of the length in bytes of the model that comes with a plan. For the
	// last step it covers the final model, too.
	Model int `json:"model_bytes"`
}

// Alike reports whether two steps ask for the same, in however many rounds.
func (s Step) Alike(o Step) bool {
	return s.Phase == o.Phase && s.Model == o.Model && slices.Equal(s.Releases, o.Releases)
}

// maxModel bounds the length of a model: far beyond what is ever sent.
const maxModel = 1 << 30

// Validate reports everything that makes the schedule unusable, except for its releases:
// plans check those, together with the cohort.
func (s Schedule) Validate() error {
	var errs problems.List
	errs.If(len(s) == 0, "the schedule has no steps")
	total := 0
	for i, step := range s {
		errs.If(step.Rounds < 1, "step %d has %d rounds; there must be at least 1", i+1, step.Rounds)
		errs.If(step.Rounds > math.MaxInt32-total, "step %d has %d rounds; there may be %d in all", i+1, step.Rounds, math.MaxInt32)
		total += max(0, min(step.Rounds, math.MaxInt32-total))
		errs.If(step.Model < 0 || step.Model > maxModel,
			"step %d has a model of %d bytes; there may be from 0 to %d", i+1, step.Model, maxModel)
		errs.If(len(step.Releases) == 0, "step %d releases nothing", i+1)
	}
	return errors.Join(errs...)
}

// Rounds is T, how many rounds there are.
func (s Schedule) Rounds() int {
	n := 0
	for _, step := range s {
		n += step.Rounds
	}
	return n
}

// Model is the length in bytes of the longest model that is ever sent.
func (s Schedule) Model() int {
	n := 0
	for _, step := range s {
		n = max(n, step.Model)
	}
	return n
}

// At is the step that a round, counted from 1, belongs to; nil if there is no such round.
func (s Schedule) At(round uint64) *Step {
	if round == 0 {
		return nil
	}
	for i := range s {
		n := uint64(s[i].Rounds)
		if round <= n {
			return &s[i]
		}
		round -= n
	}
	return nil
}

// Clone shares nothing with the schedule.
func (s Schedule) Clone() Schedule {
	out := slices.Clone(s)
	for i := range out {
		out[i].Releases = slices.Clone(out[i].Releases)
	}
	return out
}

// All runs over the releases of all steps, to change in place.
func (s Schedule) All() iter.Seq2[*Step, *Release] {
	return func(yield func(*Step, *Release) bool) {
		for i := range s {
			for j := range s[i].Releases {
				if !yield(&s[i], &s[i].Releases[j]) {
					return
				}
			}
		}
	}
}

// Vectors counts the vectors that are released over the run, and their coordinates together.
func (s Schedule) Vectors() (vectors, coordinates int) {
	for step, r := range s.All() {
		vectors += step.Rounds
		coordinates += step.Rounds * r.Len
	}
	return vectors, coordinates
}

// Uniform reports whether every round releases the same single vector. Parties that
// noise their own training may take more steps in the last.
func (s Schedule) Uniform() bool {
	first := s[0].Releases[0]
	for _, step := range s {
		if len(step.Releases) != 1 || step.Phase != s[0].Phase {
			return false
		}
		r := step.Releases[0]
		if r.Noise.Steps = first.Noise.Steps; r != first {
			return false
		}
	}
	return true
}

// EndWith has parties that noise their own training take this many local steps in the last round.
func (s *Schedule) EndWith(steps int) {
	last := (*s)[len(*s)-1]
	last.Releases = slices.Clone(last.Releases)
	for i := range last.Releases {
		last.Releases[i].Noise.Steps = steps
	}
	if last.Rounds == 1 {
		(*s)[len(*s)-1] = last
		return
	}
	(*s)[len(*s)-1].Rounds--
	last.Rounds = 1
	*s = append(*s, last)
}

// First is the first release, which stands for all of a schedule that is uniform.
func (s Schedule) First() *Release { return &s[0].Releases[0] }

// Noise is the noise of the first release. All releases of a run have its kind.
func (s Schedule) Noise() Noise { return s.First().Noise }

// Charges returns the charges of all attempts after the first past ones, together, for a client with as many turns of each step as a
// client can have ([Cohort.Turns]).
func (s Schedule) Charges(c Cohort, past, attempts int) ([]dp.Event, error) {
	all := []dp.Event{}
	for _, step := range s {
		n := min(attempts, step.Rounds)
		skipped := min(past, n)
		attempts, past = attempts-n, past-skipped
		if n -= skipped; n == 0 {
			continue
		}
		p := &Plan{Cohort: c, Phase: step.Phase, Releases: step.Releases}
		one, err := p.Charges()
		if err != nil {
			return nil, err
		}
		all = append(all, lists.Map(one, func(e dp.Event) dp.Event { return e.Times(c.Turns(n)) })...)
	}
	return all, nil
}

// Input is an input of a driver to a role: Start, Received, Registered, Connected, Disconnected, Transfer, RelayLost, Done or Tick.
type Input interface{ input() }

// Start begins a role's life.
type Start struct{}

// Received hands over a message.
type Received struct{ Envelope Envelope }

// Registered tells the aggregator that a client has restarted with nothing but its records: whatever it was doing is lost. Sent to
// the server, it says that the aggregator has restarted, and Client has no meaning.
type Registered struct{ Client ClientID }

// Connected tells the aggregator that a client has a connection to it. Connections are numbered in the order in which they came
// about, from 1. A driver that reports them reports all of them: see aggregator.Config.
type Connected struct {
	Client     ClientID
	Connection uint64
	// Relayed says that it is a connection to a relay.
	Relayed bool
}

// Disconnected tells the aggregator that a connection is lost, which may be old news.
type Disconnected struct {
	Client     ClientID
	Connection uint64
}

// Transfer tells the aggregator that a long message (LongMessage) begins or has ceased to pass a client's
// connection, in either direction. A driver that reports it drops a connection on which too little moves.
type Transfer struct {
	Client     ClientID
	Connection uint64
	Begins     bool
	// Until is when the last bytes of a message to the client arrive, at the speed of those before. Zero: they have.
	Until time.Time
}

// Alone tells the aggregator that so many clients decline the session that no round can come about: it waits for none of them.
type Alone struct{}

// RelayLost tells the aggregator that the connection to a relay is lost: what it holds will
// not come. A relay that connects again has another number.
type RelayLost struct{ Number int }

// Tick says that the time a role asked to be woken at has come.
type Tick struct{}

func (Start) input()        {}
func (Received) input()     {}
func (Registered) input()   {}
func (Connected) input()    {}
func (Disconnected) input() {}
func (Transfer) input()     {}
func (Alone) input()        {}
func (RelayLost) input()    {}
func (Done) input()         {}
func (Tick) input()         {}

// Effects are a role's requests to its driver. The driver carries the fields out in this order:
// everything in Persist is durable before anything is sent.
type Effects struct {
	Persist []Record
	Send    []Envelope
	Wake    time.Time // zero: the time asked for before stands, if any
	Work    []Work
	Events  []Event
}

// Record is something a role must still know after a crash.
type Record interface{ record() }

// Charged records what a round cost a client's privacy (nothing if the client keeps no ledger), and that the client must not take
// part in that round again. It is durable before the masked input leaves and is never undone.
type Charged struct {
	Session SessionID
	Round   uint64
	Events  []dp.Event
}

func (Charged) record() {}

// Trained records what a client has trained for itself alone, so that a restart does not
// lose steps that were charged. It is durable before any result of the same steps leaves.
type Trained struct {
	Session SessionID
	Round   uint64 // of the latest steps
	State   []byte // of the trainer, as it restores it
}

func (Trained) record() {}

// Checkpoint records the progress of a session, so that a restarted server can continue from there.
// Of a round only the fact that it was opened is kept, and no round number is used twice. It is
// durable before the plan of Round leaves, and again before the final model leaves.
type Checkpoint struct {
	Session SessionID
	Round   uint64 // the latest that was opened; 0: none
	State   []byte // of the server, as it restores it
}

func (Checkpoint) record() {}

// EventKind names what happened.
type EventKind uint8

// The events that roles report.
const (
	// RoundOpened: the aggregator announced a plan.
	RoundOpened EventKind = iota
	// StageClosed: the aggregator takes no more answers of a stage, and continues.
	StageClosed
	// RoundSummed: a round ended in a sum.
	RoundSummed
	// SumRefused: the server makes no use of a sum that honest clients cannot have given; Err says of which release, and why.
	SumRefused
	// RoundAborted: a round ended without a sum; Err says why.
	RoundAborted
	// RoundHeld: a round waits for clients, since too few are connected or were prepared; Err says how many it waits for.
	RoundHeld
	// ClientLost: a client did not answer a stage in time.
	ClientLost
	// ClientSilent: a client is connected and has answered nothing for some rounds, and stages do not wait for it
	// any more; Err says what to do.
	ClientSilent
	// ClientAccused: another client, By, complains about the shares that this one dealt to
	// it. The aggregator reports it, and the client that complains.
	ClientAccused
	// ClientExcluded: a client has broken the protocol, as Err says, and takes no part in what is left of the session.
	ClientExcluded
	// InputUnusable: a client's own contribution broke its bounds; it sends zero and noise. Only the client itself is told.
	InputUnusable
	// PlanRefused: a client does not take part in a round, because of its budget or because the plan is not sound.
	PlanRefused
	// MessageIgnored: a message came late, twice, or from a party that cannot send it.
	MessageIgnored
	// WorkFailed: a computation of a role failed.
	WorkFailed
	// SessionDeclined: a client takes no part in the session that there is. Err is the kind of its reason.
	SessionDeclined
	// SessionEnded: the last round is over; for a client, its trainer is done as well.
	SessionEnded
)

var eventNames = [...]string{
	RoundOpened: "round-opened", StageClosed: "stage-closed", RoundSummed: "round-summed", SumRefused: "sum-refused", RoundAborted: "round-aborted", RoundHeld: "round-held",
	ClientLost: "client-lost", ClientSilent: "client-silent", ClientAccused: "client-accused", ClientExcluded: "client-excluded", InputUnusable: "input-unusable", PlanRefused: "plan-refused",
	MessageIgnored: "message-ignored", WorkFailed: "work-failed", SessionDeclined: "session-declined", SessionEnded: "session-ended",
}

func (k EventKind) String() string { return nameOf(eventNames[:], k, "EventKind") }

// Event is something worth logging or counting. It never carries a rating, a vector or a secret. But the Err of InputUnusable says
// which bound the client's own data broke, so only the client itself may see it.
type Event struct {
	Kind  EventKind
	Round uint64
	Party Party // whom it is about
	By    Party // of ClientAccused
	Stage Stage // of ClientLost, MessageIgnored and StageClosed
	Err   error // why, where there is a why
}

// Ignored reports a message that changes nothing, and why.
func Ignored(from Party, round uint64, stage Stage, err error) Effects {
	return Effects{Events: []Event{{Kind: MessageIgnored, Round: round, Party: from, Stage: stage, Err: err}}}
}
