package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// first is closed when a client gives a notice for the first time.
func first(x *tap, who admission.Place, what string) <-chan struct{} {
	there := make(chan struct{})
	var once sync.Once
	x.rule(func(p *passing) {
		if p.place == who && p.up && p.said(what) {
			once.Do(func() { close(there) })
		}
	})
	return there
}

// renotice is a notice with one field changed, by its JSON.
func renotice(t testing.TB, p *passing, what, field string, change func(json.RawMessage) any) []byte {
	t.Helper()
	var fields map[string]any
	var raw map[string]json.RawMessage
	if json.Unmarshal(p.notice[what], &fields) != nil || json.Unmarshal(p.notice[what], &raw) != nil {
		t.Fatalf("a notice %s is %s", what, p.notice[what])
	}
	out := make(map[string]any)
	for k, v := range raw {
		out[k] = v
	}
	out[field] = change(raw[field])
	return framed(t, map[string]any{what: out})
}

// relist changes an enrolment list's text.
func relist(t testing.TB, text json.RawMessage, change func(*admission.List)) json.RawMessage {
	t.Helper()
	l, err := admission.ParseList(text)
	if err != nil {
		t.Fatal(err)
	}
	change(l)
	out, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A client with a valid identity is shown lists and sessions that were never signed so. Each of
// them ends the connection before the client has said that it takes part. With the true list and
// session it takes part, in every sum.
func TestForgedAdmissionIsRefused(t *testing.T) {
	faulty(t)
	stranger, err := admission.GenerateKey(simulated.New(1, "stranger"))
	if err != nil {
		t.Fatal(err)
	}
	// A client has three parties of the list, itself as the last; in active mode, all.
	lists := map[string]func(*admission.List){
		"another in a client's place": func(l *admission.List) { l.Enrolments[2].Identity = stranger.Public() },
		"another server":              func(l *admission.List) { l.Enrolments[0].Identity = stranger.Public() },
		"without the client":          func(l *admission.List) { l.Enrolments = l.Enrolments[:len(l.Enrolments)-1] },
		"without another":             func(l *admission.List) { l.Enrolments = append(l.Enrolments[:1:1], l.Enrolments[2:]...) },
		"twice the same":              func(l *admission.List) { l.Enrolments[2] = l.Enrolments[1] },
		"another federation":          func(l *admission.List) { l.Federation.Name = "Other" },
		"more clients":                func(l *admission.List) { l.Federation.Clients++ },
	}
	type forgery struct {
		active bool
		field  string
		change func(testing.TB, json.RawMessage) any
	}
	forgeries := map[string]forgery{
		"signature of another": {false, "signature", func(testing.TB, json.RawMessage) any { return make([]byte, 64) }},
		"other terms": {false, "descriptor", func(_ testing.TB, d json.RawMessage) any {
			return json.RawMessage(bytes.Replace(d, []byte(`"rounds":4`), []byte(`"rounds":5`), 1))
		}},
		"a part in active mode": {true, "list", func(t testing.TB, text json.RawMessage) any {
			return relist(t, text, func(l *admission.List) {
				l.Part = &admission.Part{Enrolled: 1, Positions: []int{}, Proof: []admission.Hash{}}
			})
		}},
	}
	for name, change := range lists {
		for _, active := range []bool{false, true} {
			forgeries[fmt.Sprintf("list, active %t: %s", active, name)] = forgery{active, "list", func(t testing.TB, text json.RawMessage) any { return relist(t, text, change) }}
		}
	}
	for name, c := range forgeries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, moment{active: c.active}.mode())
			who := admission.ClientPlace(victim)
			forged, after := false, ""
			x.tap.rule(func(p *passing) {
				switch {
				case p.place != who:
				case !p.up && p.said("session") && !forged:
					forged, p.raw = true, renotice(t, p, "session", c.field, func(v json.RawMessage) any { return c.change(t, v) })
				case p.up && forged && after == "":
					for after = range p.notice {
					}
				}
			})
			holdOpen(x.tap, 0, first(x.tap, who, "ready"))
			out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
			x.wants(out, 4)
			if !forged || after != "register" {
				t.Errorf("after what was forged (%t) it said %q; want that it registers again", forged, after)
			}
			if len(x.oracle.of(4)) != clients {
				t.Errorf("the last sum is of %v", x.oracle.of(4))
			}
		})
	}
}

