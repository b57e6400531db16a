package hub

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// heard is a role that notes who comes and goes.
type heard struct{ list []string }

func (h *heard) Step(_ time.Time, in protocol.Input) protocol.Effects {
	switch in := in.(type) {
	case protocol.Connected:
		h.list = append(h.list, fmt.Sprint("connected ", in.Client))
	case protocol.Disconnected:
		h.list = append(h.list, fmt.Sprint("disconnected ", in.Client))
	case protocol.RelayLost:
		h.list = append(h.list, fmt.Sprint("lost relay ", in.Number))
	}
	return protocol.Effects{}
}

// session has the aggregator be in a session that a role leads.
func (d *door) session(role session.Role) *hubSession {
	d.t.Helper()
	first, failed := admission.GenerateKey(simulated.New(1, "client 1"))
	second, err := admission.GenerateKey(simulated.New(1, "client 2"))
	for p, key := range map[admission.Place]admission.PrivateKey{admission.ServerPlace: d.server, admission.ClientPlace(1): first, admission.ClientPlace(2): second} {
		err = errors.Join(err, failed, d.a.cfg.Registry.Redeem(time.Unix(0, 0), d.enrolled(p, key)))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	p := d.description()
	of, err := p.Verify(d.a.cfg.Federation, d.server.Public())
	if err != nil {
		d.t.Fatal(err)
	}
	s := d.a.newSession(p, of, d.server.Public(), new(exclusions))
	d.a.drive(s, d.a.cfg.Registry.List(), role)
	d.a.begin(s)
	return s
}

// relay registers, and says which clients it has.
func (d *door) relay(clients ...protocol.ClientID) nodetest.Pipe {
	d.t.Helper()
	s, _ := d.comes(admission.Place{Role: protocol.Relay}, d.a.serveRelay)
	for shown := false; !shown; {
		m, err := session.Hear(s, 1<<20)
		if err != nil {
			d.t.Fatal(err)
		}
		shown = m.Session != nil
	}
	if err := session.Say(s, &session.Message{Ready: &session.Ready{Presences: len(clients)}}); err != nil {
		d.t.Fatal(err)
	}
	for _, id := range clients {
		b, err := wire.AppendFrames(nil, &protocol.RelayStatus{Client: id, Connected: true})
		if err == nil {
			_, err = s.Write(b)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	return s
}

// When a relay's stream ends, the role hears of the vectors that are lost with the relay, then that the relay's clients are gone. It hears
// nothing of a client that is elsewhere by then. No stage waits for a vector or a client until its end.
func TestRoleHearsOfALostRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, 4)
		d.a.heads, d.a.relays.learned = store.NewHeads(), make(chan struct{})
		role := new(heard)
		s := d.session(role)
		relay := d.relay(1, 2)
		synctest.Wait()
		d.client(2, 0, func(nodetest.Pipe) {})
		synctest.Wait()
		before := len(role.list)
		_ = relay.Reset()
		synctest.Wait()
		if got, want := role.list[before:], []string{"lost relay 1", "disconnected 1"}; !slices.Equal(got, want) {
			t.Errorf("the role hears %q, want %q; before, it heard %q", got, want, role.list[:before])
		}
		d.a.mu.Lock()
		s.stop()
		for _, c := range d.a.conns {
			c.close()
		}
		d.a.mu.Unlock()
		d.a.busy.Wait()
	})
}
