package command

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/node/ops"
)

// --missing and --ready say so where they have no answer.
func TestStatusFlagsOfOthersAreRefused(t *testing.T) {
	shown := httptest.NewServer(ops.NewMonitor("server", time.Now).Handler())
	defer shown.Close()
	for name, c := range map[string]statusCmd{
		"a server knows nobody":         {Ops: shown.Listener.Addr().String(), Missing: true},
		"a state is not ready":          {State: "state", Ready: true},
		"a client's state knows nobody": {State: "state", Missing: true},
	} {
		if err := c.Run(t.Context(), &streams{out: io.Discard, err: io.Discard}); !cli.IsMisuse(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