// A client is told that a session is over which is not: it takes part in nothing, says
// nothing of what it is asked, and spends nothing; the final model is its end.
func TestSaidToBeOver(t *testing.T) {
	faulty(t)
	x := newTrial(t, "")
	who := admission.ClientPlace(victim)
	x.tap.rule(func(p *passing) {
		if p.place == who && p.said("session") {
			p.raw = renotice(t, p, "session", "ended", func(json.RawMessage) any { return true })
		}
	})
	answered := Notices(x.tap, who, true)
	holdOpen(x.tap, 0, first(x.tap, who, "ready"))
	all := x.clients(false)
	x.wants(x.run(x.server(x.join(admission.ServerPlace)), all, true), 4)
	delete(answered.list, fmt.Sprint(protocol.KindRefusal, " ", 0)) // it takes no part, and says so
	if len(answered.list) != 0 {
		t.Errorf("it answered %d messages", len(answered.list))
	}
	if list := charges(t, x.logs[victim]); len(list) != 0 {
		t.Errorf("it was charged for %v", list)
	}
}

// resigned is a plan, or the final model, with the signature of another key.
func resigned(t testing.TB, k admission.PrivateKey, session protocol.SessionID, m protocol.Message) []byte {
	t.Helper()
	var err error
	switch x := m.(type) {
	case *protocol.Announce:
		p := *x.Plan
		err = protocol.SignPlan(k.Ed25519(), &p)
		m = &protocol.Announce{Plan: &p, Delivery: x.Delivery}
	case *protocol.Final:
		f := *x
		err = protocol.SignFinal(k.Ed25519(), session, &f)
		m = &f
	}
	raw, failed := wire.AppendFrames(nil, m)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return raw
}

// A client accepts plans and models from the server alone. It answers nothing to a plan that the
// aggregator signs, or changes, and such a model is not the end.
func TestForgedPlansAndModels(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(victim)
	for name, c := range map[string]struct {
		kind  protocol.Kind
		round uint64
		forge func(*trial, protocol.Message) []byte
	}{
		"plan, the aggregator's signature": {protocol.KindAnnounce, 2, func(x *trial, m protocol.Message) []byte {
			return resigned(x.t, x.identity(admission.AggregatorPlace), x.public.Session, m)
		}},
		"plan, changed": {protocol.KindAnnounce, 2, func(x *trial, m protocol.Message) []byte {
			p := *m.(*protocol.Announce).Plan
			p.Broadcast = make([]byte, len(p.Broadcast))
			raw, err := wire.AppendFrames(nil, &protocol.Announce{Plan: &p, Delivery: m.(*protocol.Announce).Delivery})
			if err != nil {
				x.t.Error(err)
			}
			return raw
		}},
		"model, the aggregator's signature": {protocol.KindFinal, 0, func(x *trial, m protocol.Message) []byte {
			return resigned(x.t, x.identity(admission.AggregatorPlace), x.public.Session, m)
		}},
		"model, of another session": {protocol.KindFinal, 0, func(x *trial, m protocol.Message) []byte {
			return resigned(x.t, x.identity(admission.ServerPlace), protocol.SessionID{9}, m)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, "")
			said := 0
			moment{kind: c.kind, round: c.round}.at(x.tap, &who, func(p *passing) { p.raw = c.forge(x, p.message) })
			x.tap.rule(func(p *passing) {
				if p.place == who && p.up && p.said("ready") {
					said++
				}
			})
			if c.kind == protocol.KindAnnounce { // it is to be back for the last
				holdOpen(x.tap, 2, returned(x.tap, who))
			}
			out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
			x.wants(out, 4)
			if said != 2 {
				t.Errorf("it took part in %d connections; want 2, since what is forged ends the first", said)
			}
			if got, want := x.oracle.took(victim, 2), c.kind == protocol.KindFinal; got != want {
				t.Errorf("it is in the sum of round 2: %v, want %v", got, want)
			}
			if !x.oracle.took(victim, 4) {
				t.Errorf("it is not back: the last sum is of %v", x.oracle.of(4))
			}
		})
	}
}

