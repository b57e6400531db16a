package secagg

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
	"github.com/fedsim/fedsim/secagg/internal/kdf"
	"github.com/fedsim/fedsim/secagg/shamir"
)

// The two kinds of secrets that a client shares, by the words of transcripts.
const (
	seedKind = "seed" // behind the self-mask: revealed of who survived
	keyKind  = "key"  // behind the mask key: revealed of who did not
)

// encryptedShares are a holder's shares of one dealer in a layer.
type encryptedShares struct {
	seed, key [shamir.Size]byte
	nonces    *[2 * protocol.NonceSize]byte // of the seed's share and of the key's; nil in semi-honest mode
}

// The places of the two nonces.
const (
	ofSeed = iota
	ofKey
)

// nonce returns the nonce of a share; nil in semi-honest mode.
func (h *encryptedShares) nonce(of int) []byte {
	if h.nonces == nil {
		return nil
	}
	return h.nonces[of*protocol.NonceSize:][:protocol.NonceSize:protocol.NonceSize]
}

// holdings are its shares in each layer.
type holdings [layers]encryptedShares

// revealed returns the only kind of share that may be shown, with its nonce.
func (h *encryptedShares) revealed(survived bool) (share [shamir.Size]byte, nonce []byte) {
	if survived {
		return h.seed, h.nonce(ofSeed)
	}
	return h.key, h.nonce(ofKey)
}

// plaintextSize counts, for each of n layers, the two shares and, in active mode, their two nonces.
func plaintextSize(m graph.Mode, n layer) int {
	size := 2 * shamir.Size
	if m == graph.Active {
		size += 2 * protocol.NonceSize
	}
	return int(n) * size
}

// dealtSize is the size of a sealed share for one holder, with its commitments in active mode.
func dealtSize(m graph.Mode, n layer) int {
	size := plaintextSize(m, n) + chacha20poly1305.Overhead
	if m == graph.Active {
		size += 2*protocol.HashSize + ed25519.SignatureSize
	}
	return size
}

// putDealt writes a checked share to a piece of dealtSize.
func putDealt(piece []byte, s *protocol.EncryptedShare) {
	piece = piece[copy(piece, s.Ciphertext):]
	if m := s.Committed; m != nil {
		piece = piece[copy(piece, m.Seed[:]):]
		copy(piece[copy(piece, m.Key[:]):], m.Signature)
	}
}

// takeDealt reads a share of a dealer from a piece, which it refers to.
func takeDealt(piece []byte, dealer protocol.ClientID, m graph.Mode) protocol.EncryptedShare {
	if m != graph.Active {
		return protocol.EncryptedShare{Peer: dealer, Ciphertext: piece}
	}
	n := len(piece) - 2*protocol.HashSize - ed25519.SignatureSize
	c := piece[n:]
	return protocol.EncryptedShare{Peer: dealer, Ciphertext: piece[:n:n], Committed: &protocol.Commitments{
		Seed: protocol.Hash(c), Key: protocol.Hash(c[protocol.HashSize:]), Signature: c[2*protocol.HashSize:]}}
}

// append writes what is dealt in n layers.
func (h *holdings) append(dst []byte, n layer) []byte {
	for l := range n {
		dst = append(dst, h[l].seed[:]...)
		dst = append(dst, h[l].key[:]...)
		dst = append(dst, h[l].nonce(ofSeed)...)
		dst = append(dst, h[l].nonce(ofKey)...)
	}
	return dst
}

// parseHoldings takes the plaintext of what is dealt in n layers apart; shares must be encodings of scalars.
func parseHoldings(b []byte, m graph.Mode, n layer) (h holdings, err error) {
	if len(b) != plaintextSize(m, n) {
		return h, fmt.Errorf("%w: %d bytes, %d expected", ErrShare, len(b), plaintextSize(m, n))
	}
	one := plaintextSize(m, 1)
	for l := range n {
		part, to := b[int(l)*one:][:one], &h[l]
		copy(to.seed[:], part)
		copy(to.key[:], part[shamir.Size:])
		for _, s := range [][]byte{to.seed[:], to.key[:]} {
			if _, err = shamir.ParseSecret(s); err != nil {
				return holdings{}, fmt.Errorf("%w: %w", ErrShare, err)
			}
		}
		if m == graph.Active {
			to.nonces = (*[2 * protocol.NonceSize]byte)(part[2*shamir.Size:])
		}
	}
	return h, nil
}

// channel is the way from a dealer to a holder in a round.
type channel struct {
	roster         *roster
	dealer, holder int // places
}

// aead is the cipher of the only message that goes this way. Its key comes from the secret that the two channel keys have in
// common, and is bound to roster and direction: it is used once, so the nonce may be zero.
func (c channel) aead(secret [32]byte) (cipher.AEAD, error) {
	d, h := c.roster.members[c.dealer], c.roster.members[c.holder]
	info := protocol.NewTranscript("fedsim/secagg/channel/v1").Bytes(c.roster.hash[:]).
		Uint(uint64(d.Client)).Bytes(d.Keys.Channel[:]).Uint(uint64(h.Client)).Bytes(h.Keys.Channel[:]).Encoding()
	key := kdf.Key(secret, info)
	defer clear(key[:])
	return chacha20poly1305.New(key[:])
}

