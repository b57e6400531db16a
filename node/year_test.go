package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// year is a federation of organisations, each of whose users has a device. Its sessions start from one another, and share
// one budget.
type year struct {
	*started
	members int                 // devices of an organisation
	items   int                 // in the catalogue
	gone    []protocol.ClientID // places that are in no session any more
	away    []protocol.ClientID // in the next session
	newest  store.Log           // ledger of the device whose owner restores an older copy
	backup  aggregatorBackup
}

// aggregatorBackup is a copy of the files in an aggregator's state.
type aggregatorBackup struct {
	registry store.Log
	files    map[string][]byte
}

// careless is the device whose owner restores its ledger. The first organisation leaves, and the device is of the second.
func (y *year) careless() protocol.ClientID { return protocol.ClientID(y.members) }

// train leads the next session to its end. Devices that were away get its model afterwards, and nothing else.
func (y *year) train() {
	y.t.Helper()
	out := slices.Concat(y.gone, y.away)
	y.session(ratings(y.t, y.federation.federation.Places(), y.items), sim.Faults{Gone: out}, out...)
	for _, id := range y.away {
		if err := y.client(id, y.memberships[admission.ClientPlace(id)]).Run(y.ctx); err != nil {
			y.t.Errorf("device %d, which was away: %v", id, err)
		}
	}
	y.away = nil
}

// joins has the operator add places, whose holders enrol.
func (y *year) joins(devices int) {
	y.grown(devices)
	y.joinAll()
}

// leaves has the operator give up the places of the first organisation.
func (y *year) leaves() {
	for id := range protocol.ClientID(y.members) {
		y.gone = append(y.gone, id)
	}
	y.grown(0, y.gone...)
}

// files returns the files of the aggregator's state.
func (y *year) files() map[string][]byte {
	list, err := filepath.Glob(filepath.Join(y.dir, "*"))
	if err != nil {
		y.t.Fatal(err)
	}
	out := make(map[string][]byte)
	for _, path := range list {
		if strings.Contains(filepath.Base(path), "finished-") || strings.Contains(filepath.Base(path), "checkpoint") {
			continue // clients' and the server's
		}
		if text, err := os.ReadFile(path); err == nil { // folders are of clients
			out[path] = text
		}
	}
	return out
}

// backs up the aggregator's state, once the heads of ledgers are in it.
func (y *year) backs() {
	time.Sleep(2 * time.Second)
	y.backup = aggregatorBackup{copiedLog(y.t, y.registryLog, -1), y.files()}
}

// loses has the aggregator lose its state, and start again from the backup, which is from before the last session.
func (y *year) loses() {
	y.kill()
	_ = y.aggregator.Close()
	if y.backup.files[filepath.Join(y.dir, "heads.txt")] == nil {
		y.t.Error("the backup has no heads")
	}
	for path := range y.files() {
		if err := os.Remove(path); err != nil {
			y.t.Fatal(err)
		}
	}
	for path, text := range y.backup.files {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			y.t.Fatal(err)
		}
	}
	var err error
	y.registryLog = y.backup.registry
	if y.registry, err = admission.OpenRegistry(y.federation.federation, y.registryLog); err != nil {
		y.t.Fatal(err)
	}
	y.startAggregator([]string{y.hub.Addrs[0].String()})
}

// restores has an owner put back a ledger of the first session. The device is found out: it ends, and is in no session.
func (y *year) restores() {
	who := y.careless()
	y.ledgers[who] = openedLedger(y.t, copiedLog(y.t, y.newest, 1))
	if err := y.client(who, y.memberships[admission.ClientPlace(who)]).Run(y.ctx); !errors.Is(err, store.ErrBehind) {
		y.t.Errorf("the device with an older ledger ends with %v", err)
	}
	y.gone = append(y.gone, who)
}

