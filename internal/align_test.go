package internal_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// aligner is a party or the server of an alignment.
type aligner interface {
	Hello() align.Hello
	Attempt() align.Attempt
	Join([]align.Hello, []ed25519.PublicKey, protocol.Runner) ([]align.Envelope, error)
	Take(*align.Envelope, protocol.Runner) ([]align.Envelope, error)
}

// ring is an alignment in one process: seat 0 is the server's.
type ring struct {
	t          testing.TB
	lists      [][]string
	pads       []int
	lives      int
	identities []ed25519.PublicKey
	keys       []ed25519.PrivateKey
	roles      []aligner
	random     []entropy.Source // of each member
	transit    []align.Envelope
	run        protocol.Runner
	// fate says what becomes of an envelope: how often it is delivered, and whether after all others.
	fate func(*align.Envelope) (copies int, late bool)
	// deaf are the errors that were for the log.
	deaf []error
}

// newRing seats parties with these ids and so much padding.
func newRing(t testing.TB, lists [][]string, pads ...int) *ring {
	t.Helper()
	r := &ring{t: t, lists: lists, pads: append(pads, make([]int, len(lists)-len(pads))...), run: protocol.Workers(1),
		roles: make([]aligner, len(lists)+1), random: make([]entropy.Source, len(lists)+1),
		fate: func(*align.Envelope) (int, bool) { return 1, false }}
	for seat := range len(lists) + 1 {
		k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(seat + 1)}, ed25519.SeedSize))
		r.keys, r.identities = append(r.keys, k), append(r.identities, k.Public().(ed25519.PublicKey))
		r.start(align.Seat(seat))
	}
	return r
}

// start begins a process.
func (r *ring) start(s align.Seat) {
	r.t.Helper()
	r.lives++
	r.random[s] = simulated.New(uint64(r.lives), "process")
	cfg := align.Config{Federation: align.Federation{7}, Seat: s, Identity: r.keys[s], Entropy: r.random[s]}
	var err error
	if s == align.Server {
		r.roles[s], err = align.NewCollector(cfg)
	} else {
		r.roles[s], err = align.NewParty(cfg, r.lists[s-1], len(r.lists[s-1])+r.pads[s-1])
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) party(s align.Seat) *align.Party { return r.roles[s].(*align.Party) }
func (r *ring) server() *align.Collector        { return r.roles[align.Server].(*align.Collector) }
func (r *ring) hellos() (all []align.Hello) {
	for _, x := range r.roles {
		all = append(all, x.Hello())
	}
	return all
}

// join tells every member the hellos of all.
func (r *ring) join() error {
	for _, x := range r.roles {
		out, err := x.Join(r.hellos(), r.identities, r.run)
		if err != nil {
			return err
		}
		r.transit = append(r.transit, out...)
	}
	return nil
}

// deliver carries so many envelopes, or all.
func (r *ring) deliver(most int) error {
	for ; len(r.transit) > 0 && most != 0; most-- {
		e := r.transit[0]
		r.transit = r.transit[1:]
		e.Sealed = bytes.Clone(e.Sealed)
		copies, late := r.fate(&e)
		if late {
			r.transit = append(r.transit, e)
			continue
		}
		for range copies {
			if err := r.hand(&e); err != nil {
				return err
			}
		}
	}
	return nil
}

// hand hands an envelope over; who has its rows says so.
func (r *ring) hand(e *align.Envelope) error {
	to := r.roles[e.To]
	before := e.To != align.Server && r.party(e.To).Result() != nil
	again := *e
	again.Sealed = bytes.Clone(e.Sealed)
	out, err := to.Take(&again, r.run)
	if _, fault := errors.AsType[*align.Fault](err); fault {
		return err
	} else if err != nil {
		r.deaf = append(r.deaf, err)
	}
	r.transit = append(r.transit, out...)
	if e.To != align.Server && !before && r.party(e.To).Result() != nil {
		r.transit = append(r.transit, r.party(e.To).Kept()...)
	}
	return nil
}

// align continues until every member is done. It sends lost messages again when nothing moves.
func (r *ring) align() error {
	for range 1000 {
		if err := r.join(); err != nil {
			return err
		}
		if err := r.deliver(-1); err != nil {
			return err
		}
		if r.server().Result() != nil {
			return nil
		}
	}
	return errors.New("it comes to no end")
}

// check compares the results of all members with the lists themselves.
func (r *ring) check() {
	r.t.Helper()
	in := make(map[string]int) // how many have an id
	padding := 0
	for k, list := range r.lists {
		padding += r.pads[k]
		for _, id := range list {
			in[id]++
		}
	}
	shared := make([]int, len(r.lists))
	shared[0] = padding
	for _, n := range in {
		shared[n-1]++
	}
	u := r.server().Result()
	if u == nil {
		r.t.Fatal("the server has no result")
	}
	if u.Users != len(in)+padding || !slices.Equal(u.Shared, shared) {
		r.t.Errorf("%d rows, by how many have them %v; want %d, %v", u.Users, u.Shared, len(in)+padding, shared)
	}
	row, of := make(map[string]int), make(map[int]string)
	for k, list := range r.lists {
		rows := r.party(align.Seat(k + 1)).Result()
		if have, of := r.party(align.Seat(k + 1)).Progress(); have != of || of < len(list)+align.Checks {
			r.t.Errorf("party %d has multiplied %d of %d points at the end", k, have, of)
		}
		if rows == nil || rows.Users != u.Users || rows.Attempt != u.Attempt || len(rows.Row) != len(list) {
			r.t.Fatalf("party %d has %+v; the server %+v", k, rows, u)
		}
		for _, id := range list {
			n, ok := rows.Row[id]
			if before, known := row[id]; !ok || known && before != n {
				r.t.Errorf("party %d has row %d (%t) for %s, another %d", k, n, ok, id, before)
			}
			if before, known := of[n]; known && before != id {
				r.t.Errorf("row %d is of %s and of %s", n, id, before)
			}
			row[id], of[n] = n, id
		}
	}
	for _, err := range r.deaf {
		r.t.Error(err)
	}
}

// numbered are the ids from..to.
func numbered(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("user-%d@example.org", i))
	}
	return list
}

