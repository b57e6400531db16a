package node

import (
	"crypto/ed25519"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/fedsim/fedsim/node/admission"
)

// PeerID is the libp2p peer ID of an identity key.
func PeerID(public ed25519.PublicKey) (peer.ID, error) {
	k, err := crypto.UnmarshalEd25519PublicKey(public)
	if err != nil {
		return "", fmt.Errorf("node: %w", err)
	}
	return peer.IDFromPublicKey(k)
}

// publicKey is the identity key that a peer's name stands for.
func publicKey(id peer.ID) (admission.PublicKey, error) {
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
