package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// The attacks on shares: by the aggregator that carries them, by a holder, by a dealer.

// An aggregator that withholds one neighbour's shares would remove an edge of
// the graph, and could cut it: the client does not take part.
func TestWithheldShare(t *testing.T) {
	for _, mode := range bothModes {
		f := standing(t, mode, protocol.StageShare)
		d := *f.deliveries[0]
		d.Shares = d.Shares[1:]
		f.deliveries[0] = &d
		_, err := f.answer(protocol.StageMaskedInput, 0)
		culprit(t, err, theAggregator, secagg.ErrShare)
	}
}

// A dealer that deals garbage, and an aggregator that garbles what was dealt.
func TestGarbledShare(t *testing.T) {
	garble := func(s *protocol.EncryptedShare) {
		s.Ciphertext = slices.Clone(s.Ciphertext)
		s.Ciphertext[0] ^= 1
	}
	for _, mode := range bothModes {
		f := standing(t, mode, protocol.StageShare)
		d := *f.deliveries[0]
		d.Shares = slices.Clone(d.Shares)
		garble(&d.Shares[2])
		f.deliveries[0] = &d
		_, err := f.answer(protocol.StageMaskedInput, 0)
		if mode == secagg.Active {
			culprit(t, err, theAggregator, secagg.ErrSignature)
		} else {
			culprit(t, err, protocol.ClientParty(d.Shares[2].Peer), secagg.ErrShare)
		}
	}
}

// A holder reveals another share than it was dealt. The sum would be lost, and no party would know
// by whom. In active mode the holder is named, its answer does not count, and the sum is made from
// the others' answers.
func TestHolderLies(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageConsistency)
	for i := range f.clients {
		m, err := f.answer(protocol.StageUnmask, i)
		if err != nil {
			t.Fatal(err)
		}
		u := m.(*protocol.Unmask)
		if i == 4 {
			u = &protocol.Unmask{Round: 1, Shares: slices.Clone(u.Shares), Removed: u.Removed}
			u.Shares[0].Share[0] ^= 1
			culprit(t, f.aggregator.Receive(4, u), protocol.ClientParty(4), secagg.ErrShare)
			continue
		}
		if err = f.aggregator.Receive(protocol.ClientID(i), u); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageUnmask); err != nil {
		t.Fatal(err)
	}
	got, err := f.aggregator.Sum(serial{})
	if d := cmp.Diff(f.sum(func(int) bool { return true }), got); err != nil || d != "" {
		t.Errorf("error %v, sum (-want +got):\n%s", err, d)
	}
}

// In semi-honest mode no party can tell which client lied. The lie itself is found out, and no
// wrong sum comes out.
func TestWrongShareInSemiHonestMode(t *testing.T) {
	f := standing(t, secagg.SemiHonest, protocol.StageMaskedInput)
	for i := range f.clients {
		m, err := f.answer(protocol.StageUnmask, i)
		if err != nil {
			t.Fatal(err)
		}
		u := m.(*protocol.Unmask)
		for k := range u.Shares {
			if i == 0 {
				u.Shares[k].Share[0] ^= 1
			}
		}
		if err = f.aggregator.Receive(protocol.ClientID(i), u); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageUnmask); err != nil {
		t.Fatal(err)
	}
	got, err := f.aggregator.Sum(serial{})
	var lost *protocol.Unrecoverable
	if !errors.As(err, &lost) || lost.Dealt || lost.Left < lost.Required || got != nil {
		t.Errorf("the sum is %v, %v; want none and Unrecoverable that names no dealer", got, err)
	}
}

// The aggregator delivers what was dealt to another holder, with the dealer's own
// signature: it was signed for that holder.
func TestShareOfAnotherHolder(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageShare)
	byDealer := func(holder int) int {
		return slices.IndexFunc(f.deliveries[holder].Shares, func(s protocol.EncryptedShare) bool { return s.Peer == 4 })
	}
	d := *f.deliveries[0]
	d.Shares = slices.Clone(d.Shares)
	d.Shares[byDealer(0)] = f.deliveries[5].Shares[byDealer(5)]
	f.deliveries[0] = &d
	_, err := f.answer(protocol.StageMaskedInput, 0)
	culprit(t, err, theAggregator, secagg.ErrSignature)
}
