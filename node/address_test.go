package node_test

import (
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
)

// Which addresses can be dialled follows from what they are by RFC 1122 (0.0.0.0 is this host, as a
// source only), 4291 (:: likewise, fe80::/10 on one link), 5771 (multicast), and from the transports that
// the aggregator has, TCP and QUIC.
func TestContactsThatCannotBeDialled(t *testing.T) {
	t.Parallel()
	key, err := admission.GenerateKey(simulated.New(1, "contact"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := node.PeerID(key.Public().Ed25519())
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"/ip4/192.0.2.1/tcp/7946":                                     "",
		"/ip4/127.0.0.1/tcp/7946":                                     "",
		"/ip6/2001:db8::1/tcp/7946":                                   "",
		"/ip4/192.0.2.1/udp/7946/quic-v1":                             "",
		"/dns4/agg.example.org/tcp/7946":                              "",
		"/dnsaddr/agg.example.org":                                    "",
		"/ip6zone/eth0/ip6/fe80::1/tcp/7946":                          "",
		"/ip4/192.0.2.1/tcp/7946/p2p/" + id.String():                  "",
		"/ip4/127.0.0.1":                                              "no port",
		"/dns4/agg.example.org":                                       "no port",
		"/ip4/192.0.2.1/tcp/0":                                        "no port",
		"/ip4/192.0.2.1/udp/0/quic-v1":                                "no port",
		"/ip4/192.0.2.1/udp/7946":                                     "quic-v1",
		"/tcp/7946":                                                   "no machine",
		"/ip4/0.0.0.0/tcp/7946":                                       "for listening",
		"/ip6/::/tcp/7946":                                            "for listening",
		"/ip4/224.0.0.1/tcp/7946":                                     "for listening",
		"/ip4/255.255.255.255/tcp/7946":                               "for listening",
		"/ip6/ff02::1/tcp/7946":                                       "for listening",
		"/ip6/fe80::1/tcp/7946":                                       "interface",
		"/ip4/192.0.2.1/tcp/7946/p2p/" + id.String() + "/p2p-circuit": "",
	} {
		err := node.CheckContact(admission.Contact{Peer: id.String(), Addresses: []string{"/ip4/192.0.2.9/tcp/1", address}})
		switch {
		case strings.Contains(address, "circuit"):
			if err == nil {
				t.Errorf("%s is taken", address)
			}
		case want == "" && err != nil:
			t.Errorf("%s: %v", address, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v; want an error with %q", address, err, want)
		}
	}
}

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
	a, err := node.NewAggregator(t.Context(), node.AggregatorConfig{Identity: f.identity(admission.AggregatorPlace), Federation: f.federation,
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
	for _, a := range node.Listen {
		switch {
		case strings.HasPrefix(a, "/ip4/0.0.0.0/"):
			four++
		case strings.HasPrefix(a, "/ip6/::/"):
			six++
		}
	}
	if four != 2 || six != 2 {
		t.Errorf("the default is %q; want TCP and QUIC of all addresses of IPv4 and IPv6", node.Listen)
	}
}
