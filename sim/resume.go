package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
)

// Snapshot is a run between two rounds. A later run with the same configuration, which fixes
// all random numbers, continues from it to the same bits ([Config.From]).
//
// It leaves out the state that roles keep between rounds, such as setup ahead. Instead the
// roles go through the known rounds again without computing: trainers contribute nothing, sums
// have no noise and, except in active mode, no cryptography, and the strategy absorbs nothing. So a
// role may change without a change of a snapshot's form. The cost is the messages: a small part of
// the time with real sums, more than half with ideal sums if trainers compute little, and all of it
// in active mode.
//
// A snapshot holds secrets of clients.
type Snapshot struct {
	Rounds   []Past
	Up, Down [protocol.Kinds]int64
	Clock    time.Duration
	Strategy []byte   // in the form of server.Durable
	Trainers [][]byte // in the form of client.Resumable, by client; nil: nothing is kept
}

// Past is a finished round, with the reason for a skip as text; "" if it was not skipped.
type Past struct {
	Round
	Reason string
}

// ErrOtherRun is returned if a run continues from another run's snapshot.
var ErrOtherRun = errors.New("the snapshot is of another run")

// known counts the rounds that are known before the run begins.
func (c Config) known() uint64 {
	switch {
	case c.Hollow != nil:
		return math.MaxUint64
	case c.From == nil:
		return 0
	}
	return uint64(len(c.From.Rounds))
}

// ErrHollow is returned for a hollow run of sums whose messages depend on what clients contribute.
var ErrHollow = errors.New("only ideal sums that draw their noise themselves can be hollow, from the first round on")

// checkFrom reports settings that keep a run from continuing, from being continued or from being hollow.
func (c Config) checkFrom() error {
	_, durable := c.Strategy.(server.Durable)
	switch {
	case c.From == nil && c.Between == nil && c.Hollow == nil:
		return nil
	case c.Hollow != nil && (c.Real || c.Draw != secagg.DrawSum || c.From != nil):
		return ErrHollow
	case !durable:
		return errors.New("the strategy is not a server.Durable: its state cannot be kept")
	case c.From == nil:
		return nil
	}
	if n := len(c.From.Rounds); n == 0 || n >= c.Rounds || len(c.From.Trainers) != len(c.Trainers) {
		return fmt.Errorf("%w: it is of %d clients after %d rounds; there are %d clients and %d rounds", ErrOtherRun, len(c.From.Trainers), n, len(c.Trainers), c.Rounds)
	}
	return nil
}

// resumable is a strategy that saves its state before every plan, and takes up a snapshot's state
// after the known rounds.
type resumable struct {
	server.Durable
	from    *Snapshot
	known   uint64
	planned uint64
	state   []byte // before the latest plan
	restore func() error
}

func (r *resumable) Next() (plan *protocol.Plan, done bool, err error) {
	if r.from != nil && r.planned == r.known {
		if err = r.Restore(r.from.Strategy); err == nil {
			err = r.restore()
		}
		if err != nil {
			return nil, false, fmt.Errorf("%w: %w", ErrOtherRun, err)
		}
	}
	if r.planned >= r.known {
		if r.state, err = r.Save(); err != nil {
			return nil, false, err
		}
	}
	r.planned++
	return r.Durable.Next()
}

func (r *resumable) Absorb(p *protocol.Plan, s protocol.Sums, run protocol.Runner) error {
	if p.Round <= r.known {
		return nil
	}
	return r.Durable.Absorb(p, s, run)
}

func (r *resumable) Skip(p *protocol.Plan, why error) {
	if p.Round > r.known {
		r.Durable.Skip(p, why)
	}
}

// pausing is a trainer that contributes nothing to the known rounds.
type pausing struct {
	client.Trainer
	known uint64
}

func (t pausing) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	if p.Round > t.known {
		return t.Trainer.Contribute(p, src, run)
	}
	return nothing(p), nil
}

func nothing(p *protocol.Plan) []protocol.Vector {
	return slices.Repeat([]protocol.Vector{{Index: []uint32{}}}, len(p.Releases))
}

