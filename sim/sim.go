// Package sim runs a whole federation in one process: the same roles as a deployment, on
// a virtual clock, with simulated dropouts. The same seed gives the same run, bit for
// bit, at any number of workers.
//
// The simulator sees everything. Beyond what the roles report (who was lost, how many
// bytes were sent, what each ledger holds), its results are measured by the simulator,
// and neither the server nor the aggregator learns them.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
)

// Network describes the simulated connections; they are the same for all clients.
type Network struct {
	Latency  time.Duration // one way
	Up, Down float64       // a client's bandwidth in bits a second
	Compute  time.Duration // of one computation of a role, except checks of messages
	// StageTimeout is the time that the aggregator waits for clients in a stage.
	StageTimeout time.Duration
}

// Validate reports everything that makes the network unusable.
func (n Network) Validate() error {
	var errs problems.List
	errs.If(n.Latency < 0 || n.Compute < 0, "latency is %v and compute %v; neither may be negative", n.Latency, n.Compute)
	errs.If(!(n.Up > 0) || !(n.Down > 0), "bandwidth is %v up and %v down; both must be positive", n.Up, n.Down)
	errs.If(n.StageTimeout <= 0, "stage timeout is %v; it must be positive", n.StageTimeout)
	return errors.Join(errs...)
}

// Config is a federation to simulate.
type Config struct {
	// Session identifies the run, as in plans; it is not zero. Runs with the same session and
	// seed draw the same noise, whatever they release, so two runs with different releases need
	// different sessions.
	Session  protocol.SessionID
	Strategy server.Strategy
	Trainers []client.Trainer // one for each client
	Ledgers  []client.Ledger  // one for each client; nil: nothing is private
	// Real makes sums run the whole protocol of secure aggregation, in the given Mode; otherwise
	// sums are ideal and Mode is SemiHonest. The released integers equal those by ideal sums to
	// which each client adds its noise.
	Real bool
	Mode secagg.Mode
	// VerifyInputs, of real sums in active mode, has each client prove that its vector is within its bounds.
	VerifyInputs bool
	Draw         secagg.Draw // who draws the noise of ideal sums
	// Tables, if set, are the tables that ideal sums draw from. Runs of one schedule may share
	// them, because building them takes longer than a small run. They change no draw.
	Tables  *noise.Tables
	Rounds  int     // T, rounds the strategy plans (else ErrRounds), over which absences spread
	SitOut  float64 // share of the clients that may sit a round out (aggregator.Config)
	Faults  Faults
	Network Network
	Seed    uint64
	Workers protocol.Workers
	// Round, if set, is called after each round with the shared model.
	Round func(Round, []byte) error
	// Between, if set, is called after Round, except after the last round, and may take a
	// snapshot. It needs a Strategy that is a server.Durable.
	Between func(take func() (*Snapshot, error)) error
	// From, if set, is a snapshot of the same configuration that the run continues from. Round
	// and Between are not called for the rounds of the snapshot.
	From *Snapshot
	// Sent and Logged, if set, record the traffic on the wires and the logs of parties, with the virtual time. Sent hears of
	// every message that reaches a party, or will. Logged hears of every event that a role reports. They must
	// not change their arguments.
	Sent   func(at time.Duration, e protocol.Envelope)
	Logged func(at time.Duration, e protocol.Event)
	// Hollow, if set, makes a run without numbers: all sums are empty, and the strategy absorbs none. The clients that are there, the
	// charges and the bytes are as in another run whose strategy makes the same plans. So a driver can compute the numbers
	// elsewhere, to the bits of that run. Hollow hears of each client whose input is in a round's sum. It needs a
	// Strategy that is a server.Durable, no From, and ideal sums that draw their noise themselves: messages of other sums
	// depend on contributions.
	Hollow func(round uint64, c protocol.ClientID)
}

