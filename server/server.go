// Package server is the server role: the party that has the model. In each round (one
// round of training) its [Strategy] makes a plan, the server sends the plan to the
// aggregator, and the strategy absorbs the sum that was released. At the end the server
// sends out the trained model.
//
// The role is a state machine without I/O: [Server.Step] takes an input and the time, and
// returns effects for its driver to carry out. So the same code runs in a simulation and
// over a network. It knows no algorithm; that is behind Strategy.
//
// [New] makes a server for a simulation. A deployment uses [NewDurable], whose server records the
// session's state before anything of a round leaves, so that after a crash [Resume] can continue
// from there.
package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Strategy is the algorithm as the server sees it.
type Strategy interface {
	// Next plans the next round, or says that training is done.
	Next() (plan *protocol.Plan, done bool, err error)
	// Absorb takes in what the round of a plan released.
	Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error
	// Skip takes note that the round of a plan released nothing, and why.
	Skip(*protocol.Plan, error)
	// Model is the shared part of the model as clients get it at the end.
	Model() []byte
}

// Limited is a Strategy that knows limits which the vectors of honest clients keep, such as that no item's sum of clipped
// residuals is above the clip times its sum of weights. The server refuses sums that break them.
type Limited interface {
	Limits(p *protocol.Plan, hear func(terms ...protocol.Term))
}

// Refuse returns an error that names the release whose sums honest clients cannot have given; nil if they can. integers
// are the sums of a plan's releases, and sums the same in the units of the vectors. answered clients reduced their noise.
func Refuse(s Strategy, p *protocol.Plan, integers [][]int64, sums protocol.Sums, answered int) error {
	for i, r := range p.Releases {
		if err := p.Beyond(r, integers[i], sums.Survivors, answered); err != nil {
			return err
		}
	}
	if limited, ok := s.(Limited); ok {
		return p.Broken(func(hear func(terms ...protocol.Term)) { limited.Limits(p, hear) }, sums, answered)
	}
	return nil
}

// Server runs a session. Its methods are for one goroutine at a time.
type Server struct {
	strategy Strategy
	plan     *protocol.Plan // the round in progress
	absorbed bool           // its result has arrived: another one is not heard
	work     uint64
	last     uint64 // the latest round opened; no number is used twice
	attempts Attempts

	patience time.Duration // how long a round may take; 0: for ever
	deadline time.Time     // when the round in progress has taken too long
	hold     time.Duration // how much longer it may take if the aggregator holds it
	held     uint64        // the last round that it held

	durable     Durable            // the strategy, if its state is recorded
	session     protocol.SessionID // then: of the records
	interrupted bool               // in round last, by a restart; until Start
	finished    bool               // no round was left at the restart
}

// New makes a server that keeps nothing for a restart.
func New(s Strategy) *Server { return &Server{strategy: s} }

// Step feeds one input. It never blocks and never panics on what a peer sent.
func (s *Server) Step(now time.Time, in protocol.Input) protocol.Effects {
	switch in := in.(type) {
	case protocol.Start:
		return s.start(now)
	case protocol.Received:
		return s.receive(now, in.Envelope)
	case protocol.Registered:
		return s.giveUp(now, ErrAggregatorLost)
	case protocol.Tick:
		if s.patience > 0 && !now.Before(s.deadline) {
			return s.giveUp(now, ErrOverdue)
		}
	case protocol.Done:
		if in.ID != s.work || !s.absorbed {
			return protocol.Effects{}
		}
		s.absorbed = false
		if in.Err != nil {
			failed := s.plan.Round
			s.plan = nil
			return report(protocol.WorkFailed, failed, in.Err)
		}
		return in.Apply(now)
	}
	return protocol.Effects{}
}

// giveUp leaves a round of which nothing can be expected any more. One whose
// result is here is none.
func (s *Server) giveUp(now time.Time, why error) protocol.Effects {
	if s.plan == nil || s.absorbed {
		return protocol.Effects{}
	}
	return s.skip(now, protocol.RoundAborted, why)
}

