package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/protocol"
)

// enters registers as the holder of a place that has the list of a digest; zero: none.
func (f *federation) enters(p admission.Place, list admission.Hash) network.Stream {
	f.t.Helper()
	return f.opens(p, map[string]any{"register": map[string]any{"version": peer.ProtocolID, "life": [16]byte{}, "list": list}}, time.Minute)
}

// told reads the aggregator's next message: the list in it, if any, and its length in bytes.
func (f *federation) told(s network.Stream) (kind string, list json.RawMessage, size int) {
	f.t.Helper()
	text := f.notice(s)
	var m map[string]struct{ List json.RawMessage }
	if err := json.Unmarshal(text, &m); err != nil {
		f.t.Fatal(err)
	}
	for kind = range m {
		list = m[kind].List
	}
	return kind, list, len(text)
}

// A peer that has the enrolment list is not sent it: the answer to its registration is a line,
// whatever the number of clients. A peer with another list, or none, is sent the list. It is not
// sent the list again with the session unless the list has changed since.
func TestKnownListsAreNotSent(t *testing.T) {
	sizes := make(map[int]int)
	for _, clients := range []int{8, 24} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			f := newFederation(t, lfl+"data="+ratings(t, clients, 12))
			f.gather = time.Millisecond // it begins with whom a round needs
			f.join(admission.ServerPlace)
			for id := range protocol.ClientID(clients - 1) {
				f.join(admission.ClientPlace(id))
			}
			_, before, err := f.registry.Text()
			if err != nil {
				t.Fatal(err)
			}
			early := f.enters(admission.ClientPlace(0), before)
			if kind, list, _ := f.told(early); kind != "welcome" || list != nil {
				t.Errorf("who has the list is told %s with %d bytes of list", kind, len(list))
			}
			f.join(admission.ClientPlace(protocol.ClientID(clients - 1)))
			text, now, err := f.registry.Text()
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]network.Stream{"with the list": f.enters(admission.ClientPlace(1), now), "with an older list": f.enters(admission.ClientPlace(2), before), "with none": f.enters(admission.ClientPlace(3), admission.Hash{})}
			for who, s := range there {
				kind, list, size := f.told(s)
				want := string(text)
				if who == "with the list" {
					want, sizes[clients] = "", size
				}
				if kind != "welcome" || string(list) != want {
					t.Errorf("who comes %s is told %s with %d bytes of list, of %d", who, kind, len(list), len(text))
				}
			}
			for id := protocol.ClientID(4); id < protocol.ClientID(clients); id++ {
				f.told(f.enters(admission.ClientPlace(id), now))
			}
			ctx, cancel := context.WithCancel(f.ctx)
			ended := make(chan error, 1)
			server := f.server(f.memberships[admission.ServerPlace])
			go func() {
				_, err := server.Run(ctx)
				ended <- err
			}()
			there["before the list changed"] = early
			for who, s := range there {
				kind, list, _ := f.told(s)
				want := ""
				if who == "before the list changed" {
					want = string(text)
				}
				if kind != "session" || string(list) != want {
					t.Errorf("who came %s is told %s with %d bytes of list, of %d", who, kind, len(list), len(text))
				}
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the server: %v", err)
			}
		})
	}
	const line = 160 // the numbers of an aggregator's life are of one to three digits each
	if max(sizes[8], sizes[24]) > line {
		t.Errorf("who has the list is told %d bytes among 8 clients and %d among 24, want at most %d", sizes[8], sizes[24], line)
	}
}
