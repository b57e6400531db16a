package node_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// lies has the victim's messages changed as if it lied: it is the client itself that
// sends them so, as far as the aggregator can know.
func lies(x *tap, lie func(protocol.Message) bool) {
	x.rule(func(p *passing) {
		if p.place != admission.ClientPlace(victim) || !p.up || p.message == nil {
			return
		}
		changed := lie(p.message)
		if r := protocol.Piggyback(p.message); r != nil {
			changed = lie(r) || changed
		}
		if changed {
			var err error
			if p.raw, err = wire.AppendFrames(nil, p.message); err != nil {
				x.t.Error(err)
			}
		}
	})
}

// excluded are the aggregator's words of whom it has excluded.
func (x *trial) excluded() (out []protocol.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.events {
		if e.Kind == protocol.ClientExcluded {
			out = append(out, e)
		}
	}
	return out
}

// One enrolled client flips a bit of the point of its seed in every round that it has a say in. It is
// found out and named before any client has paid. The others continue without it in the same round,
// over the same connections: their ledgers hold four charges for four sums, and the liar's ledger none.
func TestFlippedPoint(t *testing.T) {
	faulty(t)
	x := newTrial(t, moment{active: true}.mode())
	lies(x.tap, flipped)
	out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
	x.wants(out, 4)
	got := x.excluded()
	if len(got) != 1 || got[0].Party != protocol.ClientParty(victim) || got[0].Round != 1 || !strings.Contains(got[0].Err.Error(), "dealt") {
		t.Fatalf("excluded: %+v; want the liar, in round 1, for what it dealt", got)
	}
	for i := uint64(1); i <= 4; i++ {
		if of := x.oracle.of(i); len(of) != clients-1 || x.oracle.took(victim, i) {
			t.Errorf("the sum of round %d is of %v; want all but the liar", i, of)
		}
	}
	for id := range protocol.ClientID(clients) {
		charged := make(map[uint64]int)
		for _, e := range charges(t, x.logs[id]) {
			charged[e.Round]++
		}
		for i := uint64(1); i <= 4; i++ {
			if want := 1; charged[i] != want && (id != victim || charged[i] != 0) {
				t.Errorf("client %d was charged %d times for round %d", id, charged[i], i)
			}
		}
	}
	// An aggregator that is started anew goes by this file.
	kept, err := os.ReadFile(filepath.Join(x.dir, "excluded.json"))
	if err != nil || !strings.Contains(string(kept), x.identity(admission.ClientPlace(victim)).Public().String()) {
		t.Errorf("kept of the exclusion: %s, %v", kept, err)
	}
}

// Two clients find in every round that what another dealt them is bad, and say so when they are prepared. The first time the setup is given
// up, and the round set up anew without the dealer. The others pay once for each of four sums, and the dealer nothing.
func TestAccusedDealer(t *testing.T) {
	faulty(t)
	x := newTrial(t, moment{active: true}.mode())
	x.tap.rule(func(p *passing) {
		m, ok := p.message.(*protocol.Prepared)
		if !ok || p.place != admission.ClientPlace(0) && p.place != admission.ClientPlace(1) {
			return
		}
		m.Accused = protocol.NewBitmap(clients)
		m.Accused.Set(victim)
		var err error
		if p.raw, err = wire.AppendFrames(nil, m); err != nil {
			t.Error(err)
		}
	})
	out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
	x.wants(out, 4)
	if got := x.excluded(); len(got) != 1 || got[0].Party != protocol.ClientParty(victim) || got[0].Round != 1 {
		t.Fatalf("excluded: %+v; want the dealer, in round 1", got)
	}
	for id := range protocol.ClientID(clients) {
		want := 4
		if id == victim {
			want = 0
		}
		if list := charges(t, x.logs[id]); len(list) != want {
			t.Errorf("client %d was charged for %v, want %d rounds", id, list, want)
		}
	}
}

// flipped is the lie about the seed: its point is another, or none.
func flipped(m protocol.Message) bool {
	s, ok := m.(*protocol.Shares)
	if ok {
		s.SeedHash[31] ^= 0x80
	}
	return ok
}

