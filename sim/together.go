package sim

import "github.com/fedsim/fedsim/protocol"

// Clients do not hear of each other within an instant: their messages arrive later. So clients that
// are due one after the other step at once, on all workers, and their effects are carried out in
// order. The run is the same at any number of workers. One worker carries out the effects of a
// batch while the others continue with the next batch.

// largestBatch is the number of clients that step or compute at once: enough to keep workers busy, and
// few enough that their effects stay in the cache. It changes no result: no role's computation depends
// on another role's inputs.
const largestBatch = 4096

// together is the memory of a batch of clients. Batches use it one after the other.
type together struct {
	number  uint32   // of the batch
	latest  []uint32 // by client: the number of the latest batch that it was in
	effects [2][largestBatch]protocol.Effects
	turn    int   // the index of the latest batch's memory
	pending batch // stepped, with effects that are not carried out yet
}

// batch is arrivals of clients, and the effects of each.
type batch struct {
	arrivals []arrival
	effects  []protocol.Effects
}

// batch counts the first of n parties that can act at once: different clients, or one other role.
func (f *federation) batch(n int, party func(k int) protocol.Party) int {
	t := &f.together
	if t.number++; t.latest == nil || t.number == 0 {
		t.latest, t.number = make([]uint32, len(f.clients)), 1
	}
	n = min(n, largestBatch)
	for k := range n {
		p := party(k)
		if p.Role != protocol.Client || t.latest[p.Client] == t.number {
			return max(k, 1)
		}
		t.latest[p.Client] = t.number
	}
	return n
}

func (f *federation) tell(arrivals []arrival) error {
	for len(arrivals) > 0 {
		n := f.batch(len(arrivals), func(k int) protocol.Party { return arrivals[k].to })
		if err := f.step(arrivals[:n]); err != nil {
			return err
		}
		arrivals = arrivals[n:]
	}
	return nil
}

// step feeds a batch of inputs to their roles. The effects of clients are carried out in order
// while the next batch steps or is computed ([federation.along]); they influence no role in this
// instant.
func (f *federation) step(arrivals []arrival) error {
	if a := arrivals[0]; a.to.Role != protocol.Client {
		if err := f.settle(); err != nil {
			return err
		}
		effects := a.step(f.now, f.role(a.to))
		arrivals[0] = arrival{}
		return f.carryOut(a, &effects)
	}
	f.together.turn = 1 - f.together.turn
	effects := f.together.effects[f.together.turn][:len(arrivals)]
	err := f.along(len(arrivals), func(k int) { effects[k] = arrivals[k].step(f.now, f.role(arrivals[k].to)) })
	if f.together.pending = (batch{arrivals, effects}); err == nil && (f.cfg.Sent != nil || f.cfg.Logged != nil) {
		err = f.settle() // the caller is told of effects, which must not happen while others compute
	}
	return err
}

// along runs do(0) to do(n-1) on all workers, and meanwhile carries out the effects of the batch
// before. It returns the error of those effects.
func (f *federation) along(n int, do func(int)) error {
	if len(f.together.pending.arrivals) == 0 {
		f.cfg.Workers.Each(n, do)
		return nil
	}
	var err error
	f.cfg.Workers.Each(n+1, func(k int) { // the first is begun first
		if k == 0 {
			err = f.settle()
			return
		}
		do(k - 1)
	})
	return err
}

// settle carries out the effects of the latest batch, in order.
func (f *federation) settle() error {
	b := f.together.pending
	f.together.pending = batch{}
	for k := range b.effects {
		if err := f.carryOut(b.arrivals[k], &b.effects[k]); err != nil {
			return err
		}
		// Clearing frees the memory: every client has as much, and its effects need more.
		b.arrivals[k], b.effects[k] = arrival{}, protocol.Effects{}
	}
	return nil
}

func (f *federation) own(p protocol.Party) role {
	switch p.Role {
	case protocol.Server:
		return f.server
	case protocol.Aggregator:
		return f.aggregator
	default:
		return &f.clients[p.Client]
	}
}
