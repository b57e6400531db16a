package align

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

// TestLiars checks that a sender of a wrong message is named by the first member that receives it.
func TestLiars(t *testing.T) {
	good := hash([]byte("x"), []byte(suite)).Bytes()
	with := func(k kind, a, b uint32, entries []byte) body { return body{k, a, b, entries} }
	for name, c := range map[string]struct {
		from, to Seat
		lie      body
		raw      []byte // in place of a body
		why      string
	}{
		"no point":                {from: 1, to: 2, lie: with(points, 1, 0, bytes.Repeat([]byte{255}, 32)), why: errPoint.Error()},
		"the identity":            {from: 1, to: 2, lie: with(points, 1, 0, make([]byte, 32)), why: errIdentity.Error()},
		"more than declared":      {from: 1, to: 2, lie: with(points, 1, 0, bytes.Repeat(good, 4+Checks)), why: errCount.Error()},
		"more of another":         {from: 1, to: 2, lie: with(points, 3, 0, bytes.Repeat(good, 3+Checks)), why: errCount.Error()},
		"more than were sent":     {from: 1, to: 2, lie: with(points, 2, 0, bytes.Repeat(good, 3+Checks)), why: errCount.Error()},
		"points of the server":    {from: 1, to: 2, lie: with(points, 0, 0, good), why: errTurn.Error()},
		"points of nobody":        {from: 1, to: 2, lie: with(points, 4, 0, good), why: errTurn.Error()},
		"the second first":        {from: 1, to: 2, lie: with(points, 1, 1, good), why: errTurn.Error()},
		"one's own out of turn":   {from: 1, to: 2, lie: with(points, 2, 1, good), why: errTurn.Error()},
		"the wrong way":           {from: 3, to: 2, lie: with(points, 3, 0, good), why: errTurn.Error()},
		"rows of a party":         {from: 1, to: 2, lie: with(ranks, 9, 0, make([]byte, 4)), why: errTurn.Error()},
		"rows too early":          {from: Server, to: 2, lie: with(ranks, 7, 0, make([]byte, 4)), why: errTurn.Error()},
		"names to a party":        {from: 1, to: 2, lie: with(names, 0, 0, make([]byte, 16)), why: errTurn.Error()},
		"more names":              {from: 1, to: Server, lie: with(names, 0, 0, seq(16*4)), why: errCount.Error()},
		"names out of turn":       {from: 1, to: Server, lie: with(names, 0, 1, seq(16)), why: errTurn.Error()},
		"a name twice":            {from: 1, to: Server, lie: with(names, 0, 0, make([]byte, 48)), why: "twice"},
		"checks of a few":         {from: 1, to: Server, lie: with(checks, 0, 0, seq(16)), why: errTurn.Error()},
		"checks to a party":       {from: 1, to: 2, lie: with(checks, 0, 0, seq(16*Checks)), why: errTurn.Error()},
		"done before the rows":    {from: 1, to: Server, lie: with(done, 0, 0, nil), why: errTurn.Error()},
		"points to the server":    {from: 1, to: Server, lie: with(points, 1, 0, good), why: errTurn.Error()},
		"nothing":                 {from: 1, to: 2, raw: []byte{1, 2}, why: errForm.Error()},
		"half a point":            {from: 1, to: 2, lie: with(points, 1, 0, good[:31]), why: errForm.Error()},
		"no points":               {from: 1, to: 2, lie: with(points, 1, 0, nil), why: errForm.Error()},
		"too many for a message":  {from: 1, to: 2, lie: with(points, 1, 0, bytes.Repeat(good, 1025)), why: errForm.Error()},
		"a kind that there isn't": {from: 1, to: 2, lie: with(9, 1, 0, nil), why: errForm.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, [][]string{{"a", "b", "c"}, {"b", "c"}, {"d", "e"}})
			if err := r.join(); err != nil {
				t.Fatal(err)
			}
			m := r.member(c.from)
			l := m.links[c.to]
			l.waiting, l.sent, l.sequence = nil, nil, 0
			if c.raw == nil {
				c.raw = c.lie.encode()
			}
			r.transit = m.say(c.to, c.raw)
			err := r.deliver(1)
			f, ok := errors.AsType[*Fault](err)
			if !ok || f.By != c.from || !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v; want a fault of the %s: %s", err, c.from, c.why)
			}
		})
	}
}

func seq(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func (r *ring) member(s Seat) *member {
	if s == Server {
		return r.server().member
	}
	return r.party(s).member
}

// The server may not give a party rows that cannot be.
func TestRowsOfALiar(t *testing.T) {
	for name, c := range map[string]struct {
		lie body
		why string
	}{
		"fewer than ids":  {body{ranks, 2, 0, make([]byte, 4)}, "2 rows"},
		"more than ids":   {body{ranks, 8, 0, make([]byte, 4)}, "8 rows"},
		"out of range":    {body{ranks, 5, 0, []byte{0, 0, 0, 5}}, "row 5"},
		"twice":           {body{ranks, 5, 0, make([]byte, 8)}, "row 0"},
		"for more":        {body{ranks, 5, 0, make([]byte, 16)}, errCount.Error()},
		"not the first":   {body{ranks, 5, 1, make([]byte, 4)}, errTurn.Error()},
		"after all there": {body{}, errTurn.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, [][]string{{"a", "b", "c"}, {"b", "c"}, {"d", "e"}})
			lied := false
			r.fate = func(e *Envelope) (int, bool) {
				if e.From != Server || e.To != 1 || e.Sequence == 0 || lied || c.lie.kind == 0 {
					return 1, false
				}
				lied = true
				e.Sealed = r.server().links[1].out.Seal(nil, nonce(e.Sequence), c.lie.encode(), nil)
				return 1, false
			}
			err := r.align()
			if c.lie.kind == 0 {
				if err != nil {
					t.Fatal(err)
				}
				r.transit = r.server().say(1, body{ranks, 5, 3, make([]byte, 4)}.encode())
				err = r.deliver(1)
			}
			f, ok := errors.AsType[*Fault](err)
			if !ok || f.By != Server || !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v; want a fault of the server: %s", err, c.why)
			}
		})
	}
}

// A party that multiplies the points of one other by a second scalar spoils the rows: no
// rows are given out then.
func TestSecondScalar(t *testing.T) {
	r := newRing(t, [][]string{{"a", "b"}, {"a", "b"}, {"a", "b"}})
	if err := r.join(); err != nil {
		t.Fatal(err)
	}
	other, err := drawScalar(simulated.New(9, "another").Stream("x", 0))
	if err != nil {
		t.Fatal(err)
	}
	first, n := r.party(2).secret, 0
	r.fate = func(e *Envelope) (int, bool) {
		if e.To == 2 && e.From == 1 && e.Sequence > 0 {
			n++
			r.party(2).secret = []*ristretto255.Scalar{other, first}[min(n, 2)-1] // for the first message, party 1's own points
		}
		if e.From == Server && e.Sequence > 0 {
			t.Error("the server gives rows out")
		}
		return 1, false
	}
	if err = r.deliver(-1); err != nil {
		t.Fatal(err)
	}
	if n < 2 || len(r.deaf) != 1 || !errors.Is(r.deaf[0], ErrMismatch) {
		t.Errorf("%d messages, and the server says %v; want %v", n, r.deaf, ErrMismatch)
	}
}
