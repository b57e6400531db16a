package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// crew is the trainers of a shard as they stand in this process. One piece of work has them at a time.
type crew struct {
	mu       sync.Mutex
	used     bool              // they have been asked for something
	stands   [sha256.Size]byte // the digest of what they keep, as they stand; where known
	known    bool
	trainers []client.Trainer
	born     int // the federation that they are of
}

// span returns the clients of a shard: from is the first, and to follows the last.
func span(shard, shards, clients int) (from, to int) {
	return shard * clients / shards, (shard + 1) * clients / shards
}

// crew returns the trainers of a shard, locked until done is called.
func (s *site) crew(shard int) (c *crew, done func()) {
	s.mu.Lock()
	c = s.crews[shard]
	if c == nil {
		c = &crew{born: -1}
		s.crews[shard] = c
	}
	s.mu.Unlock()
	c.mu.Lock()
	return c, c.mu.Unlock
}

// federation returns the federation of a generation. It makes all generations up to it that are missing.
func (s *site) federation(generation int) (*experiment.Federation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.fresh) <= generation {
		f, err := s.e.Federation()
		if err != nil {
			return nil, err
		}
		s.fresh = append(s.fresh, f)
	}
	return s.fresh[generation], nil
}

// stand brings the trainers of a shard to a state. Usually the trainers of this process are there already, since they
// left the state. They are not if another process had the shard meanwhile, or if a piece of work is repeated. Then stand
// makes new trainers that resume the state, since a trainer can resume only before any other call.
func (s *site) stand(c *crew, job Job, shard int, state []byte) error {
	digest := sha256.Sum256(state)
	if c.known && c.stands == digest {
		return nil
	}
	if c.used || c.born < 0 {
		f, err := s.federation(c.born + 1)
		if err != nil {
			return err
		}
		from, to := span(shard, job.Shards, len(f.Trainers))
		c.trainers, c.born, c.used = f.Trainers[from:to], c.born+1, false
	}
	from, _ := span(shard, job.Shards, s.e.Cohort.Clients)
	snapshots, err := unpackSnapshots(state, len(c.trainers))
	if err != nil {
		return err
	}
	c.used, c.known = true, false
	if err = s.resume(c.trainers, snapshots, from); err != nil {
		return err
	}
	c.known, c.stands = true, digest
	return nil
}

// resume has trainers go back to what they kept. The first of them is client from.
func (s *site) resume(trainers []client.Trainer, snapshots [][]byte, from int) error {
	errs := make([]error, len(trainers))
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(trainers), func(i int) {
		if snapshots[i] == nil {
			return
		}
		t, ok := trainers[i].(client.Resumable)
		if !ok {
			errs[i] = fmt.Errorf("client %d keeps nothing, and a state has %d bytes of it", from+i, len(snapshots[i]))
			return
		}
		if err := t.Resume(snapshots[i], s.entropy.Client(from+i)); err != nil {
			errs[i] = fmt.Errorf("client %d: %w", from+i, err)
		}
	})
	return errors.Join(errs...)
}

// keep packs the snapshots of trainers; a trainer that cannot resume has none.
func keep(trainers []client.Trainer) ([]byte, error) {
	list := make([][]byte, len(trainers))
	errs := make([]error, len(trainers))
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(trainers), func(i int) {
		if t, ok := trainers[i].(client.Resumable); ok {
			list[i], errs[i] = t.Snapshot()
		}
	})
	return packSnapshots(list), errors.Join(errs...)
}

// part is a shard's part of a round.
type part struct {
	state   []byte  // what its trainers keep after it
	sums    []int64 // of the inputs, one release after the other; nil: all are zero
	inputs  int     // clients whose inputs are in sums
	trained int     // clients that contributed, or would have
}

