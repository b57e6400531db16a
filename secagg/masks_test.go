package secagg_test

import (
	"crypto/aes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// rounds lists the rounds of a session: the releases, the model, and the clients that are lost at
// each stage. The first two rounds differ in their number alone. The third differs from them in
// which name has which width. In the fifth two vectors have one shape. The last replaces the noise
// of both releases.
var rounds = []struct {
	model    string
	releases []protocol.Release
	lost     map[protocol.Stage]int // client
}{
	{"first", releases(), nil},
	{"first", releases(), nil},
	{"first", []protocol.Release{exact("g", 9, 45), exact("h", 3, 29)}, nil},
	{"second", releases(), map[protocol.Stage]int{protocol.StageAdvertise: 3}},
	{"second", []protocol.Release{exact("g", 9, 29), exact("k", 9, 29), exact("gk", 9, 64)}, map[protocol.Stage]int{protocol.StageShare: 7, protocol.StageMaskedInput: 0}},
	{"second", releases(), map[protocol.Stage]int{protocol.StageUnmask: 5}},
	{"second", replacingBoth(), map[protocol.Stage]int{protocol.StageMaskedInput: 2, protocol.StageUnmask: 5}},
}

func replacingBoth() []protocol.Release {
	out := releases()
	for k := range out {
		out[k].Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: 10}
	}
	return out
}

// No two masks of a run have the same derivation or the same first block of keystream, even if they
// have rounds, pairs, names, widths, sessions, models or layers in common. Both ends of a pair have
// the same mask, with opposite signs. There are as many masks as edges and clients. The clients'
// entropy is the worst possible, so that only the bindings tell masks apart: the second session
// repeats the first one's entropy. A third session has the first one's name and other models. It
// makes parties anew each time, and they draw the same in every round.
func TestMasksOfARun(t *testing.T) {
	effort.NotShort(t, "sessions with all their masks take seconds")
	sessions := []session{{id: protocol.SessionID{1}}, {id: protocol.SessionID{1}, models: "another ", anew: true}}
	if effort.Long() {
		sessions = slices.Insert(sessions, 1, session{id: protocol.SessionID{2}})
	}
	c := collection{t: t, uses: make(map[secagg.Masking][]use), blocks: make(map[[aes.BlockSize]byte]secagg.Masking)}
	for _, s := range sessions {
		// Every client is joined to every other: 45 pairs and 10 clients while all deliver shares,
		// 36 and 9 without one, and 2, 2, 2, 2, 3 and 2 releases. Active mode does not replace
		// noise.
		got := c.session(protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}, secagg.Active, s)
		if want := 3*2*(45+10) + 2*(36+9) + 3*(36+9) + 2*(45+10); got != want {
			t.Fatalf("%d masks are counted on complete graphs, want %d", got, want)
		}
		c.want += got
		c.want += c.session(protocol.Cohort{Clients: 16, Tolerance: 0.2, Colluders: 0.05}, secagg.SemiHonest, s)
	}
	if len(c.uses) != c.want || len(c.blocks) != c.want {
		t.Errorf("%d derivations and %d first blocks, want %d", len(c.uses), len(c.blocks), c.want)
	}
	for m, uses := range c.uses {
		switch {
		case m.Kind == mask.Self && len(uses) == 1 && !uses[0].sub:
		case m.Kind == mask.Pair && len(uses) == 2 && uses[0].client != uses[1].client && uses[0].sub != uses[1].sub:
		default:
			t.Errorf("clients %+v have the mask %+v", uses, m)
		}
	}
}

// use is a mask in the input of a client.
type use struct {
	client int
	sub    bool
}

// collection is every mask of a run.
type collection struct {
	t      *testing.T
	want   int // how many there should be
	uses   map[secagg.Masking][]use
	blocks map[[aes.BlockSize]byte]secagg.Masking // the first block of each keystream
}

// session is one of a run.
type session struct {
	id     protocol.SessionID
	models string // what their names begin with
	anew   bool   // parties are made anew for each round
}

