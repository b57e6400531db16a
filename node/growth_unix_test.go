//go:build unix

package node_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The processor time of a client's enrolment and registration, with a server that looks on, in one process over loopback:
// FEDSIM_TEST_LONG=load. The clients have registries of their own and no data.
func TestGrowth(t *testing.T) {
	loadOnly(t, "2,000 clients enrol and register")
	for _, clients := range []int{100, 500, 1000, 2000} {
		grow(t, clients)
	}
}

// 5,000 clients enrol and register, and hold their connections until the last has. They are stubs: they have hosts and identities of
// their own, but no ratings, no trainer and a ledger in memory.
func TestFiveThousandRegister(t *testing.T) {
	loadOnly(t, "5,000 clients enrol and register: minutes, and a gigabyte or more")
	grow(t, 5000)
}

// grow has so many clients enrol and register, and logs what that took.
func grow(t *testing.T, clients int) {
	t.Helper()
	f := newLoopbackFederation(t, lfl+"data="+rated(t, clients, 1, func(int, int) int { return 3 }))
	f.ctx = t.Context()
	f.gather = time.Hour
	server := f.server(f.join(admission.ServerPlace))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := server.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	var invitations []*admission.Invitation
	for id := range protocol.ClientID(clients) {
		invitations = append(invitations, f.invite(admission.ClientPlace(id), f.now().Add(time.Hour)))
	}
	f.admit(invitations...)
	here := make(chan struct{}, clients)
	began, spent := time.Now(), processorTime(t)
	slots := make(chan struct{}, 32)
	for id, i := range invitations {
		slots <- struct{}{}
		all.Go(func() {
			place := admission.ClientPlace(protocol.ClientID(id))
			m, err := node.Enrol(ctx, i, f.key(place.String()), f.log, f.network.option()...)
			if err != nil {
				t.Error(err)
				return
			}
			ledger, err := store.NewLedger(store.NewMemoryLog())
			if err != nil {
				t.Error(err)
				return
			}
			c, err := node.NewClient(node.ClientConfig{Member: node.Member{Identity: f.key(place.String()), Membership: m, Registry: f.openRegistry(),
				State: t.TempDir(), Log: f.log, Observer: growing{here: here, slots: slots}}, Ledger: ledger, Entropy: f.source(protocol.ClientID(id)),
				Open: func([]byte) (*node.Job, error) { return nil, errors.New("it only registers") }})
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Run(ctx)
		})
	}
	for range clients - 1 {
		<-here
	}
	took, used := time.Since(began), processorTime(t)-spent
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d clients: %.1f s, %.1f ms of processor time a client; %d MiB from the system", clients, took.Seconds(), used.Seconds()*1000/float64(clients), m.Sys>>20)
	cancel()
	all.Wait()
	_ = f.aggregator.Close()
}

// growing frees a slot when its client has registered for the first time.
type growing struct {
	observer
	here, slots chan struct{}
}

func (g growing) Registered(change int) {
	if change > 0 {
		<-g.slots
		g.here <- struct{}{}
	}
}

var _ session.Observer = growing{}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
