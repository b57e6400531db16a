package secagg

import (
	"crypto/ed25519"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Cost is what a real sum takes of a client in an iteration in which nobody is
// lost: the bytes of each kind of message, 0 where there is none. Unmask has the
// expected size of the removals, Removal, in it.
type Cost struct {
	Choice  graph.Choice
	Bytes   [protocol.Kinds]int
	Removal int
}

// Cost says what the iterations of a plan take. The errors are those of
// Validate.
func (p Params) Cost(plan *protocol.Plan) (Cost, error) {
	if err := p.Validate(plan); err != nil {
		return Cost{}, err
	}
	setup := plan.Setup()
	choice, err := graph.Choose(p.Graph(setup))
	if err != nil {
		return Cost{}, err
	}
	n, k := plan.Cohort.Clients, choice.Degree
	var signature, nonce []byte
	share := protocol.EncryptedShare{Ciphertext: make([]byte, plaintextSize(p.Mode, layersOf(setup))+chacha20poly1305.Overhead)}
	if p.Mode == graph.Active {
		signature, nonce = make([]byte, ed25519.SignatureSize), make([]byte, nonceSize)
		share.Committed = &protocol.Commitments{Signature: signature}
	}
	shares, revealed := make([]protocol.EncryptedShare, k), make([]protocol.RevealedShare, k)
	for i := range shares {
		shares[i], revealed[i].Nonce = share, nonce
	}
	var change *protocol.Key
	var changeHash *protocol.Hash
	if setup.Replaces {
		change, changeHash = new(protocol.Key), new(protocol.Hash)
	}
	members, signed := make([]protocol.Member, n), make([]protocol.Signed, n)
	for i := range members {
		members[i].Keys = protocol.Keys{Change: change, Signature: signature}
		signed[i].Signature = signature
	}
	c := Cost{Choice: choice, Removal: plan.RemovalSize(n)}
	messages := []protocol.Message{
		&protocol.Announce{Plan: plan}, &protocol.Advertise{Keys: &members[0].Keys}, &protocol.Roster{Members: members},
		&protocol.Shares{ChangeHash: changeHash, Shares: shares}, &protocol.Delivery{Arrived: protocol.NewBitmap(n), Shares: shares},
		&protocol.MaskedInput{Packed: plan.PackedSize()}, &protocol.Survivors{U1: protocol.NewBitmap(n)},
		&protocol.Unmask{Shares: revealed, Removed: make([][]byte, len(plan.Releases)), Packed: c.Removal},
	}
	if p.Mode == graph.Active {
		messages = append(messages, &protocol.Consistency{Signature: signature}, &protocol.Quorum{Signatures: signed})
	}
	if setup.Replaces {
		messages = append(messages, &protocol.Answered{U2: protocol.NewBitmap(n)}, &protocol.Replacement{Shares: revealed})
	}
	for _, m := range messages {
		c.Bytes[m.Kind()] = m.Size()
	}
	return c, nil
}
