package peer_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/node/peer"
)

// The specification of multiaddresses (github.com/multiformats/multiaddr) has the expected forms.
func TestAddressesInOtherForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/ip4/192.0.2.1/tcp/7946":        "",
		"192.0.2.1:7946":                 "write /ip4/192.0.2.1/tcp/7946",
		"[2001:db8::1]:7946":             "write /ip6/2001:db8::1/tcp/7946",
		"agg.example.org:7946":           "write /dns4/agg.example.org/tcp/7946",
		"https://agg.example.org:7946/":  "write /dns4/agg.example.org/tcp/7946",
		":7946":                          "write /ip4/0.0.0.0/tcp/7946",
		"192.0.2.1":                      "like /ip4/192.0.2.1/tcp/7946",
		"7946":                           "like /ip4/192.0.2.1/tcp/7946",
		"":                               "like /ip4/192.0.2.1/tcp/7946",
		"/ip4/300.0.0.1/tcp/7946":        "300.0.0.1",
		"/dns4/agg.example.org/tpc/7946": "tpc",
		"ip4/192.0.2.1/tcp/7946":         "like /ip4/192.0.2.1/tcp/7946",
	} {
		switch a, err := peer.ParseAddress(text); {
		case want == "" && (err != nil || a.String() != text):
			t.Errorf("%q is %v, %v", text, a, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
