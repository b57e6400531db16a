package session

import (
	"context"
	"sync"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Role is a role's interface to its driver.
type Role interface {
	Step(time.Time, protocol.Input) protocol.Effects
}

// Driver runs a role: it gives it inputs one at a time, carries out the effects in
// their order, and has its work done beside.
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
}

// Run drives until the context ends or a record cannot be kept, which is the only
// error: nothing that depends on such a record leaves.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	work := newWorkshop(ctx, d.Runner, d.Inputs)
	defer work.wait()
	defer cancel()
	wake := time.NewTimer(time.Hour)
	wake.Stop()
	for ctx.Err() == nil {
		var in protocol.Input
		select {
		case <-ctx.Done():
			return nil
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
		work.add(d.tasks(in, eff.Work))
		if len(eff.Events) > 0 {
			d.Events(eff.Events)
		}
	}
	return nil
}

// task is work, and what its result waits for.
type task struct {
	protocol.Work
	hold func(context.Context) // nil: nothing
}

// tasks makes tasks of work. An announcement and the final model start what depends on the party's data.
func (d *Driver) tasks(in protocol.Input, jobs []protocol.Work) []task {
	var hold func(context.Context)
	if m, ok := in.(protocol.Received); ok && d.Hold != nil {
		if kind := m.Envelope.Message.Kind(); kind == protocol.KindAnnounce || kind == protocol.KindFinal {
			hold = d.Hold
		}
	}
	var list []task
	for _, job := range jobs {
		list = append(list, task{job, hold})
	}
	return list
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

// workshop does a role's work, one piece after the other.
type workshop struct {
	mu      sync.Mutex
	waiting []task
	more    chan struct{} // has a token when something waits
	done    chan struct{}
}

func newWorkshop(ctx context.Context, run protocol.Runner, report chan<- protocol.Input) *workshop {
	w := &workshop{more: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.more:
			}
			for job, ok := w.next(); ok; job, ok = w.next() {
				result := job.Do(run)
				if job.hold != nil {
					job.hold(ctx)
				}
				select {
				case report <- result:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return w
}

func (w *workshop) next() (job task, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return job, false
	}
	job, w.waiting = w.waiting[0], w.waiting[1:]
	return job, true
}

// add never blocks: the workshop may itself be waiting for the role.
func (w *workshop) add(jobs []task) {
	if len(jobs) == 0 {
		return
	}
	w.mu.Lock()
	w.waiting = append(w.waiting, jobs...)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// wait returns when the piece of work at hand is done, after the context's end.
func (w *workshop) wait() { <-w.done }
