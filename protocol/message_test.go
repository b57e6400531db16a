package protocol_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/protocol"
)

// bits is a string of bits, one in each byte.
type bits []byte

func (b bits) write(v uint64, width int) bits {
	for i := range width {
		b = append(b, byte(v>>i&1))
	}
	return b
}

func (b *bits) read(width int) (v uint64) {
	for i := range width {
		v |= uint64((*b)[i]) << i
	}
	*b = (*b)[width:]
	return v
}

func (b bits) bytes() int { return (len(b) + 7) / 8 }

// Each release on its own, every coordinate at its width, padded to a byte.
func TestPackedSize(t *testing.T) {
	p := protocol.Plan{}
	want := 0
	if p.PackedSize() != 0 {
		t.Errorf("a plan of nothing takes %d bytes", p.PackedSize())
	}
	for _, r := range []protocol.Release{{Len: 1, Width: 8}, {Len: 3, Width: 9}, {Len: 1000, Width: 19}, {Len: 8, Width: 13}, {Len: 5, Width: 64}} {
		var b bits
		for range r.Len {
			b = b.write(math.MaxUint64, int(r.Width))
		}
		want += b.bytes()
		p.Releases = append(p.Releases, r)
		if got := p.PackedSize(); got != want {
			t.Errorf("after a release of %d coordinates of %d bits: %d bytes, want %d", r.Len, r.Width, got, want)
		}
	}
}

// golomb encodes values with parameter k: zigzag, quotient in unary closed by a
// 0, k bits of remainder. It fails where the code cannot be read back.
func golomb(t interface{ Fatalf(string, ...any) }, values []int64, k int) bits {
	var b bits
	for _, v := range values {
		z := uint64(2 * v)
		if v < 0 {
			z = uint64(-(v+1))*2 + 1
		}
		for range z >> k {
			b = append(b, 1)
		}
		b = append(b, 0).write(z, k)
	}
	for i, r := 0, b; i < len(values); i++ {
		q := uint64(slices.Index(r, 0))
		r = r[q+1:]
		z := q<<k | r.read(k)
		v := int64(z / 2)
		if z%2 == 1 {
			v = -v - 1
		}
		if v != values[i] {
			t.Fatalf("value %d is read back as %d with parameter %d", values[i], v, k)
		}
	}
	return b
}

// sizes are the bytes of the code for every parameter from 0 to 62 that needs
// no more than 2^16 bits of unary, one byte for the parameter included.
func sizes(t interface{ Fatalf(string, ...any) }, values []int64) map[int]int {
	out := make(map[int]int)
	for k := range 63 {
		unary := 0.0
		for _, v := range values {
			unary += 2 * math.Abs(float64(v)) / math.Ldexp(1, k)
		}
		if unary < 1<<16 {
			out[k] = 1 + golomb(t, values, k).bytes()
		}
	}
	return out
}

// split is a plan of releases whose noise is split.
func split(releases int) *protocol.Plan {
	p := &protocol.Plan{Releases: make([]protocol.Release, releases)}
	for i := range p.Releases {
		p.Releases[i] = protocol.Release{Len: 9, Width: 13, Noise: protocol.Noise{Kind: protocol.Split}}
	}
	return p
}

// A code is as long as its size says. It is written bit for bit as the oracle writes it, and read
// back. A code that is cut off, that is too long, or that has a stray bit at its end is refused.
func TestRemovalCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Int64Range(-3, 3), rapid.Int64Range(-1000, 1000),
			rapid.SampledFrom([]int64{0, -1, 1, math.MaxInt64, math.MinInt64, 1 << 32}))
		values := rapid.SliceOfN(value, 1, 40).Draw(t, "values")
		code := protocol.AppendRemoval([]byte{7}, values)[1:]
		if len(code) != riceSize(values) {
			t.Fatalf("%v take %d bytes, the size says %d", values, len(code), riceSize(values))
		}
		want := golomb(t, values, int(code[0]))
		for i, bit := range want {
			if code[1+i/8]>>(i%8)&1 != bit {
				t.Fatalf("%v: bit %d of the code differs from the oracle's", values, i)
			}
		}
		got := make([]int64, len(values))
		if err := protocol.ParseRemoval(got, code); err != nil || !slices.Equal(got, values) {
			t.Fatalf("%v are read back as %v, %v", values, got, err)
		}
		bad := [][]byte{nil, code[:len(code)-1], append(slices.Clone(code), 0)}
		if len(want)%8 != 0 {
			stray := slices.Clone(code)
			stray[len(stray)-1] |= 0x80
			bad = append(bad, stray)
		}
		bad = append(bad, append([]byte{63}, code[1:]...))
		for i, b := range bad {
			if err := protocol.ParseRemoval(got, b); !errors.Is(err, protocol.ErrRemoval) {
				t.Fatalf("%v: malformed code %d is read as %v, %v", values, i, got, err)
			}
		}
	})
	// The quotient 2 with parameter 62 needs 65 bits.
	if err := protocol.ParseRemoval(make([]int64, 1), append([]byte{62, 0b1111}, make([]byte, 8)...)); !errors.Is(err, protocol.ErrRemoval) {
		t.Errorf("a value of more than 64 bits is read: %v", err)
	}
}

