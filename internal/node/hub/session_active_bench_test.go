package hub_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// BenchmarkActive is a round of active mode of 500 clients, from the server's plan to the sum. The
// aggregator and each client have a driver of their own, in one process, with nothing between them.
// The floor is the cryptography of the same roles on all cores: every call of the secure sum that
// they make, one stage after the other. It has no role or driver around it, and is measured in the
// same run.
func BenchmarkActive(b *testing.B) {
	const n = 500
	a := newActive(b, n)
	choice, err := a.params.Graph(a.plan.Setup()).Choose()
	if err != nil {
		b.Fatal(err)
	}
	var floor, driven time.Duration
	for b.Loop() {
		began := time.Now()
		want := a.bare(b)
		floor += time.Since(began)
		began = time.Now()
		got := a.driven(b)
		driven += time.Since(began)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			b.Fatal("driven, the roles come to another sum than bare")
		}
	}
	b.ReportMetric(float64(choice.Degree), "neighbours")
	b.ReportMetric(floor.Seconds()/float64(b.N), "floor-s")
	b.ReportMetric(driven.Seconds()/float64(b.N), "driven-s")
	b.ReportMetric(driven.Seconds()/floor.Seconds(), "of-floor")
}

// active holds the parts of a round of active mode.
type active struct {
	plan       *protocol.Plan
	params     secagg.Params
	identities []ed25519.PrivateKey
}

func newActive(tb testing.TB, n int) *active {
	tb.Helper()
	a := &active{params: secagg.Params{Mode: secagg.Active, Rounds: 1}, plan: &protocol.Plan{
		Session: protocol.SessionID{1}, Round: 1, Cohort: protocol.Cohort{Clients: n, Tolerance: 0.1, Colluders: 0.05},
		Releases: []protocol.Release{{Name: "g", Len: 1000, L2: 1, MaxNonZero: 1, Scale: 1, Width: 32}},
	}}
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		if _, err := io.ReadFull(simulated.New(1, "identities").Stream("identity", uint64(i)), seed); err != nil {
			tb.Fatal(err)
		}
		key := ed25519.NewKeyFromSeed(seed)
		a.identities = append(a.identities, key)
		a.params.Identities = append(a.params.Identities, key.Public().(ed25519.PublicKey))
	}
	return a
}

// parties are the clients' sides of the session.
func (a *active) parties(tb testing.TB) []*secagg.Party {
	tb.Helper()
	out := make([]*secagg.Party, len(a.identities))
	for i := range out {
		var err error
		if out[i], err = secagg.NewParty(secagg.PartyConfig{ID: protocol.ClientID(i), Session: a.plan.Session, Params: a.params,
			Entropy: simulated.New(1, fmt.Sprint("client/", i)), Identity: a.identities[i]}); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

// one contributes 1 at the client's own coordinate.
type one uint32

func (o one) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	return []protocol.Vector{{Index: []uint32{uint32(o)}, Value: []float64{1}}}, nil
}
func (one) Finish([]byte, protocol.Runner) error { return nil }

// driven returns the sum of the roles, each on a driver.
func (a *active) driven(tb testing.TB) [][]int64 {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	result := make(chan protocol.Message, 1)
	hub := &session.Driver{
		Role: aggregator.New(aggregator.Config{Clients: len(a.identities), StageTimeout: time.Hour,
			NewSum: func(s protocol.Setup) (aggregator.Sum, error) { return secagg.NewAggregator(s, a.params) }}),
		Inputs: make(chan protocol.Input, 2*len(a.identities)), Now: time.Now, Runner: protocol.Workers(runtime.GOMAXPROCS(0)),
		Events: quietly(tb),
	}
	drivers, samplers := make([]*session.Driver, len(a.identities)), new(client.Samplers)
	for i, party := range a.parties(tb) {
		id := protocol.ClientID(i)
		drivers[i] = &session.Driver{
			Role: client.New(client.Config{ID: id, Session: a.plan.Session, Trainer: one(i), Noise: samplers,
				Entropy: simulated.New(1, fmt.Sprint("client/", i)), NewSum: func(s protocol.Setup) (client.Sum, error) { return party.Join(s) }}),
			Inputs: make(chan protocol.Input, 8), Now: time.Now, Runner: protocol.Workers(1), Events: quietly(tb),
			Persist: func([]protocol.Record) error { return nil },
			Send: func(list []protocol.Envelope) {
				for _, e := range list {
					hub.Give(ctx, protocol.Received{Envelope: e})
				}
			},
		}
	}
	hub.Send = func(list []protocol.Envelope) {
		for _, e := range list {
			if e.To.Role == protocol.Server {
				result <- e.Message
				continue
			}
			drivers[e.To.Client].Give(ctx, protocol.Received{Envelope: e})
		}
	}
	for _, d := range append(drivers, hub) {
		go func() { _ = d.Run(ctx) }()
	}
	hub.Give(ctx, protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Server},
		To: protocol.Party{Role: protocol.Aggregator}, Message: &protocol.Open{Plan: a.plan}}})
	m, ok := (<-result).(*protocol.Result)
	if !ok {
		tb.Fatal("the round came to no sum")
	}
	return m.Integers
}

