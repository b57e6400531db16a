// Package loopback recognises addresses of this machine alone, and answers only requests that name
// one of them.
package loopback

import (
	"net"
	"net/http"
	"strings"
)

// Is reports whether a host, without a port, is this machine alone.
func Is(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Handler answers requests that address this machine by one of its own names. A foreign name may
// resolve to this machine and lead a browser here; the page at that name would read the answer.
// refuse answers such a request.
func Handler(h http.Handler, refuse http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !Is(strings.Trim(host, "[]")) {
			refuse(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