// session goes through all rounds, and counts the masks that there should be.
func (c *collection) session(cohort protocol.Cohort, mode secagg.Mode, s session) (want int) {
	c.t.Helper()
	var parties []*secagg.Party
	agreements := new(secagg.Agreements)
	for k, it := range rounds {
		if mode == secagg.Active && it.releases[0].Noise.Kind == protocol.TwoRound {
			continue
		}
		p := &protocol.Plan{Session: s.id, Round: uint64(k + 1), Cohort: cohort, Releases: it.releases, Broadcast: []byte(s.models + it.model)}
		f := newFederationWith(c.t, p, secagg.Params{Mode: mode, Rounds: len(rounds)}, agreements)
		for i, party := range parties {
			var err error
			if f.clients[i], err = join(party, p); err != nil {
				c.t.Fatal(err)
			}
		}
		if parties == nil && !s.anew {
			parties = f.parties
		}
		want += c.round(f, it.lost)
	}
	return want
}

// round collects the masks as they are put on, and checks the sum.
func (c *collection) round(f *federation, lost map[protocol.Stage]int) (want int) {
	c.t.Helper()
	f.change()
	dealt := make([]*protocol.Shares, len(f.clients))
	var put, changing []masks
	in, changed := make([]bool, len(f.clients)), make([]bool, len(f.clients)) // the sum
	for _, s := range f.stages() {
		switch {
		case s == protocol.StageMaskedInput:
			put = c.collect(f, func(i int) bool { return dealt[i] != nil }, func(c *secagg.Client, i int) ([]secagg.Masking, []bool, error) {
				return c.Maskings(f.deliveries[i], serial{})
			})
			want += pairsAndClients(dealt) * len(f.plan.Releases)
		case s == protocol.StageUnmask && f.replaces():
			changing = c.collect(f, func(i int) bool { return in[i] }, func(c *secagg.Client, _ int) ([]secagg.Masking, []bool, error) {
				return c.ChangeMaskings(f.survivors, serial{})
			})
			for i := range dealt {
				if !in[i] {
					dealt[i] = nil
				}
			}
			want += pairsAndClients(dealt) * len(f.plan.Releases)
		}
		if i, ok := lost[s]; ok {
			f.lose(i, 1)
		}
		for i, alive := range f.alive {
			if !alive {
				continue
			}
			m, err := f.answer(s, i)
			if err != nil {
				c.t.Fatal(err)
			}
			switch m := m.(type) {
			case *protocol.Shares:
				dealt[i] = m
			case *protocol.MaskedInput:
				put[i].cover(c.t, f.plan, m.Masked, f.inputs[i])
				in[i] = true
			case *protocol.Unmask:
				if changing != nil {
					changing[i].cover(c.t, f.plan, m.Removed, f.removals[i])
					changed[i] = true
				}
			}
			if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
				c.t.Fatal(err)
			}
		}
		if err := f.aggregator.Close(s); err != nil {
			c.t.Fatal(err)
		}
		f.next(s)
	}
	got, err := f.aggregator.Sum(serial{})
	if d := cmp.Diff(f.sumOf(func(i int) bool { return in[i] }, func(i int) bool { return changed[i] }), got); err != nil || d != "" {
		c.t.Fatalf("error %v, sum (-want +got):\n%s", err, d)
	}
	return want
}

// pairsAndClients counts the masks that a release should have: one for every client whose shares
// count, and one for every two of them that dealt to one another.
func pairsAndClients(dealt []*protocol.Shares) (n int) {
	for i, d := range dealt {
		if d == nil {
			continue
		}
		n++
		for _, s := range d.Shares {
			if int(s.Peer) > i && dealt[s.Peer] != nil {
				n++
			}
		}
	}
	return n
}

