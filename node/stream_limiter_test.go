package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
)

// Who opens streams over and over waits, and nobody else does.
func TestVisitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := streamLimiter{limits: make(map[peer.ID]*rate.Limiter)}
		began := time.Now()
		for range 20 {
			if err := v.wait(t.Context(), "often"); err != nil {
				t.Fatal(err)
			}
		}
		// 8 at once, and then one a second.
		if took := time.Since(began); took != 12*time.Second {
			t.Errorf("20 visits of one peer took %v, want 12s", took)
		}
		began = time.Now()
		if err := v.wait(t.Context(), "once"); err != nil || time.Since(began) != 0 {
			t.Errorf("another peer waits %v, %v", time.Since(began), err)
		}
	})
}
