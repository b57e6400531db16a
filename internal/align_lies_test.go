package internal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

// Why a member refuses a message.
const (
	notDecoded  = "a point that does not decode"
	isIdentity  = "the identity in place of a point"
	tooMany     = "more than was declared"
	notInTurn   = "a message that is not in turn"
	notAMessage = "a message that is none"
)

// TestLiars checks that a sender of a wrong message is named by the first member that receives it.
func TestLiars(t *testing.T) {
	good := ristretto255.NewGeneratorElement().Bytes()
	with := func(kind byte, a, b uint32, entries []byte) alignMessage { return alignMessage{kind, a, b, entries} }
	for name, c := range map[string]struct {
		from, to align.Seat
		lie      alignMessage
		raw      []byte // in place of a body
		why      string
	}{
		"no point":                {from: 1, to: 2, lie: with(alignPoints, 1, 0, bytes.Repeat([]byte{255}, 32)), why: notDecoded},
		"the identity":            {from: 1, to: 2, lie: with(alignPoints, 1, 0, make([]byte, 32)), why: isIdentity},
		"more than declared":      {from: 1, to: 2, lie: with(alignPoints, 1, 0, bytes.Repeat(good, 4+align.Checks)), why: tooMany},
		"more of another":         {from: 1, to: 2, lie: with(alignPoints, 3, 0, bytes.Repeat(good, 3+align.Checks)), why: tooMany},
		"more than were sent":     {from: 1, to: 2, lie: with(alignPoints, 2, 0, bytes.Repeat(good, 3+align.Checks)), why: tooMany},
		"points of the server":    {from: 1, to: 2, lie: with(alignPoints, 0, 0, good), why: notInTurn},
		"points of nobody":        {from: 1, to: 2, lie: with(alignPoints, 4, 0, good), why: notInTurn},
		"the second first":        {from: 1, to: 2, lie: with(alignPoints, 1, 1, good), why: notInTurn},
		"one's own out of turn":   {from: 1, to: 2, lie: with(alignPoints, 2, 1, good), why: notInTurn},
		"the wrong way":           {from: 3, to: 2, lie: with(alignPoints, 3, 0, good), why: notInTurn},
		"rows of a party":         {from: 1, to: 2, lie: with(alignRanks, 9, 0, make([]byte, 4)), why: notInTurn},
		"rows too early":          {from: align.Server, to: 2, lie: with(alignRanks, 7, 0, make([]byte, 4)), why: notInTurn},
		"names to a party":        {from: 1, to: 2, lie: with(alignNames, 0, 0, make([]byte, 16)), why: notInTurn},
		"more names":              {from: 1, to: align.Server, lie: with(alignNames, 0, 0, seq(16*4)), why: tooMany},
		"names out of turn":       {from: 1, to: align.Server, lie: with(alignNames, 0, 1, seq(16)), why: notInTurn},
		"a name twice":            {from: 1, to: align.Server, lie: with(alignNames, 0, 0, make([]byte, 48)), why: "twice"},
		"checks of a few":         {from: 1, to: align.Server, lie: with(alignChecks, 0, 0, seq(16)), why: notInTurn},
		"checks to a party":       {from: 1, to: 2, lie: with(alignChecks, 0, 0, seq(16*align.Checks)), why: notInTurn},
		"done before the rows":    {from: 1, to: align.Server, lie: with(alignDone, 0, 0, nil), why: notInTurn},
		"points to the server":    {from: 1, to: align.Server, lie: with(alignPoints, 1, 0, good), why: notInTurn},
		"nothing":                 {from: 1, to: 2, raw: []byte{}, why: notAMessage},
		"half a head":             {from: 1, to: 2, raw: []byte{1, 2}, why: notAMessage},
		"half a point":            {from: 1, to: 2, lie: with(alignPoints, 1, 0, good[:31]), why: notAMessage},
		"no points":               {from: 1, to: 2, lie: with(alignPoints, 1, 0, nil), why: notAMessage},
		"too many for a message":  {from: 1, to: 2, lie: with(alignPoints, 1, 0, bytes.Repeat(good, 1025)), why: notAMessage},
		"a kind that there isn't": {from: 1, to: 2, lie: with(9, 1, 0, nil), why: notAMessage},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, [][]string{{"a", "b", "c"}, {"b", "c"}, {"d", "e"}})
			if err := r.join(); err != nil {
				t.Fatal(err)
			}
			if c.raw == nil {
				c.raw = c.lie.encode()
			}
			r.transit = []align.Envelope{r.seal(c.from, c.to, 1, c.raw)}
			if err := r.deliver(1); !isFault(err, c.from, c.why) {
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

// isFault reports whether an error blames a member for something.
func isFault(err error, by align.Seat, why string) bool {
	f, ok := errors.AsType[*align.Fault](err)
	return ok && f.By == by && strings.Contains(err.Error(), why)
}

// The server may not give a party rows that cannot be.
func TestRowsOfALiar(t *testing.T) {
	for name, c := range map[string]struct {
		lie alignMessage
		why string
	}{
		"fewer than ids":  {alignMessage{alignRanks, 2, 0, make([]byte, 4)}, "2 rows"},
		"more than ids":   {alignMessage{alignRanks, 8, 0, make([]byte, 4)}, "8 rows"},
		"out of range":    {alignMessage{alignRanks, 5, 0, []byte{0, 0, 0, 5}}, "row 5"},
		"twice":           {alignMessage{alignRanks, 5, 0, make([]byte, 8)}, "row 0"},
		"for more":        {alignMessage{alignRanks, 5, 0, make([]byte, 16)}, tooMany},
		"not the first":   {alignMessage{alignRanks, 5, 1, make([]byte, 4)}, notInTurn},
		"after all there": {alignMessage{}, notInTurn},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, [][]string{{"a", "b", "c"}, {"b", "c"}, {"d", "e"}})
			lied := false
			r.fate = func(e *align.Envelope) (int, bool) {
				if e.From != align.Server || e.To != 1 || e.Sequence == 0 || lied || c.lie.kind == 0 {
					return 1, false
				}
				lied = true
				e.Sealed = r.seal(align.Server, 1, e.Sequence, c.lie.encode()).Sealed
				return 1, false
			}
			err := r.align()
			if c.lie.kind == 0 {
				if err != nil {
					t.Fatal(err)
				}
				r.transit = []align.Envelope{r.seal(align.Server, 1, 2, alignMessage{alignRanks, 5, 3, make([]byte, 4)}.encode())}
				err = r.deliver(1)
			}
			if !isFault(err, align.Server, c.why) {
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
	other, n := drawnScalar(t, simulated.New(9, "another").Stream("x", 0)), 0
	r.fate = func(e *align.Envelope) (int, bool) {
		if e.From == 2 && e.To == 3 && e.Sequence > 0 {
			if m := r.open(e); m.a == 1 { // party 1's own points
				n++
				for i := 0; i < len(m.entries); i += 32 {
					p, err := ristretto255.NewIdentityElement().SetCanonicalBytes(m.entries[i : i+32])
					if err != nil {
						t.Fatal(err)
					}
					copy(m.entries[i:], p.ScalarMult(other, p).Bytes())
				}
				e.Sealed = r.seal(2, 3, e.Sequence, m.encode()).Sealed
			}
		}
		if e.From == align.Server && e.Sequence > 0 {
			t.Error("the server gives rows out")
		}
		return 1, false
	}
	if err := r.deliver(-1); err != nil {
		t.Fatal(err)
	}
	if n != 1 || len(r.deaf) != 1 || !errors.Is(r.deaf[0], align.ErrMismatch) {
		t.Errorf("%d messages, and the server says %v; want %v", n, r.deaf, align.ErrMismatch)
	}
}

// The bad encodings are of RFC 9496, appendix A.3: not canonical, negative, no square, and the identity.
func TestPointsThatAreRefused(t *testing.T) {
	for bad, why := range map[string]string{
		"00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff": notDecoded,
		"0100000000000000000000000000000000000000000000000000000000000000": notDecoded,
		"26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371": notDecoded,
		"3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e": notDecoded,
		"0000000000000000000000000000000000000000000000000000000000000000": isIdentity,
	} {
		r := newRing(t, [][]string{{"a"}, {"b"}})
		if err := r.join(); err != nil {
			t.Fatal(err)
		}
		r.transit = []align.Envelope{r.seal(1, 2, 1, alignMessage{alignPoints, 1, 0, unhex(t, bad)}.encode())}
		if err := r.deliver(1); !isFault(err, 1, why) {
			t.Errorf("%s: %v, want %s", bad, err, why)
		}
	}
}