// skip continues to the next round without a sum of the present round.
func (s *Server) skip(now time.Time, kind protocol.EventKind, why error) protocol.Effects {
	s.strategy.Skip(s.plan, why)
	return s.nextAfter(now, kind, s.plan.Round, why)
}

// nextAfter reports the end of a round, and opens the next one.
func (s *Server) nextAfter(now time.Time, kind protocol.EventKind, round uint64, why error) protocol.Effects {
	eff := s.next(now)
	eff.Events = append(report(kind, round, why).Events, eff.Events...)
	return eff
}

// start plans the first round or, after a restart, the round after the interrupted round.
func (s *Server) start(now time.Time) protocol.Effects {
	if !s.interrupted {
		return s.next(now)
	}
	s.interrupted = false
	return s.nextAfter(now, protocol.RoundAborted, s.last, ErrInterrupted)
}

func (s *Server) receive(now time.Time, e protocol.Envelope) protocol.Effects {
	if e.From.Role == protocol.Aggregator {
		switch m := e.Message.(type) {
		case *protocol.Result:
			return s.absorb(m)
		case *protocol.Abort:
			if s.plan == nil || s.absorbed || m.Round != s.plan.Round || m.Reason == nil {
				break
			}
			s.strategy.Skip(s.plan, m.Reason)
			return s.next(now)
		case *protocol.Held:
			if s.plan == nil || s.absorbed || m.Round != s.plan.Round {
				break
			}
			return s.wait(now, m)
		}
	}
	eff := report(protocol.MessageIgnored, 0, fmt.Errorf("%s is not expected from %s now", protocol.Describe(e.Message), e.From))
	eff.Events[0].Party = e.From
	return eff
}

// wait gives a round more time while the aggregator waits for clients. A round gets it once, however often it waits.
func (s *Server) wait(now time.Time, m *protocol.Held) protocol.Effects {
	eff := report(protocol.RoundHeld, m.Round, m)
	if s.patience > 0 && m.Round != s.held {
		s.deadline = now.Add(s.hold + s.patience)
		eff.Wake = s.deadline
	}
	s.held = m.Round
	return eff
}

// absorb turns the released integers into floats and has the strategy take them in,
// which is all that comes of it. A sum that no honest clients can have given is refused:
// nothing was released then, and the attempt is charged like any.
func (s *Server) absorb(m *protocol.Result) protocol.Effects {
	p := s.plan
	if err := s.check(m); err != nil {
		return report(protocol.MessageIgnored, m.Round, err)
	}
	s.absorbed = true
	s.work++
	strategy := s.strategy
	return protocol.Effects{Work: []protocol.Work{protocol.NewWork(s.work, func(run protocol.Runner) (refusal error, err error) {
		sums := protocol.Sums{Survivors: m.Survivors, Values: make([][]float64, len(m.Integers))}
		for i, r := range p.Releases {
			sums.Values[i] = make([]float64, r.Len)
			for j, x := range m.Integers[i] {
				sums.Values[i][j] = float64(x) / r.Scale
			}
		}
		if refusal = Refuse(strategy, p, m.Integers, sums, m.Answered); refusal != nil {
			return refusal, nil
		}
		return nil, strategy.Absorb(p, sums, run)
	}, func(now time.Time, refusal error) protocol.Effects {
		if refusal != nil {
			return s.skip(now, protocol.SumRefused, refusal)
		}
		s.attempts.Released++
		return s.next(now)
	})}}
}