// collect takes the masks that some clients are about to put on.
func (c *collection) collect(f *federation, has func(i int) bool, of func(c *secagg.Client, i int) ([]secagg.Masking, []bool, error)) []masks {
	c.t.Helper()
	all := make([]masks, len(f.clients))
	for i := range all {
		if !has(i) {
			continue
		}
		var err error
		if all[i].of, all[i].sub, err = of(f.clients[i], i); err != nil {
			c.t.Fatal(err)
		}
		for k, m := range all[i].of {
			if c.uses[m] == nil {
				c.expand(m)
			}
			c.uses[m] = append(c.uses[m], use{i, all[i].sub[k]})
		}
	}
	return all
}

// expand compares the first block of a mask with the first blocks of all others.
func (c *collection) expand(m secagg.Masking) {
	c.t.Helper()
	key, err := mask.DeriveKey(m.Secret, m.Kind, m.Context, m.Spec)
	if err != nil {
		c.t.Fatal(err)
	}
	cipher, err := aes.NewCipher(key[:])
	if err != nil {
		c.t.Fatal(err)
	}
	var block [aes.BlockSize]byte
	cipher.Encrypt(block[:], block[:])
	if other, again := c.blocks[block]; again {
		c.t.Errorf("two masks have one keystream:\n%+v\n%+v", other, m)
	}
	c.blocks[block] = m
}

// masks are a client's, of all releases.
type masks struct {
	of  []secagg.Masking
	sub []bool
}

// cover checks that these are the masks over packed vectors: taken off, they leave
// the client's.
func (m masks) cover(t *testing.T, p *protocol.Plan, packed [][]byte, vectors []protocol.Integers) {
	t.Helper()
	for k, r := range p.Releases {
		v := unpack(t, r, packed[k])
		for i, of := range m.of {
			if of.Spec.Name != r.Name {
				continue
			}
			s, err := mask.NewStream(of.Secret, of.Kind, of.Context, of.Spec)
			if err == nil {
				err = mask.AddAll(v, []mask.Term{{Stream: s, Sub: !m.sub[i]}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := v.AppendInts(nil); !slices.Equal(got, vectors[k].Value) {
			t.Fatalf("release %q: without its masks a vector is %v, want %v", r.Name, got, vectors[k].Value)
		}
	}
}

func unpack(t *testing.T, r protocol.Release, packed []byte) *mask.Vector {
	t.Helper()
	v, err := mask.NewVector(r.Width, r.Len)
	if err == nil {
		err = v.AddPacked(packed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The lowest bits of a client's total mask, which is its masked input less its
// input, follow no linear recurrence that is shorter than half of them. Of n =
// 41,000 uniform bits the shortest misses n/2 by more than 40 with probability below
// 2^-80 (complexity_test.go); the input is fixed besides. Masks of ten Mersenne
// Twisters, each with a seed of its own, are found out: the lowest bit of their sum
// follows the recurrence of any of them.
func TestTotalMaskIsNotLinear(t *testing.T) {
	effort.NotShort(t, "a long vector")
	const length = 41_000
	p := plan(10, exact("V", length, 29))
	p.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}
	f := newFederation(t, p, secagg.Params{Mode: secagg.Active})
	f.through(protocol.StageShare)
	m, err := f.answer(protocol.StageMaskedInput, 4)
	if err != nil {
		t.Fatal(err)
	}
	total := unpack(t, p.Releases[0], m.(*protocol.MaskedInput).Masked[0]).AppendInts(nil)
	for j, x := range f.inputs[4][0].Value {
		total[j] -= x
	}
	if got := complexity(total); got < 20_460 || got > 20_540 {
		t.Errorf("linear complexity %d, want 20,500 ± 40", got)
	}
	clear(total)
	for seed := range uint32(10) {
		generator := newTwister(seed)
		for j := range total {
			if x := int64(generator.next()); seed < 4 {
				total[j] -= x
			} else {
				total[j] += x
			}
		}
	}
	if got := complexity(total); got != 19_937 {
		t.Errorf("linear complexity %d of ten twisters, want 19,937", got)
	}
}

// complexity is the linear complexity of the lowest bits.
func complexity(v []int64) int {
	low := make([]bool, len(v))
	for j, x := range v {
		low[j] = x&1 == 1
	}
	return linearComplexity(low)
}
