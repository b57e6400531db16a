package protocol_test

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/protocol/codec"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// changed is the golden message of a title, changed in one place.
func changed[M protocol.Message](title string, change func(M)) protocol.Message {
	m := messages()[title].(M)
	change(m)
	return m
}

// A message without a place on the wire, or that no receiver would accept, is not sent.
func TestMarshalRefuses(t *testing.T) {
	inTheClear := []protocol.Integers{{Value: []int64{1}}}
	beyond := int64(math.MaxInt32) + 1 // a negative int where an int has 32 bits, which is refused as well
	for _, c := range []struct {
		name  string
		m     protocol.Message
		rule  error
		field string
	}{
		{"an ideal advertisement", &protocol.Advertise{Round: 1}, codec.ErrIdeal, "keys"},
		{"an ideal roster", &protocol.Roster{Round: 1, Clients: 3}, codec.ErrIdeal, "members"},
		{"ideal shares", &protocol.Shares{Round: 1}, codec.ErrIdeal, "shares"},
		{"an ideal delivery", &protocol.Delivery{Round: 1, Clients: 3}, codec.ErrIdeal, "arrived"},
		{"ideal survivors", &protocol.Survivors{Round: 1, Count: 3}, codec.ErrIdeal, "u1"},
		{"an ideal answer", &protocol.Unmask{Round: 1}, codec.ErrIdeal, "shares"},
		{"an ideal set of answers", &protocol.Answered{Round: 1, Count: 3}, codec.ErrIdeal, "u2"},
		{"an ideal replacement", &protocol.Replacement{Round: 1}, codec.ErrIdeal, "shares"},
		{"vectors in the clear", changed("masked-input", func(m *protocol.MaskedInput) { m.Vectors = inTheClear }), codec.ErrIdeal, "masked"},
		{"the size of vectors", changed("masked-input", func(m *protocol.MaskedInput) { m.Packed = 1 }), codec.ErrIdeal, "masked"},
		{"removals in the clear", changed("unmask", func(m *protocol.Unmask) { m.Removals = inTheClear }), codec.ErrIdeal, "shares"},
		{"the size of removals", changed("unmask", func(m *protocol.Unmask) { m.Packed = 1 }), codec.ErrIdeal, "shares"},
		{"an ideal roster along", changed("survivors, next set up", func(m *protocol.Survivors) { m.Next = &protocol.Roster{Round: 9, Clients: 2} }),
			codec.ErrIdeal, "next.members"},

		{"a roster of another number", changed("roster", func(m *protocol.Roster) { m.Clients = 4 }), codec.ErrValue, "members"},
		{"a delivery of another number", changed("delivery", func(m *protocol.Delivery) { m.Clients = 4 }), codec.ErrValue, "arrived"},
		{"survivors of another number", changed("survivors", func(m *protocol.Survivors) { m.Count = 3 }), codec.ErrValue, "u1"},
		{"answers of another number", changed("answered", func(m *protocol.Answered) { m.Count = 4 }), codec.ErrValue, "u2"},
		{"a reason of another round", changed("abort, dealt", func(m *protocol.Abort) { m.Round = 8 }), codec.ErrValue, "round"},
		{"a stage of another round", changed("abort, share", func(m *protocol.Abort) { m.Round = 8 }), codec.ErrValue, "round"},
		{"no plan", &protocol.Open{}, codec.ErrValue, "plan"},
		{"no reason", &protocol.Abort{Round: 1}, codec.ErrValue, "reason"},
		{"no such stage", &protocol.Abort{Round: 1, Reason: &protocol.TooFew{Round: 1, Stage: protocol.Stages}}, codec.ErrValue, "too_few.stage"},
		{"a negative count", &protocol.Abort{Round: 1, Reason: &protocol.TooFew{Round: 1, Left: -1}}, codec.ErrValue, "too_few.left"},
		{"a large count", &protocol.Abort{Round: 1, Reason: &protocol.Unrecoverable{Round: 1, Required: int(beyond)}},
			codec.ErrValue, "unrecoverable.required"},
		{"a negative number of survivors", changed("result", func(m *protocol.Result) { m.Survivors = -1 }), codec.ErrValue, "survivors"},
		{"a short signature", &protocol.Consistency{Round: 1, Signature: fill(63, 0)}, codec.ErrValue, "signature"},
		{"no such noise", changed("open", func(m *protocol.Open) { m.Plan.Releases[1].Noise.Kind = 5 }), codec.ErrValue, "plan.releases[1].noise.kind"},
		{"negative steps", changed("open", func(m *protocol.Open) { m.Plan.Releases[1].Noise.Steps = -1 }), codec.ErrValue, "plan.releases[1].noise.steps"},
		{"a negative length", changed("open", func(m *protocol.Open) { m.Plan.Releases[2].Len = -1 }), codec.ErrValue, "plan.releases[2].len"},
		{"a wide ring", changed("open", func(m *protocol.Open) { m.Plan.Releases[0].Width = 65 }), codec.ErrValue, "plan.releases[0].width"},
		{"a cohort of too many", changed("invite", func(m *protocol.Invite) { m.Setup.Cohort.Clients = int(beyond) }), codec.ErrValue, "cohort.clients"},
		{"a name that is not text", changed("open", func(m *protocol.Open) { m.Plan.Releases[0].Name = "\xff" }), codec.ErrValue, "plan.releases[0].name"},
		{"a phase that is not text", changed("open", func(m *protocol.Open) { m.Plan.Phase = "\xff" }), codec.ErrValue, "plan.phase"},
	} {
		b, err := wire.Marshal(c.m)
		field, ok := errors.AsType[*wire.FieldError](err)
		if b != nil || !ok || !errors.Is(err, c.rule) || field.Kind != c.m.Kind() || field.Field != c.field {
			t.Errorf("%s: %x, %v; want %v in field %q", c.name, b, err, c.rule, c.field)
		}
		if frames, err := wire.AppendFrames(nil, c.m); err == nil || frames != nil {
			t.Errorf("%s is framed: %x, %v", c.name, frames, err)
		}
	}
	if b, err := wire.Marshal(nil); b != nil || err == nil {
		t.Errorf("no message: %x, %v", b, err)
	}
}

