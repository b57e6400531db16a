package node_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/opened"
	_ "github.com/fedsim/fedsim/lab"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

// federation is one over loopback or a network in memory, in one process: each party has a host, keys and
// files of its own, and only what they say to one another crosses.
type federation struct {
	declined    func(protocol.ClientID, error) // is told why a client declines a session; nil: not called
	consented   func(protocol.ClientID) error  // keeps what a client consented to; nil: nothing is kept
	t           testing.TB
	ctx         context.Context // ends with the test, or when something has stopped
	dir         string
	inMemory    int64       // hub.AggregatorConfig.SharesInMemory
	network     *memory     // nil: loopback
	line        *sharedLine // by which all clients dial; nil: as fast as it goes
	operator    admission.PrivateKey
	federation  *admission.Federation
	identities  map[admission.Place]admission.PrivateKey
	registry    *admission.Registry // the aggregator's
	aggregator  *hub.Aggregator
	ahead       atomic.Int64         // how far the aggregator's clock is ahead, a time.Duration
	kill        context.CancelFunc   // ends the aggregator without a word
	watch       func(protocol.Event) // hears the aggregator's events; nil: not called
	sessions    int                  // how often the aggregator has had a session begin, or found an ended session
	hear        func(protocol.Event) // the server's
	knows       func(session string) (bool, error)
	registryLog store.Log
	also        map[protocol.Role]session.Observer                     // hear what the aggregator and the server report, too
	strategy    func(server.Durable) server.Durable                    // in place of the server's own; nil: none is
	trainer     func(protocol.ClientID, client.Trainer) client.Trainer // in place of a client's own; nil: none is
	trained     func(protocol.ClientID, client.Trainer)                // hears of every party that is made; nil: not called
	written     map[protocol.ClientID]func(n int)                      // hear how many bytes clients write; nil: not called
	own         map[protocol.ClientID]string                           // files of clients that do not look among all ratings
	gather      time.Duration                                          // for which the server waits for all clients
	memberships map[admission.Place]*admission.Membership
	ledgers     map[protocol.ClientID]*store.Ledger
	limit       *dp.Budget                                        // of all sessions of a client; nil: of one, what it states
	ceilings    map[protocol.ClientID][]node.Ceiling              // of owners; none: no period has one
	mayDecline  *int                                              // of the server's clients; nil: as many as rounds can do without
	kept        func(protocol.ClientID, protocol.SessionID)       // hears what clients keep of a session; nil: not called
	refuses     func(protocol.ClientID, protocol.SessionID) error // why an owner excludes a session; nil: none does
	contact     admission.Contact
	hub         libp2ppeer.AddrInfo    // where the aggregator itself is
	relayKeys   []admission.PrivateKey // keys of the relays
	relays      []admission.Contact    // where clients dial; none: the aggregator
	shares      *sharing               // what clients have in common for the sake of memory; nil: nothing
	opened      openedLast
	simulated   *experiment.Experiment                   // with all ratings
	ran         *experiment.Federation                   // of the latest simulation
	items       map[protocol.ClientID][]model.Embeddings // that organisations kept of the last session
	public      *agreement.Public
	log         zerolog.Logger
	now         func() time.Time // the operator's clock
}

const seed = 5

// newFederation founds a federation for an experiment's settings over a network in memory, and opens
// the aggregator's door. Within testing/synctest its time is virtual, and jumps to the next deadline
// once all goroutines wait.
func newFederation(t testing.TB, settings string) *federation {
	t.Helper()
	return newFederationOver(t, newMemory(), settings, testLog(t))
}

// newLoopbackFederation is newFederation over sockets.
func newLoopbackFederation(t testing.TB, settings string) *federation {
	t.Helper()
	return newFederationOver(t, nil, settings, testLog(t))
}

func testLog(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel)
}

// newFederationOver is newFederation over a network, and with a log for every role in it.
func newFederationOver(t testing.TB, network *memory, settings string, log zerolog.Logger) *federation {
	t.Helper()
	return foundFederation(t, network, settings, log, time.Now)
}

