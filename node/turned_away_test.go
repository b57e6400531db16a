package node_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
)

// logged holds the logs of all processes of a federation, a line each.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns how many lines contain all of some texts.
func (l *logged) lines(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
line:
	for _, s := range strings.Split(l.b.String(), "\n") {
		for _, x := range texts {
			if !strings.Contains(s, x) {
				continue line
			}
		}
		n++
	}
	return n
}

// loggedFederation is a federation in virtual time whose log can be read.
func loggedFederation(t *testing.T) (*federation, *logged) {
	t.Helper()
	l := new(logged)
	return newFederationOver(t, newMemory(), lfl+"data="+ratings(t, 4, 12), zerolog.New(l)), l
}

// A party that has not enrolled, an invitation and a relay that the aggregator does not know each
// hear their own cause, and the aggregator's log names them.
func TestTurnedAway(t *testing.T) {
	relay := admission.PrivateKey{}
	for name, c := range map[string]struct {
		run  func(context.Context, *federation) error
		want string
	}{
		"invitation": {func(ctx context.Context, f *federation) error {
			_, err := node.Enrol(ctx, f.invite(admission.ClientPlace(0), f.now().Add(time.Hour)), f.identity(admission.ClientPlace(0)), f.log, f.network.option()...)
			return err
		}, "does not know this invitation"},
		"party": {func(ctx context.Context, f *federation) error {
			m, err := f.invite(admission.ClientPlace(0), f.now().Add(time.Hour)).Accept(f.identity(admission.ClientPlace(0)))
			if err != nil {
				return err
			}
			return f.client(0, m).Run(ctx)
		}, "does not know this party"},
		"relay": {func(ctx context.Context, f *federation) error {
			relay = f.key("relay")
			config := hub.RelayConfig{Identity: relay, Federation: f.federation, Aggregator: f.contact, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Log: f.log, Transports: f.network.option()}
			r, err := hub.NewRelay(ctx, config)
			if err != nil {
				return err
			}
			defer r.Close() //nolint:errcheck // nothing is left to be lost
			return r.Run(ctx)
		}, "--relay"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := loggedFederation(t)
				ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
				defer stop()
				_ = c.run(ctx, f)
				if name == "relay" {
					c.want += " " + relay.Public().String()
				}
				if log.lines("no connection to the aggregator", c.want) == 0 {
					t.Errorf("no line with %q in the party's log:\n%s", c.want, &log.b)
				}
				if log.lines(`"role":"aggregator"`, "turned away", "peer") == 0 {
					t.Errorf("nothing in the aggregator's log:\n%s", &log.b)
				}
			})
		})
	}
}

// Two processes run one client's state: the older one hears why it lost its connection, and so does the
// aggregator. A client that is stopped and started again says nothing of the kind.
func TestOneStateOnTwoMachines(t *testing.T) {
	for name, both := range map[string]bool{"two machines": true, "started again": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := loggedFederation(t)
				m := f.join(admission.ClientPlace(3))
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var all sync.WaitGroup
				start := func() context.CancelFunc {
					one, end := context.WithCancel(ctx)
					c := f.client(3, m)
					all.Go(func() { _ = c.Run(one) })
					time.Sleep(time.Second) // of virtual time: it registers meanwhile
					return end
				}
				end := start()
				if !both {
					end()
					time.Sleep(time.Second)
				}
				defer start()()
				party, aggregator := log.lines(`"client":3`, "another process registered as this party"), log.lines(`"role":"aggregator"`, "another process has registered as this party")
				if (party > 0) != both || (aggregator > 0) != both {
					t.Errorf("%d lines of the party and %d of the aggregator, want some: %v:\n%s", party, aggregator, both, &log.b)
				}
				end()
				stop()
				all.Wait()
			})
		})
	}
}

// Two processes run one server's state: the second is refused for good and says why, and the first leads on. A server whose
// first process has died takes its place.
func TestOneServersStateOnTwoMachines(t *testing.T) {
	for name, both := range map[string]bool{"two machines": true, "started again": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := loggedFederation(t)
				m := f.join(admission.ServerPlace)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				first, end := context.WithCancel(ctx)
				var all sync.WaitGroup
				one := make(chan error, 2)
				server := f.server(m)
				all.Go(func() { _, err := server.Run(first); one <- err })
				time.Sleep(time.Second) // of virtual time: it registers meanwhile
				if !both {
					end()
					time.Sleep(time.Second)
				}
				second, over := context.WithTimeout(ctx, 20*time.Second)
				_, err := f.server(m).Run(second)
				over()
				refused := errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "another process of this server is connected")
				if refused != both || both && (!cli.IsMisuse(err) || len(one) > 0 || log.lines(`"role":"aggregator"`, "a second process has registered as the server") != 1) {
					t.Errorf("the second ends with %v, want it refused: %v; the first has ended: %v\n%s", err, both, len(one) > 0, &log.b)
				}
				end()
				all.Wait()
			})
		})
	}
}

// A machine whose clock is 70 minutes off takes part, and both sides name the difference. One within half a minute is not warned of.
func TestBothSidesNameAWrongClock(t *testing.T) {
	for by, want := range map[time.Duration][2]string{
		70 * time.Minute: {"ahead of the aggregator", "1h10m0s ahead of this machine's"}, -70 * time.Minute: {"behind the aggregator", "1h10m0s behind this machine's"}, 20 * time.Second: {},
	} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := loggedFederation(t)
				c := f.client(3, f.join(admission.ClientPlace(3)))
				c.Skew(by)
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				_ = c.Run(ctx)
				party, aggregator := log.lines("set by NTP", want[0], `"client":3`), log.lines(`"role":"aggregator"`, "set by NTP", want[1])
				if warned := want[0] != ""; (party > 0) != warned || (aggregator > 0) != warned || log.lines("registered") == 0 {
					t.Errorf("%d lines of the party and %d of the aggregator:\n%s", party, aggregator, &log.b)
				}
			})
		})
	}
}