// Parties that share an id have one row for it, and else none in common, whatever the order of
// lists and padding. More than one message each.
func TestRows(t *testing.T) {
	for name, r := range map[string]*ring{
		"two":         newRing(t, [][]string{{"a", "b"}, {"b", "c", "a"}}),
		"four":        newRing(t, [][]string{numbered(0, 30), numbered(20, 40), numbered(35, 36), numbered(0, 50)}, 5, 0, 20),
		"disjoint":    newRing(t, [][]string{{"a"}, {"b"}, {"c"}}, 1, 1, 1),
		"alike":       newRing(t, [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}}),
		"in messages": newRing(t, [][]string{numbered(0, 1030), numbered(1000, 1040)}),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "in messages" && !effort.Of(true, false, true) {
				t.Skip("TestLostEnvelopes has as many")
			}
			r.t = t
			if err := r.align(); err != nil {
				t.Fatal(err)
			}
			r.check()
		})
	}
}

// Envelopes may be lost, come twice and in another order.
func TestLostEnvelopes(t *testing.T) {
	effort.NotShort(t, "an alignment for each envelope")
	for seed := range uint64(4) {
		first := 0 // more than one message
		if seed > 0 {
			first = 995
		}
		r := newRing(t, [][]string{numbered(first, 1030), numbered(1000, 1040), numbered(980, 1010)}, 0, 7)
		draw := rand.New(rand.NewPCG(seed, 0))
		r.fate = func(*align.Envelope) (int, bool) { return []int{0, 1, 1, 2}[draw.IntN(4)], draw.IntN(4) == 0 }
		if err := r.align(); err != nil {
			t.Fatal(err)
		}
		r.check()
	}
}

