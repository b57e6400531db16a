package sim

import "github.com/fedsim/fedsim/protocol"

// Clients do not hear of each other within an instant: their messages arrive later. So clients that
// are due one after the other step at once, on all workers, and their effects are carried out in
// order. The run is the same at any number of workers. One worker carries out the effects of a
// batch while the others continue with the next batch.

// largestBatch is the number of clients that step at once: enough to keep workers busy, and few
// enough that their effects stay in the cache.
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

// again begins an empty batch.
func (t *together) again(clients int) {
	if t.number++; t.latest == nil || t.number == 0 {
		t.latest, t.number = make([]uint32, clients), 1
	}
}

// take adds a client to the batch. It returns false if the client was there already.
func (t *together) take(c protocol.ClientID) bool {
	first := t.latest[c] != t.number
	t.latest[c] = t.number
	return first
}

// distinct reports whether works belong to different clients, and to no other role.
func (f *federation) distinct(works []work) bool {
	f.together.again(len(f.clients))
	for _, w := range works {
		if w.by.Role != protocol.Client || !f.together.take(w.by.Client) {
			return false
		}
	}
	return true
}

// tell feeds due arrivals to their roles.
func (f *federation) tell(arrivals []arrival) error {
	for len(arrivals) > 0 {
		n := f.batch(arrivals)
		if err := f.step(arrivals[:n]); err != nil {
			return err
		}
		arrivals = arrivals[n:]
	}
	return nil
}

// batch counts the first arrivals that can step at once: different clients, or one other role.
func (f *federation) batch(arrivals []arrival) int {
	f.together.again(len(f.clients))
	for n, a := range arrivals[:min(len(arrivals), largestBatch)] {
		if a.to.Role != protocol.Client || !f.together.take(a.to.Client) {
			return max(n, 1)
		}
	}
	return min(len(arrivals), largestBatch)
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

func (f *federation) role(p protocol.Party) role {
	switch p.Role {
	case protocol.Server:
		return f.server
	case protocol.Aggregator:
		return f.aggregator
	case protocol.Relay:
		return f.middle.role(p)
	default:
		if r := f.instead[p.Client]; r != nil {
			return r
		}
		return &f.clients[p.Client]
	}
}

// passes splits works so that each pass has at most one work of a role. Works of many clients
// mostly are one pass.
func (f *federation) passes(works []work) [][]int {
	var passes [][]int
	left := make([]int, len(works))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		f.together.again(len(f.clients))
		heard := make(map[protocol.Party]bool) // of roles other than clients
		var rest []int
		pass := left[:0]
		for _, i := range left {
			first := false
			if by := works[i].by; by.Role == protocol.Client {
				first = f.together.take(by.Client)
			} else {
				first, heard[by] = !heard[by], true
			}
			if first {
				pass = append(pass, i)
			} else {
				rest = append(rest, i)
			}
		}
		passes, left = append(passes, pass), rest
	}
	return passes
}