// hollow returns sums that are empty in the known rounds. In active mode they are complete,
// because clients may be lost at a stage that no other sum has.
func (c Config) hollow(s sums, src entropy.Source) sums {
	if c.known() == 0 || c.Mode == secagg.Active {
		return s
	}
	known, tables := c.known(), new(noise.Tables)
	join := secagg.IdealClients(secagg.DrawSum, func(s *secagg.IdealClient) { // so that clients add no noise either
		s.AsWork = c.Real // setup ahead with it may be real, and is then scheduled as work
	})
	return sums{
		aggregator: func(p protocol.Setup) (aggregator.Sum, error) {
			if p.Round > known {
				return s.aggregator(p)
			}
			sum := secagg.NewIdeal(p, secagg.DrawClient, src, tables) // adds no noise of its own
			if c.Hollow != nil {
				sum.Heard = func(id protocol.ClientID) { c.Hollow(p.Round, id) }
			}
			return sum, nil
		},
		client: func(id protocol.ClientID, p protocol.Setup) (client.Sum, error) {
			// it is counted: a party draws its secrets from streams by the number of its joins
			side, err := s.client(id, p)
			if err != nil || p.Round > known {
				return side, err
			}
			return join(p), nil
		},
	}
}

// resumed prepares the configuration: its strategy and trainers go through known rounds idly.
func (f *federation) resumed(cfg Config) Config {
	if cfg.From == nil && cfg.Between == nil && cfg.Hollow == nil {
		return cfg
	}
	trainers := cfg.Trainers
	f.strategy = &resumable{Durable: cfg.Strategy.(server.Durable), from: cfg.From, known: cfg.known(), restore: func() error {
		for i, t := range trainers {
			r, ok := t.(client.Resumable)
			if state := cfg.From.Trainers[i]; state == nil {
				continue
			} else if !ok {
				return fmt.Errorf("client %d keeps nothing, and the snapshot has %d bytes of it", i, len(state))
			} else if err := r.Resume(state, f.streams.Client(i)); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
		}
		return nil
	}}
	cfg.Strategy = f.strategy
	if cfg.From != nil {
		cfg.Trainers = lists.Map(trainers, func(t client.Trainer) client.Trainer { return pausing{t, cfg.known()} })
	}
	f.trainers = trainers
	return cfg
}

// passKnown ends a known round. The snapshot says which clients were there. From the last known
// round on, the byte counts are the snapshot's.
func (f *federation) passKnown(it Round) error {
	past := f.cfg.From.Rounds[it.Number-1]
	if past.Number != it.Number || past.Alive != it.Alive || past.Dropped != it.Dropped || past.Sent != it.Sent {
		return fmt.Errorf("%w: in its round %d there were %d clients, %d were lost and %d sent an input; here there are %d, %d and %d",
			ErrOtherRun, it.Number, past.Alive, past.Dropped, past.Sent, it.Alive, it.Dropped, it.Sent)
	}
	if past.Reason != "" {
		past.Skipped = errors.New(past.Reason)
	}
	f.out.Rounds = append(f.out.Rounds, past.Round)
	if it.Number == f.cfg.known() {
		f.out.Up, f.out.Down = f.cfg.From.Up, f.cfg.From.Down
		f.ahead = f.cfg.From.Clock - f.now.Sub(epoch)
	}
	return nil
}

func (f *federation) snapshot() (*Snapshot, error) {
	s := &Snapshot{Up: f.out.Up, Down: f.out.Down, Clock: f.now.Sub(epoch) + f.ahead, Strategy: f.strategy.state, Trainers: make([][]byte, len(f.trainers))}
	for _, it := range f.out.Rounds {
		p := Past{Round: it}
		if it.Skipped != nil {
			p.Reason, p.Skipped = it.Skipped.Error(), nil
		}
		s.Rounds = append(s.Rounds, p)
	}
	for i, t := range f.trainers {
		if r, ok := t.(client.Resumable); ok {
			var err error
			if s.Trainers[i], err = r.Snapshot(); err != nil {
				return nil, fmt.Errorf("client %d: %w", i, err)
			}
		}
	}
	return s, nil
}