// A connection breaks when a whole window has come and no acknowledgement has gone back. The messages are sent again, and
// acknowledged again although they were taken before, or the sender would never send another. The reader takes each message once.
// Party 2 reads 17 messages of one point each, and carries each on: it has at most eight on their way, its own points among them.
func TestLostAcknowledgements(t *testing.T) {
	const window, messages = 8, 1 + align.Checks
	r := newRing(t, [][]string{{"a"}, {"b"}})
	if err := r.join(); err != nil {
		t.Fatal(err)
	}
	on := slices.DeleteFunc(r.transit, func(e align.Envelope) bool { return e.From != 2 })
	point := ristretto255.NewGeneratorElement()
	hear := func(e align.Envelope) (acknowledged uint32) {
		out, err := r.party(2).Take(&e, r.run)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out {
			if acknowledged = max(acknowledged, e.Heard); e.Sequence > 0 {
				on = append(on, e)
			}
		}
		return acknowledged
	}
	say := func(k uint32) uint32 {
		return hear(r.seal(1, 2, k+1, alignMessage{alignPoints, 1, k, point.Bytes()}.encode()))
	}
	for k := range uint32(messages) {
		if got := say(k); got != k+1 {
			t.Errorf("message %d: %d are acknowledged", k+1, got)
		}
	}
	sent := slices.Clone(on)
	for k := range uint32(messages) {
		if got := say(k); got != messages {
			t.Errorf("message %d for the second time: %d are acknowledged, want %d", k+1, got, messages)
		}
	}
	if len(sent) != window || len(on) != window {
		t.Errorf("%d messages are on their way and, after all came twice, %d; want %d", len(sent), len(on), window)
	}
	again := func() []align.Envelope {
		out, err := r.party(2).Join(r.hellos(), r.identities, r.run)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if d := cmp.Diff(sent, again()); d != "" {
		t.Errorf("after a broken connection other messages come again (-first +again):\n%s", d)
	}
	attempt := r.party(2).Attempt()
	for _, heard := range []uint32{window, 2 * window, messages + 1} {
		hear(align.Envelope{Attempt: attempt[:], From: 1, To: 2, Heard: heard})
		if want := min(int(heard)+window, messages+1); len(on) != want {
			t.Errorf("%d are acknowledged, and %d sent, want %d", heard, len(on), want)
		}
	}
	if out := again(); len(out) > 0 {
		t.Errorf("%d messages come again that were acknowledged", len(out))
	}
	want := ristretto255.NewIdentityElement().ScalarMult(r.secret(2), point).Bytes()
	for k, e := range on[1:] { // after its own
		if m := r.open(&e); m.kind != alignPoints || m.a != 1 || m.b != uint32(k) || !bytes.Equal(m.entries, want) {
			t.Errorf("message %d goes on as %+v", k+1, m)
		}
	}
}

// A process that is started again, whenever, costs the attempt and no more.
func TestRestarts(t *testing.T) {
	effort.NotShort(t, "an alignment for each restart")
	for at := 1; at < 40; at += 4 {
		r := newRing(t, [][]string{numbered(0, 6), numbered(3, 9), numbered(5, 8)}, 1)
		if err := r.join(); err != nil {
			t.Fatal(err)
		}
		if err := r.deliver(at); err != nil {
			t.Fatal(err)
		}
		before := r.server().Attempt()
		r.start([]align.Seat{align.Server, 1, 3}[at/3%3])
		if err := r.align(); err != nil {
			t.Fatal(err)
		}
		r.check()
		if r.server().Attempt() == before {
			t.Error("the attempt is the same after a restart")
		}
	}
}

// TestCarrierCannotSpeak checks that a carrier's changes to envelopes are attributed to no member.
func TestCarrierCannotSpeak(t *testing.T) {
	r := newRing(t, [][]string{{"a", "b"}, {"b", "c"}})
	changed := 0
	r.fate = func(e *align.Envelope) (int, bool) {
		if len(e.Sealed) > 0 && changed < 12 {
			changed++
			switch changed % 4 {
			case 0:
				e.Sealed[changed%len(e.Sealed)] ^= 1
			case 1:
				e.Sealed = e.Sealed[:len(e.Sealed)-1]
			case 2:
				e.From = 3 - max(e.From, 1)
			case 3:
				e.Attempt = bytes.Repeat([]byte{9}, 32)
			}
		}
		return 1, false
	}
	if err := r.align(); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.deaf {
		if !errors.Is(err, align.ErrSealed) {
			t.Error(err)
		}
	}
	if changed != 12 || len(r.deaf) == 0 {
		t.Errorf("%d envelopes were changed, and %d did not open", changed, len(r.deaf))
	}
	r.deaf = nil
	r.check()
}

// signedHello returns the text that a member signs of its hello.
func signedHello(h align.Hello, f align.Federation) []byte {
	sum := protocol.NewTranscript("fedsim/align/hello/v1").Bytes(f[:]).Uint(uint64(h.Seat)).Bytes(h.Key).Uint(uint64(h.Count)).Sum()
	return sum[:]
}

// TestJoinRefuses checks that only enrolled members take part, each with its own signed hello.
func TestJoinRefuses(t *testing.T) {
	r := newRing(t, [][]string{{"a"}, {"b"}})
	for i, h := range r.hellos() {
		if !ed25519.Verify(r.identities[i], signedHello(h, align.Federation{7}), h.Signature) {
			t.Errorf("the %s signs another text of its hello", h.Seat)
		}
	}
	for name, change := range map[string]func(all []align.Hello) []align.Hello{
		"somebody missing": func(all []align.Hello) []align.Hello { return all[:2] },
		"another count":    func(all []align.Hello) []align.Hello { all[2].Count++; return all },
		"another key":      func(all []align.Hello) []align.Hello { all[2].Key = seq(32); return all },
		"seats swapped":    func(all []align.Hello) []align.Hello { all[1], all[2] = all[2], all[1]; return all },
		"no ids": func(all []align.Hello) []align.Hello {
			all[2].Count = 0
			all[2].Signature = ed25519.Sign(r.keys[2], signedHello(all[2], align.Federation{7}))
			return all
		},
		"another federation": func(all []align.Hello) []align.Hello {
			cfg := align.Config{Federation: align.Federation{8}, Seat: 2, Identity: r.keys[2], Entropy: r.random[2]}
			other, err := align.NewParty(cfg, r.lists[1], 1)
			if err != nil {
				t.Fatal(err)
			}
			all[2] = other.Hello()
			return all
		},
		"a key of low order": func(all []align.Hello) []align.Hello {
			all[2].Key = make([]byte, 32)
			all[2].Signature = ed25519.Sign(r.keys[2], signedHello(all[2], align.Federation{7}))
			return all
		},
		"an older self": func(all []align.Hello) []align.Hello {
			all[1].Key = seq(32)
			all[1].Signature = ed25519.Sign(r.keys[1], signedHello(all[1], align.Federation{7}))
			return all
		},
	} {
		if _, err := r.party(1).Join(change(r.hellos()), r.identities, r.run); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	for range align.MaxAttempts {
		r.start(2)
		if err := r.join(); err != nil {
			t.Fatal(err)
		}
	}
	r.start(2)
	if err := r.join(); err == nil {
		t.Error("parties go on with somebody who keeps starting anew")
	}
}

func TestListsThatAreRefused(t *testing.T) {
	cfg := align.Config{Seat: 1, Identity: ed25519.NewKeyFromSeed(seq(32)), Entropy: simulated.New(1, "x")}
	for name, ids := range map[string][]string{
		"none": {}, "empty id": {"a", ""}, "twice": {"a", "b", "a"}, "no text": {"\xff"}, "too long": {strings.Repeat("a", align.MaxID+1)}, "more than declared": numbered(0, 11),
	} {
		if _, err := align.NewParty(cfg, ids, 10); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if _, err := align.NewParty(cfg, []string{"a"}, align.MaxIDs+1); err == nil {
		t.Error("too many: not refused")
	}
}

// The server's word is for one attempt of one federation.
func TestEnd(t *testing.T) {
	r := newRing(t, [][]string{{"a"}, {"b"}})
	if err := r.align(); err != nil {
		t.Fatal(err)
	}
	e, a := r.server().End(), r.server().Attempt()
	if !e.Ends(a, align.Federation{7}, r.identities[align.Server]) {
		t.Error("the server's own word is not taken")
	}
	if e.Ends(a, align.Federation{8}, r.identities[align.Server]) || e.Ends(align.Attempt{1}, align.Federation{7}, r.identities[align.Server]) || e.Ends(a, align.Federation{7}, r.identities[1]) {
		t.Error("it is taken for something else, or from somebody else")
	}
}
