package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// Each file that a party of a deployment keeps is there as a whole or not at all. The disk is full,
// or fails in the middle of a file, or no file can be opened. Nothing is spent or enrolled by a
// write that failed, and nothing else is left behind. The same write succeeds once there is room.
// The files that package command writes are tried there.
func TestWritersOnABadDisk(t *testing.T) {
	testutil.TryWriters(t, append(append(logWriters(t), stateWriters(t)...), documentWriters(t)...))
}

// logWriters write append-only logs.
func logWriters(t *testing.T) []testutil.Writer {
	t.Helper()
	owner := admission.PublicKey{1}
	ledger := func(dir string) string { return filepath.Join(dir, "ledger") }
	charge := func(dir string, n int) error {
		l, err := store.OpenLedger(ledger(dir), owner)
		if err != nil {
			return err
		}
		return errors.Join(l.Persist(protocol.Charged{Session: protocol.SessionID{1}, Round: uint64(n), Events: []dp.Event{}}), l.Close())
	}
	last := func(dir string) (int, error) {
		l, err := store.OpenLedger(ledger(dir), owner)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return int(l.Last(protocol.SessionID{1})), l.Close()
	}
	federation := founded(t)
	registry := func(dir string) string { return filepath.Join(dir, "registry") }
	entries := func(dir string) (n int, err error) {
		l, err := store.OpenLog(registry(dir), store.RegistryKind(federation))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return n + 1, errors.Join(l.Entries(func([]byte) error { n++; return nil }), l.Close())
	}
	enter := func(dir string) error {
		l, err := store.OpenLog(registry(dir), store.RegistryKind(federation))
		if err != nil {
			return err
		}
		return errors.Join(l.Append([]byte("an enrolment")), l.Close())
	}
	return []testutil.Writer{
		{Name: "ledger", File: "ledger", Inside: true, Middle: 4096, Read: last, Write: func(dir string, n int) error {
			if err := store.CreateLedger(ledger(dir), owner); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			return charge(dir, n)
		}},
		{Name: "registry", File: "registry", Inside: true, Middle: 4096, Read: entries, Write: func(dir string, n int) error {
			if err := store.CreateLog(registry(dir), store.RegistryKind(federation)); n == 1 {
				return err
			}
			return enter(dir)
		}},
	}
}