// quietly takes events, and fails if one says that something went wrong.
func quietly(tb testing.TB) func([]protocol.Event) {
	return func(list []protocol.Event) {
		for _, e := range list {
			if e.Err != nil {
				tb.Errorf("%s: %s: %v", e.Party, e.Kind, e.Err)
			}
		}
	}
}

// bareSum is the cryptography of a round without roles.
type bareSum struct {
	tb      testing.TB
	sum     *secagg.Aggregator
	clients []*secagg.Client
	run     protocol.Workers
}

// bare returns the sum of the calls that the roles make of the secure sum.
func (a *active) bare(tb testing.TB) [][]int64 {
	tb.Helper()
	sum, err := secagg.NewAggregator(a.plan.Setup(), a.params)
	must(tb, err)
	must(tb, sum.Begin(a.plan))
	parties := a.parties(tb)
	x := &bareSum{tb, sum, make([]*secagg.Client, len(parties)), protocol.Workers(runtime.GOMAXPROCS(0))}
	const serial = protocol.Workers(1)
	x.stage(protocol.StageAdvertise, func(i int) (protocol.StageMessage, error) { return x.advertise(i, parties[i], a.plan) })
	roster := sum.Next(protocol.StageAdvertise, 0).(*protocol.Roster)
	x.stage(protocol.StageShare, func(i int) (protocol.StageMessage, error) { return x.clients[i].Share(roster, serial) })
	x.stage(protocol.StageMaskedInput, func(i int) (protocol.StageMessage, error) {
		input := protocol.Integers{Index: []uint32{uint32(i)}, Value: []int64{1}}
		delivery := sum.Next(protocol.StageShare, protocol.ClientID(i)).(*protocol.Delivery)
		return x.clients[i].MaskedInput(delivery, []protocol.Integers{input}, serial)
	})
	survivors := sum.Next(protocol.StageMaskedInput, 0).(*protocol.Survivors)
	x.stage(protocol.StageConsistency, func(i int) (protocol.StageMessage, error) { return x.clients[i].Confirm(survivors) })
	quorum := sum.Next(protocol.StageConsistency, 0).(*protocol.Quorum)
	x.stage(protocol.StageUnmask, func(i int) (protocol.StageMessage, error) {
		failed := x.clients[i].Check(survivors, quorum, serial)
		if failed != nil {
			return nil, failed
		}
		return x.clients[i].Unmask(survivors, nil, serial)
	})
	out, err := sum.Sum(x.run)
	must(tb, err)
	return out
}

// advertise begins a client's part.
func (x *bareSum) advertise(i int, p *secagg.Party, plan *protocol.Plan) (protocol.StageMessage, error) {
	var err error
	if x.clients[i], err = p.Join(plan.Setup()); err != nil {
		return nil, err
	}
	if err = x.clients[i].Begin(plan); err != nil {
		return nil, err
	}
	return x.clients[i].Advertise()
}

// stage has all clients answer a stage, and closes it.
func (x *bareSum) stage(s protocol.Stage, answer func(i int) (protocol.StageMessage, error)) {
	x.tb.Helper()
	receive, errs := make([]func() error, len(x.clients)), make([]error, len(x.clients))
	x.run.Each(len(receive), func(i int) {
		id := protocol.ClientID(i)
		m, err := answer(i)
		if err != nil {
			errs[i] = err
		} else if verify := x.sum.Verify(id, m); verify != nil {
			receive[i] = verify(protocol.Workers(1))
		} else {
			receive[i] = func() error { return x.sum.Receive(id, m) }
		}
	})
	for i, take := range receive {
		must(x.tb, errs[i])
		must(x.tb, take())
	}
	must(x.tb, x.sum.Close(s))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Driven or bare, the roles have the same sum: BenchmarkActive compares two ways to one result.
func TestActiveBareAndDriven(t *testing.T) {
	a := newActive(t, 12)
	if driven, bare := fmt.Sprint(a.driven(t)), fmt.Sprint(a.bare(t)); driven != bare {
		t.Errorf("driven they come to %s, bare to %s", driven, bare)
	}
}
