package admission_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// grow has the operator sign another epoch.
func (w *world) grow(more int, retire ...protocol.ClientID) {
	w.t.Helper()
	f, err := w.federation.Grow(w.operator, more, retire, founded)
	if err != nil {
		w.t.Fatal(err)
	}
	w.federation = f
}

// A federation of 3 gets 2 places more, then gives up one: who is in stays in, under the same hash, and only the
// operator can sign it.
func TestGrow(t *testing.T) {
	w := newWorld(t, 3)
	hash := w.federation.Hash()
	log := store.NewMemoryLog()
	r := w.reopen(log)
	w.redeem(r, w.enrol(admission.ServerPlace, 1, "server"), w.enrol(client(0), 1, "client 0"), w.enrol(client(2), 1, "client 2"))
	first := r.List()
	early := w.accept(client(1), 1, "client 1")
	w.grow(2)
	if w.federation.Hash() != hash || w.federation.Places() != 5 || w.federation.Clients != 3 {
		t.Errorf("%d places, %d at the beginning", w.federation.Places(), w.federation.Clients)
	}
	late := w.enrol(client(4), 1, "client 4")
	if err := r.Redeem(founded, late); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("before the registry knows of the epoch: %v", err)
	}
	if out, err := r.Grow(w.federation); err != nil || len(out) != 0 {
		t.Fatalf("%v, %v is out", err, out)
	}
	w.redeem(r, late, &early.Enrolment)
	second := r.List()
	if second.Hash() == first.Hash() || len(second.Identities()) != 5 || fmt.Sprint(second.Vacant()) != "[3]" {
		t.Errorf("%d identities, vacant %v", len(second.Identities()), second.Vacant())
	}
	founding := *w.federation
	founding.Epochs = nil
	w.grow(0, 2)
	if out, err := r.Grow(w.federation); err != nil || len(out) != 1 || out[0].Ticket.Place != client(2) {
		t.Fatalf("%v, %d are out", err, len(out))
	}
	third := r.List()
	if err := r.Redeem(founded, w.enrol(client(2), 2, "again")); !errors.Is(err, admission.ErrRevoked) {
		t.Errorf("a place that was given up is taken again: %v", err)
	}
	if err := early.Check(third); err != nil {
		t.Errorf("a party that stays: %v", err)
	}
	for _, f := range []*admission.Federation{&founding, w.federation} { // with the file of the beginning, or the newest
		again, err := admission.OpenRegistry(f, log)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.List(); got.Hash() != third.Hash() || again.Federation().Places() != 5 {
			t.Errorf("read again: %d enrolments in %d places", len(got.Enrolments), again.Federation().Places())
		}
	}
	// Another party takes the lists over, in order, and not back.
	other, err := admission.OpenRegistry(&founding, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range []*admission.List{first, second, third} {
		if _, err := other.Update(copyOf(t, l)); err != nil {
			t.Fatalf("list %d: %v", i, err)
		}
	}
	if _, err := other.Update(copyOf(t, second)); !errors.Is(err, admission.ErrOutdated) {
		t.Errorf("an earlier epoch: %v", err)
	}
	if other.List().Hash() != third.Hash() {
		t.Error("the lists differ")
	}
	left := w.accept(client(0), 1, "client 0")
	w.grow(0, 0)
	if _, err := r.Grow(w.federation); err != nil {
		t.Fatal(err)
	}
	if err := left.Check(r.List()); !errors.Is(err, admission.ErrRevoked) {
		t.Errorf("a party whose place was given up: %v", err)
	}
}

// A registry that is opened with a later federation than its log has writes the epoch before what needs it.
func TestGrowBetweenStarts(t *testing.T) {
	w := newWorld(t, 1)
	old := w.federation
	log := store.NewMemoryLog()
	w.reopen(log)
	w.grow(1)
	r := w.reopen(log)
	w.redeem(r, w.enrol(client(1), 1, "client 1"))
	again, err := admission.OpenRegistry(old, log)
	if err != nil || again.Federation().Places() != 2 {
		t.Errorf("%v", err)
	}
}

func TestBadEpochs(t *testing.T) {
	w := newWorld(t, 3)
	w.grow(2, 1)
	operator := w.operator.Public()
	if err := w.federation.Verify(operator); err != nil {
		t.Fatal(err)
	}
	text, err := w.federation.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := admission.ParseFederation(text); err != nil || f.Latest() != w.federation.Latest() {
		t.Errorf("its text is read as another: %v", err)
	}
	thief := key(t, "thief")
	resigned := func(change func(*admission.Epoch), by admission.PrivateKey) *admission.Federation {
		f := *w.federation
		e := f.Epochs[0]
		change(&e)
		e.Signature = by.Sign(e.Hash())
		f.Epochs = []admission.Epoch{e}
		return &f
	}
	for name, c := range map[string]struct {
		f    *admission.Federation
		want error
	}{
		"signed by another":          {resigned(func(*admission.Epoch) {}, thief), admission.ErrSignature},
		"fewer places":               {resigned(func(e *admission.Epoch) { e.Clients = 2 }, w.operator), admission.ErrEpoch},
		"too many places":            {resigned(func(e *admission.Epoch) { e.Clients = admission.MaxClients + 1 }, w.operator), admission.ErrEpoch},
		"number 2":                   {resigned(func(e *admission.Epoch) { e.Number = 2 }, w.operator), admission.ErrEpoch},
		"after another":              {resigned(func(e *admission.Epoch) { e.Previous[0] ^= 1 }, w.operator), admission.ErrEpoch},
		"no change":                  {resigned(func(e *admission.Epoch) { e.Clients, e.Retired = 3, nil }, w.operator), admission.ErrEpoch},
		"a place that is not there":  {resigned(func(e *admission.Epoch) { e.Retired = []protocol.ClientID{5} }, w.operator), admission.ErrMalformed},
		"places not in order":        {resigned(func(e *admission.Epoch) { e.Retired = []protocol.ClientID{2, 1} }, w.operator), admission.ErrMalformed},
		"with fractions of a second": {resigned(func(e *admission.Epoch) { e.Created = e.Created.Add(time.Millisecond) }, w.operator), admission.ErrMalformed},
		"a place that is there again": {func() *admission.Federation {
			x := *w
			x.grow(1)
			x.federation.Epochs[1].Retired = nil
			return again(&x)
		}(), admission.ErrEpoch},
	} {
		if err := c.f.Verify(operator); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := w.federation.Grow(thief, 1, nil, founded); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("another operator: %v", err)
	}
	if _, err := w.federation.Grow(w.operator, 0, []protocol.ClientID{1}, founded); !errors.Is(err, admission.ErrEpoch) {
		t.Errorf("a place is given up twice: %v", err)
	}
	// The operator signs two different epochs 1.
	r := w.reopen(store.NewMemoryLog())
	if _, err := r.Grow(resigned(func(e *admission.Epoch) { e.Clients++ }, w.operator)); !errors.Is(err, admission.ErrEpoch) {
		t.Errorf("two epochs of one number: %v", err)
	}
}

// again signs the last epoch again.
func again(w *world) *admission.Federation {
	e := &w.federation.Epochs[len(w.federation.Epochs)-1]
	e.Signature = w.operator.Sign(e.Hash())
	return w.federation
}
