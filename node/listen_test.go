package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
)

// An aggregator whose second address is taken must not begin with the first alone.
func TestListensEverywhereOrSaysWhy(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // nobody connects
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	f := newFederation(t, vertical+"data="+ratings(t, 4, 12))
	a, err := hub.NewAggregator(t.Context(), hub.AggregatorConfig{Identity: f.identity(admission.AggregatorPlace), Federation: f.federation,
		Registry: f.registry, State: t.TempDir(), Log: zerolog.Nop(), Listen: []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/tcp/" + port}})
	if err == nil {
		_ = a.Close()
		t.Fatal("an address that is taken was left out without a word")
	}
	if !strings.Contains(err.Error(), port) {
		t.Errorf("the error names no address: %v", err)
	}
}

// libp2p shares a port among processes, which would each get some of the connections: the second aggregator at an address is refused.
func TestTwoAggregatorsAtOneAddress(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"tcp/%s", "udp/%s/quic-v1"} {
		f := newFederation(t, vertical+"data="+ratings(t, 4, 12))
		open := func(port string) (*hub.Aggregator, error) {
			return hub.NewAggregator(t.Context(), hub.AggregatorConfig{Identity: f.identity(admission.AggregatorPlace), Federation: f.federation,
				Registry: f.registry, State: t.TempDir(), Log: zerolog.Nop(), Listen: []string{"/ip4/127.0.0.1/" + fmt.Sprintf(kind, port)}})
		}
		first, err := open("0")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(first.Addresses()[0], kind[:4])
		port, _, _ := strings.Cut(after, "/")
		if second, failed := open(port); !errors.Is(failed, peer.ErrInUse) || !strings.Contains(failed.Error(), port) {
			t.Errorf("%s: a second aggregator at port %s: %v", kind, port, failed)
			if failed == nil {
				_ = second.Close()
			}
		}
		if err = first.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := open(port)
		if err != nil {
			t.Fatalf("%s: the port stays taken: %v", kind, err)
		}
		_ = again.Close()
	}
}

func TestListensOnIPv6ByDefault(t *testing.T) {
	t.Parallel()
	var four, six int
	for _, a := range hub.Listen {
		switch {
		case strings.HasPrefix(a, "/ip4/0.0.0.0/"):
			four++
		case strings.HasPrefix(a, "/ip6/::/"):
			six++
		}
	}
	if four != 2 || six != 2 {
		t.Errorf("the default is %q; want TCP and QUIC of all addresses of IPv4 and IPv6", hub.Listen)
	}
}

// Over TCP, parties prove their keys by Noise, which has no dates: certificates of TLS would shut out a clock that is an hour behind.
func TestTCPHasNoCertificates(t *testing.T) {
	t.Parallel()
	f := newLoopbackFederation(t, vertical+"data="+ratings(t, 4, 12))
	c := f.client(0, f.join(admission.ClientPlace(0)))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		stop()
		if failed := <-done; !errors.Is(failed, context.Canceled) {
			t.Error(failed)
		}
	}()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, conn := range f.aggregator.Host().Network().Conns() {
			if how := conn.ConnState(); how.Transport == "tcp" {
				if how.Security != "/noise" {
					t.Errorf("a connection over TCP is secured by %s", how.Security)
				}
				return
			}
		}
	}
	t.Fatal("nobody came over TCP")
}
