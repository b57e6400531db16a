package sim_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// Modes says in which modes of the secure sum schedules run.
type Modes string

// The choices of Modes. Both draws a mode for each schedule.
const (
	SemiHonest Modes = "semi-honest"
	Active     Modes = "active"
	Both       Modes = "both"
)

// Config says which schedules to run.
type Config struct {
	Schedules int    // their seeds are Seed, Seed+1, ...
	Seed      uint64 // of the first
	Modes     Modes
	Workers   protocol.Workers // schedules at once; at least 1 is used
	// Progress, if set, is called when a schedule is done, by one goroutine at a time.
	Progress func(done int)
}

// Validate reports everything that makes the configuration unusable.
func (c Config) Validate() error {
	var errs []error
	if c.Schedules < 1 {
		errs = append(errs, fmt.Errorf("schedules is %d; it must be at least 1", c.Schedules))
	}
	if !slices.Contains([]Modes{SemiHonest, Active, Both}, c.Modes) {
		errs = append(errs, fmt.Errorf("mode is %q; it must be one of %s, %s, %s", c.Modes, SemiHonest, Active, Both))
	}
	return errors.Join(errs...)
}

// Run runs all schedules. A schedule that breaks a rule is in the report, not an error;
// an error is the context's, or says that a schedule could not be set up.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	results := make([]*result, cfg.Schedules)
	errs := make([]error, cfg.Schedules)
	prices := new(dp.Cache) // what the same events cost, they cost in every schedule
	var mu sync.Mutex
	done := 0
	cfg.Workers.Each(cfg.Schedules, func(i int) {
		if ctx.Err() != nil {
			return
		}
		results[i], errs[i] = carryOut(cfg.Seed+uint64(i), cfg.Modes, prices, nil)
		if cfg.Progress == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		cfg.Progress(done)
	})
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return nil, err
	}
	r := newReport(cfg)
	for _, one := range results {
		r.add(one)
	}
	return r, nil
}

// Tell is called with each event of a schedule and its virtual time.
type Tell func(at time.Duration, what string)

// Replay runs the schedule of one seed and reports its events. modes must be the modes of the
// original run. A broken rule is returned as a *Violation.
func Replay(seed uint64, modes Modes, tell Tell) error {
	if err := (Config{Schedules: 1, Modes: modes}).Validate(); err != nil {
		return err
	}
	r, err := carryOut(seed, modes, new(dp.Cache), tell)
	if err != nil {
		return err
	}
	if r.violation != nil {
		return r.violation
	}
	return nil
}

// carryOut draws the schedule of a seed and runs it. tell may be nil.
func carryOut(seed uint64, modes Modes, prices *dp.Cache, tell Tell) (*result, error) {
	s, err := Draw(seed, modes)
	if err != nil {
		return nil, err
	}
	w, err := newWorld(s, prices, tell)
	if err != nil {
		return nil, fmt.Errorf("the schedule of seed %d: %w", seed, err)
	}
	w.run()
	return w.result, nil
}

// Violation says that a schedule broke a rule. It is an error.
type Violation struct {
	Seed uint64 `json:"seed"`
	Mode string `json:"mode"` // of the schedule
	Rule string `json:"rule"` // the checker's name
	What string `json:"what"` // what happened, with the round and the clients
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d (%s) broke the rule %q: %s", v.Seed, v.Mode, v.Rule, v.What)
}

// happening is one input for one role. Unlike the simulator's, these stand alone:
// each has a time of its own, so that any two may change places.
type happening struct {
	at time.Time
	to protocol.Party
	in protocol.Input // nil with work, whose Done it is; nil without: a client comes up again
	// work is run first, if there is any.
	work *protocol.Work
	// life is the client's life that the work belongs to: it is lost with it.
	life int
}

// queue holds happenings in descending order of time. Of two at one time, the first to be added comes first.
type queue []*happening

func (q *queue) add(h *happening) {
	at, _ := slices.BinarySearchFunc(*q, h.at, func(other *happening, at time.Time) int { return at.Compare(other.at) })
	*q = slices.Insert(*q, at, h)
}

// next takes the earliest happening out; nil when nothing is left.
func (q *queue) next() *happening {
	last := len(*q) - 1
	if last < 0 {
		return nil
	}
	h := (*q)[last]
	*q = (*q)[:last]
	return h
}

// planner is a server's strategy whose model is a hash of all sums so far: parties
// hold the same one only if they saw the same history.
type planner struct {
	w     *world
	at    int
	model []byte
}

// Next implements server.Strategy. The federation is healed before the last
// round is planned.
func (p *planner) Next() (*protocol.Plan, bool, error) {
	s := p.w.schedule
	if p.at > s.Rounds {
		return nil, true, nil
	}
	if p.at == s.Rounds {
		p.w.heal()
	}
	p.at++
	plan := &protocol.Plan{
		Session: p.w.session, Round: uint64(p.at), Phase: "chaos",
		Cohort: s.Cohort, Releases: s.Releases, Broadcast: p.model,
	}
	p.w.observe(Planned{Plan: plan, Healed: p.w.healed})
	return plan, false, nil
}

func (p *planner) Absorb(plan *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	p.w.observe(Absorbed{Round: plan.Round, Sums: sums})
	model := sha256.Sum256(fmt.Appendf(nil, "%x %v", p.model, sums.Values))
	p.model = model[:]
	return nil
}

func (p *planner) Skip(*protocol.Plan, error) {}

func (p *planner) Model() []byte { return p.model }