// looked lists the tests with a federation that short tests have.
var looked = []string{"TestAlign", "TestTurnsAreChargedOverTheNetwork", "TestServerResumes", "TestWhoMaySpeakWhat", "TestRegistrationIsTheAggregatorsWord"}

// foundFederation is newFederationOver by a clock of the operator's.
func foundFederation(t testing.TB, network *memory, settings string, log zerolog.Logger, now func() time.Time) *federation {
	t.Helper()
	if !slices.Contains(looked, t.Name()) {
		effort.NotShort(t, "a federation over a network takes a second")
	}
	f := &federation{t: t, network: network, dir: t.TempDir(), gather: time.Minute, identities: make(map[admission.Place]admission.PrivateKey), ledgers: make(map[protocol.ClientID]*store.Ledger), memberships: make(map[admission.Place]*admission.Membership),
		log: log.With().Timestamp().Logger(), now: now}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	f.ctx = ctx
	f.simulated, f.public = f.experiment(settings, firstSession)
	f.operator = f.key("operator")
	var err error
	f.federation, err = admission.NewFederation(f.operator, "Test", f.simulated.Cohort.All(), now(), simulated.New(seed, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	f.registryLog = store.NewMemoryLog()
	if f.registry, err = admission.OpenRegistry(f.federation, f.registryLog); err != nil {
		t.Fatal(err)
	}
	f.startAggregator([]string{"/ip4/127.0.0.1/tcp/0"})
	f.join(admission.AggregatorPlace)
	return f
}

// observer is a node.Observer of events; nil hears nothing.
type observer func(protocol.Event)

func (o observer) Session(protocol.SessionID) {}
func (o observer) Registered(int)             {}
func (o observer) Waits(string)               {}
func (o observer) ClockAhead(time.Duration)   {}
func (o observer) Event(e protocol.Event) {
	if o != nil {
		o(e)
	}
}

// watcher is the aggregator's observer.
type watcher struct{ f *federation }

func (w watcher) Session(id protocol.SessionID) {
	w.f.sessions++
	if o := w.f.also[protocol.Aggregator]; o != nil {
		o.Session(id)
	}
}

func (w watcher) Registered(n int) {
	if o := w.f.also[protocol.Aggregator]; o != nil {
		o.Registered(n)
	}
}

func (w watcher) Waits(string) {}

func (w watcher) ClockAhead(time.Duration) {}

func (w watcher) Event(e protocol.Event) {
	if w.f.watch != nil {
		w.f.watch(e)
	}
	if o := w.f.also[protocol.Aggregator]; o != nil {
		o.Event(e)
	}
}

func (f *federation) experiment(settings string, session protocol.SessionID) (*experiment.Experiment, *agreement.Public) {
	f.t.Helper()
	c, err := config.Resolve(opened.Settings(settings))
	if err != nil {
		f.t.Fatal(err)
	}
	donors := algorithm.PublicUsers.Value(c) // who sign gifts in a deployment
	c.Reset(algorithm.PublicUsers.Key)
	deployed, err := algorithm.Deployed(c)
	if err != nil {
		f.t.Fatal(err)
	}
	deployed.Take(algorithm.Data.Key, c)
	algorithm.PublicUsers.Set(&deployed, donors)
	e, err := experiment.Open(f.t.Context(), deployed, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	facts, err := agreement.FactsOf(e.Config, e.Data)
	if err != nil {
		f.t.Fatal(err)
	}
	if r := e.Data.Raters; r != nil {
		facts.Donors = f.gifts(e.Data)
		e.Config.Reset(algorithm.PublicUsers.Key)
	}
	facts.Start = agreement.StartOf(e.Start)
	public, err := agreement.Publish(e.Config, facts, session)
	if err != nil {
		f.t.Fatal(err)
	}
	return e, public
}

// gifts returns a signed gift for each donor of a set.
func (f *federation) gifts(set *dataset.Set) []agreement.Gift {
	list := make([]agreement.Gift, set.Raters.Users)
	for k, u := range set.Raters.User {
		list[u].Items, list[u].Values = append(list[u].Items, set.ItemIDs[set.Raters.Item[k]]), append(list[u].Values, set.Raters.Value[k])
	}
	for u := range list {
		list[u].Sign(f.key("donor " + set.Raters.IDs[u]).Ed25519())
	}
	return list
}

// likeSimulated has the server state the session that the simulator has, since turns follow from that.
func (f *federation) likeSimulated(settings string) {
	f.t.Helper()
	_, f.public = f.experiment(settings, f.simulated.Session())
}

func (f *federation) key(name string) admission.PrivateKey {
	f.t.Helper()
	k, err := admission.GenerateKey(simulated.New(seed, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

func (f *federation) openRegistry() *admission.Registry {
	f.t.Helper()
	r, err := admission.OpenRegistry(f.federation, store.NewMemoryLog())
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *federation) identity(p admission.Place) admission.PrivateKey {
	if _, ok := f.identities[p]; !ok {
		f.identities[p] = f.key(p.String())
	}
	return f.identities[p]
}

// invite makes the invitation for a place.
func (f *federation) invite(p admission.Place, until time.Time) *admission.Invitation {
	f.t.Helper()
	i, err := admission.Invite(f.operator, f.federation, admission.Offer{Place: p, Serial: 1, NotAfter: until, Contact: f.contact},
		simulated.New(seed, "ticket "+p.String()))
	if err != nil {
		f.t.Fatal(err)
	}
	return i
}

// join enrols the holder of a place with the aggregator.
func (f *federation) join(p admission.Place) *admission.Membership {
	f.t.Helper()
	m, err := f.invite(p, f.now().Add(time.Hour)).Accept(f.identity(p))
	if err != nil {
		f.t.Fatal(err)
	}
	if err = f.registry.Redeem(f.now(), &m.Enrolment); err != nil {
		f.t.Fatal(err)
	}
	f.memberships[p] = m
	return m
}

func (f *federation) startAggregator(listen []string) {
	f.t.Helper()
	ctx, kill := context.WithCancel(f.t.Context())
	config := hub.AggregatorConfig{Identity: f.identity(admission.AggregatorPlace),
		Federation: f.federation, Registry: f.registry, Listen: listen, Log: f.log.With().Str("role", "aggregator").Logger(),
		State: f.dir, SharesInMemory: f.inMemory, Observer: watcher{f}, Transports: f.network.option(), Now: func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }}
	for _, k := range f.relayKeys {
		config.Relays = append(config.Relays, k.Public())
	}
	a, err := hub.NewAggregator(ctx, config)
	if err != nil {
		f.t.Fatal(err)
	}
	f.aggregator, f.kill = a, kill
	f.t.Cleanup(func() { _ = a.Close() })
	id, err := peer.IDOf(f.identity(admission.AggregatorPlace).Public().Ed25519())
	if err != nil {
		f.t.Fatal(err)
	}
	if f.hub.ID == "" { // or parties know already where they dial
		f.contact = admission.Contact{Addresses: f.aggregator.Addresses(), Peer: id.String()}
	}
	info, err := libp2ppeer.AddrInfoFromString(f.aggregator.Addresses()[0])
	if err != nil {
		f.t.Fatal(err)
	}
	f.hub = *info
}

// source is the entropy that the simulator gives a client.
func (f *federation) source(id protocol.ClientID) entropy.Source {
	return simulated.New(seed, fmt.Sprintf("%x/client/%d", f.simulated.Session(), id))
}

// client makes the client of a user.
func (f *federation) client(id protocol.ClientID, m *admission.Membership) *node.Client {
	f.t.Helper()
	ledger := f.ledgers[id] // the client's ledger before a restart
	if ledger == nil {
		var err error
		if ledger, err = store.NewLedger(store.NewMemoryLog()); err != nil {
			f.t.Fatal(err)
		}
		f.ledgers[id] = ledger
	}
	receipts, err := store.OpenReceipts(filepath.Join(f.dir, fmt.Sprintf("finished-%d-%x", id, m.Enrolment.Identity[:4])))
	if err != nil {
		f.t.Fatal(err)
	}
	registry := f.shares.registry(f)
	config := node.ClientConfig{Member: node.Member{Identity: f.identity(admission.ClientPlace(id)), Membership: m, Registry: registry,
		Receipts: receipts, State: filepath.Join(f.dir, fmt.Sprint(id)), Log: f.log.With().Uint32("client", uint32(id)).Logger(), Workers: 1, Observer: f.shares.observer()},
		Ledger: ledger, Entropy: f.source(id), Relays: f.relays, Open: func(text []byte) (*node.Job, error) { return f.job(id, text) }}
	if f.declined != nil {
		config.Declined = func(why error) { f.declined(id, why) }
	}
	config.TellAffordable = f.ceilings[id] != nil
	config.Over(f.network.heard(f.written[id], f.line)...)
	c, err := node.NewClient(config)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// job makes the work of a user's client in a session.
func (f *federation) job(id protocol.ClientID, text []byte) (*node.Job, error) {
	e, err := f.opened.experiment(text)
	if err != nil {
		return nil, err
	}
	job := &node.Job{Agreed: planned(e), Train: func(ctx context.Context) (client.Trainer, error) {
		own, failed := f.party(ctx, id, e)
		if failed == nil && f.trained != nil {
			f.trained(id, own)
		}
		if failed == nil && f.trainer != nil {
			return f.trainer(id, own), nil
		}
		return own, failed
	}, Worst: func(context.Context) (client.Trainer, error) {
		largest, failed := e.LargestParty(planned(e))
		if failed == nil && f.trainer != nil {
			return f.trainer(id, largest), nil
		}
		return largest, failed
	}, Keep: func(client.Trainer) error {
		if f.kept != nil {
			f.kept(id, e.Session())
		}
		return nil
	}}
	if e.Private() {
		job.Budget, job.Limit, job.Ceilings = &e.Privacy.Budget, f.limit, f.ceilings[id]
		job.Protects = dp.Protection{Unit: algorithm.UnitOf(e.Config), Relation: e.About().Relation}
	}
	job.Terms = terms(e)
	if f.consented != nil {
		job.Consented = func() error { return f.consented(id) }
	}
	if f.refuses != nil {
		job.Refusal = f.refuses(id, e.Session())
	}
	return job, nil
}

// party finds what is a client's among all ratings.
func (f *federation) party(ctx context.Context, id protocol.ClientID, e *experiment.Experiment) (client.Trainer, error) {
	if file, ok := f.own[id]; ok {
		set, err := experiment.OpenOwn(ctx, e, file, func(*dataset.FileError) {})
		if err != nil {
			return nil, err
		}
		return e.Party(algorithm.PartyData{User: f.simulated.Data.UserIDs[id]}, set, planned(e))
	}
	set, err := read.Open(ctx, algorithm.Data.Of(f.simulated.Config), read.Options{Min: &f.simulated.Data.Min, Max: &f.simulated.Data.Max})
	if err != nil {
		return nil, err
	}
	if f.simulated.Cohort.All() == f.simulated.Data.Users {
		return e.Party(algorithm.PartyData{User: f.simulated.Data.UserIDs[id]}, set, planned(e))
	}
	which := algorithm.PartyData{Part: int(id) + 1, Kept: f.items[id]}
	if e.About().Clients == algorithm.UserParties {
		which.IDs = f.simulated.Data.UserIDs
	}
	return e.Party(which, set, planned(e))
}

// recorded makes the trainer of a client for an oracle.
func (f *federation) recorded(id protocol.ClientID, e *experiment.Experiment) (client.Trainer, error) {
	return f.party(context.Background(), id, e)
}

// planned checks that a plan is one of an experiment's.
func planned(e *experiment.Experiment) func(*protocol.Plan) error {
	return func(p *protocol.Plan) error { return agreement.CheckPlan(e, p) }
}

// terms returns the terms of an experiment.
func terms(e *experiment.Experiment) *session.Terms {
	return &session.Terms{Session: e.Session(), Cohort: e.Cohort, Mode: e.Mode(), VerifyInputs: e.VerifiesInputs(), SitOut: algorithm.SitOut.Value(e.Config),
		StageTimeout: time.Duration(algorithm.StageTimeout.Value(e.Config) * float64(time.Second)), Tail: time.Duration(algorithm.Tail.Value(e.Config) * float64(time.Second)), Gather: time.Duration(algorithm.Gather.Value(e.Config) * float64(time.Second)), Steps: e.Schedule, Claims: agreement.Claims(e)}
}

func (f *federation) server(m *admission.Membership) *node.Server {
	f.t.Helper()
	s, err := node.NewServer(f.serverConfig(m))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *federation) serverConfig(m *admission.Membership) node.ServerConfig {
	f.t.Helper()
	e, err := agreement.OpenFrom(f.public, f.simulated.Start)
	if err != nil {
		f.t.Fatal(err)
	}
	config := node.ServerConfig{Member: node.Member{Identity: f.identity(admission.ServerPlace), Membership: m, Registry: f.openRegistry(),
		State: f.states(), Log: f.log.With().Str("role", "server").Logger(), Workers: 2, Observer: observer(f.hear)}, Gather: f.gather, Terms: terms(e)}
	config.MayDecline, config.Knows = f.mayDecline, f.knows
	config.Over(f.network.option()...)
	if o := f.also[protocol.Server]; o != nil {
		config.Observer = o
	}
	if config.Strategy, err = e.Strategy(); err != nil {
		f.t.Fatal(err)
	}
	if f.strategy != nil {
		config.Strategy = f.strategy(config.Strategy)
	}
	if config.Experiment, err = f.public.Encode(); err != nil {
		f.t.Fatal(err)
	}
	if config.Hash, err = f.public.Hash(); err != nil {
		f.t.Fatal(err)
	}
	return config
}

// tapped has every party that joins from now on dial the aggregator through a tap.
func (f *federation) tapped() *tap {
	f.t.Helper()
	x := newTap(f.t, f.identity(admission.AggregatorPlace), f.hub, func(id peer.ID) (party, bool) {
		for place, key := range f.identities {
			if p, err := peer.IDOf(key.Public().Ed25519()); err == nil && p == id {
				return party{place, key}, true
			}
		}
		return party{}, false
	}, f.network.option()...)
	f.contact.Addresses = []string{x.address()}
	return x
}

// run has every party take part to the end, and returns the server's outcome.
func (f *federation) run() *node.Outcome {
	f.t.Helper()
	m := f.memberships[admission.ServerPlace]
	if m == nil {
		m = f.join(admission.ServerPlace)
	}
	server := f.server(m)
	wait := f.start(f.joinAll()...)
	out, err := server.Run(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	wait()
	return out
}

// joinAll enrols all clients that are not in yet, and makes them.
func (f *federation) joinAll() []*node.Client {
	f.t.Helper()
	var clients []*node.Client
	for id := range protocol.ClientID(f.federation.Places()) {
		m := f.memberships[admission.ClientPlace(id)]
		if m == nil {
			m = f.join(admission.ClientPlace(id))
		}
		clients = append(clients, f.client(id, m))
	}
	return clients
}

// start has clients take part, and returns how to wait for their end.
func (f *federation) start(clients ...*node.Client) (wait func()) {
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			if err := c.Run(f.ctx); err != nil {
				f.t.Errorf("a client: %v", err)
			}
		})
	}
	return all.Wait
}

// startStoppable has a client take part that will not reach the end, and returns a function that
// stops it.
func (f *federation) startStoppable(c *node.Client) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
			f.t.Errorf("a client that was stopped: %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

// simulate runs the same experiment in the simulator, with the same randomness.
func (f *federation) simulate(faults sim.Faults) *sim.Outcome {
	f.t.Helper()
	fed, err := f.simulated.Federation()
	if err != nil {
		f.t.Fatal(err)
	}
	f.ran = fed
	out, err := sim.Run(f.t.Context(), sim.Config{
		Session: fed.Session, Strategy: fed.Strategy, Trainers: fed.Trainers, Ledgers: fed.ClientLedgers(),
		Real: true, Mode: f.simulated.Mode(), Rounds: f.simulated.Schedule.Rounds(), SitOut: algorithm.SitOut.Value(f.simulated.Config), Seed: seed, Workers: 1,
		Faults: faults, Network: sim.Network{Up: 1e9, Down: 1e9, StageTimeout: time.Minute},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}
