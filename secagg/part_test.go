package secagg_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// relays stand between a federation's clients and its aggregator: client i is at relay
// i mod of - 1, and at none if that is -1.
type relays struct {
	*federation
	of    int
	parts []*secagg.PartialSum
	lists []protocol.Bitmap
}

func (r *relays) at(i int) int { return i%r.of - 1 }

// answers has all clients answer a stage with vectors, through their relays.
func (r *relays) answers(stage protocol.Stage) {
	r.t.Helper()
	r.parts, r.lists = make([]*secagg.PartialSum, r.of-1), make([]protocol.Bitmap, r.of-1)
	for k := range r.parts {
		var err error
		if r.parts[k], err = secagg.NewPart(r.plan, stage, r.params.Rounds); err != nil {
			r.t.Fatal(err)
		}
		r.lists[k] = protocol.NewBitmap(r.plan.Cohort.Clients)
	}
	for i, alive := range r.alive {
		if !alive {
			continue
		}
		m, err := r.answer(stage, i)
		if err != nil {
			r.t.Fatalf("client %d at %s: %v", i, stage, err)
		}
		id, k := protocol.ClientID(i), r.at(i)
		if k < 0 {
			err = r.aggregator.Receive(id, m.(protocol.StageMessage))
		} else {
			err = r.holds(k, id, m.(protocol.StageMessage))
		}
		if err != nil {
			r.t.Fatalf("client %d at %s: %v", i, stage, err)
		}
	}
}

// holds has a relay add a client's vectors, and the aggregator take the rest.
func (r *relays) holds(k int, id protocol.ClientID, m protocol.StageMessage) error {
	residues, err := r.parts[k].Read(m)
	if err == nil {
		err = r.aggregator.Held(id, stripped(m))
	}
	if err == nil {
		err = r.parts[k].Add(residues)
	}
	r.lists[k].Set(int(id))
	return err
}

// stripped is a message without its vectors.
func stripped(m protocol.StageMessage) protocol.StageMessage {
	switch m := m.(type) {
	case *protocol.MaskedInput:
		c := *m
		c.Masked = nil
		return &c
	case *protocol.Unmask:
		c := *m
		c.Removed = nil
		return &c
	default:
		return m
	}
}

