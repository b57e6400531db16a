// Package session holds code that both ends of a stream share, whichever role each has. Parties register with its messages and hear
// the description of a session. Its driver runs a role and reports the role's events. Package node gives the order of messages.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/protocol"
)

// Role is a role's interface to its driver.
type Role interface {
	Step(time.Time, protocol.Input) protocol.Effects
}

// Driver runs a role: it gives it inputs one at a time, carries out the effects in their order, and has its work done beside.
type Driver struct {
	Role    Role
	Inputs  chan protocol.Input
	Persist func([]protocol.Record) error // durable when it returns
	Send    func([]protocol.Envelope)
	Events  func([]protocol.Event)
	Runner  protocol.Runner
	Now     func() time.Time
	// Hold waits with what a client answers to what starts work on its data; nil: nothing is held back.
	Hold func(context.Context)
	// Proves: masked inputs have proofs, which take longer for some numbers than for others. Hold waits with them too.
	Proves bool
}

// Run drives until the context ends or a record cannot be kept, which is the only
// error: nothing that depends on such a record leaves.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	work := make(chan task)
	var doing sync.WaitGroup
	doing.Go(func() { d.do(ctx, work) })
	defer func() { cancel(); doing.Wait() }() // when the piece of work at hand is done
	var waiting []task
	wake := time.NewTimer(time.Hour)
	wake.Stop()
	for ctx.Err() == nil {
		var in protocol.Input
		var next task
		var free chan<- task // nil: nothing waits
		if len(waiting) > 0 {
			next, free = waiting[0], work
		}
		select {
		case <-ctx.Done():
			return nil
		case free <- next:
			waiting = waiting[1:]
			continue
		case <-wake.C:
			in = protocol.Tick{}
		case in = <-d.Inputs:
		}
		eff := d.Role.Step(d.Now(), in)
		if len(eff.Persist) > 0 {
			if err := d.Persist(eff.Persist); err != nil {
				return err
			}
		}
		if len(eff.Send) > 0 {
			d.Send(eff.Send)
		}
		if !eff.Wake.IsZero() {
			wake.Reset(eff.Wake.Sub(d.Now()))
		}
		waiting = append(waiting, d.tasks(in, eff.Work)...)
		if len(eff.Events) > 0 {
			d.Events(eff.Events)
		}
	}
	return nil
}

// task is work, and what its result waits for.
type task struct {
	protocol.Work
	held bool // see Driver.Hold
}

// tasks makes tasks of work. An announcement and the final model start what depends on the party's data. A delivery, or the data's
// being computed, starts the masked input.
func (d *Driver) tasks(in protocol.Input, jobs []protocol.Work) []task {
	holds := false
	switch in := in.(type) {
	case protocol.Received:
		kind := in.Envelope.Message.Kind()
		holds = kind == protocol.KindAnnounce || kind == protocol.KindFinal || kind == protocol.KindDelivery && d.Proves
	case protocol.Done:
		holds = d.Proves
	}
	return lists.Map(jobs, func(job protocol.Work) task { return task{job, holds} })
}

// Give hands the role an input, unless the driver ends first.
func (d *Driver) Give(ctx context.Context, in protocol.Input) {
	if ctx.Err() != nil {
		return // else chance would decide
	}
	select {
	case d.Inputs <- in:
	case <-ctx.Done():
	}
}

// do does a role's work, one piece after the other, until the context ends.
func (d *Driver) do(ctx context.Context, work <-chan task) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-work:
			result := job.Do(d.Runner)
			if job.held && d.Hold != nil {
				d.Hold(ctx)
			}
			d.Give(ctx, result)
		}
	}
}

// levels of the events of roles: what an operator must see, and what happens all the time.
func level(k protocol.EventKind) zerolog.Level {
	switch k {
	case protocol.WorkFailed, protocol.InputUnusable:
		return zerolog.ErrorLevel
	case protocol.RoundAborted, protocol.RoundHeld, protocol.PlanRefused, protocol.SumRefused, protocol.ClientExcluded, protocol.ClientSilent:
		return zerolog.WarnLevel
	case protocol.MessageIgnored, protocol.StageClosed:
		return zerolog.DebugLevel
	default:
		return zerolog.InfoLevel
	}
}