// Validate reports everything that makes the federation unusable.
func (c Config) Validate() error {
	errs := problems.List{c.Faults.Validate(), c.Network.Validate()}
	errs.If(c.Session == protocol.SessionID{}, "no session is given: runs that release different things would share their noise")
	if errs.If(c.Strategy == nil, "no strategy is given"); c.Strategy != nil {
		errs = append(errs, c.checkFrom())
	}
	errs.If(len(c.Trainers) == 0, "no trainers are given; a federation needs at least 1 client")
	errs.If(c.Ledgers != nil && len(c.Ledgers) != len(c.Trainers), "%d ledgers for %d clients", len(c.Ledgers), len(c.Trainers))
	errs.If(c.Rounds < 1, "rounds is %d; it must be at least 1", c.Rounds)
	errs.If(!(c.SitOut >= 0 && c.SitOut < 1), "sit-out is %v; it must be at least 0 and below 1", c.SitOut)
	errs.If(!c.Real && c.Mode != secagg.SemiHonest, "the mode is %s, but sums are ideal: ideal sums defend against no attack", c.Mode)
	errs.If(c.VerifyInputs && c.Mode != secagg.Active, "inputs are verified, but the mode is %s; they are in mode active alone", c.Mode)
	errs.If(c.Mode != secagg.Active && slices.Contains(c.Faults.Stages, protocol.StageConsistency),
		"clients drop out at %s, a stage of the active mode", protocol.StageConsistency)
	return errors.Join(errs...)
}

// Round is the record of one round.
type Round struct {
	Number    uint64
	Survivors int           // |U1|; 0 when nothing was released
	Answered  int           // survivors that answered the stage unmask
	Skipped   error         // why nothing was released; nil when something was
	Alive     int           // asked clients that were there to the end
	Dropped   int           // asked clients that were lost on the way
	Sent      int           // masked inputs that left their clients, and so were charged
	Up, Down  int64         // bytes that clients sent and got
	Duration  time.Duration // of virtual time, from its plan to the next or the end
	// Stages divides Duration by the times at which the aggregator closed each stage, counted from
	// the plan or the stage before. It is 0 for stages that the round did not reach, or that
	// were over before its plan.
	Stages [protocol.Stages]time.Duration
}

// Outcome is the record of a whole run.
type Outcome struct {
	Rounds []Round
	Model  []byte
	// Up and Down count the bytes that all clients sent and got, by kind of message.
	Up, Down [protocol.Kinds]int64
	Clock    time.Duration // virtual time at which the last client was done
	// Charged counts, for each client, the rounds it charged its ledger for.
	Charged []int
}

// Skipped counts the rounds that released nothing.
func (o *Outcome) Skipped() int {
	n := 0
	for _, it := range o.Rounds {
		if it.Skipped != nil {
			n++
		}
	}
	return n
}

// ErrHalted is returned when no event is left although the session has not ended.
var ErrHalted = errors.New("the federation came to a halt before its session ended")

// ErrRounds is returned when the strategy plans more or fewer rounds than the configuration has
// rounds. Faults and secure sums would be set up for another run. Set Config.Rounds to the number
// of rounds of the strategy.
var ErrRounds = errors.New("the strategy and the configuration differ in the number of rounds")

// Run simulates a federation to the end of its session. It returns early with the
// context's error when the context is cancelled, and with the error of the first
// computation of a role that fails.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f, err := newFederation(cfg)
	if err != nil {
		return nil, err
	}
	return f.run(ctx)
}

func (f *federation) run(ctx context.Context) (*Outcome, error) {
	f.queue.arrive(epoch, arrival{to: protocol.Party{Role: protocol.Server}, what: protocol.Start{}})
	for {
		i := f.queue.next()
		if i == nil {
			break
		}
		if err := f.happen(ctx, i); err != nil {
			return nil, err
		}
	}
	if !f.ended {
		return nil, ErrHalted
	}
	return f.out, nil
}

// epoch is when virtual time starts; only differences matter.
var epoch = time.Unix(0, 0)

type role interface {
	Step(time.Time, protocol.Input) protocol.Effects
}

type federation struct {
	cfg        Config
	streams    *Entropy
	queue      *queue
	sized      sized // the latest message
	now        time.Time
	server     role
	aggregator role
	clients    []client.Client
	// Tests listen to roles, and have relays stand between clients and the aggregator.
	role     func(protocol.Party) role
	route    func(protocol.Envelope) (to protocol.Party, ok bool) // nil: every message goes to its addressee
	faults   calendar
	lost     []protocol.Stage // of each client in the present round
	together together
	present  *Round    // the round in progress, nil before the first
	began    time.Time // when it began
	staged   time.Time // when its latest stage was closed
	ended    bool      // the server has sent the final model
	out      *Outcome

	// These fields serve a run that continues, or may be continued.
	strategy *resumable
	trainers []client.Trainer // as they were given
	ahead    time.Duration    // lead of the clock over the known rounds that are gone through again
}

