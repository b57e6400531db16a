package admission_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// slow is a log whose writes block until the test releases them.
type slow struct {
	store.Log
	begun, goOn chan struct{}
}

func (s *slow) Append(entries ...[]byte) error {
	close(s.begun)
	<-s.goOn
	return s.Log.Append(entries...)
}

// A reader does not wait for the disk, and sees nothing that is not on it.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	w := newWorld(t, 3)
	disk := &slow{Log: store.NewMemoryLog(), begun: make(chan struct{}), goOn: make(chan struct{})}
	r := w.reopen(disk)
	alice := w.enrol(client(0), 1, "alice")
	done := make(chan error)
	go func() { done <- r.Redeem(founded, alice) }()
	<-disk.begun
	if text, _, err := r.Text(); err != nil || len(r.List().Enrolments) > 0 || r.Revocations() != nil {
		t.Errorf("while it is written the list is %s, %v", text, err)
	}
	if p, ok := r.Lookup(alice.Identity); ok {
		t.Errorf("the %s is in before that is written", p)
	}
	close(disk.goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for range 2 { // now and after a restart
		holds(t, r, map[admission.Place]string{client(0): "alice"})
		r = w.reopen(disk.Log)
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
