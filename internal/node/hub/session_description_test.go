package hub_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// A client or the server does not read messages that the aggregator never sends to it.
func TestLimitsAreOfTheReader(t *testing.T) {
	terms := nodetest.Terms()
	for _, c := range []struct {
		from, to  protocol.Role
		yes, none protocol.Kind
	}{
		{protocol.Aggregator, protocol.Client, protocol.KindAnnounce, protocol.KindResult},
		{protocol.Aggregator, protocol.Server, protocol.KindResult, protocol.KindAnnounce},
		{protocol.Client, protocol.Aggregator, protocol.KindMaskedInput, protocol.KindOpen},
		{protocol.Server, protocol.Aggregator, protocol.KindOpen, protocol.KindMaskedInput},
	} {
		l := terms.Limits(c.from, c.to)
		if l.Bytes[c.yes] == 0 || l.Bytes[c.none] != 0 {
			t.Errorf("from %v to %v: %d bytes of %v, %d of %v", c.from, c.to, l.Bytes[c.yes], c.yes, l.Bytes[c.none], c.none)
		}
	}
}

// In either mode everything of a sum is bound to the list (package admission): clients that were
// shown different lists have no sum in common.
func TestSumsAreBoundToTheList(t *testing.T) {
	key, err := admission.GenerateKey(simulated.New(1, "client"))
	if err != nil {
		t.Fatal(err)
	}
	other := &admission.List{Federation: admission.Federation{Clients: 4}}
	list := &admission.List{Federation: admission.Federation{Clients: 4},
		Enrolments: []*admission.Enrolment{{Ticket: admission.Ticket{Place: admission.ClientPlace(2)}, Identity: key.Public()}}}
	for _, mode := range []secagg.Mode{secagg.SemiHonest, secagg.Active} {
		terms := nodetest.Terms()
		terms.Mode = mode
		p := terms.Sums(list)
		if active := mode == secagg.Active; active && (len(p.Identities) != 4 || !key.Public().Ed25519().Equal(p.Identities[2])) || !active && p.Identities != nil {
			t.Errorf("mode %v: identities %x", mode, p.Identities)
		}
		if admission.Hash(p.List) != list.Hash() || p.List == terms.Sums(other).List {
			t.Errorf("mode %v: the sum is bound to %x", mode, p.List)
		}
	}
}

// Terms must say what rounds ask for, and within limits. Otherwise there is no session.
func TestTermsWithoutASoundSchedule(t *testing.T) {
	terms := nodetest.Terms()
	if err := terms.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*session.Terms){
		"has no steps":        func(s *session.Terms) { s.Steps = nil },
		"has 0 rounds":        func(s *session.Terms) { s.Steps[0].Rounds = 0 },
		"releases nothing":    func(s *session.Terms) { s.Steps[0].Releases = nil },
		"length is 0":         func(s *session.Terms) { s.Steps[0].Releases[0].Len = 0 },
		"there may be 256":    func(s *session.Terms) { s.Steps = slices.Repeat(s.Steps, 257) },
		"active mode alone":   func(s *session.Terms) { s.VerifyInputs = true },
		"model of 2147483647": func(s *session.Terms) { s.Steps[0].Model = 1<<31 - 1 },
	} {
		terms := nodetest.Terms()
		if change(&terms); terms.Validate() == nil || !strings.Contains(terms.Validate().Error(), want) {
			t.Errorf("error %v, want %q in it", terms.Validate(), want)
		}
	}
}

// Where inputs are verified a client may send as much more as its proof takes.
func TestLimitsHaveRoomForProofs(t *testing.T) {
	terms := nodetest.Terms()
	terms.Mode = secagg.Active
	without := terms.Limits(protocol.Client, protocol.Aggregator)
	terms.VerifyInputs = true
	if err := terms.Validate(); err != nil {
		t.Fatal(err)
	}
	proof, blindings, err := secagg.Params{Mode: secagg.Active, Rounds: terms.Steps.Rounds(), VerifyInputs: true}.ProofSize(terms.Plans()[0])
	if err != nil || proof == 0 || blindings == 0 {
		t.Fatalf("a proof of %d bytes and %d, %v", proof, blindings, err)
	}
	got := terms.Limits(protocol.Client, protocol.Aggregator).Bytes[protocol.KindMaskedInput] - without.Bytes[protocol.KindMaskedInput]
	if got != proof+blindings {
		t.Errorf("there is room for %d more bytes, a proof takes %d", got, proof+blindings)
	}
}

// Rounds wait for their number times Gather, and for a century at most: 20,000 weeks are more than a time.Duration holds, 292 years.
func TestPatienceDoesNotOverflow(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for rounds, want := range map[int]time.Duration{0: 0, 1: week, 52: 52 * week, 5_000: 5_000 * week, 20_000: 36_500 * 24 * time.Hour, 1 << 40: 36_500 * 24 * time.Hour} {
		terms := session.Terms{Gather: week, Steps: protocol.Schedule{{Rounds: rounds}}}
		if got := terms.Patience(); got != want {
			t.Errorf("%d rounds of a week wait %v, want %v", rounds, got, want)
		}
	}
}