func newFederation(cfg Config) (*federation, error) {
	n := len(cfg.Trainers)
	streams := EntropyOf(cfg.Seed, cfg.Session)
	f := &federation{
		streams: streams, queue: new(queue),
		faults: newFaultPlan(cfg.Faults, cfg.Rounds, cfg.Seed), lost: make([]protocol.Stage, n),
		out: &Outcome{Charged: make([]int, n)},
	}
	f.role = f.own
	cfg = f.resumed(cfg)
	f.cfg, f.server = cfg, server.New(cfg.Strategy)
	sides, err := f.newSums()
	if err != nil {
		return nil, err
	}
	sides = cfg.hollow(sides, streams.Sum())
	f.aggregator = aggregator.New(aggregator.Config{
		Clients: n, StageTimeout: cfg.Network.StageTimeout, NewSum: sides.aggregator,
		Rounds: uint64(cfg.Rounds), SitOut: cfg.SitOut,
	})
	shared := &client.Shared{
		Session: cfg.Session, NewSum: sides.client, Noise: new(client.Samplers), Rounds: uint64(cfg.Rounds),
		Trainer: func(id protocol.ClientID) client.Trainer { return cfg.Trainers[id] },
		Entropy: func(id protocol.ClientID) entropy.Source { // named when it is first drawn from
			return simulated.Numbered(func(uint64) entropy.Source { return streams.Client(int(id)) })
		},
	}
	if cfg.Ledgers != nil {
		shared.Ledger = func(id protocol.ClientID) client.Ledger { return cfg.Ledgers[id] }
	}
	f.clients = client.NewMany(shared, n)
	return f, nil
}

// happen carries out one instant: the computations that are due run on the
// workers, then the roles hear of everything in the order it was scheduled.
func (f *federation) happen(ctx context.Context, i *instant) error {
	f.now = i.at
	for works := i.works; len(works) > 0; {
		n := f.batch(len(works), func(k int) protocol.Party { return works[k].by })
		done, err := f.compute(ctx, works[:n])
		if err == nil {
			err = f.tell(done)
		}
		if err != nil {
			return err
		}
		works = works[n:]
	}
	if err := f.tell(i.inputs); err != nil {
		return err
	}
	if err := f.settle(); err != nil {
		return err
	}
	f.queue.recycle(i)
	return nil
}

func (f *federation) compute(ctx context.Context, works []work) ([]arrival, error) {
	done := make([]arrival, len(works))
	inner := protocol.Workers(1)
	if len(works) == 1 {
		inner = f.cfg.Workers // a lone computation, of the server say, gets all of them
	}
	err := f.along(len(works), func(k int) {
		if ctx.Err() != nil {
			return
		}
		done[k] = arrival{to: works[k].by, what: works[k].job.Do(inner)}
		works[k].job.Do = nil // it may hold a client's whole input
	})
	return done, cmp.Or(err, ctx.Err())
}

func (f *federation) carryOut(a arrival, eff *protocol.Effects) error {
	if _, tick := a.what.(protocol.Tick); !tick { // deadlines of stages long closed do not count
		f.out.Clock = f.now.Sub(epoch) + f.ahead
	}
	for _, r := range eff.Persist {
		if c, ok := r.(protocol.Charged); ok && len(c.Events) > 0 {
			f.out.Charged[a.to.Client]++
		}
	}
	for _, ev := range eff.Events {
		if f.cfg.Logged != nil {
			f.cfg.Logged(f.now.Sub(epoch), ev)
		}
		switch ev.Kind {
		case protocol.SumRefused: // before the next plan, which ends the round
			f.present.Skipped, f.present.Survivors, f.present.Answered = ev.Err, 0, 0
		case protocol.StageClosed:
			f.present.Stages[ev.Stage], f.staged = f.now.Sub(f.staged), f.now
		case protocol.WorkFailed, protocol.InputUnusable, protocol.PlanRefused:
			return fmt.Errorf("round %d: %s: %s: %w", ev.Round, ev.Party, ev.Kind, ev.Err)
		default: // the outcome has the others as numbers
		}
	}
	for _, e := range eff.Send {
		if err := f.send(e); err != nil {
			return err
		}
	}
	if !eff.Wake.IsZero() {
		f.queue.arrive(eff.Wake, arrival{to: a.to, what: protocol.Tick{}})
	}
	for _, w := range eff.Work {
		due := f.now
		if !w.Checks {
			due = due.Add(f.cfg.Network.Compute)
		}
		f.queue.work(due, work{by: a.to, job: w})
	}
	return nil
}