// drawn is a key for tests.
func drawn(t *testing.T, name string) admission.PrivateKey {
	t.Helper()
	k, err := admission.GenerateKey(simulated.New(1, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// founded is a federation of the operator's.
func founded(t *testing.T) *admission.Federation {
	t.Helper()
	f, err := admission.NewFederation(drawn(t, "operator"), "Test", 3, time.Now(), simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stateWriters write the files that a session leaves in a party's state.
func stateWriters(t *testing.T) []testutil.Writer {
	t.Helper()
	key := drawn(t, "client").Public()
	checkpoint := func(n int) *store.Checkpoint {
		return &store.Checkpoint{Round: uint64(n), State: make([]byte, 5000)}
	}
	receipts := func(dir string) string { return filepath.Join(dir, "receipts.jsonl") }
	log, err := store.OpenSessionLog("", admission.Hash{}, drawn(t, "aggregator"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(dir string) *Aggregator {
		a := new(Aggregator)
		a.cfg.State, a.cfg.Observer = dir, session.Observing(nil)
		return a
	}
	return []testutil.Writer{
		{Name: "checkpoint", File: "checkpoint", Write: func(dir string, n int) error { return store.SaveCheckpoint(dir, checkpoint(n)) },
			Read: func(dir string) (int, error) {
				c, fallback, err := store.LoadCheckpoint(dir, protocol.Hash{})
				if errors.Is(err, store.ErrNoCheckpoint) {
					return 0, nil
				}
				if err = errors.Join(err, fallback); err != nil {
					return 0, err
				}
				return int(c.Round), nil
			}},
		{Name: "consent", File: consentFile(1), Once: true,
			Write: func(dir string, n int) error {
				return store.SaveConsent(dir, &store.Consent{Session: fmt.Sprintf("%032x", n), At: time.Unix(int64(n), 0)})
			},
			Read: func(dir string) (int, error) {
				list, err := store.Consents(dir)
				return len(list), err
			}},
		{Name: "receipts", File: "receipts.jsonl",
			Write: func(dir string, n int) error {
				f, err := store.OpenReceipts(receipts(dir))
				if err == nil {
					err = log.Add(leafOf(t, n))
				}
				if err != nil {
					return err
				}
				_, _, seen := f.Last()
				r, err := log.Receipt(seen)
				if err == nil {
					_, err = f.Meet(r, drawn(t, "aggregator").Public(), false)
				}
				if err != nil {
					return err
				}
				return f.Add(r, drawn(t, "client"), 0)
			},
			Read: func(dir string) (n int, err error) {
				f, err := store.OpenReceipts(receipts(dir))
				for err == nil && f.Has(fmt.Sprintf("%032x", n+1)) {
					n++
				}
				return n, err
			}},
		{Name: "file of the state", File: "ended.json", Read: number("ended.json"),
			Write: func(dir string, n int) error { return store.WriteFile(filepath.Join(dir, "ended.json"), text(n)) }},
		{Name: "end of a session", File: endFile, Read: modelIn,
			Write: func(dir string, n int) error {
				a, s := at(dir), &hubSession{signed: &session.Signed{Descriptor: json.RawMessage("{}")}}
				a.session = s
				return a.keepFinal(s, &protocol.Final{Model: text(n)})
			}},
		{Name: "excluded clients", File: excludedFile,
			Write: func(dir string, n int) error {
				return store.WriteJSON(at(dir).excludedPath(), &exclusions{List: slices.Repeat([]exclusion{{Key: key}}, n)})
			},
			Read: func(dir string) (int, error) {
				var x exclusions
				err := parsed(filepath.Join(dir, excludedFile), &x)
				return len(x.List), err
			}},
	}
}

// leafOf is the log's entry of the session number n, which the server has ended.
func leafOf(t *testing.T, n int) *protocol.Leaf {
	t.Helper()
	server, f := drawn(t, "server"), &protocol.Final{Model: []byte("model")}
	digest := make([]byte, 32)
	if err := protocol.SignFinal(server.Ed25519(), protocol.SessionID{15: byte(n)}, f); err != nil {
		t.Fatal(err)
	}
	key := server.Public()
	begun := protocol.Leaf{Format: protocol.LeafFormat, Session: fmt.Sprintf("%032x", n), Agreement: digest, Plan: digest, Clients: 1, Rounds: 1, Charges: []dp.Event{}, Server: key[:]}
	return begun.Ended(f, nil)
}

func consentFile(n int) string { return filepath.Join("consents", fmt.Sprintf("%032x.json", n)) }

// text is a JSON file's content number n.
func text(n int) []byte { return fmt.Appendf(nil, `{"number":%d}`, n) }

// number reads the number in a file.
func number(name string) func(string) (int, error) {
	return func(dir string) (int, error) {
		var x struct{ Number int }
		err := parsed(filepath.Join(dir, name), &x)
		return x.Number, err
	}
}

// modelIn reads the number of the model in the end of a session.
func modelIn(dir string) (int, error) {
	var e ending
	if err := parsed(filepath.Join(dir, endFile), &e); err != nil || e.Model == nil {
		return 0, err
	}
	var x struct{ Number int }
	err := json.Unmarshal(e.Model, &x)
	return x.Number, err
}

// parsed reads a file, if there is one.
func parsed(path string, to any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	return err
}

// documentWriters write keys, invitations and published documents.
func documentWriters(t *testing.T) []testutil.Writer {
	t.Helper()
	key := drawn(t, "client")
	operator, federation := drawn(t, "operator"), founded(t)
	invitation, err := admission.Invite(operator, federation, offer(0), simulated.New(1, "ticket"))
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string, read func(path string) error) func(string) (int, error) {
		return func(dir string) (int, error) {
			err := read(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				return 0, nil
			}
			return 1, err
		}
	}
	return []testutil.Writer{
		{Name: "key", File: "identity.key", Once: true,
			Write: func(dir string, _ int) error { return admission.WriteKey(filepath.Join(dir, "identity.key"), key) },
			Read: exists("identity.key", func(path string) error {
				_, err := admission.ReadKey(path)
				return err
			})},
		{Name: "invitation", File: "client-0.json", Once: true,
			Write: func(dir string, _ int) error {
				return admission.WriteInvitation(filepath.Join(dir, "client-0.json"), invitation)
			},
			Read: exists("client-0.json", func(path string) error {
				_, err := admission.ReadInvitation(path)
				return err
			})},
		{Name: "document", File: "federation.json", Read: number("federation.json"),
			Write: func(dir string, n int) error {
				return admission.WriteFile(filepath.Join(dir, "federation.json"), encoded(text(n)))
			}},
	}
}

// An aggregator that cannot keep whom it excluded says so as long as that is so, and keeps
// it once it can.
func TestExcludedOnABadDisk(t *testing.T) {
	federation, blocked := founded(t), filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil { // where the folder should be
		t.Fatal(err)
	}
	registry, err := admission.OpenRegistry(federation, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	invitation, err := admission.Invite(drawn(t, "operator"), federation, offer(0), simulated.New(1, "ticket"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := invitation.Accept(drawn(t, "client"))
	if err != nil {
		t.Fatal(err)
	}
	if err = registry.Redeem(time.Now(), &m.Enrolment); err != nil {
		t.Fatal(err)
	}
	a := &Aggregator{cfg: AggregatorConfig{State: blocked, Registry: registry, Log: zerolog.Nop()}, heads: store.NewHeads()}
	a.session = &hubSession{excluded: new(exclusions)}
	if err = a.Check(); err != nil {
		t.Errorf("before: %v", err)
	}
	a.keepExcluded(a.session.excluded, registry.List(), []protocol.Event{{Kind: protocol.ClientExcluded, Party: protocol.ClientParty(0), Err: errors.New("a lie")}})
	for range 2 {
		if err = a.Check(); err == nil || !strings.Contains(err.Error(), a.excludedPath()) {
			t.Errorf("while there is no folder: %v", err)
		}
	}
	if err = errors.Join(os.Remove(blocked), os.Mkdir(blocked, 0o700), a.Check()); err != nil {
		t.Errorf("once there is one: %v", err)
	}
	if got := a.loadExcluded(protocol.SessionID{}, registry.List()).List; len(got) != 1 || got[0].Client != 0 {
		t.Errorf("the file has clients %v, want client 0", got)
	}
}

// offer is of a client's place.
func offer(id protocol.ClientID) admission.Offer {
	return admission.Offer{Place: admission.ClientPlace(id), Serial: 1, NotAfter: time.Now().Add(time.Hour),
		Contact: admission.Contact{Addresses: []string{"/ip4/127.0.0.1/tcp/1"}, Peer: "peer"}}
}

type encoded []byte

func (e encoded) Encode() ([]byte, error) { return e, nil }
