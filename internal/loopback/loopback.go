// Package loopback tells addresses of this machine alone from others, and answers requests that
// name one of them.
package loopback

import (
	"net"
	"net/http"
	"strings"
)

// Is says whether a host, without a port, is this machine alone.
func Is(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Handler answers who asks for this machine by one of its own names. A browser that was led
// here by a name of somebody else's, which resolves to this machine, says that name: the
// page at that name would read the answer. refuse answers such a request.
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
