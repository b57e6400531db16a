package secagg

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// Two layers never share what is derived from a scalar, even if they had a scalar in common. So
// masks of one pair of keys differ, and so does everything else that is bound to a transcript.
func TestLayersAreKeptApart(t *testing.T) {
	setup := protocol.Setup{Round: 3, Cohort: protocol.Cohort{Clients: 2}, Replaces: true}
	random := simulated.New(1, "layers").Stream("scalars", 0)
	r := &roster{setup: setup, members: make([]protocol.Member, 2)}
	var scalars [2]shamir.Secret
	for i := range scalars {
		var err error
		if scalars[i], err = shamir.NewSecret(random); err != nil {
			t.Fatal(err)
		}
		public := maskKey(ofInputs, scalars[i], setup, protocol.ClientID(i), SemiHonest).public
		r.members[i] = protocol.Member{Client: protocol.ClientID(i), Keys: protocol.Keys{Mask: public, Change: &public}}
	}
	seen := make(map[[32]byte]string)
	differs := func(what string, b [32]byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[b]; ok {
			t.Errorf("the %s is the %s", what, other)
		}
		seen[b] = what
	}
	own := maskKey(ofInputs, scalars[0], setup, 0, SemiHonest)
	for l, name := range map[layer]string{ofInputs: "inputs", ofChanges: "changes"} {
		seed, hash := selfSeed(l, scalars[0], setup, 0)
		differs("seed of "+name, seed, nil)
		differs("hash of the seed of "+name, hash, nil)
		key := maskKey(l, scalars[0], setup, 0, SemiHonest)
		differs("mask key of "+name, [32]byte(key.x25519.Bytes()), nil)
		pairs, errs := r.pairSecrets(l, own, 0, []int{1}, nil, protocol.Workers(1))
		differs("pair secret of "+name, pairs[0], errs[0])
	}
	inputs := r.context(&protocol.Plan{Round: 3, Cohort: setup.Cohort}, partialView{known: protocol.Bitmap{7}})
	differs("binding of inputs", inputs.Binding, nil)
	for u1, name := range map[byte]string{7: "all", 3: "two"} {
		differs("binding of the changes of "+name, r.changeContext(inputs, partialView{known: protocol.Bitmap{u1}}).Binding, nil)
	}
	for l, key := range []*protocol.Key{new(protocol.Key), {1}} { // of another client
		members := slices.Clone(r.members)
		members[1].Keys.Change = key
		bound, err := newRoster(setup, Params{Rounds: 1}, protocol.Hash{}, members)
		if err != nil {
			t.Fatal(err)
		}
		differs(fmt.Sprint("roster with key ", l), bound.hash, nil)
	}
	plain := setup
	plain.Replaces = false
	differs("setting that replaces", Params{Rounds: 1}.setting(setup), nil)
	differs("setting that does not", Params{Rounds: 1}.setting(plain), nil)
}

// The bounds of the graph hold for all sums of a run together.
func TestEverySumCounts(t *testing.T) {
	for replaces, want := range map[bool]int{false: 10, true: 20} {
		s := protocol.Setup{Round: 1, Cohort: protocol.Cohort{Clients: 100, Tolerance: 0.3, Colluders: 0.05}, Replaces: replaces}
		if got := (Params{Rounds: 10}).Graph(s); got.Rounds != want || got.Clients != 100 || got.Tolerance != 0.3 || got.Colluders != 0.05 {
			t.Errorf("10 rounds that replace noise, %t: the graph is for %+v, want %d", replaces, got, want)
		}
	}
}
