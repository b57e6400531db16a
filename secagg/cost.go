package secagg

import (
	"crypto/ed25519"
	"math/bits"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Cost is a client's cost of a real sum, in a round in which no client is lost. Bytes is the size
// of each kind of message when it travels alone, 0 if there is none, for the client whose messages
// are longest. The first clients' messages, and most that travel inside another, are a few bytes
// shorter; with several releases, each vector beyond the first takes a few more. Unmask includes
// the expected size of the removals, which is Removal.
type Cost struct {
	Choice  graph.Choice
	Bytes   [protocol.Kinds]int
	Removal int
}

// Cost says what each round of a plan costs. It returns the errors of Validate.
func (p Params) Cost(plan *protocol.Plan) (Cost, error) {
	if err := p.Validate(plan); err != nil {
		return Cost{}, err
	}
	setup := plan.Setup()
	choice, err := graph.Choose(p.Graph(setup))
	if err != nil {
		return Cost{}, err
	}
	n, k, it := plan.Cohort.Wanted(), choice.Degree, plan.Round
	first := protocol.ClientID(plan.Cohort.All() - n) // of all clients, the clients with the longest numbers
	last := first + protocol.ClientID(n-1)
	var signature, nonce []byte
	share := protocol.EncryptedShare{Peer: last, Ciphertext: make([]byte, plaintextSize(p.Mode, layersOf(setup))+chacha20poly1305.Overhead)}
	if p.Mode == graph.Active {
		signature, nonce = make([]byte, ed25519.SignatureSize), make([]byte, protocol.NonceSize)
		share.Committed = &protocol.Commitments{Signature: signature}
	}
	shares, revealed := make([]protocol.EncryptedShare, k), make([]protocol.RevealedShare, k)
	for i := range shares {
		shares[i], revealed[i].Of, revealed[i].Nonce = share, last, nonce
	}
	var change *protocol.Key
	var changeHash *protocol.Hash
	if setup.Replaces {
		change, changeHash = new(protocol.Key), new(protocol.Hash)
	}
	members, signed := make([]protocol.Member, n), make([]protocol.Signed, n)
	for i := range members {
		members[i] = protocol.Member{Client: first + protocol.ClientID(i), Keys: protocol.Keys{Change: change, Signature: signature}}
		signed[i] = protocol.Signed{Client: first + protocol.ClientID(i), Signature: signature}
	}
	var removed [][]byte
	for _, r := range plan.Releases {
		if !r.Noise.Reduced() {
			removed = append(removed, nil) // stands in the list, though empty
		}
	}
	c := Cost{Choice: choice, Removal: plan.RemovalSize(n)}
	roster, set := &protocol.Roster{Round: it, Clients: n, Members: members}, partialView{count: n, known: protocol.NewBitmap(n)}
	if p.inParts(setup) {
		roster.Members = members[max(0, n-k-1):]
		roster.Ring = &protocol.Ring{Start: n - 1, Proof: make([]protocol.Hash, 2*bits.Len(uint(n-1)))} // the largest there can be
		set.known, set.digest = protocol.NewBitmap(len(roster.Members)), new(protocol.Hash)
	}
	messages := []protocol.Message{
		&protocol.Announce{Plan: plan}, &protocol.Advertise{Round: it, Keys: &members[0].Keys}, roster,
		&protocol.Shares{Round: it, ChangeHash: changeHash, Shares: shares},
		&protocol.Delivery{Round: it, Clients: n, Arrived: set.known, Digest: set.digest, Shares: shares},
		&protocol.Prepared{Round: it}, &protocol.Proceed{Round: it}, // which the roles add to the sum's stages
		&protocol.MaskedInput{Round: it, Packed: plan.PackedSize()}, &protocol.Survivors{Round: it, Count: n, U1: set.known, Digest: set.digest},
		&protocol.Unmask{Round: it, Shares: revealed, Removed: removed, Packed: c.Removal},
	}
	if p.Mode == graph.Active {
		messages = append(messages, &protocol.Consistency{Round: it, Signature: signature}, &protocol.Quorum{Round: it, Signatures: signed})
	}
	if setup.Replaces {
		messages = append(messages, &protocol.Answered{Round: it, Count: n, U2: set.known, Digest: set.digest}, &protocol.Replacement{Round: it, Shares: revealed})
	}
	for _, m := range messages {
		c.Bytes[m.Kind()] = protocol.Size(m)
	}
	return c, nil
}
