package admission_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// slow is a log whose first write blocks until the test releases it.
type slow struct {
	store.Log
	begun, goOn chan struct{}
	fails       bool // from the second write on
	writes      int
}

func newSlow() *slow {
	return &slow{Log: store.NewMemoryLog(), begun: make(chan struct{}), goOn: make(chan struct{})}
}

func (s *slow) Append(entries ...[]byte) error {
	s.writes++
	if s.writes == 1 {
		close(s.begun)
		<-s.goOn
	} else if s.fails {
		return errDisk
	}
	return s.Log.Append(entries...)
}

// behind redeems the first of some enrolments, and the others while that is being written, once they all
// wait in their order. It returns what became of each.
func behind(t *testing.T, r *admission.Registry, s *slow, list []*admission.Enrolment) []error {
	t.Helper()
	errs := make([]error, len(list))
	var wait sync.WaitGroup
	for i, e := range list {
		wait.Go(func() { errs[i] = r.Redeem(founded, e) })
		if i == 0 {
			<-s.begun
		}
		for r.Waiting() < i {
			runtime.Gosched()
		}
	}
	// A reader does not wait for the disk, and sees nothing that is not on it.
	if text, _, err := r.Text(); err != nil || len(r.List().Enrolments) > 0 || r.Revocations() != nil {
		t.Errorf("while it is written the list is %s, %v", text, err)
	}
	if p, ok := r.Lookup(list[0].Identity); ok {
		t.Errorf("the %s is in before that is written", p)
	}
	close(s.goOn)
	wait.Wait()
	return errs
}

// Enrolments that come while others are written share one write, however many they are.
func TestWaitingEnrolmentsShareAWrite(t *testing.T) {
	for _, n := range []int{3, 30} {
		w := newWorld(t, n)
		disk := newSlow()
		r := w.reopen(disk)
		want := make(map[admission.Place]string)
		var list []*admission.Enrolment
		for i := range n {
			want[client(i)] = fmt.Sprint("client ", i)
			list = append(list, w.enrol(client(i), 1, want[client(i)]))
		}
		for i, err := range behind(t, r, disk, list) {
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}
		if disk.writes != 2 {
			t.Errorf("%d enrolments took %d writes, want 2: of the first, and of those that came meanwhile", n, disk.writes)
		}
		holds(t, r, want)
		holds(t, w.reopen(disk.Log), want)
	}
}

// An enrolment may conflict with an enrolment that waits for the same write. It is refused only if
// that write succeeds.
func TestWaitingEnrolmentsConflict(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newWorld(t, 4)
		disk := newSlow()
		disk.fails = fails
		r := w.reopen(disk)
		errs := behind(t, r, disk, []*admission.Enrolment{
			w.enrol(client(0), 1, "alice"), w.enrol(client(1), 1, "bob"), w.enrol(client(1), 1, "carol"), w.enrol(client(1), 1, "bob"),
			w.enrol(client(2), 1, "bob"), w.enrol(client(0), 1, "mallory"), w.enrol(client(3), 1, "dave"),
		})
		whatever := error(nil)
		if fails {
			whatever = errDisk
		}
		for i, want := range []error{nil, nil, admission.ErrRedeemed, nil, admission.ErrIdentityUsed, admission.ErrRedeemed, nil} {
			if fails && i > 0 && i != 5 { // that one is about alice, who was written before
				want = whatever
			}
			if !errors.Is(errs[i], want) || (want == errDisk && errors.Is(errs[i], admission.ErrRedeemed)) {
				t.Errorf("the disk fails: %v, enrolment %d: %v, want %v", fails, i, errs[i], want)
			}
		}
		holdsNow := map[admission.Place]string{client(0): "alice"}
		if !fails {
			holdsNow[client(1)], holdsNow[client(3)] = "bob", "dave"
		}
		holds(t, r, holdsNow)
		holds(t, w.reopen(disk.Log), holdsNow)
	}
}

// Enrolling with a registry on disk, 64 at a time.
func BenchmarkRedeem(b *testing.B) {
	for _, clients := range []int{200, 500, 1000, 2000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			w := newWorld(b, clients)
			var all []*admission.Enrolment
			for i := range clients {
				all = append(all, w.enrol(client(i), 1, fmt.Sprint("client ", i)))
			}
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "registry")
				if err := store.CreateLog(path, store.RegistryKind(w.federation)); err != nil {
					b.Fatal(err)
				}
				log, err := store.OpenLog(path, store.RegistryKind(w.federation))
				if err != nil {
					b.Fatal(err)
				}
				r := w.reopen(log)
				next := make(chan *admission.Enrolment)
				var wait sync.WaitGroup
				for range 64 {
					wait.Go(func() {
						for e := range next {
							if err := r.Redeem(founded, e); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for _, e := range all {
					next <- e
				}
				close(next)
				wait.Wait()
				if err := r.Close(); err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(clients)*float64(b.N)/b.Elapsed().Seconds(), "enrolments/s")
		})
	}
}
