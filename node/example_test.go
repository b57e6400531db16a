package node_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

func key() admission.PrivateKey {
	k, err := admission.GenerateKey(entropy.System())
	if err != nil {
		log.Fatal(err)
	}
	return k
}

// An operator founds a federation for 100 clients, and an aggregator listens for them. The operator
// invites a client, who enrols with the aggregator. With its membership the client can take part in
// sessions: see NewClient.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	operator, aggregator := key(), key()
	federation, err := admission.NewFederation(operator, "films", 100, time.Now(), entropy.System())
	if err != nil {
		log.Fatal(err)
	}
	registry, err := admission.OpenRegistry(federation, store.NewMemoryLog()) // on disk in a deployment
	if err != nil {
		log.Fatal(err)
	}
	state, err := os.MkdirTemp("", "aggregator")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state) //nolint:errcheck // an example leaves nothing that matters
	listening, err := hub.NewAggregator(ctx, hub.AggregatorConfig{
		Identity: aggregator, Federation: federation, Registry: registry, State: state,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Log: zerolog.Nop(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer listening.Close() //nolint:errcheck // as above

	id, err := peer.IDOf(aggregator.Public().Ed25519())
	if err != nil {
		log.Fatal(err)
	}
	invitation, err := admission.Invite(operator, federation, admission.Offer{
		Place: admission.ClientPlace(7), Serial: 1, NotAfter: time.Now().Add(time.Hour),
		Contact: admission.Contact{Addresses: listening.Addresses(), Peer: id.String()},
	}, entropy.System())
	if err != nil {
		log.Fatal(err)
	}
	if err = listening.Admit([]admission.Ticket{invitation.Ticket}); err != nil {
		log.Fatal(err)
	}
	membership, err := node.Enrol(ctx, invitation, key(), zerolog.Nop())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("enrolled in", membership.Federation.Name, "as", membership.Enrolment.Ticket.Place)
	// Output:
	// enrolled in films as client 7
}
