package admission_test

import (
	"errors"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// failing is a log that fails once, when its entries are written already or before they
// are, and then takes nothing more until it is opened again.
type failing struct {
	store.Log
	written, closed bool
}

func (f *failing) Append(entries ...[]byte) error {
	if !f.closed && f.written {
		f.closed = true
		return errors.Join(f.Log.Append(entries...), errDisk)
	}
	f.closed = true
	return errDisk
}

func (f *failing) Close() error { return nil } // the memory below is opened again

// After a write that failed the log is opened again, and what is in it counts: the entry may
// be there in spite of the error, and then its ticket is used.
func TestRegistryRecovers(t *testing.T) {
	for name, written := range map[string]bool{"nothing was written": false, "it was written": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			_, log := w.registry()
			w.redeem(w.reopen(log), w.enrol(client(1), 1, "alice"))
			r := w.reopen(&failing{Log: log, written: written})
			full := true
			r.Reopens(func() (admission.Log, error) {
				if full {
					return &failing{Log: log}, nil
				}
				return log, nil
			})
			if err := r.Check(); err != nil {
				t.Errorf("before: %v", err)
			}
			bob := w.enrol(client(2), 1, "bob")
			if err := r.Redeem(founded, bob); !errors.Is(err, admission.ErrUnwritten) {
				t.Errorf("redeemed: %v", err)
			}
			if err := r.Check(); !errors.Is(err, admission.ErrUnwritten) {
				t.Errorf("while the disk is full: %v", err)
			}
			full = false
			if err := r.Check(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			want := map[admission.Place]string{client(1): "alice"}
			if written {
				want[client(2)] = "bob"
			}
			holds(t, r, want)
			w.redeem(r, bob, w.enrol(client(0), 1, "carol"))
			want[client(2)], want[client(0)] = "bob", "carol"
			for range 2 { // now and after a restart
				holds(t, r, want)
				r = w.reopen(log)
			}
		})
	}
}

// A registry refuses a log that lacks a party that was told of its admission.
func TestRegistryIsNotReplaced(t *testing.T) {
	w := newWorld(t, 3)
	_, log := w.registry()
	w.redeem(w.reopen(log), w.enrol(client(1), 1, "alice"))
	r := w.reopen(&failing{Log: log})
	_, other := w.registry()
	r.Reopens(func() (admission.Log, error) { return other, nil })
	if err := r.Redeem(founded, w.enrol(client(2), 1, "bob")); !errors.Is(err, admission.ErrUnwritten) {
		t.Errorf("redeemed: %v", err)
	}
	if err := r.Check(); !errors.Is(err, admission.ErrForgotten) {
		t.Errorf("an empty registry was taken: %v", err)
	}
	holds(t, r, map[admission.Place]string{client(1): "alice"})
}

// Revocations that could not be written hold after the log was opened again, and are in it.
func TestRevocationsAreWrittenOnRecovery(t *testing.T) {
	w := newWorld(t, 3)
	_, log := w.registry()
	alice := w.enrol(client(1), 1, "alice")
	w.redeem(w.reopen(log), alice)
	r := w.reopen(&failing{Log: log})
	r.Reopens(func() (admission.Log, error) { return log, nil })
	if _, err := r.Revoke(w.revoke(nil, admission.RevocationOf(alice))); !errors.Is(err, admission.ErrUnwritten) {
		t.Fatal(err)
	}
	holds(t, r, nil)
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	holds(t, r, nil)
	holds(t, w.reopen(log), nil)
}