func (c channel) seal(secret [32]byte, plain []byte) ([]byte, error) {
	a, err := c.aead(secret)
	if err != nil {
		return nil, err
	}
	return a.Seal(nil, make([]byte, a.NonceSize()), plain, nil), nil
}

func (c channel) open(secret [32]byte, sealed []byte) ([]byte, error) {
	a, err := c.aead(secret)
	if err != nil {
		return nil, err
	}
	return a.Open(nil, make([]byte, a.NonceSize()), sealed, nil)
}

// common is the X25519 secret of a key and another's public one; an error for a public key of low order.
func common(own *ecdh.PrivateKey, peer protocol.Key) (out [32]byte, err error) {
	public, err := ecdh.X25519().NewPublicKey(peer[:])
	if err != nil {
		return out, err
	}
	secret, err := own.ECDH(public)
	copy(out[:], secret)
	return out, err
}

// commitment is H(context, dealer, holder, share, nonce).
func (c channel) commitment(kind string, share [shamir.Size]byte, nonce []byte) protocol.Hash {
	return protocol.NewTranscript("fedsim/secagg/commitment/v1").Bytes(c.roster.hash[:]).Text(kind).
		Uint(uint64(c.roster.members[c.dealer].Client)).Uint(uint64(c.roster.members[c.holder].Client)).
		Bytes(share[:]).Bytes(nonce).Sum()
}

// commitments are the dealer's to what it deals, in the ciphertext.
func (c channel) commitments(h *encryptedShares, ciphertext []byte, identity ed25519.PrivateKey) *protocol.Commitments {
	out := &protocol.Commitments{Seed: c.commitment(seedKind, h.seed, h.nonce(ofSeed)), Key: c.commitment(keyKind, h.key, h.nonce(ofKey))}
	out.Signature = ed25519.Sign(identity, c.signed(ciphertext, out))
	return out
}

// signed returns the bytes that the dealer's signature is over. It covers the ciphertext, so that a
// holder knows whether a ciphertext that does not open came from the dealer like that.
func (c channel) signed(ciphertext []byte, m *protocol.Commitments) []byte {
	h := protocol.NewTranscript("fedsim/secagg/dealt/v1").Bytes(c.roster.hash[:]).
		Uint(uint64(c.roster.members[c.dealer].Client)).Uint(uint64(c.roster.members[c.holder].Client)).
		Bytes(ciphertext).Bytes(m.Seed[:]).Bytes(m.Key[:]).Sum()
	return h[:]
}

// verify checks the dealer's signature.
func (c channel) verify(s *protocol.EncryptedShare) bool {
	dealer := c.roster.members[c.dealer].Client
	return ed25519.Verify(c.roster.params.Identities[dealer], c.signed(s.Ciphertext, s.Committed), s.Committed.Signature)
}

// matches says whether shares match the dealer's commitments.
func (c channel) matches(h *encryptedShares, m *protocol.Commitments) bool {
	return m.Seed == c.commitment(seedKind, h.seed, h.nonce(ofSeed)) && m.Key == c.commitment(keyKind, h.key, h.nonce(ofKey))
}

// derive makes 32 bytes of a shared secret, for the single use that kind names.
func derive(kind string, s shamir.Secret, setup protocol.Setup, id protocol.ClientID) [32]byte {
	info := protocol.NewTranscript("fedsim/secagg/secret/v1").Text(kind).Bytes(setup.Session[:]).Uint(setup.Round).Uint(uint64(id)).Encoding()
	return kdf.Key(s.Bytes(), info)
}

// maskKey is the X25519 key that a shared secret stands for.
func maskKey(l layer, s shamir.Secret, setup protocol.Setup, id protocol.ClientID) (*ecdh.PrivateKey, error) {
	b := derive(l.tag(keyKind), s, setup, id)
	return ecdh.X25519().NewPrivateKey(b[:])
}

// selfSeed is the secret of the self-mask that a shared secret stands for, and the hash that is advertised of it.
func selfSeed(l layer, s shamir.Secret, setup protocol.Setup, id protocol.ClientID) (seed [32]byte, hash protocol.Hash) {
	seed = derive(l.tag(seedKind), s, setup, id)
	hash = protocol.NewTranscript("fedsim/secagg/" + l.tag("seed-hash") + "/v1").Bytes(setup.Session[:]).Uint(setup.Round).Uint(uint64(id)).Bytes(seed[:]).Sum()
	return seed, hash
}

// pairSecrets returns, for each of others, the secret that the client at place i has in common with
// it in a layer; own is the client's mask key. The secrets are bound to both clients, so that a
// client which advertises another's key as its own does not make two pairs have one mask.
func (r *roster) pairSecrets(l layer, own *ecdh.PrivateKey, i int, others []int, known *Agreements, run protocol.Runner) ([][32]byte, []error) {
	keys := make([]protocol.Key, len(others))
	for k, j := range others {
		keys[k] = l.key(&r.members[j].Keys)
	}
	out, errs := known.common(r.setup.Round, own, keys, run)
	for k, j := range others {
		low, high := &r.members[min(i, j)], &r.members[max(i, j)]
		lowKey, highKey := l.key(&low.Keys), l.key(&high.Keys)
		out[k] = kdf.Key(out[k], protocol.NewTranscript("fedsim/secagg/"+l.tag("pair")+"/v1").Uint(uint64(low.Client)).Bytes(lowKey[:]).
			Uint(uint64(high.Client)).Bytes(highKey[:]).Encoding())
	}
	return out, errs
}
