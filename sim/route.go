package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// send puts a message on its way, unless its sender or recipient is lost, and counts its bytes.
func (f *federation) send(e protocol.Envelope) error {
	if err := f.observe(e); err != nil {
		return err
	}
	if f.sized.of != e.Message { // a message for all clients is counted once
		f.sized = sized{e.Message, protocol.Size(e.Message), protocol.PiggybackSize(e.Message)}
	}
	size, riders := f.sized.size, f.sized.riders
	delay := f.cfg.Network.Latency
	switch {
	case e.From.Role == protocol.Client:
		if !f.hears(e.From.Client, e.Message) {
			return nil
		}
		count(&f.out.Up, e.Message, size, riders)
		f.present.Up += int64(size)
		if e.Message.Kind() == protocol.KindMaskedInput {
			f.present.Sent++
		}
		delay += transfer(size, f.cfg.Network.Up)
	case e.To.Role == protocol.Client:
		if !f.hears(e.To.Client, e.Message) {
			return nil
		}
		count(&f.out.Down, e.Message, size, riders)
		f.present.Down += int64(size)
		delay += transfer(size, f.cfg.Network.Down)
	}
	to := e.To
	if f.route != nil {
		var ok bool
		if to, ok = f.route(e); !ok {
			return nil
		}
	}
	if f.cfg.Sent != nil {
		f.cfg.Sent(f.now.Sub(epoch), e)
	}
	a := arrival{to: to, from: e.From, what: e.Message}
	if to != e.To {
		a.what = protocol.Received{Envelope: e}
	}
	f.queue.arrive(f.now.Add(delay), a)
	return nil
}

// sized is a message with its bytes, and the bytes in it of the message that travels with it.
type sized struct {
	of           protocol.Message
	size, riders int
}

// count counts the bytes of a message, and counts its riders under their own kinds.
func count(book *[protocol.Kinds]int64, m protocol.Message, size, riders int) {
	if r := protocol.Piggyback(m); r != nil {
		book[r.Kind()] += int64(riders)
	}
	book[m.Kind()] += int64(size - riders)
}

func transfer(bytes int, bitsPerSecond float64) time.Duration {
	return time.Duration(8 * float64(bytes) / bitsPerSecond * float64(time.Second))
}

// hears reports whether a client is there for a message. A client lost at a
// stage is gone before it learns that the stage has opened.
func (f *federation) hears(c protocol.ClientID, m protocol.Message) bool {
	if _, final := m.(*protocol.Final); final {
		return !f.faults.absent(c, uint64(f.cfg.Rounds)+1)
	}
	return protocol.StageOf(m, f.cfg.Mode == secagg.Active) < f.lost[c]
}

// observe follows the rounds by the messages between server and aggregator.
func (f *federation) observe(e protocol.Envelope) error {
	switch m := e.Message.(type) {
	case *protocol.Open:
		if m.Plan.Round > uint64(f.cfg.Rounds) {
			return fmt.Errorf("%w: the strategy plans round %d; Config.Rounds is %d", ErrRounds, m.Plan.Round, f.cfg.Rounds)
		}
		if !m.Plan.Setup().Replaces && slices.Contains(f.cfg.Faults.Stages, protocol.StageReplace) {
			return fmt.Errorf("round %d: clients drop out at %s, a stage of rounds that replace noise", m.Plan.Round, protocol.StageReplace)
		}
		if err := f.close(m.Plan.Broadcast); err != nil {
			return err
		}
		f.open(m.Plan.Setup())
	case *protocol.Result:
		f.present.Survivors, f.present.Answered = m.Survivors, m.Answered
	case *protocol.Abort:
		f.present.Skipped = m.Reason
	case *protocol.Final:
		if e.From.Role == protocol.Server {
			return f.end(m.Model)
		}
	}
	return nil
}

func (f *federation) end(model []byte) error {
	if err := f.close(model); err != nil {
		return err
	}
	if n := len(f.out.Rounds); n != f.cfg.Rounds {
		return fmt.Errorf("%w: the strategy ended after %d rounds; Config.Rounds is %d", ErrRounds, n, f.cfg.Rounds)
	}
	f.out.Model, f.ended = model, true
	f.present = new(Round) // what follows belongs to no round
	return nil
}

// open begins a round and draws the losses among the clients that it asks.
func (f *federation) open(s protocol.Setup) {
	f.present, f.began, f.staged = &Round{Number: s.Round}, f.now, f.now
	f.cfg.Workers.Each(len(f.lost), func(c int) { f.lost[c] = f.faults.lost(protocol.ClientID(c), s.Round) })
	for id, stage := range f.lost {
		switch {
		case !s.Chooses(protocol.ClientID(id)):
		case stage < protocol.Stages:
			f.present.Dropped++
		default:
			f.present.Alive++
		}
	}
}

// close ends the round in progress, with the model after it.
func (f *federation) close(model []byte) error {
	if f.present == nil {
		return nil
	}
	it := *f.present
	it.Duration = f.now.Sub(f.began)
	if f.cfg.Hollow == nil && it.Number <= f.cfg.known() {
		return f.passKnown(it)
	}
	f.out.Rounds = append(f.out.Rounds, it)
	if f.cfg.Round != nil {
		if err := f.cfg.Round(it, model); err != nil {
			return err
		}
	}
	if f.cfg.Between == nil || it.Number == uint64(f.cfg.Rounds) {
		return nil
	}
	return f.cfg.Between(f.snapshot)
}