// close has all relays except one give their sums, and ends the stage. Clients of a relay that gave
// none are lost.
func (r *relays) close(stage protocol.Stage, but int) error {
	r.t.Helper()
	for k := range r.parts {
		if k == but {
			for i := range r.alive {
				if r.at(i) == k {
					r.alive[i] = false
				}
			}
			continue
		}
		if err := r.aggregator.AddPart(r.lists[k], r.parts[k].Sums()); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.aggregator.Close(stage); err != nil {
		return err
	}
	r.next(stage)
	return nil
}

// vectors says whether messages of a stage have some.
func vectors(s protocol.Stage) bool {
	return s == protocol.StageMaskedInput || s == protocol.StageUnmask
}

// The sum through relays equals the plain sum of the inputs and of the changes of noise, whichever
// relay is lost at whichever stage with vectors.
func TestPartsSumUp(t *testing.T) {
	for _, kind := range []protocol.NoiseKind{protocol.NoNoise, protocol.Split, protocol.TwoRound} {
		for _, lost := range []protocol.Stage{protocol.Stages, protocol.StageMaskedInput, protocol.StageUnmask} {
			t.Run(fmt.Sprintf("%s/%s", kind, lost), func(t *testing.T) {
				r := relayed(t, kind)
				silent := make(map[int]protocol.Stage)
				for _, s := range r.stages() {
					if !vectors(s) {
						if err := r.stage(s); err != nil {
							t.Fatal(err)
						}
						continue
					}
					r.answers(s)
					but := -1
					if s == lost {
						but = 1
						for i := range r.alive {
							if r.at(i) == but {
								silent[i] = s
							}
						}
					}
					if err := r.close(s, but); err != nil {
						t.Fatal(err)
					}
				}
				got, err := r.aggregator.Sum(serial{})
				in := func(i int) bool { s, ok := silent[i]; return !ok || s > protocol.StageMaskedInput }
				changed := func(i int) bool { _, ok := silent[i]; return !ok }
				if d := cmp.Diff(r.sumOf(in, changed), got); err != nil || d != "" {
					t.Fatalf("error %v, sum (-want +got):\n%s", err, d)
				}
				if s := r.survivors; len(silent) > 0 && lost == protocol.StageMaskedInput && s.Count != len(r.alive)-len(silent) {
					t.Errorf("%d survivors of %d after %d were lost with their relay", s.Count, len(r.alive), len(silent))
				}
			})
		}
	}
}

// relayed is a federation of 12 clients at 2 relays and at none. A third of the clients may be
// lost, and there is something for noise to change by.
func relayed(t *testing.T, kind protocol.NoiseKind) *relays {
	p := plan(12, releases()...)
	p.Cohort = protocol.Cohort{Clients: 12, Tolerance: 0.35, Colluders: 0.05}
	p.Releases[1].Noise = protocol.Noise{Kind: kind, Variance: 10}
	if kind == protocol.NoNoise {
		p.Releases[1].Noise = protocol.Noise{}
	}
	f := newFederation(t, p, secagg.Params{})
	if kind != protocol.NoNoise {
		for i := range f.removals {
			f.removals[i] = make([]protocol.Integers, len(p.Releases))
			for j := range p.Releases[1].Len {
				f.removals[i][1].Value = append(f.removals[i][1].Value, int64(i)-int64(j))
			}
		}
	}
	return &relays{federation: f, of: 3}
}

// A relay's part is no sum of its clients even after everything is taken off that can be: their
// masks with clients of the other relays stay on. The sum of all parts, the control, is a sum.
func TestPartStaysMasked(t *testing.T) {
	r := relayed(t, protocol.NoNoise)
	for i := range r.alive {
		r.alive[i] = r.at(i) >= 0 || i%2 == 0 // some are lost: their masks come off, too
	}
	r.through(protocol.StageShare)
	for i := range r.alive {
		r.alive[i] = r.at(i) >= 0
	}
	r.answers(protocol.StageMaskedInput)
	parts := [][][]byte{r.parts[0].Sums(), r.parts[1].Sums()}
	lists := slices.Clone(r.lists)
	all, err := secagg.NewPart(r.plan, protocol.StageMaskedInput, 1)
	if err != nil {
		t.Fatal(err)
	}
	everybody := protocol.NewBitmap(len(r.alive))
	for k, p := range parts {
		if err = all.Add(p); err != nil {
			t.Fatal(err)
		}
		for i := range r.alive {
			if lists[k].Has(i) {
				everybody.Set(i)
			}
		}
	}
	if err = r.close(protocol.StageMaskedInput, -1); err != nil {
		t.Fatal(err)
	}
	if err = r.stage(protocol.StageUnmask); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		list  protocol.Bitmap
		sums  [][]byte
		masks bool
	}{"relay 0": {lists[0], parts[0], true}, "relay 1": {lists[1], parts[1], true}, "both": {everybody, all.Sums(), false}} {
		got, err := r.aggregator.Fork().Stripped(c.list, c.sums, serial{})
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range r.sum(func(i int) bool { return c.list.Has(i) }) {
			for j, x := range want {
				if (got[k][j] == x) == c.masks { // by chance once in 2^29, over 24 coordinates
					t.Errorf("%s, release %d, coordinate %d: %d, the plain sum is %d", name, k, j, got[k][j], x)
				}
			}
		}
	}
}

