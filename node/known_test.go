package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
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

// A client is shown the list with a session alone, and of the list a part whose length hardly depends on the number of clients. A client
// that has it is not sent it. The answer to a registration is a line.
func TestKnownListsAreNotSent(t *testing.T) {
	sizes, parts := make(map[int]int), make(map[int]int)
	for _, clients := range []int{4, 12} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			f := newFederation(t, lfl+"data="+ratings(t, clients, 12))
			f.gather = time.Millisecond // it begins with whom a round needs
			f.join(admission.ServerPlace)
			for id := range protocol.ClientID(clients) {
				f.join(admission.ClientPlace(id))
			}
			excerpt := func(id protocol.ClientID) (string, admission.Hash) {
				text, digest, err := f.registry.Excerpt(admission.ClientPlace(id))
				if err != nil {
					t.Fatal(err)
				}
				return string(text), digest
			}
			_, known := excerpt(1)
			there := make(map[protocol.ClientID]network.Stream)
			for id := range protocol.ClientID(clients) {
				var digest admission.Hash
				if id == 1 {
					digest = known
				}
				there[id] = f.enters(admission.ClientPlace(id), digest)
				kind, list, size := f.told(there[id])
				if kind != "welcome" || list != nil {
					t.Errorf("client %d is told %s with %d bytes of list as it registers", id, kind, len(list))
				}
				sizes[clients] = max(sizes[clients], size)
			}
			ctx, cancel := context.WithCancel(f.ctx)
			ended := make(chan error, 1)
			server := f.server(f.memberships[admission.ServerPlace])
			go func() {
				_, err := server.Run(ctx)
				ended <- err
			}()
			for id, s := range there {
				kind, list, _ := f.told(s)
				want, _ := excerpt(id)
				parts[clients] = max(parts[clients], len(want))
				if id == 1 {
					want = ""
				}
				if kind != "session" || string(list) != want {
					t.Errorf("client %d is told %s with %d bytes of list, want %d", id, kind, len(list), len(want))
				}
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the server: %v", err)
			}
		})
	}
	const line = 160 // the numbers of an aggregator's life are of one to three digits each
	if max(sizes[4], sizes[12]) > line {
		t.Errorf("a registration is answered with %d bytes among 4 clients and %d among 12, want at most %d", sizes[4], sizes[12], line)
	}
	// A proof of three of 14 parties has at most six hashes more than one of 6, each of 67 bytes of text.
	if more := parts[12] - parts[4]; more > 6*67+20 {
		t.Errorf("among 12 clients each is shown %d bytes more than among 4", more)
	}
}