// check says why a result is not one of the round in progress.
func (s *Server) check(m *protocol.Result) error {
	p := s.plan
	switch {
	case p == nil || s.absorbed || m.Round != p.Round:
		return fmt.Errorf("a result of round %d, which is not in progress", m.Round)
	case len(m.Integers) != len(p.Releases):
		return fmt.Errorf("a result of %d vectors for %d releases", len(m.Integers), len(p.Releases))
	case m.Survivors < p.Cohort.Required() || m.Survivors > p.Cohort.Clients:
		return fmt.Errorf("a result of %d survivors; the plan allows %d to %d", m.Survivors, p.Cohort.Required(), p.Cohort.Clients)
	case m.Answered < p.Cohort.Required() || m.Answered > m.Survivors:
		return fmt.Errorf("a result that %d survivors answered for; the plan allows %d to %d", m.Answered, p.Cohort.Required(), m.Survivors)
	}
	for i, r := range p.Releases {
		if len(m.Integers[i]) != r.Len {
			return fmt.Errorf("release %q: %d coordinates, %d expected", r.Name, len(m.Integers[i]), r.Len)
		}
	}
	return nil
}

// next opens the next round, or ends the session.
func (s *Server) next(now time.Time) protocol.Effects {
	s.plan = nil
	var state []byte
	var err error
	if s.durable != nil {
		if state, err = s.durable.Save(); err != nil {
			return report(protocol.WorkFailed, 0, err)
		}
	}
	p, done, err := s.strategy.Next()
	if err == nil && !done {
		err = s.checkPlan(p)
	}
	if err != nil {
		return report(protocol.WorkFailed, 0, err)
	}
	if done {
		return protocol.Effects{
			Persist: s.checkpoint(state),
			Send:    []protocol.Envelope{toAggregator(&protocol.Final{Model: s.model()})},
			Events:  []protocol.Event{{Kind: protocol.SessionEnded, Party: protocol.Party{Role: protocol.Server}}},
		}
	}
	s.plan, s.last = p, p.Round
	s.attempts.Opened++
	eff := protocol.Effects{
		Persist: s.checkpoint(state),
		Send:    []protocol.Envelope{toAggregator(&protocol.Open{Plan: p})},
	}
	if s.patience > 0 {
		s.deadline = now.Add(s.patience)
		eff.Wake = s.deadline
	}
	return eff
}

// model returns the final model of the session. In a deployment a model without a released sum is
// withheld, so that it is not taken for a trained model. A simulation knows the difference, and
// keeps it.
func (s *Server) model() []byte {
	if s.durable != nil && s.attempts.Opened > 0 && s.attempts.Released == 0 {
		return protocol.NoModel
	}
	return s.strategy.Model()
}

// checkPlan says what is wrong with a plan of the strategy's.
func (s *Server) checkPlan(p *protocol.Plan) error {
	switch err := p.Validate(); {
	case err != nil:
		return err
	case s.durable != nil && p.Session != s.session:
		return fmt.Errorf("a plan of session %x in session %x", p.Session, s.session)
	case p.Round <= s.last:
		return fmt.Errorf("a plan of round %d after %d; no number is used twice", p.Round, s.last)
	}
	return nil
}

func toAggregator(m protocol.Message) protocol.Envelope {
	return protocol.Envelope{From: protocol.Party{Role: protocol.Server}, To: protocol.Party{Role: protocol.Aggregator}, Message: m}
}

func report(kind protocol.EventKind, round uint64, err error) protocol.Effects {
	return protocol.Effects{Events: []protocol.Event{{Kind: kind, Round: round, Party: protocol.Party{Role: protocol.Server}, Err: err}}}
}

// Durable is a Strategy whose state outlives its process.
type Durable interface {
	Strategy
	// Save is the state as it is before the next call of Next.
	Save() ([]byte, error)
	// Restore goes back to a saved state: Next then plans what it planned after
	// Save. A state that does not fit is an error that says why, and changes nothing.
	Restore(state []byte) error
}

// Attempts counts rounds. Opened counts the rounds that were opened: each costs clients its full
// price whatever its result. Released counts the rounds that released a sum.
type Attempts struct{ Opened, Released uint64 }

// Attempts returns the counts of the session so far, including before restarts.
func (s *Server) Attempts() Attempts { return s.attempts }

// ErrInterrupted is the reason for a round that was in progress when the server
// stopped. It counts as having released nothing, and its number is used up, since the
// server cannot know what had been sent.
var ErrInterrupted = errors.New("the server stopped while the round was in progress")

