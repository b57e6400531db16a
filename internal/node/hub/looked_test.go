package hub

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// nowhere is a host without a network.
type nowhere struct{ host.Host }

func (nowhere) ConnManager() connmgr.ConnManager { return connmgr.NullConnMgr{} }

// door is an aggregator whose peers come over pipes.
type door struct {
	t                *testing.T
	a                *Aggregator
	operator, server admission.PrivateKey
	terms            session.Terms
	serial           uint32 // of invitations
}

func newDoor(t *testing.T, clients int) *door {
	t.Helper()
	key := func(name string) admission.PrivateKey {
		k, err := admission.GenerateKey(simulated.New(1, name))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	f, err := admission.NewFederation(key("operator"), "Test", clients, time.Unix(0, 0), simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := admission.OpenRegistry(f, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.OpenSessionLog("", f.Hash(), key("aggregator"))
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, serial: 1, operator: key("operator"), server: key("server"), terms: nodetest.Terms(),
		a: &Aggregator{cfg: AggregatorConfig{Identity: key("aggregator"), Federation: f, Registry: r, Log: zerolog.Nop(), Observer: session.Observing(nil), State: t.TempDir()},
			log: log, host: nowhere{}, conns: make(map[admission.Place]*conn), now: time.Now, ctx: t.Context()}}
	d.terms.Cohort.Clients, d.terms.StageTimeout = clients, 10*time.Second
	return d
}

// comes has a peer register, as the aggregator's own handler does behind the transport.
func (d *door) comes(p admission.Place, serve func(*conn) error) (nodetest.Pipe, *conn) {
	ours, theirs := net.Pipe()
	id, err := peer.IDOf(d.server.Public().Ed25519())
	if err != nil {
		d.t.Fatal(err)
	}
	c := &conn{place: p, peer: id, key: d.server.Public(), link: newLink(nodetest.Pipe{End: ours}, peer.QueueSize), session: make(chan *hubSession, 1),
		presence: make(chan struct{}, 1)}
	d.a.enter(c)
	d.a.busy.Go(func() {
		defer d.a.leave(c)
		_ = serve(c)
	})
	return nodetest.Pipe{End: theirs}, c
}

// client comes, and says that it has looked a session over after a while; before is
// called first.
func (d *door) client(id protocol.ClientID, takes time.Duration, before func(nodetest.Pipe)) {
	s, _ := d.comes(admission.ClientPlace(id), d.a.serveClient)
	d.a.busy.Go(func() {
		if m, err := session.Hear(s, 1<<20); err != nil || m.Session == nil {
			d.t.Errorf("client %d hears %+v, %v", id, m, err)
			return
		}
		time.Sleep(takes)
		before(s)
		_ = session.Say(s, &session.Message{Ready: &session.Ready{}}) // fails for who has left
		_, _ = io.Copy(io.Discard, s)
	})
}

// ended has the aggregator be started again after the end of the session.
func (d *door) ended() {
	d.t.Helper()
	e := d.enrolled(admission.ServerPlace, d.server)
	if err := d.a.cfg.Registry.Redeem(time.Unix(0, 0), e); err != nil {
		d.t.Fatal(err)
	}
	p := d.description()
	of, err := p.Verify(d.a.cfg.Federation, d.server.Public())
	if err != nil {
		d.t.Fatal(err)
	}
	leaf, err := of.Leaf(p, d.server.Public())
	if err != nil {
		d.t.Fatal(err)
	}
	s := &hubSession{signed: p, server: d.server.Public(), terms: d.terms, leaf: leaf}
	d.a.session = s
	f := &protocol.Final{Model: []byte("model")}
	if err := errors.Join(protocol.SignFinal(d.server.Ed25519(), d.terms.Session, f), d.a.keepFinal(s, f)); err != nil {
		d.t.Fatal(err)
	}
	d.a.session = nil
	d.a.loadEnd()
	if d.a.session == nil {
		d.t.Fatal("the end of the session was not found")
	}
}

func (d *door) enrolled(p admission.Place, k admission.PrivateKey) *admission.Enrolment {
	d.t.Helper()
	i, err := admission.Invite(d.operator, d.a.cfg.Federation, admission.Offer{Place: p, Serial: d.serial, NotAfter: time.Unix(1, 0),
		Contact: admission.Contact{Peer: "somebody", Addresses: []string{"somewhere"}}}, simulated.New(1, "invitation"))
	if err != nil {
		d.t.Fatal(err)
	}
	m, err := i.Accept(k)
	if err != nil {
		d.t.Fatal(err)
	}
	return &m.Enrolment
}

func (d *door) description() *session.Signed {
	d.t.Helper()
	p, err := session.Sign(&session.Descriptor{Federation: d.a.cfg.Federation.Hash(), List: d.a.cfg.Registry.List().Hash(), Terms: d.terms}, d.server)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// publishes has the server come and describe the session, and says how long it waits
// for the aggregator's word that the session begins.
func (d *door) publishes() (took time.Duration, end func()) {
	d.t.Helper()
	s, c := d.comes(admission.ServerPlace, d.a.serveServer)
	description, began := d.description(), time.Now()
	go func() { _ = session.Say(s, &session.Message{Publish: description}) }()
	for {
		m, err := session.Hear(s, 1<<20)
		if err != nil {
			d.t.Fatalf("the server hears %+v, %v", m, err)
		}
		if m.Ready != nil {
			return time.Since(began), c.close
		}
	}
}

// The first round does not begin before the present clients have looked the session over, so that
// no stage loses time to that. It does not wait for a client that has gone. It waits for no client
// longer than a stage takes, and not at all if the session continues an earlier one. The test has a
// clock of its own.
func TestSessionBeginsWhenClientsHaveLookedItOver(t *testing.T) {
	stay := func(nodetest.Pipe) {}
	for _, c := range []struct {
		name string
		come func(*door)
		want time.Duration
	}{
		{"nobody is there", func(*door) {}, 0},
		{"it had ended", (*door).ended, 0},
		{"all say so", func(d *door) { d.client(0, time.Second, stay); d.client(1, 4*time.Second, stay) }, 4 * time.Second},
		{"one leaves", func(d *door) {
			d.client(0, time.Second, stay)
			d.client(1, 3*time.Second, func(s nodetest.Pipe) { _ = s.Reset() })
		}, 3 * time.Second},
		{"one takes longer than a stage", func(d *door) { d.client(0, time.Second, stay); d.client(1, time.Minute, stay) }, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoor(t, 4)
				c.come(d)
				took, end := d.publishes()
				if took != c.want {
					t.Errorf("the session begins after %v, want %v", took, c.want)
				}
				end()
				if took, end = d.publishes(); took != 0 { // its connection had broken
					t.Errorf("it goes on after %v, want at once", took)
				}
				end()
				d.a.mu.Lock()
				d.a.session.stop()
				for _, c := range d.a.conns {
					c.close()
				}
				d.a.mu.Unlock()
				d.a.busy.Wait()
			})
		})
	}
}

// A client that comes after the end of a session is not counted before it has heard of that end and waits for the next
// session. A session that is published in between would have it register again, and miss rounds.
func TestComerIsCountedWhenItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, 4)
		d.ended()
		begin := make(chan struct{})
		s, c := d.comes(admission.ClientPlace(0), func(c *conn) error {
			<-begin
			return d.a.serveClient(c)
		})
		if n := d.a.connected(); n != 0 {
			t.Errorf("%d clients are counted as one comes", n)
		}
		close(begin)
		if m, err := session.Hear(s, 1<<20); err != nil || m.Session == nil {
			t.Fatalf("the client hears %+v, %v", m, err)
		}
		if err := session.Say(s, &session.Message{Wait: &session.Wait{}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := d.a.connected(); n != 1 {
			t.Errorf("%d clients are counted as one waits", n)
		}
		c.close()
		d.a.mu.Lock()
		d.a.session.stop()
		d.a.mu.Unlock()
		d.a.busy.Wait()
	})
}