// The aggregator is killed in the round after the round in which it found the liar out, and started
// again. That costs the round, and does not let the liar in again. The lie itself costs none.
func TestExcludedAfterRestart(t *testing.T) {
	faulty(t)
	at := moment{kind: protocol.KindMaskedInput, round: 2, active: true}
	m := newMachines(t, at.settings()...)
	lies(m.tap, flipped)
	first, again := make(chan *process, 1), make(chan *process, 1)
	at.at(m.tap, nil, func(*passing) {
		(<-first).kill()
		again <- m.startAggregator()
	})
	first <- m.startAggregator()
	server, together, alone := m.startServer(), m.startTogether(), m.startAlone()
	server.ends()
	together.ends()
	alone.ends() // every client may hear the end of the session
	if attempted, skipped := server.rounds(); attempted != 4 || skipped != 1 {
		t.Errorf("%d rounds attempted, %d skipped; want 4 and 1", attempted, skipped)
	}
	for i := uint64(3); i <= 4; i++ {
		if got := m.oracle.of(i); len(got) != clients-1 || m.oracle.took(lastAlone, i) {
			t.Errorf("the sum of round %d is of %v; want all but the liar", i, got)
		}
	}
	<-again
	m.checkLedgers()
}

// Where every round needs the liar none releases anything: no process ends as if it
// had a model, and none leaves one. No client is charged.
func TestNothingReleasedIsAnError(t *testing.T) {
	faulty(t)
	m := newMachines(t, "mode=active", "secagg=real", "rounds=4", "tolerance=0")
	lies(m.tap, flipped)
	m.startAggregator()
	server, together, alone := m.startServer(), m.startTogether(), m.startAlone()
	for _, p := range []*process{server, together, alone} {
		<-p.done
		text, err := os.ReadFile(p.log.Name())
		if p.code != 1 || err != nil || !strings.Contains(string(text), "released anything") {
			t.Errorf("%s: exit code %d, %v:\n%s", p.name, p.code, err, text)
		}
	}
	for _, place := range m.places() {
		for _, folder := range []string{"model", "result"} {
			if _, err := os.Stat(filepath.Join(m.state(place), folder)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v has left a %s: %v", place, folder, err)
			}
		}
	}
	// The session is behind them: started again they wait for the next, and do not fail
	// for as long as nothing else is begun.
	waiting := make(chan struct{})
	var once sync.Once
	m.tap.rule(func(p *passing) {
		if p.place == admission.ClientPlace(lastAlone) && p.up && p.said("wait") {
			once.Do(func() { close(waiting) })
		}
	})
	again := m.startAlone()
	select {
	case <-waiting:
	case <-again.done:
		t.Errorf("started again, a client ended with exit code %d", again.code)
	}
	again.kill() // its ledger is read
	for id := range protocol.ClientID(clients) {
		key, err := m.identity(admission.ClientPlace(id))
		m.must(err)
		list := chargesIn(t, filepath.Join(m.state(admission.ClientPlace(id)), "ledger.db"), key.Public())
		if len(list) != 0 {
			t.Errorf("client %d was charged for %v, want nothing", id, list)
		}
	}
}

// A client adds a quarter of the ring to each coordinate of what it masked, in two of four rounds.
// The server makes no use of these sums, and says of which release and why.
func TestPushedSums(t *testing.T) {
	faulty(t)
	x := newTrial(t, "mode=active secagg=real")
	x.oracle.noised = true // which it need not be to be left alone
	var refused []string
	x.hear = func(e protocol.Event) {
		if e.Kind == protocol.SumRefused {
			refused = append(refused, e.Err.Error())
		}
	}
	var widths []protocol.Release
	x.tap.rule(func(p *passing) {
		if m, ok := p.message.(*protocol.Announce); ok && widths == nil {
			widths = m.Plan.Releases
		}
	})
	lies(x.tap, func(m protocol.Message) bool {
		in, ok := m.(*protocol.MaskedInput)
		if ok = ok && in.Round%2 == 0; ok {
			for i, r := range widths {
				v, err := mask.NewVector(r.Width, r.Len)
				if err == nil {
					err = v.AddPacked(in.Masked[i])
				}
				if err == nil {
					err = v.AddInts(slices.Repeat([]int64{1 << (r.Width - 2)}, r.Len))
				}
				if err != nil {
					t.Error(err)
				}
				in.Masked[i] = v.AppendPacked(nil)
			}
		}
		return ok
	})
	out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
	x.wants(out, 2)
	if len(refused) != 2 || !strings.Contains(refused[0], `release "item-gradient"`) {
		t.Errorf("the server refused %q", refused)
	}
	for id := range protocol.ClientID(clients) {
		if list := charges(t, x.logs[id]); len(list) != 4 {
			t.Errorf("client %d was charged %d times for four rounds", id, len(list))
		}
	}
}

