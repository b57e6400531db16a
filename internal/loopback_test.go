package internal_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fedsim/fedsim/internal/loopback"
)

// 127.0.0.0/8 and ::1 are loopback (RFC 1122, 3.2.1.3; RFC 4291, 2.5.3), localhost is (RFC 6761).
func TestHandler(t *testing.T) {
	h := loopback.Handler(http.NotFoundHandler(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for host, want := range map[string]int{
		"127.0.0.1": http.StatusNotFound, "127.0.0.1:80": http.StatusNotFound, "127.3.2.1:80": http.StatusNotFound, "LocalHost:9": http.StatusNotFound,
		"[::1]": http.StatusNotFound, "[::1]:80": http.StatusNotFound,
		"": http.StatusForbidden, "localhost.example:80": http.StatusForbidden, "127.0.0.1.example": http.StatusForbidden, "192.0.2.1:80": http.StatusForbidden, "0.0.0.0": http.StatusForbidden,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}
