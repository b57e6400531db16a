package align

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// role is a party or the server.
type role interface {
	Hello() Hello
	Join([]Hello, []ed25519.PublicKey, protocol.Runner) ([]Envelope, error)
	Take(*Envelope, protocol.Runner) ([]Envelope, error)
}

// ring is an alignment in one process: seat 0 is the server's.
type ring struct {
	t          testing.TB
	lists      [][]string
	pads       []int
	lives      int
	identities []ed25519.PublicKey
	keys       []ed25519.PrivateKey
	roles      []role
	transit    []Envelope
	run        protocol.Runner
	// fate says what becomes of an envelope: how often it is delivered, and whether after all others.
	fate func(*Envelope) (copies int, late bool)
	// deaf are the errors that were for the log.
	deaf []error
}

// newRing seats parties with these ids and so much padding.
func newRing(t testing.TB, lists [][]string, pads ...int) *ring {
	t.Helper()
	r := &ring{t: t, lists: lists, pads: append(pads, make([]int, len(lists)-len(pads))...), run: protocol.Workers(1), roles: make([]role, len(lists)+1),
		fate: func(*Envelope) (int, bool) { return 1, false }}
	for seat := range len(lists) + 1 {
		k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(seat + 1)}, ed25519.SeedSize))
		r.keys, r.identities = append(r.keys, k), append(r.identities, k.Public().(ed25519.PublicKey))
		r.start(Seat(seat))
	}
	return r
}

