package secagg_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// proving is a federation of ten clients that verifies inputs. One release has noise, and each client takes some back.
func proving(t *testing.T) *federation {
	t.Helper()
	p := plan(attacked, releases()...)
	p.Cohort = protocol.Cohort{Clients: attacked, Tolerance: 0.2, Colluders: 0.05}
	for i := range p.Releases {
		p.Releases[i].L2 = 2000
	}
	p.Releases[1].Noise = protocol.Noise{Kind: protocol.Split, Variance: 10}
	f := newFederation(t, p, secagg.Params{Mode: secagg.Active, VerifyInputs: true})
	for i := range f.removals {
		f.removals[i] = []protocol.Integers{{}, {Value: []int64{int64(i), -5, 0}}}
	}
	return f
}

// The sum is exact when all take part, and when two clients are lost with their proofs or after them. It is exact when clients
// complain of a dealer, too: then a mask is missing on one side.
func TestVerifiedSums(t *testing.T) {
	f := proving(t)
	for _, stage := range append(f.stages(), protocol.StageReplace) { // the last has no such stage: none are lost
		if g := f.fork(t); stage >= protocol.StageMaskedInput {
			g.lose(3, 2)
			for _, s := range f.stages() {
				if s < stage {
					continue
				}
				if err := g.stage(s); err != nil {
					t.Fatalf("lost at %s: %v", stage, err)
				}
			}
			g.released(t, fmt.Sprint("lost at ", stage),
				func(i int) bool { return i < 3 || i > 4 || stage > protocol.StageMaskedInput },
				func(i int) bool { return i < 3 || i > 4 || stage > protocol.StageUnmask })
		}
		if stage != protocol.StageReplace {
			if err := f.stage(stage); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, lost := range map[string][]int{"to three, and it is lost": {4}, "to three, and one is lost": {6}} {
		f := proving(t)
		f.dealFalsely([]int{0, 5, 8}, lost...)
		for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageConsistency, protocol.StageUnmask} {
			if err := f.stage(s); err != nil {
				t.Fatal(err)
			}
		}
		in := func(i int) bool { return !slices.Contains(lost, i) }
		f.released(t, name, in, in)
	}
}

// released compares the sum with the sum of some clients' inputs and of what some took back.
func (f *federation) released(t *testing.T, name string, in, changed func(i int) bool) {
	t.Helper()
	got, err := f.aggregator.Sum(serial{})
	if d := cmp.Diff(f.sumOf(in, changed), got); err != nil || d != "" {
		t.Errorf("%s: %v; the sum (-want +got):\n%s", name, err, d)
	}
}

// masked has all clients answer the stage masked input.
func (f *federation) masked(t *testing.T) (all []*protocol.MaskedInput) {
	t.Helper()
	for i := range f.clients {
		m, err := f.answer(protocol.StageMaskedInput, i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.(*protocol.MaskedInput))
	}
	return all
}

// lying takes a round from the end of the stage share to its end, and changes what client 3 sends as its masked input. The others are
// as in another such round, and say the same. The error is about client 3's message.
func (f *federation) lying(t *testing.T, others *federation, said []*protocol.MaskedInput,
	lie func(*protocol.MaskedInput, []*protocol.MaskedInput)) (refused error) {
	t.Helper()
	m, err := f.answer(protocol.StageMaskedInput, 3)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(said)
	all[3] = m.(*protocol.MaskedInput)
	for i, c := range others.clients {
		if i != 3 {
			f.clients[i] = c.Fork()
		}
	}
	lie(all[3], all)
	for i, m := range all {
		switch err := f.aggregator.Receive(protocol.ClientID(i), m); {
		case i == 3:
			refused, f.alive[3] = err, err == nil
		case err != nil:
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageMaskedInput); err != nil {
		t.Fatal(err)
	}
	f.next(protocol.StageMaskedInput)
	for _, s := range []protocol.Stage{protocol.StageConsistency, protocol.StageUnmask} {
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	return refused
}

// maskedOnce returns a proving federation at the end of the stage share, and the same when all have answered the next stage, with what
// they said.
func maskedOnce(t *testing.T) (start, others *federation, said []*protocol.MaskedInput) {
	t.Helper()
	start = proving(t)
	start.through(protocol.StageShare)
	others = start.fork(t)
	return start, others, others.masked(t)
}

// A client has 1.1 times the vector that it may have. The client's own program does not prove that. A program that proves wider
// bounds is refused and named, and so is any other proof that is not the client's own of this round. The sum is of the others.
func TestInputsThatAreNotProved(t *testing.T) {
	start, others, said := maskedOnce(t)
	for name, c := range map[string]struct {
		rule error
		lie  func(m *protocol.MaskedInput, all []*protocol.MaskedInput)
	}{
		"of wider bounds":   {inputproof.ErrRefused, func(*protocol.MaskedInput, []*protocol.MaskedInput) {}},
		"of another client": {inputproof.ErrRefused, func(m *protocol.MaskedInput, all []*protocol.MaskedInput) { m.Proof = all[4].Proof }},
		"cut":               {inputproof.ErrRefused, func(m *protocol.MaskedInput, _ []*protocol.MaskedInput) { m.Proof = m.Proof[1:] }},
		"none":              {inputproof.ErrRefused, func(m *protocol.MaskedInput, _ []*protocol.MaskedInput) { m.Proof, m.Blindings = nil, nil }},
		"no scalar":         {secagg.ErrMalformed, func(m *protocol.MaskedInput, _ []*protocol.MaskedInput) { m.Blindings[31] = 0xff }},
		"a blinding too much": {secagg.ErrMalformed, func(m *protocol.MaskedInput, _ []*protocol.MaskedInput) {
			m.Blindings = append(m.Blindings, make([]byte, 32)...)
		}},
	} {
		f := start.fork(t)
		if name == "of wider bounds" {
			_, l2 := f.plan.InputBound(f.plan.Releases[0], f.params.Rounds)
			f.inputs[3][0].Value = make([]int64, f.plan.Releases[0].Len)
			f.inputs[3][0].Value[0] = int64(1.05 * l2)
			if _, err := f.clients[3].Fork().MaskedInput(f.deliveries[3], f.inputs[3], serial{}); !errors.Is(err, inputproof.ErrBeyond) {
				t.Errorf("an honest program sends what is beyond its bounds: %v", err)
			}
			if err := f.clients[3].ProveBeyond(); err != nil {
				t.Fatal(err)
			}
		}
		culprit(t, f.lying(t, others, said, c.lie), protocol.ClientParty(3), c.rule)
		if got := f.aggregator.Culprits(); len(got) != 1 || got[0].Client != 3 {
			t.Errorf("%s: the culprits are %v", name, got)
		}
		others := func(i int) bool { return i != 3 }
		f.released(t, name, others, others)
	}
}

// A client masks another vector than it proves, or another blinding. Nothing shows whose it is, so no client is named, and nothing
// is released.
func TestOtherInputsThanProved(t *testing.T) {
	start, others, said := maskedOnce(t)
	for name, lie := range map[string]func(f *federation, m *protocol.MaskedInput, all []*protocol.MaskedInput){
		"a coordinate": func(f *federation, m *protocol.MaskedInput, _ []*protocol.MaskedInput) {
			m.Masked[1] = push(t, f.plan.Releases[1], m.Masked[1])
		},
		"a blinding": func(_ *federation, m *protocol.MaskedInput, all []*protocol.MaskedInput) {
			m.Blindings = all[4].Blindings
		},
		"all of it": func(_ *federation, m *protocol.MaskedInput, all []*protocol.MaskedInput) {
			m.Masked, m.Blindings = all[4].Masked, all[4].Blindings
		},
	} {
		f := start.fork(t)
		if err := f.lying(t, others, said, func(m *protocol.MaskedInput, all []*protocol.MaskedInput) { lie(f, m, all) }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := f.aggregator.Sum(serial{})
		if lied, ok := errors.AsType[*protocol.Unproved](err); !ok || lied.Round != 1 || got != nil || len(f.aggregator.Culprits()) != 0 {
			t.Errorf("%s: released %v with %v, culprits %v", name, got, err, f.aggregator.Culprits())
		}
		if _, err = f.aggregator.Sum(serial{}); !errors.Is(err, secagg.ErrFinished) {
			t.Errorf("%s: asked for again: %v", name, err)
		}
	}
}

// push adds 1 to the first coordinate of a masked vector.
func push(t *testing.T, r protocol.Release, packed []byte) []byte {
	t.Helper()
	v, err := mask.NewVector(r.Width, r.Len)
	if err == nil {
		err = v.AddPacked(packed)
	}
	if err == nil {
		err = v.AddInts(append([]int64{1}, make([]int64, r.Len-1)...))
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.AppendPacked(nil)
}

// The masks over blindings are none over vectors: a plan may have a release of any name and length. Two rounds have other proofs.
func TestBlindingsHaveMasksOfTheirOwn(t *testing.T) {
	f := proving(t)
	f.through(protocol.StageShare)
	m, err := f.clients[3].MaskedInput(f.deliveries[3], f.inputs[3], serial{})
	if err != nil {
		t.Fatal(err)
	}
	proof, blindings, err := f.params.ProofSize(f.plan)
	if err != nil || len(m.Proof) != proof || len(m.Blindings) != blindings {
		t.Errorf("%d and %d bytes, %d and %d are said, %v", len(m.Proof), len(m.Blindings), proof, blindings, err)
	}
	cost, err := f.params.Cost(f.plan)
	if err != nil {
		t.Fatal(err)
	}
	without := f.params
	without.VerifyInputs = false
	bare, err := without.Cost(f.plan)
	if err != nil {
		t.Fatal(err)
	}
	small := *m
	small.Proof, small.Blindings = nil, nil
	if got, want := cost.Bytes[protocol.KindMaskedInput]-bare.Bytes[protocol.KindMaskedInput], protocol.Size(m)-protocol.Size(&small); got != want {
		t.Errorf("a proof takes %d bytes, %d are said", want, got)
	}
	g := proving(t)
	g.plan.Round = 2
	g = newFederation(t, g.plan, secagg.Params{Mode: secagg.Active, VerifyInputs: true})
	g.through(protocol.StageShare)
	other, err := g.clients[3].MaskedInput(g.deliveries[3], g.inputs[3], serial{})
	if err != nil || bytes.Equal(other.Proof, m.Proof) || bytes.Equal(other.Blindings, m.Blindings) {
		t.Errorf("two rounds have one proof: %v", err)
	}
}

// Inputs are verified in active mode, if they can be, and only where all parties know.
func TestVerifiedInputsAreAgreedOn(t *testing.T) {
	f := proving(t)
	semi := secagg.Params{Rounds: 1, VerifyInputs: true}
	if err := semi.Validate(f.plan); err == nil || !strings.Contains(err.Error(), "use mode active") {
		t.Errorf("in semi-honest mode: %v", err)
	}
	large := *f.plan
	large.Releases = slices.Clone(f.plan.Releases)
	large.Releases[1].L2 = 1 << 32
	if err := f.params.Validate(&large); err == nil {
		t.Error("bounds that no proof can have are accepted")
	}
	a, err := secagg.NewAggregator(large.Setup(), f.params)
	if err != nil {
		t.Fatal(err)
	}
	if err = a.Begin(&large); err == nil {
		t.Error("an aggregator begins a round of bounds that no proof can have")
	}
	party := f.party(0, 0)
	if _, err = join(party, &large); err == nil {
		t.Error("a client begins a round of bounds that no proof can have")
	}
	// A client that does not know has signed for something else.
	f.params.VerifyInputs = false
	c, err := join(f.party(0, 0), f.plan)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Advertise()
	if err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(0, m), protocol.ClientParty(0), secagg.ErrSignature)
	// A proof is refused that the session does not ask for.
	g := standing(t, secagg.Active, protocol.StageShare)
	other := g.fork(t)
	culprit(t, g.lying(t, other, other.masked(t), func(m *protocol.MaskedInput, _ []*protocol.MaskedInput) {
		m.Proof, m.Blindings = []byte{1}, make([]byte, 32)
	}),
		protocol.ClientParty(3), secagg.ErrMalformed)
}
