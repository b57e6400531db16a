package secagg_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// shared is a federation whose parties compute what two of them have in common once.
func shared(t *testing.T, plan *protocol.Plan, a *secagg.Agreements) *federation {
	t.Helper()
	f := newFederation(t, plan, secagg.Params{})
	f.agreements = a
	for i := range f.clients {
		f.parties[i] = f.party(i, 0)
		var err error
		if f.clients[i], err = join(f.parties[i], plan); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// Masked inputs of clients that share agreements are those of clients that compute
// everything themselves, byte for byte. Of each pair one leaves its secret to the other, so that
// in the end nothing is left but what was for clients that were lost before they masked.
func TestAgreements(t *testing.T) {
	p := plan(20, exact("V", 8, 32))
	p.Cohort.Tolerance = 0.3
	apart, together := newFederation(t, p, secagg.Params{}), shared(t, p, new(secagg.Agreements))
	for _, f := range []*federation{apart, together} {
		f.through(protocol.StageShare)
		f.lose(3, 2)
	}
	for i := range apart.clients {
		if !apart.alive[i] {
			continue
		}
		want, err := apart.answer(protocol.StageMaskedInput, i)
		if err != nil {
			t.Fatal(err)
		}
		got, err := together.answer(protocol.StageMaskedInput, i)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.(*protocol.MaskedInput).Masked, want.(*protocol.MaskedInput).Masked, bytes.Equal) {
			t.Errorf("client %d masks its input otherwise", i)
		}
	}
	lost := 0 // pairs of one that is lost and one that is not
	for i := range apart.clients {
		for _, s := range apart.deliveries[i].Shares {
			if apart.alive[i] && !apart.alive[s.Peer] {
				lost++
			}
		}
	}
	if left := together.agreements.Left(); left != lost || lost == 0 {
		t.Errorf("%d secrets are left; %d pairs have lost one of them", left, lost)
	}
	next := *p
	next.Iteration = p.Iteration + 2
	f := shared(t, &next, together.agreements)
	f.through(protocol.StageShare)
	if left := f.agreements.Left(); left != 0 {
		t.Errorf("%d secrets are left two iterations later", left)
	}
}

// All the time two of a pair ask at once: what they get is the same, and nothing stays.
func TestAgreementsAtOnce(t *testing.T) {
	p := plan(20, exact("V", 8, 32))
	f := shared(t, p, new(secagg.Agreements))
	if err := f.stage(protocol.StageAdvertise); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range f.clients {
		all.Go(func() {
			if _, err := f.answer(protocol.StageShare, i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left := f.agreements.Left(); left != 0 {
		t.Errorf("%d secrets are left", left)
	}
}
