package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// Clocks are minutes apart. Deadlines are each party's own, so a session continues, also over the
// deadline of a stage that a client is missing from.
func TestClocksApart(t *testing.T) {
	faulty(t)
	x := newTrial(t, "rounds=2")
	x.ahead.Store(int64(7 * time.Minute))
	who := admission.ClientPlace(victim)
	moment{kind: protocol.KindSurvivors, round: 1}.at(x.tap, &who, func(p *passing) { p.raw = nil })
	all := x.clients(false)
	for id, c := range all {
		c.Skew(time.Duration(id-4) * 3 * time.Minute)
	}
	server := x.server(x.join(admission.ServerPlace))
	server.Skew(-11 * time.Minute)
	out := x.run(server, all, true)
	if out.Attempts.Opened != 2 || out.Attempts.Released != 2 {
		t.Errorf("attempts %+v, want 2 of 2", out.Attempts)
	}
	if !x.reported(protocol.ClientLost, protocol.StageUnmask, 1) {
		t.Errorf("the client that did not answer was not given up: %v", x.events)
	}
}

// Whether an invitation has expired goes by the aggregator's clock alone, give or take
// the 5 minutes that admission allows; who is in stays in, whatever the time.
func TestExpiryAndClocks(t *testing.T) {
	for _, c := range []struct {
		name      string
		skew, end time.Duration // of the aggregator's clock, and of the invitation, from now on
		want      bool
	}{
		{"good", 0, time.Hour, true},
		{"just over", 0, -4 * time.Minute, true},
		{"over", 0, -6 * time.Minute, false},
		{"the aggregator is ahead, a little", 4 * time.Minute, 0, true},
		{"the aggregator is ahead", 6 * time.Minute, 0, false},
		{"the aggregator is ahead, of a longer one", 6 * time.Minute, 2 * time.Minute, true},
		{"the aggregator is behind", -10 * time.Minute, -14 * time.Minute, true},
		{"the aggregator is behind, and it is over there too", -10 * time.Minute, -16 * time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
			f.ahead.Store(int64(c.skew))
			place := admission.ClientPlace(3)
			i := f.invite(place, time.Now().Add(c.end))
			f.admit(i)
			_, err := node.Enrol(t.Context(), i, f.identity(place), zerolog.Nop(), f.network.option()...)
			if c.want && err != nil || !c.want && (!errors.Is(err, session.ErrRefused) || !strings.Contains(err.Error(), "expired")) {
				t.Fatalf("enrolling: %v, want it taken: %v", err, c.want)
			}
			if !c.want {
				return
			}
			f.reopen()
			f.ahead.Store(int64(365 * 24 * time.Hour))
			f.admit(i)
			if _, err = node.Enrol(t.Context(), i, f.identity(place), zerolog.Nop(), f.network.option()...); err != nil {
				t.Errorf("who is in is not let in any more a year later: %v", err)
			}
		})
	}
}