// A code that can be read is written again to a code that reads the same.
func FuzzParseRemoval(f *testing.F) {
	for _, v := range [][]int64{{0}, {1, -1, 5, 1000}, {math.MaxInt64, math.MinInt64}} {
		f.Add(len(v), protocol.AppendRemoval(nil, v))
	}
	f.Fuzz(func(t *testing.T, n int, code []byte) {
		if n < 1 || n > 1000 {
			return
		}
		first, second := make([]int64, n), make([]int64, n)
		if protocol.ParseRemoval(first, code) != nil {
			return
		}
		if err := protocol.ParseRemoval(second, protocol.AppendRemoval(nil, first)); err != nil || !slices.Equal(first, second) {
			t.Fatalf("%v is read back as %v, %v", first, second, err)
		}
	})
}

func riceSize(values []int64) int {
	return split(1).RemovalsSize([]protocol.Integers{{Value: values}})
}

// The size is the size of a code that can be written and read back.
func TestUnmaskSizeIsOfACode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Int64Range(-3, 3), rapid.Int64Range(-1000, 1000),
			rapid.SampledFrom([]int64{0, -1, 1, math.MaxInt64, math.MinInt64, 1 << 32}))
		values := rapid.SliceOfN(value, 0, 40).Draw(t, "values")
		got := riceSize(values)
		for _, size := range sizes(t, values) {
			if size == got {
				return
			}
		}
		t.Fatalf("%v take %d bytes; no parameter gives that: %v", values, got, sizes(t, values))
	})
}

// For removals as they come, Skellam, it is within 3% of the best parameter's.
// math/rand's normal variates, rounded, stand in for Skellam ones of that variance.
func TestUnmaskSizeIsNearTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, sigma := range []float64{0.3, 1, 3, 10, 77, 1000, 1e6} {
		values := make([]int64, 4000)
		for i := range values {
			values[i] = int64(math.Round(sigma * rng.NormFloat64()))
		}
		best := math.MaxInt
		for _, size := range sizes(t, values) {
			best = min(best, size)
		}
		if got := riceSize(values); float64(got) > 1.03*float64(best) || got < best {
			t.Errorf("sigma %v: %d bytes, the best parameter takes %d", sigma, got, best)
		}
	}
}

// Where removals are not drawn their expected size stands in: within 2% of what
// drawn ones take. With ω = 1/2 and all of N left, a - b = V/N.
func TestExpectedRemovalSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, sigma := range []float64{1, 3, 10, 77, 1000, 1e6} {
		values := make([]int64, 20000)
		for i := range values {
			values[i] = int64(math.Round(sigma * rng.NormFloat64()))
		}
		p := split(1)
		p.Cohort = protocol.Cohort{Clients: 100, Tolerance: 0.5}
		p.Releases[0].Len, p.Releases[0].Noise.Variance = len(values), 100*sigma*sigma
		drawn := float64(riceSize(values))
		if got := float64(p.RemovalSize(100)); math.Abs(got-drawn) > 0.02*drawn {
			t.Errorf("sigma %v: %v bytes expected, drawn ones take %v", sigma, got, drawn)
		}
		// As few left as required: nothing is removed, one bit a coordinate says so.
		if got := p.RemovalSize(50); got != 1+20000/8 {
			t.Errorf("sigma %v: %d bytes for no removal, want %d", sigma, got, 1+20000/8)
		}
	}
	// Replaced noise changes under masks: the width of the ring, 9 times 13 bits.
	p := split(1)
	p.Releases[0].Noise.Kind = protocol.TwoRound
	if a, b := p.RemovalSize(3), p.RemovalsSize([]protocol.Integers{{Value: make([]int64, 9)}}); a != 15 || b != 15 {
		t.Errorf("replaced noise takes %d and %d bytes, want 15", a, b)
	}
	p.Releases[0].Noise.Kind = protocol.NoNoise
	if got := p.RemovalSize(3); got != 0 {
		t.Errorf("no noise takes %d bytes to remove", got)
	}
}

