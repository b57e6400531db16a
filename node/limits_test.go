package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

func someTerms() Terms {
	return Terms{Session: protocol.SessionID{1}, Cohort: protocol.Cohort{Clients: 4, Tolerance: 0.25}, Mode: graph.SemiHonest,
		StageTimeout: time.Second, Tail: time.Second,
		Steps: protocol.Schedule{{Iterations: 3, Phase: "sums", Model: 1 << 20,
			Releases: []protocol.Release{{Name: "v", Len: 8, L2: 1, MaxNonZero: 8, Scale: 16, Width: 32}}}}}
}

// Neither does a client or the server read what the aggregator never says to it.
func TestLimitsAreOfTheReader(t *testing.T) {
	terms := someTerms()
	for _, c := range []struct {
		from, to  protocol.Role
		yes, none protocol.Kind
	}{
		{protocol.Aggregator, protocol.Client, protocol.KindAnnounce, protocol.KindResult},
		{protocol.Aggregator, protocol.Server, protocol.KindResult, protocol.KindAnnounce},
		{protocol.Client, protocol.Aggregator, protocol.KindMaskedInput, protocol.KindOpen},
		{protocol.Server, protocol.Aggregator, protocol.KindOpen, protocol.KindMaskedInput},
	} {
		l := terms.limits(c.from, c.to)
		if l.Bytes[c.yes] == 0 || l.Bytes[c.none] != 0 {
			t.Errorf("from %v to %v: %d bytes of %v, %d of %v", c.from, c.to, l.Bytes[c.yes], c.yes, l.Bytes[c.none], c.none)
		}
	}
}

// In either mode everything of a sum is bound to who is on the list (package admission):
// clients that were shown different ones do not come to a sum.
func TestSumsAreBoundToTheList(t *testing.T) {
	key, err := admission.GenerateKey(simulated.New(1, "client"))
	if err != nil {
		t.Fatal(err)
	}
	list := &admission.List{Federation: admission.Federation{Clients: 4},
		Enrolments: []admission.Enrolment{{Ticket: admission.Ticket{Place: admission.ClientPlace(2)}, Identity: key.Public()}}}
	for _, mode := range []graph.Mode{graph.SemiHonest, graph.Active} {
		terms := someTerms()
		terms.Mode = mode
		p := terms.sums(list)
		if len(p.Identities) != 4 || !key.Public().Ed25519().Equal(p.Identities[2]) {
			t.Errorf("mode %v: identities %x", mode, p.Identities)
		}
	}
}

// Terms say what iterations ask for: without it, or with more than anybody asks for,
// there is no session.
func TestTermsWithoutASoundSchedule(t *testing.T) {
	terms := someTerms()
	if err := terms.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Terms){
		"has no steps":        func(s *Terms) { s.Steps = nil },
		"has 0 iterations":    func(s *Terms) { s.Steps[0].Iterations = 0 },
		"releases nothing":    func(s *Terms) { s.Steps[0].Releases = nil },
		"length is 0":         func(s *Terms) { s.Steps[0].Releases[0].Len = 0 },
		"there may be 256":    func(s *Terms) { s.Steps = slices.Repeat(s.Steps, 257) },
		"model of 2147483647": func(s *Terms) { s.Steps[0].Model = 1<<31 - 1 },
	} {
		terms := someTerms()
		if change(&terms); terms.Validate() == nil || !strings.Contains(terms.Validate().Error(), want) {
			t.Errorf("error %v, want %q in it", terms.Validate(), want)
		}
	}
}
