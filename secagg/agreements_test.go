package secagg_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Clients that share their keys in Agreements deal, mask and sum as clients that compute everything
// from public keys, byte for byte. A key that is not in Agreements is taken from its public half.
// Keys are kept for the round after theirs, and no longer.
func TestAgreements(t *testing.T) {
	p := plan(20, exact("V", 8, 32))
	p.Cohort.Tolerance = 0.3
	apart, together, mixed := newFederationWith(t, p, secagg.Params{}, nil), newFederation(t, p, secagg.Params{}), newFederation(t, p, secagg.Params{})
	mixed.agreements = nil
	mixed.parties[7] = mixed.party(7, 0)
	var err error
	if mixed.clients[7], err = join(mixed.parties[7], p); err != nil {
		t.Fatal(err)
	}
	all := []*federation{apart, together, mixed}
	for _, f := range all {
		f.through(protocol.StageAdvertise)
	}
	same := func(stage protocol.Stage) {
		t.Helper()
		for i := range apart.clients {
			if !apart.alive[i] {
				continue
			}
			var want protocol.Message
			for k, f := range all {
				got, err := f.answer(stage, i)
				if err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = got
				} else if !reflect.DeepEqual(got, want) {
					t.Errorf("%s of client %d is another in federation %d", stage, i, k)
				}
				if err = f.aggregator.Receive(protocol.ClientID(i), got.(protocol.StageMessage)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, f := range all {
			if err := f.aggregator.Close(stage); err != nil {
				t.Fatal(err)
			}
			f.next(stage)
		}
	}
	same(protocol.StageShare)
	for _, f := range all {
		f.lose(3, 2)
	}
	same(protocol.StageMaskedInput)
	same(protocol.StageUnmask)
	want := apart.sum(func(i int) bool { return apart.alive[i] })
	for k, f := range all {
		if got, err := f.aggregator.Sum(serial{}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the sum of federation %d is %v, %v; want %v", k, got, err, want)
		}
	}
	for ahead, want := range []int{20, 20, 0} {
		next := *p
		next.Round = p.Round + uint64(ahead)
		if ahead > 0 {
			newFederationWith(t, &next, secagg.Params{}, together.agreements).through(protocol.StageAdvertise)
		}
		if got := together.agreements.Kept(p.Round); got != want {
			t.Errorf("%d keys are kept %d rounds later, want %d", got, ahead, want)
		}
	}
}

// Low order is told as X25519 tells it: over all keys near 0 and 2^255, with and without the highest bit, the
// two others that RFC 7748 points to, and random ones.
func TestLowOrder(t *testing.T) {
	own, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{0x5a}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var keys []protocol.Key
	for i := range 256 {
		keys = append(keys, protocol.Key{byte(i)}, protocol.Key(append([]byte{byte(i)}, bytes.Repeat([]byte{0xff}, 31)...)))
		random := make([]byte, 32)
		_, _ = simulated.New(uint64(i), "keys").Stream("key", 0).Read(random)
		keys = append(keys, protocol.Key(random))
	}
	for _, s := range []string{"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800", "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, protocol.Key(b))
	}
	low := 0
	for _, k := range keys {
		for range 2 {
			k[31] ^= 0x80
			public, err := ecdh.X25519().NewPublicKey(k[:])
			if err != nil {
				t.Fatal(err)
			}
			_, err = own.ECDH(public)
			if want := err != nil; secagg.LowOrder(k) != want {
				t.Errorf("%x is of low order: %v, want %v", k, !want, want)
			}
			if err != nil {
				low++
			}
		}
	}
	if low != 14 { // 0, 1, p-1, p, p+1 and the two others, each with and without the highest bit
		t.Errorf("%d keys of low order were tried, want 14", low)
	}
}
