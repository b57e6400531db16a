package node_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// trial is a session of four rounds in which the last client, the victim, or the
// server is behind a line that fails.
type trial struct {
	*federation
	tap    *tap
	oracle *oracle
	line   *relay
	logs   []store.Log // of the ledgers

	mu     sync.Mutex
	events []protocol.Event // the aggregator's
}

const victim = clients - 1

// unlike are ratings in which no two users are alike.
func unlike(t testing.TB) string {
	t.Helper()
	return rated(t, clients, 12, func(u, i int) int {
		if (u*7+i*3)%11 < 6 {
			return 1 + (u+i*i)%5
		}
		return 0
	})
}

func newTrial(t *testing.T, settings string) *trial {
	t.Helper()
	f := newLoopbackFederation(t, lfl+"contribution=all-ratings deployment.stage-timeout-s=6 rounds=4 data="+unlike(t)+" "+settings)
	x := &trial{federation: f, logs: make([]store.Log, clients)}
	x.tap = f.tapped()
	x.oracle = newOracle(t, x.tap, f.recorded)
	x.line = newRelay(t, x.tap.address())
	f.watch = x.heard
	return x
}

func (x *trial) heard(e protocol.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.events = append(x.events, e)
}

// reported says whether the aggregator has reported something of a client.
func (x *trial) reported(kind protocol.EventKind, stage protocol.Stage, round uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.events {
		if e.Kind == kind && e.Party == protocol.ClientParty(victim) && e.Stage == stage && e.Round == round {
			return true
		}
	}
	return false
}

// behind enrols a place whose holder dials by the line.
func (x *trial) behind(p admission.Place) *admission.Membership {
	x.t.Helper()
	direct := x.contact.Addresses
	defer func() { x.contact.Addresses = direct }()
	x.contact.Addresses = []string{x.line.address()}
	return x.join(p)
}

// clients makes all of them, the victim behind the line if it is to be.
func (x *trial) clients(lined bool) []*node.Client {
	x.t.Helper()
	var all []*node.Client
	for id := range protocol.ClientID(clients) {
		var err error
		x.logs[id] = store.NewMemoryLog()
		if x.ledgers[id], err = store.NewLedger(x.logs[id]); err != nil {
			x.t.Fatal(err)
		}
		join := x.join
		if lined && id == victim {
			join = x.behind
		}
		all = append(all, x.client(id, join(admission.ClientPlace(id))))
	}
	return all
}

// run has every party take part to the end. The victim may never get there: then it ends with ctx,
// which is cancelled when all others have ended.
func (x *trial) run(server *node.Server, all []*node.Client, back bool) *node.Outcome {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	last := make(chan error, 1)
	go func() { last <- all[victim].Run(ctx) }()
	wait := x.start(all[:victim]...)
	out, err := server.Run(x.ctx)
	if err != nil {
		x.t.Fatal(err)
	}
	wait()
	if !back {
		cancel()
	}
	if err = <-last; back && err != nil || !back && !errors.Is(err, context.Canceled) {
		x.t.Errorf("the victim ended with %v", err)
	}
	for id := range protocol.ClientID(clients) {
		x.oracle.checkLedger(id, charges(x.t, x.logs[id]))
	}
	x.oracle.openedOnce()
	return out
}

// wants compares what came of a session of as many rounds as were asked for.
func (x *trial) wants(out *node.Outcome, released uint64) {
	x.t.Helper()
	if opened := uint64(x.simulated.Schedule.Rounds()); out.Attempts.Opened != opened || out.Attempts.Released != released {
		x.t.Errorf("attempts %+v, want %d opened and %d released", out.Attempts, opened, released)
	}
}

// opening are the moments at which a client is told that a stage has opened, with the
// stage that it is lost at if it does not hear of it.
var opening = []struct {
	moment
	lost protocol.Stage
}{
	{moment{"advertise", protocol.KindAnnounce, 1, false}, protocol.StageAdvertise},
	{moment{"share", protocol.KindRoster, 1, false}, protocol.StageShare},
	{moment{"prepared", protocol.KindAnnounce, 2, false}, protocol.StagePrepared},
	{moment{"masked-input", protocol.KindProceed, 2, false}, protocol.StageMaskedInput},
	{moment{"consistency", protocol.KindSurvivors, 2, true}, protocol.StageConsistency},
	{moment{"unmask", protocol.KindSurvivors, 2, false}, protocol.StageUnmask},
}

