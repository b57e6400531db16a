package node_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
)

// An aggregator of another version ends a party with the exit code of misuse, so that its unit does not start it for ever: dialling again
// does not help. One dial is not enough to say so.
func TestAnotherVersionEndsAParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=private-item-bias epsilon=inf data="+ratings(t, 4, 6))
		place := admission.ClientPlace(1)
		m := f.join(place)
		var said strings.Builder
		c, err := peer.NewConn(f.identity(place), []admission.Contact{m.Contact}, "/fedsim/of-another-version", testLog(t), f.network.option()...)
		if err != nil {
			t.Fatal(err)
		}
		c.Waits = func(what string) { said.WriteString(what + "\n") }
		err = c.Keep(f.ctx, func(context.Context, network.Stream) error { return nil })
		if err == nil || !cli.IsMisuse(err) || !peer.IsFatal(err) || !strings.Contains(err.Error(), "it runs another version of this program") {
			t.Errorf("it ended with %v", err)
		}
		if dials := strings.Count(said.String(), "another version"); dials != 7 {
			t.Errorf("%d dials before the last, want 7", dials)
		}
	})
}
