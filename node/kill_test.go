package node_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// moment is a point of a round: a message is on its way.
type moment struct {
	name   string
	kind   protocol.Kind
	round  uint64
	active bool
}

// moments are before an answer of every stage arrives, and after all have. The stages advertise and
// share are there in the first round only: later rounds are set up while the previous round is
// under way.
var moments = []moment{
	{"advertise", protocol.KindAdvertise, 1, false},
	{"advertised", protocol.KindRoster, 1, false},
	{"share", protocol.KindShares, 1, false},
	{"shared", protocol.KindDelivery, 1, false},
	{"prepared", protocol.KindPrepared, 2, false},
	{"told to proceed", protocol.KindProceed, 2, false},
	{"masked-input", protocol.KindMaskedInput, 2, false},
	{"masked-input sent", protocol.KindSurvivors, 2, false},
	{"consistency", protocol.KindConsistency, 2, true},
	{"consistency signed", protocol.KindQuorum, 2, true},
	{"unmask", protocol.KindUnmask, 2, false},
}

// The moments after a round's sum: on its way to the server, and before the next
// round.
var (
	summed = moment{"sum", protocol.KindResult, 2, false}
	opens  = moment{"between", protocol.KindOpen, 3, false}
)

// at has f called once, at the first message of the moment that is from or to a place (nil: any
// place). Messages behind it on its stream wait for f.
func (m moment) at(x *tap, of *admission.Place, f func(*passing)) {
	var once sync.Once
	x.rule(func(p *passing) {
		if p.kind() == m.kind && p.round() == m.round && (of == nil || *of == p.place) {
			once.Do(func() { f(p) })
		}
	})
}

// mode are settings of the mode that has the moment's stage.
func (m moment) mode() string {
	if m.active {
		return "mode=active secagg=real"
	}
	return "mode=semi-honest"
}

func (m moment) settings() []string { return append(strings.Fields(m.mode()), "rounds=4") }

// holdOpen keeps every round after one from beginning until a channel is closed.
func holdOpen(x *tap, after uint64, until <-chan struct{}) {
	x.rule(func(p *passing) {
		if p.kind() == protocol.KindOpen && p.round() > after {
			select {
			case <-until:
			case <-p.ctx.Done():
			}
		}
	})
}

// returned is closed when a client has said for the second time that it takes part.
func returned(x *tap, who admission.Place) <-chan struct{} {
	back, said := make(chan struct{}), 0
	x.rule(func(p *passing) {
		if p.place == who && p.up && p.said("ready") {
			if said++; said == 2 {
				close(back)
			}
		}
	})
	return back
}

// A client is killed in every stage, and started again. All rounds have a sum; the sum of the round
// in which it was killed is without it, unless its masked input had left.
func TestKilledClient(t *testing.T) {
	faulty(t)
	victim := admission.ClientPlace(lastAlone)
	for _, at := range slices.Concat(moments, []moment{summed}) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, at.settings()...)
			again := make(chan *process, 1)
			alone := make(chan *process, 1)
			of := &victim
			if at == summed {
				of = &admission.ServerPlace
			}
			at.at(m.tap, of, func(p *passing) {
				(<-alone).kill()
				again <- m.startAlone()
				p.cut = at != summed
			})
			holdOpen(m.tap, at.round, returned(m.tap, victim))
			m.startAggregator()
			server, together := m.startServer(), m.startTogether()
			alone <- m.startAlone()
			server.ends()
			together.ends()
			(<-again).ends()
			if attempted, skipped := server.rounds(); attempted != 4 || skipped != 0 {
				t.Errorf("%d rounds attempted, %d skipped; want 4 and 0", attempted, skipped)
			}
			survived := at.kind > protocol.KindMaskedInput
			if got := m.oracle.took(lastAlone, at.round); got != survived {
				t.Errorf("it is in the sum of round %d: %v, want %v", at.round, got, survived)
			}
			if !m.oracle.took(lastAlone, 4) {
				t.Errorf("it is not back: the last sum is of %v", m.oracle.of(4))
			}
			m.checkLedgers()
		})
	}
}

// Most clients are killed while a round is set up, or computed: it waits for them, and is then a sum of all. No client is
// charged for it twice.
func TestKilledClientsAreAwaited(t *testing.T) {
	faulty(t)
	one := admission.ClientPlace(0) // which is killed with the others
	for _, at := range slices.DeleteFunc(slices.Clone(moments), func(m moment) bool { return m.kind > protocol.KindPrepared }) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, at.settings()...)
			together, again := make(chan *process, 1), make(chan *process, 1)
			at.at(m.tap, &one, func(p *passing) {
				(<-together).kill()
				again <- m.startTogether()
				p.cut = true
			})
			m.startAggregator()
			server, alone := m.startServer(), m.startAlone()
			together <- m.startTogether()
			server.ends()
			alone.ends()
			(<-again).ends()
			if attempted, skipped := server.rounds(); attempted != 4 || skipped != 0 {
				t.Errorf("%d rounds attempted, %d skipped; want 4 and 0", attempted, skipped)
			}
			m.checkLedgers()
		})
	}
}