// ends has the server ask for one more session. Devices that were in all of them decline, so that too few are left.
func (y *year) ends(total float64) {
	r, _, err := lineage.Cost(y.simulated.Start.Sessions)
	if err != nil || !(r.Epsilon <= total) {
		y.t.Errorf("the sessions before the last one cost %v, %v", r.Epsilon, err)
	}
	var mu sync.Mutex
	declined := make(map[protocol.ClientID]bool)
	y.declined = func(id protocol.ClientID, why error) {
		mu.Lock()
		defer mu.Unlock()
		declined[id] = why != nil
	}
	settings := y.settings + " start-from=" + y.from + " data=" + ratings(y.t, y.federation.federation.Places(), y.items)
	y.simulated, y.public = y.experiment(settings, protocol.SessionID{9})
	var stops []func()
	for id := range protocol.ClientID(y.federation.federation.Places()) {
		if !slices.Contains(y.gone, id) {
			stops = append(stops, y.startStoppable(y.client(id, y.memberships[admission.ClientPlace(id)])))
		}
	}
	if _, err = y.started.federation.server(y.server).Run(y.ctx); !errors.Is(err, node.ErrDeclined) || !strings.Contains(err.Error(), "budget") {
		y.t.Errorf("one more session ends with %v", err)
	}
	for _, stop := range stops {
		stop()
	}
	for id := range protocol.ClientID(3 * y.members) {
		if want := !slices.Contains(y.gone, id); declined[id] != want {
			y.t.Errorf("device %d, which was in all sessions, declines: %t, want %t", id, declined[id], want)
		}
	}
	if declined[protocol.ClientID(y.federation.federation.Places()-1)] {
		y.t.Error("a device of the last organisation declines, and has budget left")
	}
}

// A year of three organisations. Items, devices and an organisation come, another organisation leaves. The aggregator is
// lost and restored from a backup, and an owner restores an older ledger, which is found out. Each session starts from the
// releases of the last, and its model is the simulator's to the bit. The budget lasts for the planned sessions and for no other.
func TestFederationLastsAYear(t *testing.T) {
	const total = 10
	members := effort.Of(2, 2, 20)
	events := effort.Of(shortYear, shortYear, longYear)
	synctest.Test(t, func(t *testing.T) {
		settings := "algorithm=ssp-c rank=2 rounds=1 colluders=0.1 features=none tolerance=0.4 deployment.stage-timeout-s=6 delta=1e-5"
		first := newFederation(t, settings+" epsilon=1 data="+ratings(t, 3*members, 12))
		planned, plan, err := forecast.Sessions(first.simulated, len(events), total, forecast.Equal)
		if err != nil {
			t.Fatal(err)
		}
		settings += " epsilon=" + planned.Config.Text(algorithm.Epsilon.Key)
		y := &year{started: &started{federation: first, settings: settings}, members: members, items: 12, newest: store.NewMemoryLog()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		y.ctx, y.gather = ctx, 3*time.Second
		y.started.server = y.join(admission.ServerPlace)
		y.ledgers[y.careless()] = openedLedger(t, y.newest)
		limit := planned.Privacy.Budget
		limit.Epsilon = total
		y.limit = &limit
		y.joinAll()
		for _, happens := range events {
			happens(y)
			y.train()
		}
		if n := len(y.simulated.Start.Sessions); n != len(events)-1 || plan.Epsilon > total {
			t.Errorf("the last session depends on %d sessions", n)
		}
		y.ends(total)
	})
}

// shortYear and longYear list the events before each session.
var (
	shortYear = []func(*year){
		func(*year) {},
		func(y *year) { y.items = 14; y.joins(1); y.joins(y.members); y.backs() },
		func(y *year) { y.leaves(); y.loses(); y.restores() },
	}
	longYear = []func(*year){
		func(*year) {},
		func(y *year) { y.items = 14; y.away = []protocol.ClientID{5} },
		func(y *year) { y.joins(2) },
		func(y *year) { y.joins(y.members); y.backs() },
		func(y *year) { y.leaves() },
		func(y *year) { y.loses() },
		func(y *year) { y.restores() },
		func(y *year) { y.items = 11 },
	}
)
