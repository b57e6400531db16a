package secagg_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Attacks with the signatures over survivors.

// The signatures of a client are of no use for another purpose: a signature over
// survivors is bound to the client and to what it holds.
func TestSignatureOfAnotherSet(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageMaskedInput)
	m, err := f.clients[3].Confirm(without(f.survivors, 9))
	if err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(3, m), protocol.ClientParty(3), secagg.ErrSignature)
	m, err = f.clients[4].Confirm(f.survivors)
	if err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(5, m), protocol.ClientParty(5), secagg.ErrSignature)
	if bytes.Equal(m.Signature, make([]byte, ed25519.SignatureSize)) {
		t.Error("the signature is empty")
	}
}

// Client 9 is lost before its input, and one client was told that its shares had not arrived
// either. The set U1 is the same for all clients, the masks are not. That client's signature must
// not count for the others' masks.
func TestSignatureOverAnotherRoster(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageShare)
	lied := *f.deliveries[0]
	lied.Arrived = slices.Clone(lied.Arrived)
	lied.Arrived[1] &^= 2 // client 9
	lied.Clients--
	lied.Shares = slices.DeleteFunc(slices.Clone(lied.Shares), func(s protocol.EncryptedShare) bool { return s.Peer == 9 })
	f.deliveries[0] = &lied
	f.lose(9, 1)
	if err := f.stage(protocol.StageMaskedInput); err != nil {
		t.Fatal(err)
	}
	m, err := f.clients[0].Confirm(f.survivors)
	if err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(0, m), protocol.ClientParty(0), secagg.ErrSignature)
}

// A colluding client that did not survive signs along: a quorum is one of survivors.
func TestSignatureOfOneThatWasLost(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageShare)
	f.lose(9, 1)
	for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageConsistency} {
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	q := &protocol.Quorum{Signatures: append(slices.Clone(f.quorum.Signatures[:7]), f.clients[0].SignAs(9, f.identities[9], f.survivors.U1))}
	culprit(t, f.clients[0].Check(f.survivors, q, serial{}), theAggregator, secagg.ErrQuorum)
	// With a survivor's signature in that place it is a quorum.
	q.Signatures[7] = f.clients[1].SignAs(8, f.identities[8], f.survivors.U1)
	if err := f.clients[1].Check(f.survivors, q, serial{}); err != nil {
		t.Error(err)
	}
}
