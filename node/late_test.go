package node_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// collected are the parties' own results, by client.
func (f *federation) collected() func(protocol.ClientID) int {
	var mu sync.Mutex
	made := make(map[protocol.ClientID]client.Trainer)
	f.trained = func(id protocol.ClientID, p client.Trainer) {
		mu.Lock()
		defer mu.Unlock()
		made[id] = p
	}
	return func(id protocol.ClientID) int {
		mu.Lock()
		defer mu.Unlock()
		if made[id] == nil {
			return 0
		}
		return len(made[id].(*experiment.Party).Result())
	}
}

// ended is a federation whose session of one round is over, without client 3; place 4
// is vacant. The server's process has ended.
func ended(t *testing.T) (f *federation, results func(protocol.ClientID) int) {
	t.Helper()
	f = newFederation(t, lfl+"tolerance=0.4 deployment.stage-timeout-s=6 rounds=1 data="+ratings(t, 5, 12))
	f.gather = 50 * time.Millisecond
	results = f.collected()
	m := f.join(admission.ServerPlace)
	var there []*node.Client
	for id := range protocol.ClientID(4) {
		if c := f.client(id, f.join(admission.ClientPlace(id))); id < 3 {
			there = append(there, c)
		}
	}
	wait := f.start(there...)
	out, err := f.server(m).Run(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	if out.Attempts.Released != 1 {
		t.Fatalf("attempts %+v", out.Attempts)
	}
	return f, results
}

// reopen kills the aggregator and starts it again.
func (f *federation) reopen() {
	f.t.Helper()
	f.kill()
	_ = f.aggregator.Close()
	f.startAggregator([]string{f.hub.Addrs[0].String()})
}

// late has a client come now, and wants it to get the final model, and no charge.
func (f *federation) late(id protocol.ClientID, results func(protocol.ClientID) int) {
	f.t.Helper()
	if err := f.client(id, f.memberships[admission.ClientPlace(id)]).Run(f.ctx); err != nil {
		f.t.Fatalf("client %d, which came late: %v", id, err)
	}
	if results(id) == 0 {
		f.t.Errorf("client %d ended without a result", id)
	}
	if last := f.ledgers[id].Last(f.public.Session); last != 0 {
		f.t.Errorf("client %d took up round %d of a session that was over", id, last)
	}
}

// A client that comes when the session is over gets the final model: also when the list
// is another one by then, and when the aggregator was started again.
func TestLateClientGetsTheModel(t *testing.T) {
	t.Run("new list", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, results := ended(t)
			i := f.invite(admission.ClientPlace(4), time.Now().Add(time.Hour))
			f.admit(i)
			m, err := node.Enrol(t.Context(), i, f.identity(admission.ClientPlace(4)), f.log, f.network.option()...)
			if err != nil {
				t.Fatal(err)
			}
			f.memberships[admission.ClientPlace(4)] = m
			f.late(3, results)
			f.late(4, results)
		})
	})
	t.Run("revocation and restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, results := ended(t)
			v, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&f.memberships[admission.ClientPlace(2)].Enrolment))
			if err != nil {
				t.Fatal(err)
			}
			if err = f.aggregator.Revoke(v); err != nil {
				t.Fatal(err)
			}
			f.reopen()
			f.late(3, results)
		})
	})
}

// The aggregator's file of the end of a session is used only if the server that is on the list has
// signed it.
func TestEndOfSessionOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := ended(t)
		path := filepath.Join(f.dir, "ended.json")
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err = json.Unmarshal(good, &fields); err != nil {
			t.Fatal(err)
		}
		shown := func(text []byte) bool {
			t.Helper()
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			f.sessions = 0
			f.reopen()
			return f.sessions == 1
		}
		if !shown(good) {
			t.Error("the end of the session was not shown after a restart")
		}
		for field := range fields {
			changed := make(map[string]any)
			for k, v := range fields {
				changed[k] = v
			}
			if changed[field] = make([]byte, 64); field == "descriptor" {
				changed[field] = json.RawMessage(bytes.Replace(fields[field], []byte(`"rounds":1`), []byte(`"rounds":2`), 1))
			}
			text, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			if shown(text) {
				t.Errorf("with another %s it was shown all the same", field)
			}
		}
		if shown([]byte("{")) {
			t.Error("half a file was shown")
		}
	})
}
