package command_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// door is an operator with an aggregator that admits parties.
type door struct {
	t           *testing.T
	operator    admission.PrivateKey
	federation  *admission.Federation
	aggregator  *hub.Aggregator
	registry    *admission.Registry
	contact     admission.Contact
	revocations *admission.Revocations
}

func must[T any](t *testing.T) func(T, error) T {
	return func(x T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func newDoor(t *testing.T) *door {
	t.Helper()
	effort.NotShort(t, "an aggregator that listens takes a while")
	key := must[admission.PrivateKey](t)
	d := &door{t: t, operator: key(admission.GenerateKey(entropy.System()))}
	d.federation = must[*admission.Federation](t)(admission.NewFederation(d.operator, "Test", 2, time.Now(), entropy.System()))
	d.registry = must[*admission.Registry](t)(admission.OpenRegistry(d.federation, store.NewMemoryLog()))
	own := key(admission.GenerateKey(entropy.System()))
	d.aggregator = must[*hub.Aggregator](t)(hub.NewAggregator(t.Context(), hub.AggregatorConfig{Identity: own, Federation: d.federation, Registry: d.registry,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, State: t.TempDir(), Log: zerolog.Nop(), Workers: 1}))
	t.Cleanup(func() { _ = d.aggregator.Close() })
	id := must[peer.ID](t)(peer.IDOf(own.Public().Ed25519()))
	d.contact = admission.Contact{Addresses: d.aggregator.Addresses(), Peer: id.String()}
	for k, a := range d.contact.Addresses { // without the name
		d.contact.Addresses[k] = a[:len(a)-len("/p2p/"+d.contact.Peer)]
	}
	return d
}

// invite writes the next invitation to a place.
func (d *door) invite(p admission.Place) (path string) {
	d.t.Helper()
	i := must[*admission.Invitation](d.t)(admission.Invite(d.operator, d.federation,
		admission.Offer{Place: p, Serial: d.revocations.NextSerial(p), NotAfter: time.Now().Add(time.Hour), Contact: d.contact}, entropy.System()))
	path = filepath.Join(d.t.TempDir(), "invitation.json")
	if err := admission.WriteInvitation(path, i); err != nil {
		d.t.Fatal(err)
	}
	if err := d.aggregator.Admit([]admission.Ticket{i.Ticket}); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *door) revoke(p admission.Place) {
	d.t.Helper()
	d.revocations = must[*admission.Revocations](d.t)(admission.Revoke(d.operator, d.federation, d.revocations,
		admission.Revocation{Place: p, Serial: d.revocations.NextSerial(p)}))
	if err := d.aggregator.Revoke(d.revocations); err != nil {
		d.t.Fatal(err)
	}
}

// rounds are the numbers of the rounds that a ledger was charged for.
func rounds(t *testing.T, l *store.Ledger) (list []uint64) {
	t.Helper()
	for _, r := range must[[]dp.Record](t)(l.Records()) {
		list = append(list, r.Round)
	}
	return list
}

// copied is a copy of the files of a state, which only their owner can read.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, x := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		if err := os.WriteFile(filepath.Join(to, x.Name()), must[[]byte](t)(os.ReadFile(filepath.Join(dir, x.Name()))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A key that is lost or stolen is replaced by an invitation that the operator signs after a revocation. The state stays, with what the
// client spent: a hand-over begins no ledger. The old key has no place any more. A hand-over that was cut short anywhere is completed.
func TestKeyIsHandedOver(t *testing.T) {
	t.Parallel()
	for place, lost := range map[admission.Place]bool{admission.ClientPlace(1): false, admission.ClientPlace(0): true, admission.ServerPlace: true} {
		t.Run(place.String(), func(t *testing.T) {
			d, dir := newDoor(t), t.TempDir()
			log := zerolog.Nop()
			open := func(dir, invitation string) *party.Member {
				t.Helper()
				return must[*party.Member](t)(party.Open(t.Context(), dir, invitation, place.Role, nil, &log))
			}
			m := open(dir, d.invite(place))
			old := m.Identity.Public()
			if m.Ledger != nil {
				m.Ledger.Protect(dp.Protection{Unit: dp.User, Relation: dp.ZeroOut})
				if err := m.Ledger.Persist(protocol.Charged{Session: protocol.SessionID{1}, Round: 7, Events: []dp.Event{dp.Gaussian(1)}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("of the state"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if lost {
				if err := os.Remove(filepath.Join(dir, party.IdentityFile)); err != nil {
					t.Fatal(err)
				}
			}
			before := copied(t, dir)
			d.revoke(place)
			m = open(dir, d.invite(place))
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if holder, ok := d.registry.Holder(place); !ok || holder != m.Identity.Public() || holder == old {
				t.Errorf("the place is with %s, and was with %s", holder, old)
			}
			if _, ok := d.registry.Lookup(old); ok {
				t.Error("the old key has a place")
			}
			moves := []string{party.LedgerFile, party.IdentityFile, party.MembershipFile}
			for done := range moves { // so many files were put in place before the power failed
				cut := copied(t, before)
				for k, name := range moves {
					text, err := os.ReadFile(filepath.Join(dir, name))
					if place.Role == protocol.Server && name == party.LedgerFile {
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					to := filepath.Join(cut, name)
					if k >= done {
						to += ".next"
					}
					if err = os.WriteFile(to, text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				again := open(cut, "")
				if again.Identity.Public() != m.Identity.Public() || again.Membership.Enrolment.Ticket.Serial != 2 {
					t.Errorf("cut short after %d files: %s", done, again.Membership.Enrolment.Identity)
				}
				if again.Ledger != nil {
					if got := rounds(t, again.Ledger); len(got) != 1 || got[0] != 7 {
						t.Errorf("cut short after %d files, the ledger has the rounds %v", done, got)
					}
				}
				if _, err := os.ReadFile(filepath.Join(cut, "kept")); err != nil {
					t.Error(err)
				}
				if left, err := fs.Glob(os.DirFS(cut), "*.next"); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// An invitation that was sent before the operator's key was replaced is still good: the aggregator has its ticket as the new key signs it.
func TestInvitationOutlivesAHandOver(t *testing.T) {
	t.Parallel()
	d, dir, place := newDoor(t), t.TempDir(), admission.ClientPlace(0)
	path := d.invite(place)
	next := must[admission.PrivateKey](t)(admission.GenerateKey(entropy.System()))
	list := must[*admission.List](t)(d.federation.HandOver(d.operator, next, d.registry.List(), time.Now()))
	must[int](t)(d.registry.Restore(list))
	ticket := must[*admission.Invitation](t)(admission.ReadInvitation(path)).Ticket
	ticket.Resign(next)
	if err := d.aggregator.Admit([]admission.Ticket{ticket}); err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	m := must[*party.Member](t)(party.Open(t.Context(), dir, path, protocol.Client, nil, &log))
	defer m.Close() //nolint:errcheck // a test's
	must[[]*admission.Enrolment](t)(m.Registry.Update(d.registry.List()))
	if err := m.Membership.Check(m.Registry.List()); err != nil || m.Registry.Federation().Signer() != next.Public() {
		t.Errorf("%v, and the operator is %s", err, m.Registry.Federation().Signer())
	}
}
