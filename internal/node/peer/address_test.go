package peer_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
)

// RFC 1122 (0.0.0.0 is this host, as a source only), 4291 (so is ::; fe80::/10 is on one link) and
// 5771 (multicast) say which addresses can be dialled. So do the transports that the aggregator
// has, TCP and QUIC.
func TestContactsThatCannotBeDialled(t *testing.T) {
	t.Parallel()
	key, err := admission.GenerateKey(simulated.New(1, "contact"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDOf(key.Public().Ed25519())
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
		err := peer.CheckContact(admission.Contact{Peer: id.String(), Addresses: []string{"/ip4/192.0.2.9/tcp/1", address}})
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