// Report logs and hands on what roles report: kind, round, party and stage, and why. No event carries a rating, a vector or a secret.
func Report(log *zerolog.Logger, o Observer, events []protocol.Event) {
	for _, e := range events {
		line := log.WithLevel(level(e.Kind)).Stringer("event", e.Kind).Uint64("round", e.Round).Stringer("party", e.Party)
		switch e.Kind {
		case protocol.ClientLost, protocol.MessageIgnored, protocol.StageClosed:
			line = line.Stringer("stage", e.Stage)
		default: // of no stage
		}
		line.Err(e.Err).Send()
		o.Event(e)
	}
}

// The rules of admission that a peer can break.
var (
	// ErrNotEnrolled: the peer is not on the enrolment list, or was revoked.
	ErrNotEnrolled = errors.New("node: not enrolled in this federation")
	// ErrRole: the peer registered for a role it is not enrolled for.
	ErrRole = errors.New("node: enrolled for another role")
	// ErrRefused: the aggregator refuses a message, and says why. The party may ask again, unless
	// the aggregator says that this would not help.
	ErrRefused = errors.New("node: the aggregator refuses")
	// ErrSession: the session's description is not valid.
	ErrSession = errors.New("node: the description of the session does not hold")
)

// Notice is a control message, or why there are no more.
type Notice struct {
	Message *Message
	Err     error
}

// Notices hears notices beside, until one after which messages may follow, or the context ends.
func Notices(ctx context.Context, st network.Stream, most int) <-chan Notice {
	out := make(chan Notice)
	go func() {
		for {
			m, err := Hear(st, most)
			select {
			case out <- Notice{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || m.Ready != nil || m.Session != nil || m.Publish != nil {
				return
			}
		}
	}()
	return out
}

func Next(ctx context.Context, notices <-chan Notice) (*Message, error) {
	select {
	case s := <-notices:
		return s.Message, s.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Observer receives what happens in a process, for the people who run it. Its methods are
// called from several goroutines and should return quickly, since the caller waits.
type Observer interface {
	// Session is called with the session that the process begins to lead or takes part in.
	Session(protocol.SessionID)
	// Registered is called with the change in the number of registered peers: at an
	// aggregator, its clients; at a client or the server, itself with the aggregator.
	Registered(change int)
	// Waits is called with what keeps the process from its work, such as a connection or clients that are missing;
	// "": nothing does.
	Waits(what string)
	// ClockAhead is called with how far the machine's clock is ahead of the aggregator's, to half a minute.
	ClockAhead(by time.Duration)
	// Event is called with what a role reports.
	Event(protocol.Event)
}

type unobserved struct{}

func (unobserved) Session(protocol.SessionID) {}
func (unobserved) Registered(int)             {}
func (unobserved) Waits(string)               {}
func (unobserved) ClockAhead(time.Duration)   {}
func (unobserved) Event(protocol.Event)       {}

// Observing returns the observer, or for nil an observer that hears nothing.
func Observing(o Observer) Observer { return cmp.Or[Observer](o, unobserved{}) }

// ClockApart is the difference of clocks from which on both sides warn.
const ClockApart = time.Minute

// Ahead says how far a clock is ahead of another clock, or behind it.
func Ahead(by time.Duration, other string) string {
	way := "ahead of"
	if by < 0 {
		way = "behind"
	}
	return fmt.Sprintf("%v %s %s", by.Abs().Round(time.Second), way, other)
}

// drainLimit is the time for which a role that is told to stop stays for a round that clients pay for. It is below the ten
// seconds after which a container's manager ends a process.
const drainLimit = 8 * time.Second

// Paid says whether a round is under way that clients have paid for, or will before it can be given up. The zero value is ready for
// use.
type Paid struct {
	mu   sync.Mutex
	over chan struct{} // closed when the round is over; nil: there is none
}

// Set notes whether such a round is under way.
func (p *Paid) Set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.over == nil:
		p.over = make(chan struct{})
	case !on && p.over != nil:
		close(p.over)
		p.over = nil
	}
}

// Await returns when no such round is under way, or after drainLimit.
func (p *Paid) Await() {
	over := locked.Get(&p.mu, func() chan struct{} { return p.over })
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-time.After(drainLimit):
	}
}

// Outlive returns a context that ends when drain has returned, which is called when ctx ends. The caller calls stop in the end.
func Outlive(ctx context.Context, drain func()) (longer context.Context, stop func()) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		drain()
		cancel(context.Cause(ctx))
	})
	return longer, func() { unhook(); cancel(nil) }
}
