package node_test

import (
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
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
	f := newFederation(t, vertical+"data="+ratings(t, 8, 12))
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
