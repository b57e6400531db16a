package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// With noise: a client is killed when its masked input is on its way. It is charged for that round
// and for the rounds that it sent, in full and once, and for no other.
func TestKilledClientIsCharged(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(lastAlone)
	m := newMachines(t, "algorithm=lfl-sgdmf", "epsilon=10", "rounds=4", "mode=semi-honest")
	m.oracle.noised = true
	var want []byte // what a round costs, by the plan that passes
	m.tap.rule(func(p *passing) {
		if o, ok := p.message.(*protocol.Open); ok && want == nil {
			events, err := o.Plan.Charges()
			if err == nil {
				want, err = json.Marshal(events)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	alone, again := make(chan *process, 1), make(chan *process, 1)
	at := moment{kind: protocol.KindMaskedInput, round: 2}
	at.at(m.tap, &who, func(p *passing) {
		(<-alone).kill()
		again <- m.startAlone()
		p.cut = true
	})
	holdOpen(m.tap, at.round, returned(m.tap, who))
	m.startAggregator()
	server, together := m.startServer(), m.startTogether()
	alone <- m.startAlone()
	for _, p := range []*process{server, together} {
		p.ends()
	}
	(<-again).ends()
	m.checkLedgers()
	key, err := m.identity(who)
	m.must(err)
	list := chargesIn(t, filepath.Join(m.state(who), "ledger.db"), key.Public())
	charged := make(map[uint64]bool)
	for _, e := range list {
		charged[e.Round] = true
		if string(e.Events) != string(want) {
			t.Errorf("charged with %s for round %d, the plan costs %s", e.Events, e.Round, want)
		}
	}
	if !charged[1] || !charged[2] || !charged[4] {
		t.Errorf("charged for %v; want 1, 2, in which it was killed, and 4 at the least", charged)
	}
}

// A state belongs to one process: a second process that is started with it ends, and the first
// continues.
func TestStateOpenTwice(t *testing.T) {
	faulty(t)
	m := newMachines(t, "rounds=1")
	m.startAggregator()
	registered := first(m.tap, admission.ClientPlace(lastAlone), "register")
	alone := m.startAlone()
	<-registered
	second := m.startAlone()
	<-second.done
	if said, err := os.ReadFile(second.log.Name()); err != nil || second.code != 1 || !strings.Contains(string(said), "another process has the file open") {
		t.Errorf("the second process: exit code %d, %v\n%s", second.code, err, said)
	}
	server, together := m.startServer(), m.startTogether()
	for _, p := range []*process{server, together, alone} {
		p.ends()
	}
	m.checkLedgers()
}