// The messages of the same title in golden.json are as they were after they have
// been encoded: others may hold them.
func TestMarshalLeavesTheMessage(t *testing.T) {
	want := messages()
	for title, m := range messages() {
		if _, err := wire.Marshal(m); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		if d := cmp.Diff(want[title], m, sameBits); d != "" {
			t.Errorf("%s was changed (-before +after):\n%s", title, d)
		}
	}
}

// A reader reuses its memory, so what was decoded must not lie in it.
func TestUnmarshalCopies(t *testing.T) {
	want := messages()
	for _, c := range readGolden(t).Good {
		b := unhex(t, c.Bytes)
		m, err := wire.Unmarshal(kindNamed(t, c.Kind), b, goldenLimits())
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = 0xff
		}
		if d := cmp.Diff(want[c.Title], m, sameBits); d != "" {
			t.Errorf("%s changes with the bytes it came from:\n%s", c.Title, d)
		}
	}
}

func TestUnmarshalOfNoKind(t *testing.T) {
	for _, k := range []protocol.Kind{protocol.Kinds, 255} {
		if m, err := wire.Unmarshal(k, []byte{1}, goldenLimits()); m != nil || !errors.Is(err, codec.ErrSyntax) {
			t.Errorf("%s: %v, %v; want ErrSyntax", k, m, err)
		}
	}
}

// allocated counts the bytes that f takes from the heap, freed again or not. The runtime counts all goroutines together,
// and others only add to the count, so that the least of several calls is the count of f.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Entries of two bytes that would each take a hundred are counted before they take
// anything, wherever they stand.
func TestListsAreCountedFirst(t *testing.T) {
	const megabyte = 1 << 20
	l := wire.Limits{Clients: 100, Neighbours: 10, Releases: 2}
	for k := range l.Bytes {
		l.Bytes[k] = 2 * megabyte
	}
	many := func(tag byte) []byte { return bytes.Repeat([]byte{tag, 0}, megabyte/2) }
	inside := func(tag byte, b []byte) []byte {
		n := len(b) // of 3 bytes in a varint
		return append([]byte{tag, byte(n) | 0x80, byte(n>>7) | 0x80, byte(n >> 14)}, b...)
	}
	round, hash := []byte{0x08, 1}, append([]byte{0x12, 32}, make([]byte, 32)...)
	// The fields of a plan before its releases: session, round, no phase, an empty cohort.
	plan := slices.Concat([]byte{0x0a, 16}, make([]byte, 16), []byte{0x10, 1, 0x22, 0})
	for kind, b := range map[protocol.Kind][]byte{
		protocol.KindOpen:        inside(0x0a, append(plan, many(0x2a)...)),
		protocol.KindRoster:      append(round, many(0x12)...),
		protocol.KindShares:      slices.Concat(round, hash, many(0x1a)),
		protocol.KindDelivery:    slices.Concat(round, []byte{0x12, 1, 1}, many(0x1a)),
		protocol.KindMaskedInput: append(round, many(0x12)...),
		protocol.KindSurvivors:   slices.Concat(round, []byte{0x12, 1, 1}, inside(0x1a, append(round, many(0x12)...))),
		protocol.KindQuorum:      append(round, many(0x12)...),
		protocol.KindUnmask:      append(round, many(0x12)...),
		protocol.KindReplacement: append(round, many(0x12)...),
		protocol.KindResult:      append(round, many(0x22)...),
	} {
		var err error
		if n := allocated(func() { _, err = wire.Unmarshal(kind, b, l) }); n > 64<<10 || !errors.Is(err, codec.ErrLimit) {
			t.Errorf("%s of %d bytes: %v after %d bytes from the heap", kind, len(b), err, n)
		}
	}
}

// A decoded message takes a few times as much memory as its bytes, plus the entries of the longest
// lists. A list of empty entries is the worst.
func TestUnmarshalAllocates(t *testing.T) {
	l := goldenLimits()
	l.Clients = 10000
	for k := range l.Bytes {
		l.Bytes[k] = 1 << 20
	}
	empty := bytes.Repeat([]byte{0x12, 0}, l.Clients)
	if n := allocated(func() { _, _ = wire.Unmarshal(protocol.KindRoster, empty, l) }); n > uint64(l.Clients)*1024 {
		t.Errorf("%d empty members take %d bytes from the heap", l.Clients, n)
	}
	in := &protocol.MaskedInput{Round: 1, Masked: [][]byte{make([]byte, 1<<19)}}
	b, err := wire.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if n := allocated(func() { _, err = wire.Unmarshal(protocol.KindMaskedInput, b, l) }); n > 3*uint64(len(b)) || err != nil {
		t.Errorf("a masked input of %d bytes takes %d from the heap, %v", len(b), n, err)
	}
}
