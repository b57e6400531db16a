package secagg

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// The script testdata/ring.py computes the ring of a small roster, and each client's part of it,
// from the specification. The roster's ring and parts are equal to them. A client makes the same
// hash of its part.
func TestRingGolden(t *testing.T) {
	var want struct {
		Keys, Hash string
		Order      []int32
		Parts      []struct {
			Start   int
			Members []int
			Proof   []string
		}
	}
	text, err := os.ReadFile("testdata/ring.json")
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	fill := func(first int) (k protocol.Key) {
		for i := range k {
			k[i] = byte(first + i)
		}
		return k
	}
	// Of so many clients all but twelve may be lost, for a roster of thirteen to do. The degree is
	// given, since its arithmetic has tests of its own.
	setup := protocol.Setup{Round: 1, Cohort: protocol.Cohort{Clients: WholeUpTo + 1, Tolerance: 0.976}}
	members := make([]protocol.Member, 13)
	for i := range members {
		members[i] = protocol.Member{Client: protocol.ClientID(3*i + 1), Keys: protocol.Keys{Mask: fill(i), Channel: fill(100 + i)}}
	}
	r, err := newRoster(setup, Params{Rounds: 1}, protocol.Hash(fill(200)), members)
	if err != nil {
		t.Fatal(err)
	}
	r.choice = GraphChoice{Degree: 4, Threshold: 2}
	r.arrange()
	if got := hex.EncodeToString(r.ring.keys[:]); got != want.Keys {
		t.Errorf("the hash of all keys is %s, want %s", got, want.Keys)
	}
	if got := hex.EncodeToString(r.hash[:]); got != want.Hash {
		t.Errorf("the hash of the roster is %s, want %s", got, want.Hash)
	}
	if !slices.Equal(r.ring.order, want.Order) {
		t.Errorf("the order is %v, want %v", r.ring.order, want.Order)
	}
	g, err := r.graph()
	if err != nil {
		t.Fatal(err)
	}
	for place, part := range want.Parts {
		m := r.shown(g, place)
		var proof []string
		for _, h := range m.Ring.Proof {
			proof = append(proof, hex.EncodeToString(h[:]))
		}
		if m.Ring.Start != part.Start || !slices.Equal(proof, part.Proof) || !slices.Equal(around(g, place), part.Members) {
			t.Errorf("the client at place %d is shown %+v, want %+v", place, m.Ring, part)
		}
		if near := slices.DeleteFunc(part.Members, func(j int) bool { return j == place }); !slices.Equal(g.Neighbours(place), near) {
			t.Errorf("the neighbours of the client at place %d are %v, want %v", place, g.Neighbours(place), near)
		}
	}
}