// The line of a client fails in every stage, in every way. No round waits longer than for its
// deadline, nor for a client that is gone: all rounds have a sum. When the line heals, the client
// is back, and takes part again.
func TestLineFails(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(victim)
	for name, f := range map[string]fault{
		"cut":         {refused: true},
		"half open":   {swallows: true},
		"slow sender": {pace: time.Second},
		"slow reader": {paceDown: time.Second},
	} {
		for _, at := range opening {
			t.Run(name+"/"+at.name, func(t *testing.T) {
				t.Parallel()
				x := newTrial(t, at.mode())
				at.at(x.tap, &who, func(*passing) {
					x.line.set(f)
					if f.refused {
						x.line.cut()
					}
				})
				// The round after that is held until the line is whole again.
				back := returned(x.tap, who)
				x.tap.rule(func(p *passing) {
					if p.kind() == protocol.KindOpen && p.round() == at.round+1 {
						x.line.heal()
					}
				})
				holdOpen(x.tap, at.round, back)
				server := x.server(x.join(admission.ServerPlace))
				out := x.run(server, x.clients(true), true)
				x.wants(out, 4)
				if !x.reported(protocol.ClientLost, at.lost, at.round) {
					t.Errorf("it was not lost at the stage %s of round %d: %v", at.lost, at.round, x.events)
				}
				if got, want := x.oracle.took(victim, at.round), at.lost > protocol.StageMaskedInput; got != want {
					t.Errorf("it is in the sum of round %d: %v, want %v", at.round, got, want)
				}
				if !x.oracle.took(victim, 4) {
					t.Errorf("it is not back: the last sum is of %v", x.oracle.of(4))
				}
			})
		}
	}
}

// A client's line is cut and does not heal: the session continues to its end without it.
func TestCutForGood(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(victim)
	x := newTrial(t, "")
	moment{kind: protocol.KindSurvivors, round: 1}.at(x.tap, &who, func(*passing) {
		x.line.set(fault{refused: true})
		x.line.cut()
	})
	out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(true), false)
	x.wants(out, 4)
	for i, want := range []bool{true, false, false, false} {
		if got := x.oracle.took(victim, uint64(i+1)); got != want {
			t.Errorf("it is in the sum of round %d: %v, want %v", i+1, got, want)
		}
	}
}

// A client's answer is held until the aggregator has given it up, and then arrives: it
// is ignored, and what comes of the round is as if it had never been sent. It is
// charged for all the same.
func TestLateAnswersAreDropped(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(victim)
	for _, at := range slices.DeleteFunc(slices.Clone(moments), func(m moment) bool { return !answers(m.kind) }) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, at.mode())
			stage := protocol.Stages
			lost := make(chan struct{})
			x.watch = func(e protocol.Event) {
				x.heard(e)
				if e.Kind == protocol.ClientLost && e.Round == at.round && e.Party == protocol.Party(who) {
					close(lost)
				}
			}
			at.at(x.tap, &who, func(p *passing) {
				_, stage = p.message.(protocol.StageMessage).At()
				<-lost
			})
			out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
			x.wants(out, 4)
			if !x.reported(protocol.ClientLost, stage, at.round) || !x.reported(protocol.MessageIgnored, stage, at.round) {
				t.Errorf("events %v; want it lost at the stage %s of round %d, and then ignored", x.events, stage, at.round)
			}
			if got, want := x.oracle.took(victim, at.round), at.kind > protocol.KindMaskedInput; got != want {
				t.Errorf("it is in the sum: %v, want %v", got, want)
			}
			if !x.oracle.took(victim, 4) {
				t.Errorf("it is not back: the last sum is of %v", x.oracle.of(4))
			}
		})
	}
}

// answers says whether messages of a kind are a client's.
func answers(k protocol.Kind) bool {
	return k == protocol.KindAdvertise || k == protocol.KindShares || k == protocol.KindPrepared || k == protocol.KindMaskedInput || k == protocol.KindConsistency || k == protocol.KindUnmask
}

// The server's line fails, and heals: no round is lost by it, whatever was on its way,
// and none is opened twice.
func TestServerLineFails(t *testing.T) {
	faulty(t)
	for _, c := range []moment{
		{"in a round", protocol.KindMaskedInput, 2, false},
		{"with the sum", protocol.KindResult, 2, false},
		{"with a plan", protocol.KindOpen, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, "")
			back := make(chan struct{})
			published := 0
			x.tap.rule(func(p *passing) {
				if p.said("publish") {
					if published++; published == 2 {
						close(back)
					}
				}
			})
			c.at(x.tap, nil, func(p *passing) {
				x.line.cut()
				if p.place == admission.ServerPlace {
					p.cut = true // it is lost with the line
					return
				}
				select { // the round continues when the server is back
				case <-back:
				case <-p.ctx.Done():
				}
			})
			out := x.run(x.server(x.behind(admission.ServerPlace)), x.clients(false), true)
			x.wants(out, 4)
		})
	}
}
