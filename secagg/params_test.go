package secagg_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Two quorums share an honest signer: each has more than (n+c)/2 of n, so they
// share more than c. The numbers are worked out by hand.
func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		cohort  protocol.Cohort
		n, want int
	}{
		{protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}, 10, 8},  // 8 required, ⌊11/2⌋+1 = 6
		{protocol.Cohort{Clients: 10, Tolerance: 0.6, Colluders: 0.1}, 10, 6},   // 4 required, ⌊11/2⌋+1 = 6
		{protocol.Cohort{Clients: 10, Tolerance: 0.6, Colluders: 0.1}, 7, 5},    // ⌊8/2⌋+1
		{protocol.Cohort{Clients: 100, Tolerance: 0.6, Colluders: 0.3}, 99, 65}, // ⌊129/2⌋+1
	} {
		got := secagg.Quorum(c.cohort, c.n)
		if got != c.want {
			t.Errorf("%+v, %d on the roster: a quorum of %d, want %d", c.cohort, c.n, got, c.want)
		}
		if got < c.cohort.Required() || 2*got-c.n <= c.cohort.Colluding() {
			t.Errorf("%+v, %d on the roster: two quorums of %d need not share an honest signer", c.cohort, c.n, got)
		}
	}
}

// Both sides refuse parameters that make no real sum possible, each for its own reason.
func TestParamsRefuse(t *testing.T) {
	private, list := identities(t, 10)
	good := plan(10, releases()...)
	good.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}
	large := plan(501, releases()...)
	large.Cohort = protocol.Cohort{Clients: 501, Tolerance: 0.1, Colluders: 0.05}
	replaced := replacing(good.Cohort)
	hopeless := *good
	hopeless.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.3, Colluders: 0.6}
	unsound := *good
	unsound.Round = 0
	_, many := identities(t, 501)
	var refused *secagg.RefusedError
	for name, c := range map[string]struct {
		params secagg.Params
		plan   *protocol.Plan
		is     func(error) bool
	}{
		"replaced, active":     {secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: list}, replaced, func(err error) bool { return errors.Is(err, secagg.ErrReplace) }},
		"no graph":             {secagg.Params{Rounds: 1}, &hopeless, func(err error) bool { return errors.As(err, &refused) }},
		"no rounds":            {secagg.Params{}, good, func(err error) bool { return err != nil }},
		"an unsound plan":      {secagg.Params{Rounds: 1}, &unsound, func(err error) bool { return err != nil }},
		"no enrolment list":    {secagg.Params{Rounds: 1, Mode: secagg.Active}, good, func(err error) bool { return err != nil }},
		"a short list":         {secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: list[:9]}, good, func(err error) bool { return err != nil }},
		"a broken key":         {secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: append(slices.Clone(list[:9]), nil)}, good, func(err error) bool { return err != nil }},
		"large, and no beacon": {secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: many}, large, func(err error) bool { return errors.Is(err, secagg.ErrBeacon) }},
	} {
		if err := c.params.Validate(c.plan); !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
		a, err := secagg.NewAggregator(c.plan.Setup(), c.params)
		if err == nil {
			err = a.Begin(c.plan)
		}
		if !c.is(err) {
			t.Errorf("%s: the aggregator: %v", name, err)
		}
		if _, err := c.params.Cost(c.plan); !c.is(err) {
			t.Errorf("%s: the cost: %v", name, err)
		}
	}
	if err := (secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: list}).Validate(good); err != nil {
		t.Error(err)
	}
	if err := (secagg.Params{Rounds: 1}).Validate(replaced); err != nil {
		t.Error(err)
	}
	// A client refuses at the setup already.
	party, err := secagg.NewParty(secagg.PartyConfig{Entropy: simulated.New(1, "party"), Identity: private[0],
		Params: secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: list}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = party.Join(replaced.Setup()); !errors.Is(err, secagg.ErrReplace) {
		t.Errorf("a setup for replaced noise in active mode: %v", err)
	}
}

// A client without its own key, or that is not who the list says, is no party.
func TestPartyRefuses(t *testing.T) {
	private, list := identities(t, 2)
	params := secagg.Params{Rounds: 1, Mode: secagg.Active, Identities: list}
	for name, cfg := range map[string]secagg.PartyConfig{
		"no key":        {Params: params},
		"another's key": {Params: params, Identity: private[1]},
		"not enrolled":  {Params: params, Identity: private[1], ID: 2},
		"half a key":    {Params: params, Identity: private[0][:ed25519.SeedSize]},
	} {
		cfg.Entropy = simulated.New(1, "party")
		if _, err := secagg.NewParty(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := secagg.NewParty(secagg.PartyConfig{Params: secagg.Params{Rounds: 1}}); err == nil {
		t.Error("a party without entropy is made")
	}
}

// Above 500 clients the active mode's graph is sparse and its ring drawn from the
// beacon: with another beacon a client has other neighbours. Dealt shares
// are checked as elsewhere.
func TestBeacon(t *testing.T) {
	effort.NotShort(t, "a federation of 501")
	p := plan(501, exact("g", 1, 16))
	p.Cohort = protocol.Cohort{Clients: 501, Tolerance: 0.05, Colluders: 0.02}
	var peers [2][]protocol.ClientID
	for i, beacon := range []string{"heads", "tails"} {
		f := newFederation(t, p, secagg.Params{Mode: secagg.Active, Beacon: []byte(beacon)})
		f.through(protocol.StageAdvertise)
		m, err := f.answer(protocol.StageShare, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err = f.aggregator.Fork().Receive(0, m.(protocol.StageMessage)); err != nil {
			t.Errorf("what is dealt on a ring: %v", err)
		}
		f.clients[0].Commit(m.(*protocol.Shares), 7, true, plusBase)
		culprit(t, f.aggregator.Receive(0, m.(protocol.StageMessage)), protocol.ClientParty(0), shamir.ErrDealt)
		shares := m.(*protocol.Shares).Shares
		if k := f.choice().Degree; len(shares) != k || k >= 500 {
			t.Fatalf("%d neighbours of a degree of %d, want fewer than 500", len(shares), k)
		}
		for _, s := range shares {
			peers[i] = append(peers[i], s.Peer)
		}
	}
	if slices.Equal(peers[0], peers[1]) {
		t.Error("the beacon does not move the ring")
	}
}