// start begins a process.
func (r *ring) start(s Seat) {
	r.t.Helper()
	r.lives++
	cfg := Config{Federation: Federation{7}, Seat: s, Identity: r.keys[s], Entropy: simulated.New(uint64(r.lives), "process")}
	var err error
	if s == Server {
		r.roles[s], err = NewCollector(cfg)
	} else {
		r.roles[s], err = NewParty(cfg, r.lists[s-1], len(r.lists[s-1])+r.pads[s-1])
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) party(s Seat) *Party { return r.roles[s].(*Party) }
func (r *ring) server() *Collector  { return r.roles[Server].(*Collector) }
func (r *ring) hellos() (all []Hello) {
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
func (r *ring) hand(e *Envelope) error {
	to := r.roles[e.To]
	before := e.To != Server && r.party(e.To).Result() != nil
	again := *e
	again.Sealed = bytes.Clone(e.Sealed)
	out, err := to.Take(&again, r.run)
	if _, fault := errors.AsType[*Fault](err); fault {
		return err
	} else if err != nil {
		r.deaf = append(r.deaf, err)
	}
	r.transit = append(r.transit, out...)
	if e.To != Server && !before && r.party(e.To).Result() != nil {
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
		rows := r.party(Seat(k + 1)).Result()
		if have, of := r.party(Seat(k + 1)).Progress(); have != of || of < len(list)+Checks {
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

// A pseudonym is the hash of the id under the product of all secrets, by whatever way.
func TestPseudonyms(t *testing.T) {
	r := newRing(t, [][]string{{"a"}, {"b"}, {"c"}})
	var got []byte
	r.fate = func(e *Envelope) (int, bool) {
		if e.To == Server && e.From == 1 && e.Sequence == 1 {
			b, err := r.server().links[1].in.Open(nil, nonce(1), e.Sealed, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = b[headSize:]
		}
		return 1, false
	}
	if err := r.align(); err != nil {
		t.Fatal(err)
	}
	all := ristretto255.NewScalar().Multiply(r.party(1).secret, r.party(2).secret)
	all.Multiply(all, r.party(3).secret)
	input := []byte("\x00a")
	want := digest(input, ristretto255.NewIdentityElement().ScalarMult(all, hash(input, []byte(suite))).Bytes())
	if !bytes.Equal(got, want[:nameSize]) {
		t.Errorf("the pseudonym is %x, want %x", got, want[:nameSize])
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
		r.fate = func(*Envelope) (int, bool) { return []int{0, 1, 1, 2}[draw.IntN(4)], draw.IntN(4) == 0 }
		if err := r.align(); err != nil {
			t.Fatal(err)
		}
		r.check()
	}
}

// A connection breaks when a whole window has come and no acknowledgement has gone back. The messages are sent again, and
// acknowledged again although they were taken before, or the sender would never send another. The reader takes each message once.
func TestLostAcknowledgements(t *testing.T) {
	r := newRing(t, [][]string{{"a"}, {"b"}})
	hellos := r.hellos()
	from, err := r.party(1).link(Attempt{1}, &hellos[2])
	to, failed := r.party(2).link(Attempt{1}, &hellos[1])
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	want := []byte("more messages than a window has")
	for i := range want {
		from.waiting = append(from.waiting, want[i:i+1])
	}
	var got []byte
	carry := func(list []Envelope, acknowledged bool) {
		for ; len(list) > 0; list = list[1:] {
			message, answers, err := to.open(&list[0])
			got = append(got, message...)
			for i := range answers {
				if acknowledged {
					_, more, failed := from.open(&answers[i])
					list, err = append(list, more...), errors.Join(err, failed)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	carry(from.flush(), false)
	carry(slices.Clone(from.sent), true)
	if !bytes.Equal(got, want) || len(from.sent) > 0 {
		t.Errorf("%q is read, want %q; %d are not acknowledged", got, want, len(from.sent))
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
		r.start([]Seat{Server, 1, 3}[at/3%3])
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
	r.fate = func(e *Envelope) (int, bool) {
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
		if !errors.Is(err, ErrSealed) {
			t.Error(err)
		}
	}
	if changed != 12 || len(r.deaf) == 0 {
		t.Errorf("%d envelopes were changed, and %d did not open", changed, len(r.deaf))
	}
	r.deaf = nil
	r.check()
}

// TestJoinRefuses checks that only enrolled members take part, each with its own signed hello.
func TestJoinRefuses(t *testing.T) {
	r := newRing(t, [][]string{{"a"}, {"b"}})
	for name, change := range map[string]func(all []Hello) []Hello{
		"somebody missing": func(all []Hello) []Hello { return all[:2] },
		"another count":    func(all []Hello) []Hello { all[2].Count++; return all },
		"another key":      func(all []Hello) []Hello { all[2].Key = seq(32); return all },
		"seats swapped":    func(all []Hello) []Hello { all[1], all[2] = all[2], all[1]; return all },
		"no ids": func(all []Hello) []Hello {
			all[2].Count = 0
			all[2].Signature = ed25519.Sign(r.keys[2], all[2].signed(Federation{7}))
			return all
		},
		"another federation": func(all []Hello) []Hello {
			all[2].Signature = ed25519.Sign(r.keys[2], all[2].signed(Federation{8}))
			return all
		},
		"a key of low order": func(all []Hello) []Hello {
			all[2].Key = make([]byte, 32)
			all[2].Signature = ed25519.Sign(r.keys[2], all[2].signed(Federation{7}))
			return all
		},
		"an older self": func(all []Hello) []Hello {
			all[1].Key = seq(32)
			all[1].Signature = ed25519.Sign(r.keys[1], all[1].signed(Federation{7}))
			return all
		},
	} {
		if _, err := r.party(1).Join(change(r.hellos()), r.identities, r.run); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	for range MaxAttempts {
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
	cfg := Config{Seat: 1, Identity: ed25519.NewKeyFromSeed(seq(32)), Entropy: simulated.New(1, "x")}
	for name, ids := range map[string][]string{
		"none": {}, "empty id": {"a", ""}, "twice": {"a", "b", "a"}, "no text": {"\xff"}, "too long": {strings.Repeat("a", MaxID+1)}, "more than declared": numbered(0, 11),
	} {
		if _, err := NewParty(cfg, ids, 10); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if _, err := NewParty(cfg, []string{"a"}, MaxIDs+1); err == nil {
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
	if !e.Ends(a, Federation{7}, r.identities[Server]) {
		t.Error("the server's own word is not taken")
	}
	if e.Ends(a, Federation{8}, r.identities[Server]) || e.Ends(Attempt{1}, Federation{7}, r.identities[Server]) || e.Ends(a, Federation{7}, r.identities[1]) {
		t.Error("it is taken for something else, or from somebody else")
	}
}
