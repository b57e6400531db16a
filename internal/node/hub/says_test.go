package hub

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// The aggregator reads of a peer what its role says, and nothing else: a client that
// sends what only the server may, which is larger, loses its stream at the header.
func TestPeersSayWhatIsTheirsToSay(t *testing.T) {
	advertise := &protocol.Advertise{Round: 1, Keys: &protocol.Keys{}}
	final := &protocol.Final{Model: make([]byte, 1<<20)}
	for _, c := range []struct {
		from protocol.Role
		says protocol.Message
		want error
	}{
		{protocol.Client, advertise, nil},
		{protocol.Client, final, wire.ErrKind},
		{protocol.Client, &protocol.Result{Round: 1, Survivors: 3, Answered: 3, Integers: [][]int64{make([]int64, 8)}}, wire.ErrKind},
		{protocol.Server, final, peer.ErrEnd}, // and then closes its side
		{protocol.Server, advertise, wire.ErrKind},
		{protocol.Server, &protocol.Abort{Round: 1, Reason: &protocol.TooFew{Round: 1, Left: 1, Required: 3}}, wire.ErrKind},
	} {
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan protocol.Input, 1)
		s := &hubSession{signed: new(session.Signed), terms: nodetest.Terms(), driver: &session.Driver{Inputs: heard}, ctx: ctx}
		a := &Aggregator{cfg: AggregatorConfig{Log: zerolog.Nop()}}
		peer := &conn{place: admission.Place{Role: c.from}, link: newLink(nodetest.Pipe{End: ours}, 1)}
		ended := make(chan error, 1)
		go func() { ended <- a.carry(peer, s, protocol.Party{Role: c.from}) }()
		frames, err := wire.AppendFrames(nil, c.says)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = theirs.Write(frames) // of which the rest is not read, if it is refused
		_ = theirs.Close()
		if err := <-ended; !errors.Is(err, c.want) || len(heard) == 1 == errors.Is(c.want, wire.ErrKind) {
			t.Errorf("%s from a %v: %v, and %d messages heard; want %v", protocol.Describe(c.says), c.from, err, len(heard), c.want)
		}
		cancel()
		a.busy.Wait()
	}
}