// A relay that lies about the clients in its sum spoils the whole sum, and reveals nothing: neither
// the sum with the client in question nor the sum without it.
func TestFalseListsSpoilTheSum(t *testing.T) {
	for name, lie := range map[string]func(r *relays, victim int, residues [][]byte) error{
		"listed, and not in the sum": func(r *relays, victim int, residues [][]byte) error {
			return r.aggregator.Held(protocol.ClientID(victim), &protocol.MaskedInput{Round: 1})
		},
		"twice in the sum": func(r *relays, victim int, residues [][]byte) error {
			err := r.aggregator.Held(protocol.ClientID(victim), &protocol.MaskedInput{Round: 1})
			return errors.Join(err, r.parts[0].Add(residues), r.parts[0].Add(residues))
		},
		"in the sum, and not listed": func(r *relays, victim int, residues [][]byte) error {
			r.lists[0][victim/8] &^= 1 << (victim % 8)
			return r.parts[0].Add(residues)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := relayed(t, protocol.NoNoise)
			r.through(protocol.StageShare)
			const victim = 4 // at relay 0
			m, err := r.answer(protocol.StageMaskedInput, victim)
			if err != nil {
				t.Fatal(err)
			}
			r.alive[victim] = false
			r.answers(protocol.StageMaskedInput)
			residues, err := r.parts[0].Read(m.(protocol.StageMessage))
			if err != nil {
				t.Fatal(err)
			}
			r.lists[0].Set(victim)
			if err = lie(r, victim, residues); err != nil {
				t.Fatal(err)
			}
			if err = r.close(protocol.StageMaskedInput, -1); err != nil {
				t.Fatal(err)
			}
			if err = r.stage(protocol.StageUnmask); err != nil {
				t.Fatal(err)
			}
			got, err := r.aggregator.Sum(serial{})
			if err != nil {
				t.Fatal(err)
			}
			with, without := r.sum(func(int) bool { return true }), r.sum(func(i int) bool { return i != victim })
			for k := range got {
				for j, x := range got[k] {
					if x == with[k][j] || x == without[k][j] {
						t.Errorf("release %d, coordinate %d is %d, as of an honest sum", k, j, x)
					}
				}
			}
		})
	}
}

// A sum is refused and not added unless it is over exactly the clients whose vectors are held. So
// is a sum that comes twice, at another stage, or in active mode.
func TestBadParts(t *testing.T) {
	r := relayed(t, protocol.Split)
	r.through(protocol.StageShare)
	r.answers(protocol.StageMaskedInput)
	good, list := r.parts[0].Sums(), r.lists[0]
	with := func(clients ...int) protocol.Bitmap {
		b := slices.Clone(list)
		for _, c := range clients {
			b.Set(c)
		}
		return b
	}
	long := slices.Clone(good)
	long[0] = append(slices.Clone(good[0]), 0)
	stray := slices.Clone(good)
	stray[0] = slices.Clone(good[0]) // 9 coordinates of 29 bits: 3 bits of 264 are unused
	stray[0][len(stray[0])-1] |= 0x80
	for name, c := range map[string]struct {
		clients protocol.Bitmap
		sums    [][]byte
		want    error
	}{
		"with a client that sent its vectors itself": {with(0), good, secagg.ErrOrder},
		"of a bitmap too long":                       {append(slices.Clone(list), 0), good, secagg.ErrMalformed},
		"with a client that there is not":            {with(12), good, secagg.ErrMalformed},
		"of one release":                             {list, good[:1], secagg.ErrMalformed},
		"of a vector too long":                       {list, long, secagg.ErrMalformed},
		"with a bit that is unused":                  {list, stray, secagg.ErrMalformed},
		"without a vector":                           {list, [][]byte{good[0], nil}, secagg.ErrMalformed},
	} {
		if err := r.aggregator.AddPart(c.clients, c.sums); !errors.Is(err, c.want) {
			t.Errorf("a sum %s: %v, want %v", name, err, c.want)
		}
	}
	for i := range 2 {
		err := r.aggregator.AddPart(list, good)
		if i == 0 && err != nil || i == 1 && !errors.Is(err, secagg.ErrOrder) {
			t.Errorf("time %d: %v", i+1, err)
		}
	}
	held := func(m protocol.StageMessage, want error) {
		t.Helper()
		if err := r.aggregator.Held(4, m); !errors.Is(err, want) {
			t.Errorf("%+v held: %v, want %v", m, err, want)
		}
	}
	held(&protocol.MaskedInput{Round: 1}, secagg.ErrOrder) // it has answered
	r = relayed(t, protocol.Split)
	r.through(protocol.StageShare)
	held(&protocol.MaskedInput{Round: 1, Masked: [][]byte{nil}}, secagg.ErrMalformed)
	held(&protocol.MaskedInput{Round: 1, Complaints: []protocol.Complaint{{Of: 3}}}, secagg.ErrMalformed)
	held(&protocol.MaskedInput{Round: 2}, secagg.ErrOrder)
	held(&protocol.Unmask{Round: 1}, secagg.ErrOrder)
	if err := r.stage(protocol.StageMaskedInput); err != nil {
		t.Fatal(err)
	}
	m, err := r.answer(protocol.StageUnmask, 4)
	if err != nil {
		t.Fatal(err)
	}
	held(m.(*protocol.Unmask), secagg.ErrMalformed) // with its removals
	bare := stripped(m.(*protocol.Unmask)).(*protocol.Unmask)
	short := *bare
	short.Shares = short.Shares[1:]
	held(&short, secagg.ErrMalformed)
	held(bare, nil)

	active := standing(t, secagg.Active, protocol.StageShare)
	if err := active.aggregator.Held(1, &protocol.MaskedInput{Round: 1}); !errors.Is(err, secagg.ErrRelay) {
		t.Errorf("held in active mode: %v", err)
	}
	if err := active.aggregator.AddPart(protocol.NewBitmap(active.plan.Cohort.Clients), nil); !errors.Is(err, secagg.ErrRelay) {
		t.Errorf("a part in active mode: %v", err)
	}
}

