package client_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// heavy is a sum whose answers are work, and which confirms survivors; the
// message of one kind is refused.
type heavy struct {
	secagg.IdealClient
	p      protocol.Setup
	refuse protocol.Kind
}

var errLie = errors.New("the aggregator lies")

func (h *heavy) Heavy() bool    { return true }
func (h *heavy) Confirms() bool { return true }

func (h *heavy) Begin(*protocol.Plan) error { return nil }

func (h *heavy) Withdraw() {}

func unless[M any](h *heavy, k protocol.Kind, m *M) (*M, error) {
	if h.refuse == k {
		return nil, errLie
	}
	return m, nil
}

func (h *heavy) Advertise() (*protocol.Advertise, error) {
	return &protocol.Advertise{Round: h.p.Round}, nil
}

func (h *heavy) Share(*protocol.Roster, protocol.Runner) (*protocol.Shares, error) {
	return unless(h, protocol.KindRoster, &protocol.Shares{Round: h.p.Round})
}

func (h *heavy) MaskedInput(_ *protocol.Delivery, v []protocol.Integers, _ protocol.Runner) (*protocol.MaskedInput, error) {
	return unless(h, protocol.KindDelivery, &protocol.MaskedInput{Round: h.p.Round, Vectors: v})
}

func (h *heavy) Confirm(*protocol.Survivors) (*protocol.Consistency, error) {
	return &protocol.Consistency{Round: h.p.Round}, nil
}

func (h *heavy) Check(*protocol.Survivors, *protocol.Quorum, protocol.Runner) error {
	_, err := unless[struct{}](h, protocol.KindQuorum, nil)
	return err
}

func (h *heavy) Unmask(_ *protocol.Survivors, v []protocol.Integers, _ protocol.Runner) (*protocol.Unmask, error) {
	return &protocol.Unmask{Round: h.p.Round, Removals: v}, nil
}

func (h *heavy) Replace(*protocol.Answered) (*protocol.Replacement, error) {
	return unless(h, protocol.KindAnswered, &protocol.Replacement{Round: h.p.Round})
}

func heavyBench(t *testing.T, refuse protocol.Kind) *bench {
	return benchOf(t, client.Config{NewSum: func(s protocol.Setup) (client.Sum, error) { return &heavy{p: s, refuse: refuse}, nil }})
}

// Answers come as work, and while one is computed nothing else is answered: a
// second delivery would be a second masked input.
func TestHeavySum(t *testing.T) {
	b := heavyBench(t, protocol.Kinds)
	b.script(`
		announce 1    -> work
		run           -> advertise 1
		roster 1 5    -> work
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored
		run           -> shares 1
		delivery 1 5  -> work
		delivery 1 5  -> message-ignored
		survivors 1 5 -> message-ignored
		quorum 1      -> message-ignored
		run           -> charged 1, masked-input 1
		quorum 1      -> message-ignored
		survivors 1 4 -> work
		survivors 1 5 -> message-ignored
		quorum 1      -> message-ignored
		run           -> consistency 1
		survivors 1 5 -> message-ignored
		quorum 2      -> message-ignored
		quorum 1      -> work
		quorum 1      -> message-ignored
		run           -> unmask 1
		quorum 1      -> message-ignored`)
	if len(b.ledger.charges) != 1 {
		t.Errorf("%d charges, want 1", len(b.ledger.charges))
	}
}

// A message that the sum refuses ends the client's part. A masked input that was never made is not
// charged, so that lies do not drain a budget.
func TestHeavySumRefuses(t *testing.T) {
	for _, c := range []struct {
		refuse  protocol.Kind
		script  string
		charges int
	}{
		{protocol.KindRoster, `
			announce 1 -> work
			run        -> advertise 1
			roster 1 5 -> work
			run        -> plan-refused`, 0},
		{protocol.KindDelivery, `
			announce 1   -> work
			run          -> advertise 1
			roster 1 5   -> work
			run          -> shares 1
			delivery 1 5 -> work
			run          -> plan-refused`, 0},
		{protocol.KindQuorum, `
			announce 1    -> work
			run           -> advertise 1
			roster 1 5    -> work
			run           -> shares 1
			delivery 1 5  -> work
			run           -> charged 1, masked-input 1
			survivors 1 5 -> work
			run           -> consistency 1
			quorum 1      -> work
			run           -> plan-refused`, 1},
	} {
		b := heavyBench(t, c.refuse)
		b.script(c.script)
		if !errors.Is(b.err(), errLie) || len(b.ledger.charges) != c.charges {
			t.Errorf("%s: refused for %v after %d charges, want %d", c.refuse, b.err(), len(b.ledger.charges), c.charges)
		}
		b.script(`
			roster 1 5    -> message-ignored
			delivery 1 5  -> message-ignored
			survivors 1 5 -> message-ignored
			quorum 1      -> message-ignored`)
	}
}

// complaining is a heavy sum that finds clients 3 and 1 to have dealt falsely.
type complaining struct{ heavy }

func (c *complaining) MaskedInput(_ *protocol.Delivery, v []protocol.Integers, _ protocol.Runner) (*protocol.MaskedInput, error) {
	return &protocol.MaskedInput{Round: c.p.Round, Vectors: v, Complaints: []protocol.Complaint{{Of: 1}, {Of: 3}}}, nil
}

// Whom the client complains of is reported to its owner, when the complaint leaves. Before, the
// client says with its word that it is prepared whom it will complain of.
func TestComplaintsAreReported(t *testing.T) {
	b := benchOf(t, client.Config{NewSum: func(s protocol.Setup) (client.Sum, error) {
		return &complaining{heavy{p: s, refuse: protocol.Kinds}}, nil
	}})
	b.waits = true
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> work
		run          -> shares 1
		delivery 1 5 -> work
		run          -> prepared 1`)
	if m := b.last.Send[0].Message.(*protocol.Prepared); !slices.Equal(m.Accused, []byte{1<<1 | 1<<3}) {
		t.Errorf("%08b are accused, want clients 1 and 3", m.Accused)
	}
	b.script("proceed 1 -> charged 1, masked-input 1, client-accused, client-accused")
	for i, of := range []protocol.ClientID{1, 3} {
		if e := b.last.Events[i]; e.Round != 1 || e.Party != protocol.ClientParty(of) || e.By != b.last.Send[0].From || e.Err == nil {
			t.Errorf("event %d is %+v, want one about client %d by this one", i, e, of)
		}
	}
}
