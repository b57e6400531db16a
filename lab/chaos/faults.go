package chaos

import (
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// strikes draws whether a fault of a chance strikes; none does in a healed
// federation.
func (w *world) strikes(chance float64) bool {
	return !w.healed && chance > 0 && w.dice.Float64() < chance
}

// upTo draws a duration below d.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.dice.Float64() * float64(d))
}

// send puts a message on its way, or what the faults leave of it.
func (w *world) send(e protocol.Envelope) {
	w.observe(Left{e})
	if r := protocol.Piggyback(e.Message); r != nil {
		w.observe(Left{protocol.Envelope{From: e.From, To: e.To, Message: r}})
	}
	if e.To.Role == protocol.Client {
		w.machines[e.To.Client].remember(e)
	}
	kind := e.Message.Kind()
	lossy := e.From.Role == protocol.Client || e.To.Role == protocol.Client
	if lossy && (w.volley(e) || w.strikes(w.schedule.Faults.Drop)) {
		w.result.faults.Dropped++
		w.tell("%s from %s to %s is lost", kind, e.From, e.To)
		return
	}
	w.deliver(e, 0)
	if w.strikes(w.schedule.Faults.Duplicate) {
		w.result.faults.Duplicated++
		w.tell("%s from %s to %s arrives twice", kind, e.From, e.To)
		w.deliver(e, w.upTo(2*stageTimeout))
	}
}

// deliver has a message arrive after its latency, what delays it, and more.
func (w *world) deliver(e protocol.Envelope, more time.Duration) {
	d := latency + w.upTo(latency) + more
	if w.strikes(w.schedule.Faults.Reorder) {
		w.result.faults.Reordered++
		d += w.upTo(stageTimeout / 3)
	}
	if w.strikes(w.schedule.Faults.Delay) {
		w.result.faults.Delayed++
		d += w.upTo(3 * stageTimeout)
		w.tell("%s from %s to %s takes %v", e.Message.Kind(), e.From, e.To, d)
	}
	w.queue.add(&happening{at: w.now.Add(d), to: e.To, in: protocol.Received{Envelope: e}})
}

// volley reports whether a volley takes the message.
func (w *world) volley(e protocol.Envelope) bool {
	after := e.From.Role == protocol.Client
	id := e.To.Client
	if after {
		id = e.From.Client
	}
	for _, v := range w.schedule.Volleys {
		if !w.healed && v.Round == w.round && v.After == after && slices.Contains(v.Clients, id) && protocol.StageOf(e.Message, w.schedule.Mode == graph.Active) == v.Stage {
			return true
		}
	}
	return false
}

// crash takes a client down for a while.
func (w *world) crash(d *machine, when string) {
	d.crash()
	w.result.faults.Crashed++
	down := w.upTo(longestDown)
	w.tell("client %d crashes %s, for %v", d.id, when, down)
	to := protocol.ClientParty(d.id)
	delete(w.busy, to)
	w.queue.add(&happening{at: w.now.Add(down), to: to})
}

// restart brings a client up, unless healing has already.
func (w *world) restart(d *machine) {
	if d.up {
		return
	}
	if err := d.start(); err != nil {
		w.observe(Failed{protocol.Event{Kind: protocol.WorkFailed, Round: w.round, Party: protocol.ClientParty(d.id), Err: err}})
		return
	}
	w.tell("client %d is up again", d.id)
	// A client that starts registers before it hears anything else.
	w.carryOut(protocol.Party{Role: protocol.Aggregator}, w.aggregator.Step(w.now, protocol.Registered{Client: d.id}))
	if w.strikes(w.schedule.Faults.Redeliver) {
		w.result.faults.Redelivered++
		w.tell("client %d is sent once more what it was sent in round %d", d.id, w.round)
		for _, e := range d.inbox {
			w.deliver(e, 0)
		}
	}
}

// heal ends the faults: all clients are up, and messages in transit arrive.
func (w *world) heal() {
	w.healed = true
	w.tell("the federation heals")
	for _, d := range w.machines {
		w.restart(d)
	}
}
