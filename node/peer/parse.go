package peer

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/multiformats/go-multiaddr"
)

// ParseAddress reads a multiaddress such as /ip4/192.0.2.1/tcp/7946. The error of an address in another form, such as
// 192.0.2.1:7946, has the address in this form.
func ParseAddress(text string) (multiaddr.Multiaddr, error) {
	a, err := multiaddr.NewMultiaddr(text)
	if err == nil {
		return a, nil
	}
	if strings.HasPrefix(text, "/") {
		return nil, err // which says what part is wrong
	}
	return nil, fmt.Errorf("%q is no multiaddress; write %s", text, meant(text))
}

// meant returns the multiaddress that a text such as HOST:PORT or http://HOST:PORT may mean.
func meant(text string) string {
	if _, after, found := strings.Cut(text, "://"); found {
		text = strings.TrimRight(after, "/")
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return "it like /ip4/192.0.2.1/tcp/7946 or /dns4/agg.example.org/tcp/7946"
	}
	kind := "dns4"
	switch ip, err := netip.ParseAddr(host); {
	case host == "":
		kind, host = "ip4", "0.0.0.0"
	case err == nil && ip.Is4():
		kind = "ip4"
	case err == nil:
		kind = "ip6"
	}
	return fmt.Sprintf("/%s/%s/tcp/%s", kind, host, port)
}