// said holds a party's messages, by kind and round.
type said struct {
	mu   sync.Mutex
	list map[string][][]byte
}

func Notices(x *tap, who admission.Place, up bool) *said {
	s := &said{list: make(map[string][][]byte)}
	x.rule(func(p *passing) {
		if p.place == who && p.up == up && p.message != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			key := fmt.Sprint(p.kind(), " ", p.round())
			s.list[key] = append(s.list[key], bytes.Clone(p.raw))
		}
	})
	return s
}

// all are the messages of a round, as bytes.
func (s *said) all(round uint64, kinds ...protocol.Kind) (raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kinds {
		for _, b := range s.list[fmt.Sprint(k, " ", round)] {
			raw = append(raw, b...)
		}
	}
	return raw
}

// once: nothing was said twice with different content.
func (s *said) once(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, list := range s.list {
		if strings.HasPrefix(key, protocol.KindRefusal.String()) {
			continue // of rounds that are over
		}
		for _, b := range list[1:] {
			if !bytes.Equal(b, list[0]) {
				t.Errorf("%s was said twice, and differently", key)
			}
		}
	}
}

// In the third round an aggregator replays to a client all its messages of the first two. An
// attacker replays the client's answers to the aggregator. Nothing is answered again, and all sums
// are exact.
func TestReplaysWithinASession(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(victim)
	for _, active := range []bool{false, true} {
		t.Run(fmt.Sprint("active ", active), func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, moment{active: active}.mode())
			told, answered := Notices(x.tap, who, false), Notices(x.tap, who, true)
			moment{kind: protocol.KindAnnounce, round: 3}.at(x.tap, &who, func(p *passing) {
				for i := uint64(1); i <= 2; i++ {
					p.inject(false, told.all(i, protocol.KindAnnounce, protocol.KindRoster, protocol.KindDelivery, protocol.KindSurvivors, protocol.KindQuorum))
					p.inject(true, answered.all(i, protocol.KindAdvertise, protocol.KindShares, protocol.KindMaskedInput, protocol.KindConsistency, protocol.KindUnmask))
				}
			})
			out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
			x.wants(out, 4)
			answered.once(t)
			for i := uint64(1); i <= 4; i++ {
				if len(x.oracle.of(i)) != clients {
					t.Errorf("the sum of round %d is of %v", i, x.oracle.of(i))
				}
			}
			if !x.reported(protocol.MessageIgnored, protocol.StageMaskedInput, 2) {
				t.Errorf("the aggregator has not ignored the replayed masked input of round 2: %v", x.events)
			}
		})
	}
}

// A client that was started again, with its ledger, is replayed a whole session that it
// took part in: the description, the plans, and every message. It says nothing of it, but
// that it waits for another session.
func TestReplayedSession(t *testing.T) {
	faulty(t)
	who := admission.ClientPlace(victim)
	x := newTrial(t, "")
	var description []byte
	x.tap.rule(func(p *passing) {
		if p.place == who && p.said("session") && description == nil {
			description = bytes.Clone(p.raw)
		}
	})
	told := Notices(x.tap, who, false)
	all := x.clients(false)
	x.wants(x.run(x.server(x.join(admission.ServerPlace)), all, true), 4)
	before := len(charges(t, x.logs[victim]))

	var script []byte
	for i := uint64(1); i <= 4; i++ {
		script = append(script, told.all(i, protocol.KindAnnounce, protocol.KindRoster, protocol.KindDelivery, protocol.KindSurvivors)...)
	}
	x.tap.rule(func(p *passing) {
		if p.place == who && p.said("session") {
			p.raw = append(bytes.Clone(description), script...)
		}
	})
	var answers []string
	ctx, stop := context.WithCancel(x.ctx)
	defer stop()
	x.tap.rule(func(p *passing) {
		if p.place == who && p.up && p.message != nil {
			answers = append(answers, fmt.Sprint(p.kind(), " ", p.round()))
		}
		if p.place == who && p.up && p.said("wait") {
			time.AfterFunc(time.Second, stop) // an answer would have come meanwhile
		}
	})
	var err error
	if x.ledgers[victim], err = store.NewLedger(x.logs[victim]); err != nil { // as after a restart
		t.Fatal(err)
	}
	if err = x.client(victim, x.memberships[who]).Run(ctx); !errors.Is(err, context.Canceled) || x.ctx.Err() != nil {
		t.Fatal(err)
	}
	if len(answers) != 0 {
		t.Errorf("it answered %v", answers)
	}
	if after := len(charges(t, x.logs[victim])); after != before {
		t.Errorf("it was charged for %d rounds, %d before", after, before)
	}
}