// The aggregator is killed in every stage, and started again: the round is lost, its number used
// up, and the session continues with every client.
func TestKilledAggregator(t *testing.T) {
	faulty(t)
	for _, at := range slices.Concat(moments, []moment{opens}) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, at.settings()...)
			first, again := make(chan *process, 1), make(chan *process, 1)
			at.at(m.tap, nil, func(*passing) {
				(<-first).kill()
				again <- m.startAggregator()
			})
			first <- m.startAggregator()
			server := m.startServer()
			m.loses(at.round, func() *process { return server })
			<-again
		})
	}
}

// The server is killed in every stage, and started again: as for the aggregator.
func TestKilledServer(t *testing.T) {
	faulty(t)
	for _, at := range slices.Concat(moments, []moment{summed}) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, at.settings()...)
			m.startAggregator()
			first, again := make(chan *process, 1), make(chan *process, 1)
			at.at(m.tap, nil, func(*passing) {
				(<-first).kill()
				again <- m.startServer()
			})
			first <- m.startServer()
			m.loses(at.round, func() *process { return <-again })
		})
	}
}

// loses has the clients take part to the end. One round of four is lost, and the sums of the others
// are over every client.
func (m *machines) loses(round uint64, server func() *process) {
	m.t.Helper()
	together, alone := m.startTogether(), m.startAlone()
	s := server()
	s.ends()
	together.ends()
	alone.ends()
	if attempted, skipped := s.rounds(); attempted != 4 || skipped != 1 {
		m.t.Errorf("%d rounds attempted, %d skipped; want 4 and 1", attempted, skipped)
	}
	for i := uint64(1); i <= 4; i++ {
		if i == round {
			continue // if the server was lost, there may be a sum that it has not heard of
		}
		if got := m.oracle.of(i); len(got) != clients {
			m.t.Errorf("the sum of round %d is of %v; want all %d clients", i, got, clients)
		}
	}
	m.checkLedgers()
}

// A role is killed when the session ends, each in turn, and the final model is not lost. The server
// repeats it until an aggregator has it on disk, and the aggregator repeats it to each client that
// comes.
func TestKilledAtTheEnd(t *testing.T) {
	faulty(t)
	victim := admission.ClientPlace(lastAlone)
	for _, c := range []struct {
		name  string
		of    *admission.Place
		which func(m *machines, aggregator, server, alone *process) func() *process
	}{
		{"aggregator before it has the model", &admission.ServerPlace, func(m *machines, a, _, _ *process) func() *process {
			a.kill()
			return m.startAggregator
		}},
		{"aggregator before a client has it", &victim, func(m *machines, a, _, _ *process) func() *process {
			a.kill()
			return m.startAggregator
		}},
		{"client", &victim, func(m *machines, _, _, alone *process) func() *process {
			alone.kill()
			return m.startAlone
		}},
		{"server", &admission.ServerPlace, func(m *machines, _, server, _ *process) func() *process {
			server.kill()
			return m.startServer
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, "rounds=1")
			started := make(chan [3]*process, 1)
			again := make(chan *process, 1)
			moment{kind: protocol.KindFinal}.at(m.tap, c.of, func(p *passing) {
				all := <-started
				again <- c.which(m, all[0], all[1], all[2])()
				p.cut = true
			})
			aggregator, server, together, alone := m.startAggregator(), m.startServer(), m.startTogether(), m.startAlone()
			started <- [3]*process{aggregator, server, alone}
			together.ends()
			replaced := <-again
			switch c.name {
			case "client":
				alone = replaced
			case "server":
				server = replaced
			}
			alone.ends()
			server.ends()
			if attempted, skipped := server.rounds(); attempted != 1 || skipped != 0 {
				t.Errorf("%d rounds attempted, %d skipped; want 1 and 0", attempted, skipped)
			}
			m.checkLedgers()
		})
	}
}

// A server that is started again when all is over says the end once more, if that is asked for. It
// needs no other party for that, and ends with the same summary.
func TestServerStartedAfterTheEnd(t *testing.T) {
	faulty(t)
	m := newMachines(t, "rounds=1")
	m.startAggregator()
	server, together, alone := m.startServer(), m.startTogether(), m.startAlone()
	for _, p := range []*process{server, together, alone} {
		p.ends()
	}
	refused := m.startServer()
	if <-refused.done; refused.code != 2 {
		t.Errorf("with nothing else said: exit code %d, want 2", refused.code)
	}
	again := m.startServerWith("--again", "end")
	again.ends()
	if attempted, skipped := again.rounds(); attempted != 1 || skipped != 0 {
		t.Errorf("%d rounds attempted, %d skipped; want 1 and 0", attempted, skipped)
	}
}
