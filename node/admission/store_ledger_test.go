package admission_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

var when = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var one, two = protocol.SessionID{1}, protocol.SessionID{2}

// perUser is the protection of the charges in these tests.
var perUser = dp.Protection{Unit: dp.User, Relation: dp.ZeroOut}

// events is the cost of a round: numbers without a short decimal form, which must come back to the
// last bit.
func events() []dp.Event {
	return []dp.Event{dp.Skellam(1e6/3, math.Pi, 10*math.E), dp.Gaussian(1. / 3)}
}

func charged(s protocol.SessionID, i uint64) protocol.Record {
	return protocol.Charged{Session: s, Round: i, Events: events()}
}

func ledger(t testing.TB, log store.Log) *store.Ledger {
	t.Helper()
	l, err := store.NewLedger(log)
	if err != nil {
		t.Fatal(err)
	}
	l.Protect(perUser)
	return l
}

func persist(t testing.TB, l *store.Ledger, records ...protocol.Record) {
	t.Helper()
	if err := l.Persist(records...); err != nil {
		t.Fatal(err)
	}
}

func records(t testing.TB, l *store.Ledger) []dp.Record {
	t.Helper()
	r, err := l.Records()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLedger(t *testing.T) {
	for name, make := range logs {
		t.Run(name, func(t *testing.T) {
			log := make(t)
			l := ledger(t, log)
			persist(t, l)
			persist(t, l, charged(one, 1))
			persist(t, l, charged(two, 7))
			persist(t, l, charged(one, 5))
			l = ledger(t, log)
			want := []dp.Record{
				{Session: one, Round: 1, Events: events(), Protection: perUser},
				{Session: two, Round: 7, Events: events(), Protection: perUser},
				{Session: one, Round: 5, Events: events(), Protection: perUser},
			}
			for range 2 { // before and after a restart
				if got := records(t, l); !reflect.DeepEqual(got, want) {
					t.Errorf("the records are %+v, want %+v", got, want)
				}
				for s, last := range map[protocol.SessionID]uint64{one: 5, two: 7, {3}: 0} {
					if got := l.Last(s); got != last {
						t.Errorf("the last round of session %x is %d, want %d", s, got, last)
					}
				}
				l = ledger(t, log)
			}
		})
	}
}

// A sum without noise shows what no budget covers: who took part in one has nothing
// left for a session with noise.
func TestRecordsOfSumsWithoutNoise(t *testing.T) {
	for name, make := range logs {
		t.Run(name, func(t *testing.T) {
			log := make(t)
			l := ledger(t, log)
			persist(t, l, charged(one, 1))
			l = ledger(t, log)
			if got := records(t, l); len(got) != 1 {
				t.Fatalf("the records are %+v; want that of one charge", got)
			}
			persist(t, l, protocol.Charged{Session: two, Round: 8})
			persist(t, l, charged(one, 2))
			for range 2 { // before and after a restart
				if got, err := l.Records(); !errors.Is(err, store.ErrUnprotected) || errors.Is(err, store.ErrCorrupt) || got != nil {
					t.Errorf("records %+v, %v; want ErrUnprotected", got, err)
				}
				if last := l.Last(two); last != 8 {
					t.Errorf("the last round is %d, want 8", last)
				}
				l = ledger(t, log)
			}
		})
	}
}

// No order of records charges a round twice or goes back,
// and what is refused leaves no trace, not even its first part.
func TestLedgersDoNotGoBack(t *testing.T) {
	for name, make := range logs {
		t.Run(name, func(t *testing.T) {
			log := make(t)
			l := ledger(t, log)
			persist(t, l, charged(one, 3))
			l = ledger(t, log)
			for _, c := range []struct {
				name    string
				records []protocol.Record
			}{
				{"charged again", []protocol.Record{charged(one, 3)}},
				{"an earlier round", []protocol.Record{charged(one, 2)}},
				{"charged twice at once", []protocol.Record{charged(one, 4), charged(one, 4)}},
				{"good first, then bad", []protocol.Record{charged(one, 9), charged(two, 1), charged(two, 1)}},
				{"round 0 charged", []protocol.Record{charged(two, 0)}},
			} {
				if err := l.Persist(c.records...); !errors.Is(err, store.ErrOrder) {
					t.Errorf("%s: %v", c.name, err)
				}
				if l.Last(one) != 3 || l.Last(two) != 0 {
					t.Fatalf("%s: the last rounds are %d and %d, want 3 and 0", c.name, l.Last(one), l.Last(two))
				}
			}
			bad := events()
			bad[1].NoiseMultiplier = math.Inf(1)
			if err := l.Persist(protocol.Charged{Session: two, Round: 1, Events: bad}); err == nil {
				t.Error("events that no ledger can be rebuilt from are recorded")
			}
			if err := l.Persist(nil); err == nil {
				t.Error("no record at all is recorded")
			}
			l = ledger(t, log)
			persist(t, l, charged(one, 4))
			if got := records(t, l); len(got) != 2 {
				t.Errorf("%d charges are recorded, want 2", len(got))
			}
		})
	}
}

// A server that comes back with an old checkpoint, under the same session or a new one, gets
// nothing that the budget does not cover. A ledger that never crashed gives the expected cost.
func TestLedgersDoNotForget(t *testing.T) {
	budget := dp.Budget{Epsilon: 3, Delta: 1e-5, Accountant: dp.RDP}
	cost := []dp.Event{dp.Gaussian(5)}
	steady, err := dp.NewLedger(budget, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger")
	owner := identity(t, "alice")
	if err := store.CreateLedger(path, owner); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	for covered := true; covered; {
		durable, err := store.OpenLedger(path, owner)
		if err != nil {
			t.Fatal(err)
		}
		durable.Protect(perUser)
		l, err := dp.RestoreLedger(budget, nil, records(t, durable))
		if err != nil {
			t.Fatal(err)
		}
		if l.Spent() != steady.Spent() {
			t.Fatalf("after %d restarts %v is spent, want %v", attempts, l.Spent(), steady.Spent())
		}
		attempts++
		if last := durable.Last(one); last != 0 {
			if err = l.Charge(one, last, cost); !errors.Is(err, dp.ErrRoundOrder) {
				t.Errorf("round %d again: %v", last, err)
			}
		}
		round := durable.Last(one) + 1
		err = l.Charge(one, round, cost)
		if want := steady.Charge(one, round, cost); (err == nil) != (want == nil) {
			t.Fatalf("round %d: %v, want %v", round, err, want)
		}
		if covered = err == nil; covered {
			persist(t, durable, protocol.Charged{Session: one, Round: round, Events: cost})
		} else if _, ok := errors.AsType[*dp.OverspendError](l.Charge(two, 1, cost)); !ok {
			t.Errorf("in another session: %v", err)
		}
		if err = durable.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if attempts < 5 {
		t.Errorf("the budget was spent after %d attempts; the test shows little", attempts)
	}
}

func identity(t testing.TB, name string) admission.PublicKey {
	t.Helper()
	k, err := admission.GenerateKey(simulated.New(1, name))
	if err != nil {
		t.Fatal(err)
	}
	return k.Public()
}

// A ledger is made once. A lost ledger, or another party's, is not replaced.
func TestLedgerFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	if _, err := store.OpenLedger(path, identity(t, "alice")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing ledger: %v", err)
	}
	for i := range 2 {
		if err := store.CreateLedger(path, identity(t, "alice")); errors.Is(err, fs.ErrExist) != (i == 1) || err != nil && i == 0 {
			t.Errorf("made %d times before: %v", i, err)
		}
	}
	if _, err := store.OpenLedger(path, identity(t, "bob")); !errors.Is(err, store.ErrOwner) {
		t.Errorf("alice's ledger opened by bob: %v", err)
	}
	l, err := store.OpenLedger(path, identity(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenLedger(path, identity(t, "alice")); !errors.Is(err, store.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	l.Protect(perUser)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Persist(charged(one, 1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("written to after it was closed: %v", err)
	}
	if l.Last(one) != 0 {
		t.Error("what was not written is known")
	}
}

// A file whose hashes hold, with something that this version does not know, is another version's. It is not damaged, and says
// who has written it; a start again does not change that.
func TestLedgersOfAnotherVersion(t *testing.T) {
	alice := identity(t, "alice")
	refused := func(name, path string, says ...string) {
		t.Helper()
		l, err := store.OpenLedger(path, alice)
		if l != nil || !errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrCorrupt) || !cli.IsMisuse(err) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range append(says, version.Get().String(), path) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", name, want, err)
			}
		}
	}
	for name, entry := range map[string]string{
		"a mechanism": `{"session":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"round":1,"events":[{"mechanism":"laplace-2","count":1}],"unit":"user","relation":"zero-out"}`,
		"a key":       `{"session":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"round":1,"events":[],"pages":7}`,
		"a unit":      `{"session":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":3,"count":1}]}`,
	} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		if err := store.CreateLedger(path, alice); err != nil {
			t.Fatal(err)
		}
		log, err := store.OpenLog(path, store.Kind{Format: "fedsim-ledger-v1", Owner: alice})
		if err != nil {
			t.Fatal(err)
		}
		add(t, log, entry)
		if err = log.Close(); err != nil {
			t.Fatal(err)
		}
		refused(name, path, "entry 1 of the ledger")
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := store.CreateLog(path, store.Kind{Format: "fedsim-ledger-v2", Owner: alice}); err != nil {
		t.Fatal(err)
	}
	refused("a format", path, `"fedsim-ledger-v2"`, `"fedsim-ledger-v1"`)
	b, err := os.ReadFile(path)
	if err == nil { // a bit of the name changes on the disk: the hashes do not hold
		err = os.WriteFile(path, bytes.ReplaceAll(b, []byte("fedsim-ledger-v2"), []byte("fedsim-ledger-v3")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err = store.OpenLedger(path, alice); !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrFormat) {
		t.Errorf("a name that the hashes do not hold for: %v", err)
	}
}

// The form of an entry belongs to the name fedsim-ledger-v1: another form needs another name.
func TestLedgerEntryForm(t *testing.T) {
	log := store.NewMemoryLog()
	persist(t, ledger(t, log), protocol.Charged{Session: one, Round: 7, Events: []dp.Event{dp.Gaussian(3)}})
	drawn := regexp.MustCompile(`"at":"[^"]{20}","nonce":"[0-9a-f]{32}"`)
	const want = `{"session":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"round":7,"events":[{"mechanism":"gaussian","noise_multiplier":3,"count":1}],"unit":"user","relation":"zero-out",}`
	if err := log.Entries(func(entry []byte) error {
		if got := drawn.ReplaceAllString(string(entry), ""); got != want {
			t.Errorf("an entry is\n%s\nwant, with at and nonce at its end,\n%s", got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A log that holds anything else is no ledger.
func TestLogsThatAreNoLedgers(t *testing.T) {
	for _, entry := range []string{"text", `{"session":"x"}`, `{"round":0}`, `{"round":3,"events":[{"mechanism":"none"}],"unit":"user","relation":"zero-out"}`} {
		log := store.NewMemoryLog()
		add(t, log, entry)
		if l, err := store.NewLedger(log); !errors.Is(err, store.ErrFormat) || l != nil {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

// The aggregator's record of redeemed tickets outlives its process.
func TestRegistry(t *testing.T) {
	operator, err := admission.GenerateKey(simulated.New(1, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	alice, err := admission.GenerateKey(simulated.New(1, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := admission.NewFederation(operator, "Test", 3, when, simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := admission.Invite(operator, f, admission.Offer{Place: admission.ClientPlace(1), Serial: 1, NotAfter: when,
		Contact: admission.Contact{Addresses: []string{"/ip4/192.0.2.1/tcp/4001"}, Peer: "12D3KooWExample"}}, simulated.New(1, "ticket"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := i.Accept(alice)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "registry")
	if err = store.CreateLog(path, store.RegistryKind(f)); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		redeemAgain(t, path, f, &m.Enrolment, n == 1)
	}
	other, err := admission.NewFederation(operator, "Other", 3, when, simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenLog(path, store.RegistryKind(other)); !errors.Is(err, store.ErrOwner) {
		t.Errorf("opened for another federation: %v", err)
	}
}

// redeemAgain opens a registry and redeems an enrolment. already says whether the enrolment is in
// the registry before.
func redeemAgain(t *testing.T, path string, f *admission.Federation, e *admission.Enrolment, already bool) {
	t.Helper()
	log, err := store.OpenLog(path, store.RegistryKind(f))
	if err != nil {
		t.Fatal(err)
	}
	r, err := admission.OpenRegistry(f, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup(e.Identity); ok != already {
		t.Errorf("enrolled before: %v, want %v", ok, already)
	}
	if err = r.Redeem(when, e); err != nil {
		t.Error(err)
	}
	if err = log.Close(); err != nil {
		t.Fatal(err)
	}
}

// A clock that is put back dates no charge before an earlier one: in a bubble of virtual time it is the year 2000. Dates of
// a ledger that an earlier version has written so are read in the same way.
func TestLedgerIsNeverDatedBack(t *testing.T) {
	log := store.NewMemoryLog()
	before := time.Now().Add(-time.Second)
	persist(t, ledger(t, log), charged(one, 1))
	synctest.Test(t, func(t *testing.T) {
		l := ledger(t, log)
		persist(t, l, charged(one, 2))
		if at := l.Latest(); at.Before(before.Truncate(time.Second)) {
			t.Errorf("a charge is dated %v after one of %v", at, before)
		}
	})
	old := store.NewMemoryLog()
	for i, at := range []string{"2026-05-01T00:00:00Z", "2000-01-01T00:00:00Z"} {
		text := fmt.Sprintf(`{"session":[1%s],"round":%d,"events":[{"mechanism":"gaussian","noise_multiplier":3,"count":1}],"unit":"user","relation":"zero-out","at":%q}`, strings.Repeat(",0", 15), i+1, at)
		if err := old.Append([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range map[string]struct {
		log  store.Log
		from time.Time
	}{"written": {log, before}, "read": {old, time.Date(2026, 4, 30, 0, 0, 0, 0, time.UTC)}} {
		if list := ledger(t, x.log).Since(x.from.Truncate(time.Second)); len(list) != 2 {
			t.Errorf("%s: since the first charge there are %d charges, want 2", name, len(list))
		}
	}
}