func TestUnmaskSizes(t *testing.T) {
	for _, c := range []struct {
		removals []protocol.Integers
		want     int
	}{
		{nil, 0},
		{[]protocol.Integers{{Index: []uint32{}}}, 1}, // the parameter alone
		{[]protocol.Integers{{Value: make([]int64, 8)}}, 2},
		{[]protocol.Integers{{Value: make([]int64, 9)}}, 3},
		{[]protocol.Integers{{Value: make([]int64, 9)}, {Value: make([]int64, 8)}}, 5},
		{[]protocol.Integers{{Value: []int64{math.MinInt64}}}, 1 + 9}, // 3 + 1 of unary and 62 bits
	} {
		if got := split(len(c.removals)).RemovalsSize(c.removals); got != c.want {
			t.Errorf("%v: %d bytes, want %d", c.removals, got, c.want)
		}
	}
}

// The order of the kinds is the order of a round, and each has its own word.
func TestKinds(t *testing.T) {
	all := []protocol.Message{
		&protocol.Open{}, &protocol.Announce{}, &protocol.Invite{}, &protocol.Advertise{}, &protocol.Roster{}, &protocol.Shares{}, &protocol.Delivery{},
		&protocol.Prepared{}, &protocol.Proceed{}, &protocol.MaskedInput{}, &protocol.Survivors{}, &protocol.Consistency{}, &protocol.Quorum{}, &protocol.Unmask{}, &protocol.Answered{}, &protocol.Replacement{}, &protocol.Refusal{},
		&protocol.Result{}, &protocol.Abort{}, &protocol.Held{}, &protocol.Final{},
		&protocol.Forward{}, &protocol.RelayAck{}, &protocol.RelayCollect{}, &protocol.Partial{}, &protocol.RelayStatus{},
	}
	want := []string{"open", "announce", "invite", "advertise", "roster", "shares", "delivery", "prepared", "proceed", "masked-input", "survivors", "consistency", "quorum", "unmask", "answered", "replacement", "refusal", "result", "abort", "held", "final", "forward", "relay-ack", "relay-collect", "partial", "relay-status"}
	if len(all) != int(protocol.Kinds) {
		t.Fatalf("there are %d kinds, %d messages here", protocol.Kinds, len(all))
	}
	for i, m := range all {
		if int(m.Kind()) != i || m.Kind().String() != want[i] {
			t.Errorf("%T is of kind %d, %q; want %d, %q", m, m.Kind(), m.Kind(), i, want[i])
		}
	}
}

// The message that travels with another is found, and none where there is none.
func TestRider(t *testing.T) {
	for _, want := range []protocol.Message{new(protocol.Delivery), new(protocol.Advertise), new(protocol.Roster), new(protocol.Shares)} {
		var m, empty protocol.Message
		switch r := want.(type) {
		case *protocol.Delivery:
			m, empty = &protocol.Announce{Delivery: r}, &protocol.Announce{}
		case *protocol.Advertise:
			m, empty = &protocol.MaskedInput{Next: r}, &protocol.MaskedInput{}
		case *protocol.Roster:
			m, empty = &protocol.Survivors{Next: r}, &protocol.Survivors{}
		case *protocol.Shares:
			m, empty = &protocol.Unmask{Next: r}, &protocol.Unmask{}
		}
		if got := protocol.Piggyback(m); got != want {
			t.Errorf("with %s travels %v, want %s", protocol.Describe(m), got, protocol.Describe(want))
		}
		for _, alone := range []protocol.Message{empty, want} {
			if got := protocol.Piggyback(alone); got != nil {
				t.Errorf("with %s travels %s, want nothing", protocol.Describe(alone), protocol.Describe(got))
			}
		}
	}
}

func TestStageMessages(t *testing.T) {
	for stage, m := range []protocol.StageMessage{
		&protocol.Advertise{Round: 7}, &protocol.Shares{Round: 7}, &protocol.Prepared{Round: 7}, &protocol.MaskedInput{Round: 7},
		&protocol.Consistency{Round: 7}, &protocol.Unmask{Round: 7}, &protocol.Replacement{Round: 7},
	} {
		if it, s := m.At(); it != 7 || s != protocol.Stage(stage) {
			t.Errorf("%T is at round %d, %s; want 7, %s", m, it, s, protocol.Stage(stage))
		}
	}
}

