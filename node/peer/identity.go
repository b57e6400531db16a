package peer

import (
	"crypto/ed25519"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/fedsim/fedsim/node/admission"
)

// ID is the name of a peer, which its identity key determines.
type ID = peer.ID

// IDOf is the libp2p peer ID of an identity key.
func IDOf(public ed25519.PublicKey) (peer.ID, error) {
	k, err := crypto.UnmarshalEd25519PublicKey(public)
	if err != nil {
		return "", fmt.Errorf("node: %w", err)
	}
	return peer.IDFromPublicKey(k)
}

// KeyOf is the identity key that a peer's name stands for.
func KeyOf(id peer.ID) (admission.PublicKey, error) {
	k, err := id.ExtractPublicKey()
	if err != nil {
		return admission.PublicKey{}, fmt.Errorf("node: %w", err)
	}
	raw, err := k.Raw()
	if err != nil {
		return admission.PublicKey{}, fmt.Errorf("node: %w", err)
	}
	return admission.NewPublicKey(raw)
}