// Reasons for which the server gives a round up on its own.
var (
	// ErrAggregatorLost: the aggregator restarted and knows nothing of the round.
	ErrAggregatorLost = errors.New("the aggregator was lost while the round was in progress")
	// ErrOverdue: neither a result nor an abort came within the server's patience (Wait).
	ErrOverdue = errors.New("nothing was heard of the round for too long")
)

// Wait sets how long a round may take before the server gives it up. It must be
// longer than all stages together may take. By default the server waits for ever, which
// is safe only if no message between it and the aggregator is ever lost. A round that the
// aggregator holds until enough clients are connected may take longer by hold.
func (s *Server) Wait(patience, hold time.Duration) { s.patience, s.hold = patience, hold }

// NewDurable makes a server that has a protocol.Checkpoint of the session made
// before every plan and before the final model.
func NewDurable(d Durable, session protocol.SessionID) *Server {
	return &Server{strategy: d, durable: d, session: session}
}

// Resume makes a server that continues from a checkpoint. d is the strategy as at the session's
// start. A round that was in progress is skipped, and counts as an attempt. A checkpoint that does
// not fit the strategy is an error that says why.
func Resume(d Durable, c protocol.Checkpoint) (*Server, error) {
	s := NewDurable(d, c.Session)
	s.last = c.Round
	if err := s.resume(c.State); err != nil {
		return nil, fmt.Errorf("server: checkpoint of round %d in session %x: %w", c.Round, c.Session, err)
	}
	return s, nil
}

// Finished reports, for a resumed server, whether all rounds were over before. Then only the end of
// the session is left to announce. That needs no client.
func (s *Server) Finished() bool { return s.finished }

func (s *Server) resume(state []byte) error {
	a, inner, err := decodeState(state)
	if err != nil {
		return err
	}
	if a.Opened > s.last {
		return fmt.Errorf("the state has %d rounds opened, and the latest is number %d", a.Opened, s.last)
	}
	if err = s.durable.Restore(inner); err != nil {
		return err
	}
	s.attempts = a
	p, done, err := s.strategy.Next()
	if err != nil || done {
		s.finished = done
		return err
	}
	if p.Session != s.session || p.Round != s.last {
		return fmt.Errorf("its state continues with round %d in session %x", p.Round, p.Session)
	}
	s.interrupted = true
	s.strategy.Skip(p, ErrInterrupted)
	return nil
}

// checkpoint records where the session stands; nothing where nothing is kept.
func (s *Server) checkpoint(strategy []byte) []protocol.Record {
	if s.durable == nil {
		return nil
	}
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, len(stateDomain)+16+len(strategy)), stateDomain...), s.attempts.Opened)
	b = binary.BigEndian.AppendUint64(b, s.attempts.Released)
	return []protocol.Record{protocol.Checkpoint{Session: s.session, Round: s.last, State: append(b, strategy...)}}
}

// stateDomain begins a state, and ends in the version of its form. Behind it stand
// how many rounds were opened and how many released a sum, 8 bytes each, big
// endian, and the state of the strategy.
const stateDomain = "fedsim/server/v1\n"

func decodeState(b []byte) (a Attempts, strategy []byte, err error) {
	const head = len(stateDomain) + 16
	if len(b) < head {
		return a, nil, fmt.Errorf("a state of %d bytes; it begins with %d", len(b), head)
	}
	if got := string(b[:len(stateDomain)]); got != stateDomain {
		return a, nil, fmt.Errorf("the state begins with %q; it must begin with %q: another version wrote it", got, stateDomain)
	}
	b = b[len(stateDomain):]
	a = Attempts{Opened: binary.BigEndian.Uint64(b), Released: binary.BigEndian.Uint64(b[8:])}
	if a.Released > a.Opened {
		return a, nil, fmt.Errorf("the state has %d sums of %d rounds", a.Released, a.Opened)
	}
	return a, b[16:], nil
}