// The words are read in logs and summaries; an unknown value must show itself.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{protocol.Server, "server"}, {protocol.Aggregator, "aggregator"}, {protocol.Client, "client"}, {protocol.Relay, "relay"}, {protocol.Role(7), "Role(7)"},
		{protocol.Party{Role: protocol.Server, Client: 3}, "server"}, {protocol.ClientParty(3), "client 3"}, {protocol.RelayParty(3), "relay 3"},
		{protocol.StageAdvertise, "advertise"}, {protocol.StageShare, "share"}, {protocol.StagePrepared, "prepared"}, {protocol.StageMaskedInput, "masked-input"}, {protocol.StageUnmask, "unmask"},
		{protocol.StageConsistency, "consistency"}, {protocol.StageReplace, "replace"}, {protocol.Stages, "Stage(7)"}, {protocol.Kind(200), "Kind(200)"},
		{protocol.NoNoise, "none"}, {protocol.Split, "split"}, {protocol.TwoRound, "replace"}, {protocol.PartyNoise, "own"}, {protocol.NoiseKind(9), "NoiseKind(9)"},
		{protocol.RoundOpened, "round-opened"}, {protocol.RoundSummed, "round-summed"}, {protocol.RoundAborted, "round-aborted"}, {protocol.RoundHeld, "round-held"}, {protocol.SumRefused, "sum-refused"},
		{protocol.ClientLost, "client-lost"}, {protocol.ClientAccused, "client-accused"}, {protocol.ClientExcluded, "client-excluded"}, {protocol.InputUnusable, "input-unusable"}, {protocol.PlanRefused, "plan-refused"},
		{protocol.MessageIgnored, "message-ignored"}, {protocol.WorkFailed, "work-failed"}, {protocol.SessionEnded, "session-ended"},
		{protocol.EventKind(200), "EventKind(200)"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T is %q, want %q", c.value, got, c.want)
		}
	}
}

func TestTooFew(t *testing.T) {
	err := &protocol.TooFew{Round: 4, Stage: protocol.StageShare, Left: 6, Required: 7}
	if want := "round 4: 6 clients left after the stage share, 7 required"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// The stages in the order of the protocol. A message of the aggregator opens the stage that the
// client answers next. Survivors are confirmed first if that is asked for. Messages between server
// and aggregator alone belong to no stage.
func TestStageOf(t *testing.T) {
	for _, tt := range []struct {
		message         protocol.Message
		plain, confirms protocol.Stage
	}{
		{&protocol.Announce{}, protocol.StageAdvertise, protocol.StageAdvertise},
		{&protocol.Announce{Delivery: &protocol.Delivery{}}, protocol.StagePrepared, protocol.StagePrepared},
		{&protocol.Invite{}, protocol.StageAdvertise, protocol.StageAdvertise},
		{&protocol.Advertise{}, protocol.StageAdvertise, protocol.StageAdvertise},
		{&protocol.Roster{}, protocol.StageShare, protocol.StageShare},
		{&protocol.Shares{}, protocol.StageShare, protocol.StageShare},
		{&protocol.Delivery{}, protocol.StagePrepared, protocol.StagePrepared},
		{&protocol.Prepared{}, protocol.StagePrepared, protocol.StagePrepared},
		{&protocol.Proceed{}, protocol.StageMaskedInput, protocol.StageMaskedInput},
		{&protocol.MaskedInput{}, protocol.StageMaskedInput, protocol.StageMaskedInput},
		{&protocol.Survivors{}, protocol.StageUnmask, protocol.StageConsistency},
		{&protocol.Consistency{}, protocol.StageConsistency, protocol.StageConsistency},
		{&protocol.Quorum{}, protocol.StageUnmask, protocol.StageUnmask},
		{&protocol.Unmask{}, protocol.StageUnmask, protocol.StageUnmask},
		{&protocol.Answered{}, protocol.StageReplace, protocol.StageReplace},
		{&protocol.Replacement{}, protocol.StageReplace, protocol.StageReplace},
		{&protocol.Final{}, protocol.Stages, protocol.Stages},
		{&protocol.Result{}, protocol.Stages, protocol.Stages},
		{&protocol.Abort{}, protocol.Stages, protocol.Stages},
	} {
		if got := protocol.StageOf(tt.message, false); got != tt.plain {
			t.Errorf("%s: stage %s, want %s", protocol.Describe(tt.message), got, tt.plain)
		}
		if got := protocol.StageOf(tt.message, true); got != tt.confirms {
			t.Errorf("%s in active mode: stage %s, want %s", protocol.Describe(tt.message), got, tt.confirms)
		}
	}
}