// wideProof is a proof of vectors that are 1.1 times as long as a plan allows.
func wideProof(t *testing.T, p *protocol.Plan, rounds int) []byte {
	t.Helper()
	var bounds []inputproof.Bound
	var vectors [][]int64
	for _, r := range p.Releases {
		_, l2 := p.InputBound(r, rounds)
		wide := int64(math.Ceil(1.1 * l2))
		bounds = append(bounds, inputproof.Bound{Len: r.Len, LInf: wide, Squares: wide * wide})
		vectors = append(vectors, append([]int64{wide}, make([]int64, r.Len-1)...))
	}
	s, err := inputproof.New(bounds)
	if err != nil {
		t.Error(err)
		return nil
	}
	proof, _, err := s.Prove(make([]byte, 32), vectors, simulated.New(1, "liar").Stream("proof", 0), protocol.Workers(1))
	if err != nil {
		t.Error(err)
	}
	return proof
}

// Where inputs are verified, a client that sends 1.1 of its bound is refused and named, and the session is completed with the
// others: no round is lost. A client that sends the proof of another vector than it masked spoils a round. Then nothing is released
// of it, no client can be named, and all pay as for any round.
func TestInputsAreVerified(t *testing.T) {
	effort.NotShort(t, "a federation over a network takes a second")
	t.Parallel()
	for name, proves := range map[string]bool{"1.1 of the bound": true, "another vector": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, moment{active: true}.mode()+" verify-inputs=yes rounds=3 rank=2")
			var plan *protocol.Plan
			var reasons []error
			x.tap.rule(func(p *passing) {
				switch m := p.message.(type) {
				case *protocol.Announce:
					plan = m.Plan
				case *protocol.Abort:
					reasons = append(reasons, m.Reason)
				}
			})
			lies(x.tap, func(m protocol.Message) bool {
				in, ok := m.(*protocol.MaskedInput)
				if ok = ok && in.Round == 2; !ok {
					return false
				}
				for i, r := range plan.Releases {
					_, l2 := plan.InputBound(r, 3)
					in.Masked[i] = added(t, r, in.Masked[i], int64(1.1*l2))
				}
				if proves {
					in.Proof = wideProof(t, plan, 3)
				}
				return true
			})
			x.oracle.noised = !proves // a round is lost that all have sent to
			out := x.run(x.server(x.join(admission.ServerPlace)), x.clients(false), true)
			got := x.excluded()
			if !proves {
				x.wants(out, 2)
				if _, lied := errors.AsType[*protocol.Unproved](errors.Join(reasons...)); len(got) != 0 || len(reasons) != 1 || !lied {
					t.Errorf("excluded: %+v; rounds were lost because of %v", got, reasons)
				}
				return
			}
			x.wants(out, 3)
			if len(got) != 1 || got[0].Party != protocol.ClientParty(victim) || got[0].Round != 2 || !errors.Is(got[0].Err, inputproof.ErrRefused) {
				t.Fatalf("excluded: %+v; want the liar, in round 2, for its proof", got)
			}
			for i := uint64(2); i <= 3; i++ {
				if of := x.oracle.of(i); len(of) != clients-1 || x.oracle.took(victim, i) {
					t.Errorf("the sum of round %d is of %v; want all but the liar", i, of)
				}
			}
		})
	}
}

// added is a masked vector with a number added to its first coordinate.
func added(t *testing.T, r protocol.Release, packed []byte, x int64) []byte {
	t.Helper()
	v, err := mask.NewVector(r.Width, r.Len)
	if err == nil {
		err = v.AddPacked(packed)
	}
	if err == nil {
		err = v.AddInts(append([]int64{x}, make([]int64, r.Len-1)...))
	}
	if err != nil {
		t.Error(err)
	}
	return v.AppendPacked(nil)
}
