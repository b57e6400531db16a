package engine

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
)

// noting is a strategy of which the state before the latest plan is at hand.
type noting struct {
	server.Durable

	state []byte
}

// Next saves the state of the strategy, then returns its next plan.
func (n *noting) Next() (plan *protocol.Plan, done bool, err error) {
	if n.state, err = n.Save(); err != nil {
		return nil, false, err
	}
	return n.Durable.Next()
}

// serving is the role of the server, for one round.
type serving struct {
	strategy *noting
	role     *server.Server
}

func (s *site) serve(state []byte) (*serving, error) {
	strategy, err := s.e.Strategy()
	if err != nil {
		return nil, err
	}
	if state != nil {
		if err = strategy.Restore(state); err != nil {
			return nil, err
		}
	}
	n := &noting{Durable: strategy}
	return &serving{n, server.New(n)}, nil
}

// step feeds the role an input, and carries out the work that the role asks for. The turn that it returns says where the
// session stands.
func (v *serving) step(in protocol.Input) (*turn, error) {
	t := new(turn)
	for inputs := []protocol.Input{in}; len(inputs) > 0; inputs = inputs[1:] {
		eff := v.role.Step(time.Time{}, inputs[0])
		for _, ev := range eff.Events {
			switch ev.Kind {
			case protocol.SumRefused:
				t.Refused = ev.Err.Error()
			case protocol.SessionEnded, protocol.RoundAborted:
			default:
				return nil, fmt.Errorf("the server: %s: %w", ev.Kind, ev.Err)
			}
		}
		for _, w := range eff.Work {
			inputs = append(inputs, w.Do(protocol.Workers(runtime.GOMAXPROCS(0))))
		}
		for _, e := range eff.Send {
			switch m := e.Message.(type) {
			case *protocol.Open:
				t.Plan, t.State = m.Plan, v.strategy.state
			case *protocol.Final:
				t.Model, t.State = m.Model, v.strategy.state
			}
		}
	}
	if t.State == nil {
		return nil, errors.New("the server says nothing")
	}
	return t, nil
}

// begin is the server's side before the first round.
func (s *site) begin() (*turn, error) {
	v, err := s.serve(nil)
	if err != nil {
		return nil, err
	}
	return v.step(protocol.Start{})
}

// absorb takes the server's side from before a round to before the next. sum contains the inputs alone. absorb adds the
// noise: only the process that stands for the trusted party of the ideal sum sees the sum without noise.
func (s *site) absorb(t *turn, f *fate, sum []int64) (*turn, error) {
	v, err := s.serve(t.State)
	if err != nil {
		return nil, err
	}
	now, err := v.step(protocol.Start{})
	if err != nil {
		return nil, err
	}
	if now.Plan == nil || t.Plan == nil || now.Plan.Hash() != t.Plan.Hash() {
		return nil, errors.New("the server's state does not plan the round that clients were asked for")
	}
	p := t.Plan
	from := protocol.Party{Role: protocol.Aggregator}
	if f.TooFew != nil {
		return v.step(protocol.Received{Envelope: protocol.Envelope{From: from, Message: &protocol.Abort{Round: p.Round, Reason: f.TooFew}}})
	}
	released, err := s.release(p, f, sum)
	if err != nil {
		return nil, err
	}
	return v.step(protocol.Received{Envelope: protocol.Envelope{From: from, Message: &protocol.Result{
		Round: p.Round, Integers: released, Survivors: f.Survivors, Answered: f.Answered,
	}}})
}

// release is the ideal sum of a round: with its noise.
func (s *site) release(p *protocol.Plan, f *fate, sum []int64) ([][]int64, error) {
	parts, at := make([][]int64, len(p.Releases)), 0
	for i, r := range p.Releases {
		switch {
		case len(sum) == 0:
			parts[i] = make([]int64, r.Len)
		case at+r.Len > len(sum):
			return nil, fmt.Errorf("a sum of %d coordinates is too short for the releases of round %d", len(sum), p.Round)
		default:
			parts[i] = sum[at:][:r.Len]
		}
		at += r.Len
	}
	if len(sum) > 0 && at != len(sum) {
		return nil, fmt.Errorf("a sum of %d coordinates; round %d releases %d", len(sum), p.Round, at)
	}
	ideal := secagg.NewIdeal(p.Setup(), secagg.DrawSum, s.entropy.Sum(), &s.tables)
	if err := ideal.Begin(p); err != nil {
		return nil, err
	}
	if err := ideal.Add(parts, f.Survivors, f.Answered); err != nil {
		return nil, err
	}
	return ideal.Sum(protocol.Workers(runtime.GOMAXPROCS(0)))
}
