package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

var errBroken = errors.New("broken")

// undigesting is a strategy that cannot take in a sum.
type undigesting struct{ server.Durable }

func (undigesting) Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error { return errBroken }

// A server that cannot continue ends, and says why: an operator would not start a server again that
// only waits.
func TestServerThatCannotGoOnEnds(t *testing.T) {
	f := newFederation(t, short+"rounds=2 data="+ratings(t, 4, 12))
	config := f.serverConfig(f.join(admission.ServerPlace))
	config.Strategy = undigesting{config.Strategy}
	s, err := node.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	clients, stop := context.WithCancel(t.Context())
	ended := make(chan error, f.federation.Clients)
	for _, c := range f.joinAll() {
		go func() { ended <- c.Run(clients) }()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if out, err := s.Run(ctx); !errors.Is(err, errBroken) {
		t.Errorf("the server ended with %v, %v", out, err)
	}
	stop()
	for range f.federation.Clients {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a client ended with %v", err)
		}
	}
}

// ungrateful is a trainer that cannot use the final model.
type ungrateful struct{ client.Trainer }

func (ungrateful) Finish([]byte, protocol.Runner) error { return errBroken }

// A client that cannot finish ends: it has received everything it will ever be sent.
func TestClientThatCannotFinishEnds(t *testing.T) {
	f := newFederation(t, short+"rounds=1 data="+ratings(t, 4, 12))
	const id = 3
	f.trainer = func(of protocol.ClientID, x client.Trainer) client.Trainer {
		if of == id {
			return ungrateful{x}
		}
		return x
	}
	m := f.join(admission.ServerPlace)
	clients := f.joinAll()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- clients[id].Run(ctx) }()
	wait := f.start(append(clients[:id:id], clients[id+1:]...)...)
	if _, err := f.server(m).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait()
	if err := <-ended; !errors.Is(err, errBroken) {
		t.Errorf("the client ended with %v", err)
	}
}