// contribute has the clients of a shard contribute to a round. The same state gives the same part, however often it is
// computed and by whom.
func (s *site) contribute(ctx context.Context, job Job, shard int, state []byte, p *protocol.Plan, f *fate) (out part, err error) {
	c, done := s.crew(shard)
	defer done()
	if err = s.stand(c, job, shard, state); err != nil {
		return part{}, err
	}
	from, to := span(shard, job.Shards, p.Cohort.Clients)
	c.used, c.known = true, false // should it fail or panic in the middle
	var asked []int
	for i := from; i < to; i++ {
		if f.trained(i) {
			asked = append(asked, i)
		}
	}
	out.trained = len(asked)
	a := newAdder(p, len(asked))
	a.run(ctx, len(asked), func(k int, run protocol.Runner) ([]protocol.Integers, bool, error) {
		i := asked[k]
		in, failed := client.Inputs(c.trainers[i-from], p, s.entropy.Client(i), run)
		if failed != nil {
			failed = fmt.Errorf("round %d: client %d: %w", p.Round, i, failed)
		}
		return in, f.summed(i), failed
	})
	if out.sums, out.inputs, err = a.total(); err != nil {
		return part{}, err
	}
	if out.state, err = keep(c.trainers); err != nil {
		return part{}, err
	}
	c.known, c.stands = true, sha256.Sum256(out.state)
	return out, nil
}

// adder adds up inputs on all processors, each into a sum of its own.
type adder struct {
	plan  *protocol.Plan
	lanes []lane
}

// lane is one goroutine's sum.
type lane struct {
	sums   [][]int64 // by release; nil before the first
	inputs int
	err    error
}

func newAdder(p *protocol.Plan, clients int) *adder {
	return &adder{p, make([]lane, max(1, min(runtime.GOMAXPROCS(0), clients)))}
}

// run computes and adds inputs. A lone client gets all processors for itself.
func (a *adder) run(ctx context.Context, n int, input func(k int, run protocol.Runner) (in []protocol.Integers, counts bool, err error)) {
	inner := protocol.Workers(1)
	if len(a.lanes) == 1 {
		inner = protocol.Workers(runtime.GOMAXPROCS(0))
	}
	var wg sync.WaitGroup
	panics := make(chan any, len(a.lanes))
	for l := range a.lanes {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					panics <- r
				}
			}()
			lane, first, last := &a.lanes[l], l*n/len(a.lanes), (l+1)*n/len(a.lanes)
			for k := first; k < last && lane.err == nil; k++ {
				if lane.err = ctx.Err(); lane.err != nil {
					return
				}
				in, counts, err := input(k, inner)
				if lane.err = err; err == nil && counts {
					lane.err = lane.add(a.plan, in)
				}
			}
		})
	}
	wg.Wait()
	select {
	case r := <-panics:
		panic(r) // on the goroutine that the runner watches
	default:
	}
}

// add adds a client's vectors to the lane's.
func (l *lane) add(p *protocol.Plan, in []protocol.Integers) error {
	if l.sums == nil {
		l.sums = make([][]int64, len(p.Releases))
		for i, r := range p.Releases {
			l.sums[i] = make([]int64, r.Len)
		}
	}
	for i, r := range p.Releases {
		if err := in[i].Validate(r.Len); err != nil {
			return fmt.Errorf("release %q: %w", r.Name, err)
		}
		in[i].AddTo(l.sums[i])
	}
	l.inputs++
	return nil
}

// total adds up the lanes.
func (a *adder) total() (sums []int64, inputs int, err error) {
	for _, l := range a.lanes {
		err = errors.Join(err, l.err)
		inputs += l.inputs
	}
	if err != nil || inputs == 0 {
		return nil, 0, err
	}
	for _, r := range a.plan.Releases {
		sums = append(sums, make([]int64, r.Len)...)
	}
	for _, l := range a.lanes {
		at := 0
		for _, v := range l.sums {
			for j, x := range v {
				sums[at+j] += x
			}
			at += len(v)
		}
	}
	return sums, inputs, nil
}
