package admission_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
)

// shown is the text of a registry's list.
func shown(t testing.TB, r *admission.Registry) []byte {
	t.Helper()
	text, digest, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	if digest != sha256.Sum256(text) {
		t.Error("the digest is not the text's")
	}
	return text
}

// A text that was taken over is not looked through again, whatever its length, as long as nothing
// has changed since. The test counts allocations: parsing a single enrolment takes dozens.
func TestATextIsTakenOverOnce(t *testing.T) {
	for _, clients := range []int{2, 40} {
		w := newWorld(t, clients)
		text := shown(t, w.full())
		r, _ := w.registry()
		if _, _, err := r.Take(text); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(10, func() {
			if _, _, err := r.Take(text); err != nil {
				t.Error(err)
			}
			if l, digest, err := r.Current(); err != nil || len(l.Enrolments) != clients+2 || digest != sha256.Sum256(text) {
				t.Errorf("current are %d enrolments, %x, %v", len(l.Enrolments), digest, err)
			}
		}); n > 1 {
			t.Errorf("of %d clients, a list that is known takes %v allocations", clients, n)
		}
	}
}

// A list that was taken over is looked through anew once something has changed since.
func TestTakenListsGoOutOfDate(t *testing.T) {
	w := newWorld(t, 3)
	hub, _ := w.registry()
	alice := w.enrol(client(1), 1, "alice")
	w.redeem(hub, alice)
	old := shown(t, hub)
	r, _ := w.registry()
	if _, out, err := r.Take(old); err != nil || out != nil {
		t.Fatal(out, err)
	}
	w.redeem(hub, w.enrol(client(2), 1, "bob"))
	if _, _, err := r.Take(shown(t, hub)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Take(old); !errors.Is(err, admission.ErrForgotten) {
		t.Errorf("the list before: %v", err)
	}
	v := w.revoke(nil, admission.RevocationOf(alice))
	if _, err := r.Revoke(v); err != nil { // by the operator; the aggregator keeps silent about it
		t.Fatal(err)
	}
	if _, _, err := r.Take(shown(t, hub)); !errors.Is(err, admission.ErrOutdated) {
		t.Errorf("a list that withholds revocations: %v", err)
	}
	if l, _, err := r.Current(); err != nil || len(l.Enrolments) != 1 {
		t.Errorf("the registry's own list is %v, %v; want bob's alone", l, err)
	}
	if _, err := hub.Revoke(v); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Take(shown(t, hub)); err != nil {
		t.Error(err)
	}
	holds(t, r, map[admission.Place]string{client(2): "bob"})
	if _, _, err := r.Take([]byte("no list")); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("no list: %v", err)
	}
}

// Registering, as the clients of a process do that share who is enrolled: each is shown the list.
func BenchmarkTake(b *testing.B) {
	for _, clients := range []int{200, 500, 1000, 2000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			w := newWorld(b, clients)
			text := shown(b, w.full())
			for b.Loop() {
				r, _ := w.registry()
				for range clients {
					if _, _, err := r.Take(text); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(clients)*float64(b.N)/b.Elapsed().Seconds(), "registrations/s")
		})
	}
}