// A server comes back with an earlier checkpoint, and an aggregator that has forgotten everything.
// The plans are signed, and new to the aggregator. The clients' ledgers refuse every round that
// they have begun. The session continues with the first round that they have not begun.
func TestOldCheckpoint(t *testing.T) {
	faulty(t)
	x := newTrial(t, "")
	var old []byte
	path := filepath.Join(x.dir, "checkpoint")
	m := x.join(admission.ServerPlace)
	all := x.clients(false)
	wait := x.start(all...)
	ctx, stop := context.WithCancel(x.ctx)
	defer stop()
	moment{kind: protocol.KindOpen, round: 2}.at(x.tap, nil, func(*passing) {
		var err error
		if old, err = os.ReadFile(path); err != nil {
			t.Error(err)
		}
	})
	moment{kind: protocol.KindResult, round: 3}.at(x.tap, nil, func(p *passing) { stop(); p.cut = true })
	if out, err := x.server(m).Run(ctx); err == nil {
		t.Fatalf("the server was not stopped: %+v", out)
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	x.reopen()
	out, err := x.server(m).Run(x.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	// Round 2 is skipped as interrupted; the ledgers refuse round 3.
	x.wants(out, 2)
	for id := range protocol.ClientID(clients) {
		charged := make(map[uint64]int)
		for _, e := range charges(t, x.logs[id]) {
			charged[e.Round]++
		}
		for i := uint64(1); i <= 4; i++ {
			if charged[i] != 1 {
				t.Errorf("client %d was charged %d times for round %d", id, charged[i], i)
			}
		}
	}
}

// Two processes come with one identity, as from a copy of its state: the aggregator hears the newer
// process only. No client is in a sum twice. Once one of them is charged, the other is behind, and ends.
func TestOneIdentityTwice(t *testing.T) {
	faulty(t)
	x := newTrial(t, "")
	m := x.join(admission.ServerPlace)
	all := x.clients(false)
	answered := Notices(x.tap, admission.ClientPlace(victim), true)
	copied := store.NewMemoryLog()
	ledger, err := store.NewLedger(copied)
	if err != nil {
		t.Fatal(err)
	}
	twin, err := node.NewClient(node.ClientConfig{Member: node.Member{Identity: x.identity(admission.ClientPlace(victim)),
		Membership: x.memberships[admission.ClientPlace(victim)], Registry: x.openRegistry(), State: t.TempDir(), Log: x.log, Workers: 1},
		Ledger: ledger, Entropy: entropy.System(),
		Open: func(text []byte) (*node.Job, error) { return x.job(victim, text) }})
	if err != nil {
		t.Fatal(err)
	}
	first := all[victim]
	wait := x.start(slices.Delete(slices.Clone(all[:clients]), int(victim), int(victim)+1)...)
	ends := make(chan error, 2)
	for _, c := range []*node.Client{first, twin} {
		go func() { ends <- c.Run(x.ctx) }()
	}
	out, err := x.server(m).Run(x.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	behind := 0
	for range cap(ends) {
		if err := <-ends; errors.Is(err, store.ErrBehind) {
			behind++
		} else if err != nil {
			t.Error(err)
		}
	}
	if behind == 0 {
		t.Error("neither was found to be behind")
	}
	if out.Attempts.Released != 4 {
		t.Errorf("attempts %+v, want 4 released", out.Attempts)
	}
	sent := 0
	for i := uint64(1); i <= 4; i++ {
		sent += len(answered.list[fmt.Sprint(protocol.KindMaskedInput, " ", i)])
	}
	if charged := len(charges(t, copied)) + len(charges(t, x.logs[victim])); charged < sent {
		t.Errorf("the two sent %d masked inputs, and charged for %d", sent, charged)
	}
}
