package node_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A session is in the log when it begins and when it ends, as the experiment has it. Each client keeps a receipt, and an auditor
// finds nothing wrong with log, receipts and model.
func TestSessionsAreLogged(t *testing.T) {
	f := newFederation(t, "algorithm=private-item-bias rating-min=1 rating-max=5 epsilon=50 delta=0.01 data="+ratings(t, 10, 8))
	m := f.join(admission.ServerPlace)
	wait := f.start(f.joinAll()...)
	out, err := f.server(m).Run(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	log := filepath.Join(f.dir, store.SessionFolder)
	s, err := store.ReadSessions(store.ReadFolder(log), f.identity(admission.AggregatorPlace).Public())
	if err != nil || len(s.Entries) != 2 {
		t.Fatalf("%d entries, %v", len(s.Entries), err)
	}
	begun, err := protocol.ParseLeaf(s.Entries[0])
	if err != nil {
		t.Fatal(err)
	}
	ended, err := protocol.ParseLeaf(s.Entries[1])
	if err != nil {
		t.Fatal(err)
	}
	rounds := f.simulated.Schedule.Rounds()
	charges, err := f.simulated.Charges(rounds)
	if err != nil {
		t.Fatal(err)
	}
	model := sha256.Sum256(out.Model)
	if begun.Model != nil || !bytes.Equal(ended.Model, model[:]) || ended.Session != fmt.Sprintf("%x", f.public.Session) || ended.Clients != 10 || ended.Rounds != rounds ||
		!reflect.DeepEqual(ended.Survivors, [][2]int{{rounds, 10}}) || !reflect.DeepEqual(ended.Charges, charges) || ended.Claims.Delta != 0.01 {
		t.Errorf("the log has\n%s\n%s", s.Entries[0], s.Entries[1])
	}
	r, err := verify.Folder(t.Context(), concluded(t, f, out, 0), verify.Options{Log: log, Receipts: f.receipts(10)})
	if err != nil || r.Err() != nil {
		t.Errorf("%v: %+v", err, r)
	}
}

// receipts writes the receipts of so many clients into one file.
func (f *federation) receipts(clients int) string {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, "finished-*"))
	if err != nil || len(files) != clients {
		f.t.Fatalf("%d clients keep receipts, %v", len(files), err)
	}
	var all []byte
	for _, path := range files {
		text, wrong := os.ReadFile(path)
		if wrong != nil {
			f.t.Fatal(wrong)
		}
		all = append(all, text...)
	}
	path := filepath.Join(f.t.TempDir(), "receipts.jsonl")
	if err = os.WriteFile(path, all, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// refuses has the log fail between two sessions. Every client and the server refuse the end of the second one for good, and say why.
func refuses(t *testing.T, fails func(f *federation, log string) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const settings = "algorithm=fmf-lfl rounds=1 " + quick
		f := newFederation(t, settings+"data="+ratings(t, 4, 6))
		m := f.join(admission.ServerPlace)
		f.joinAll()
		serve := func() error {
			config := f.serverConfig(m)
			var err error
			if config.Receipts, err = store.OpenReceipts(filepath.Join(f.dir, "receipts-server")); err != nil {
				return err
			}
			s, err := node.NewServer(config)
			if err == nil {
				_, err = s.Run(f.ctx)
			}
			return err
		}
		hold := func(want error) {
			t.Helper()
			ends := make(chan error)
			for id := range protocol.ClientID(4) {
				c := f.client(id, f.memberships[admission.ClientPlace(id)])
				go func() { ends <- c.Run(f.ctx) }()
			}
			go func() { ends <- serve() }()
			for range 5 {
				if err := <-ends; !errors.Is(err, want) || want != nil && (!cli.IsMisuse(err) || !strings.Contains(err.Error(), "losses.md")) {
					t.Errorf("a party ends with %v, want %v", err, want)
				}
			}
		}
		hold(nil)
		f.kill()
		_ = f.aggregator.Close()
		if err := fails(f, filepath.Join(f.dir, store.SessionFolder)); err != nil {
			t.Fatal(err)
		}
		f.startAggregator([]string{f.hub.Addrs[0].String()})
		f.next(1, settings)
		hold(store.ErrTwoLogs)
	})
}

// A log that is gone begins anew, which parties with receipts refuse.
func TestLostLogIsRefused(t *testing.T) {
	refuses(t, func(_ *federation, log string) error { return os.RemoveAll(log) })
}

// A log without its last entries has the entries of the next session in their place.
func TestOlderLogIsRefused(t *testing.T) {
	refuses(t, func(f *federation, log string) error { return f.relog(log, nil, 1) })
}

// A log of the same length under the same signature, with another account of the first session.
func TestForkedLogIsRefused(t *testing.T) {
	refuses(t, func(f *federation, log string) error {
		return f.relog(log, func(l *protocol.Leaf) { l.Survivors = nil }, 2)
	})
}

// relog writes the first entries of the log anew, with a change.
func (f *federation) relog(log string, change func(*protocol.Leaf), entries int) error {
	key := f.identity(admission.AggregatorPlace)
	s, err := store.ReadSessions(store.ReadFolder(log), key.Public())
	if err == nil {
		err = os.RemoveAll(log)
	}
	if err != nil {
		return err
	}
	l, err := store.OpenSessionLog(f.dir, f.federation.Hash(), key)
	for _, entry := range s.Entries[:entries] {
		var leaf *protocol.Leaf
		if leaf, err = protocol.ParseLeaf(entry); err != nil {
			return err
		}
		if change != nil {
			change(leaf)
		}
		if err = l.Add(leaf); err != nil {
			return err
		}
	}
	return err
}