// A relay refuses what the aggregator would refuse, of the vectors that it reads.
func TestPartRefuses(t *testing.T) {
	r := relayed(t, protocol.Split)
	inputs, err := secagg.NewPart(r.plan, protocol.StageMaskedInput, 1)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := secagg.NewPart(r.plan, protocol.StageUnmask, 1)
	if err != nil {
		t.Fatal(err)
	}
	vector := func(n int) []byte { return make([]byte, n) }
	removal := func(v ...int64) []byte { return protocol.AppendRemoval(nil, v) }
	const g, h = 33, 17 // 9 · 29 bits, 3 · 45
	for _, c := range []struct {
		name string
		part *secagg.PartialSum
		m    protocol.StageMessage
		want error
	}{
		{"good", inputs, &protocol.MaskedInput{Round: 1, Masked: [][]byte{vector(g), vector(h)}}, nil},
		{"short", inputs, &protocol.MaskedInput{Round: 1, Masked: [][]byte{vector(g), vector(h - 1)}}, secagg.ErrMalformed},
		{"one", inputs, &protocol.MaskedInput{Round: 1, Masked: [][]byte{vector(g)}}, secagg.ErrMalformed},
		{"of another round", inputs, &protocol.MaskedInput{Round: 2, Masked: [][]byte{vector(g), vector(h)}}, secagg.ErrOrder},
		{"an answer", inputs, &protocol.Unmask{Round: 1, Removed: [][]byte{nil, removal(1, 2, 3)}}, secagg.ErrOrder},
		{"good answer", answers, &protocol.Unmask{Round: 1, Removed: [][]byte{nil, removal(1, 2, 3)}}, nil},
		{"beyond the noise", answers, &protocol.Unmask{Round: 1, Removed: [][]byte{nil, removal(1, 1<<40, 3)}}, secagg.ErrMalformed},
		{"of nothing", answers, &protocol.Unmask{Round: 1, Removed: [][]byte{removal(1), removal(1, 2, 3)}}, secagg.ErrMalformed},
		{"no code", answers, &protocol.Unmask{Round: 1, Removed: [][]byte{nil, {99}}}, secagg.ErrMalformed},
	} {
		if _, err := c.part.Read(c.m); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := secagg.NewPart(r.plan, protocol.StageShare, 1); !errors.Is(err, secagg.ErrOrder) {
		t.Errorf("a part of the stage share: %v", err)
	}
	if err := inputs.Add([][]byte{vector(g), nil}); !errors.Is(err, secagg.ErrMalformed) {
		t.Errorf("residues of another form: %v", err)
	}
}
