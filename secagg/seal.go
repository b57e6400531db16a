package secagg

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// The two kinds of secrets that a client shares, by the words of transcripts.
const (
	seedKind = "seed" // behind the self-mask: revealed of who survived
	keyKind  = "key"  // behind the mask key: revealed of who did not
)

// encryptedShares are a holder's shares of one dealer in a layer.
type encryptedShares struct {
	seed, key [shamir.Size]byte
}

// holdings are its shares in each layer.
type holdings [layers]encryptedShares

// revealed returns the only kind of share that may be shown.
func (h *encryptedShares) revealed(survived bool) [shamir.Size]byte {
	if survived {
		return h.seed
	}
	return h.key
}

// plaintextSize counts two shares for each of n layers.
func plaintextSize(n layer) int { return int(n) * 2 * shamir.Size }

// dealtSize is the size of a sealed share for one holder, with its commitments in active mode.
func dealtSize(m Mode, n layer) int {
	size := plaintextSize(n) + chacha20poly1305.Overhead
	if m == Active {
		size += 2*protocol.KeySize + ed25519.SignatureSize
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
func takeDealt(piece []byte, dealer protocol.ClientID, m Mode) protocol.EncryptedShare {
	if m != Active {
		return protocol.EncryptedShare{Peer: dealer, Ciphertext: piece}
	}
	n := len(piece) - 2*protocol.KeySize - ed25519.SignatureSize
	c := piece[n:]
	return protocol.EncryptedShare{Peer: dealer, Ciphertext: piece[:n:n], Committed: &protocol.Commitments{
		Seed: protocol.Key(c), Key: protocol.Key(c[protocol.KeySize:]), Signature: c[2*protocol.KeySize:]}}
}

// append writes what is dealt in n layers.
func (h *holdings) append(dst []byte, n layer) []byte {
	for l := range n {
		dst = append(dst, h[l].seed[:]...)
		dst = append(dst, h[l].key[:]...)
	}
	return dst
}

// parseHoldings takes the plaintext of what is dealt in n layers apart; shares must be encodings of scalars.
func parseHoldings(b []byte, n layer) (h holdings, err error) {
	if len(b) != plaintextSize(n) {
		return h, fmt.Errorf("%w: %d bytes, %d expected", ErrShare, len(b), plaintextSize(n))
	}
	one := plaintextSize(1)
	for l := range n {
		part, to := b[int(l)*one:][:one], &h[l]
		copy(to.seed[:], part)
		copy(to.key[:], part[shamir.Size:])
		for _, s := range [][]byte{to.seed[:], to.key[:]} {
			if _, err = shamir.ParseSecret(s); err != nil {
				return holdings{}, fmt.Errorf("%w: %w", ErrShare, err)
			}
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
func (c channel) aead(secret [32]byte) cipher.AEAD {
	d, h := c.roster.members[c.dealer], c.roster.members[c.holder]
	info := protocol.NewTranscript("fedsim/secagg/channel/v1").Bytes(c.roster.hash[:]).
		Uint(uint64(d.Client)).Bytes(d.Keys.Channel[:]).Uint(uint64(h.Client)).Bytes(h.Keys.Channel[:]).Encoding()
	key := deriveKey(secret, info)
	defer clear(key[:])
	a, _ := chacha20poly1305.New(key[:]) // the key has the size; in the FIPS-only mode X25519 has failed before
	return a
}

func (c channel) seal(secret [32]byte, plain []byte) []byte {
	return c.aead(secret).Seal(nil, make([]byte, chacha20poly1305.NonceSize), plain, nil)
}

func (c channel) open(secret [32]byte, sealed []byte) ([]byte, error) {
	return c.aead(secret).Open(nil, make([]byte, chacha20poly1305.NonceSize), sealed, nil)
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

// commitments are the points of two shares, which must encode scalars. There is no signature yet.
func (h *encryptedShares) commitments() *protocol.Commitments {
	seed, _ := shamir.ParseSecret(h.seed[:])
	key, _ := shamir.ParseSecret(h.key[:])
	return &protocol.Commitments{Seed: seed.Point(), Key: key.Point()}
}

// signed returns the bytes that the dealer's signature is over. It covers the ciphertext, so that a
// holder knows whether a ciphertext that does not open came from the dealer like that.
func (c channel) signed(ciphertext []byte, m *protocol.Commitments) []byte {
	h := protocol.NewTranscript("fedsim/secagg/dealt/v2").Bytes(c.roster.hash[:]).
		Uint(uint64(c.roster.members[c.dealer].Client)).Uint(uint64(c.roster.members[c.holder].Client)).
		Bytes(ciphertext).Bytes(m.Seed[:]).Bytes(m.Key[:]).Sum()
	return h[:]
}

// deriveKey derives 32 bytes from a secret by HKDF with SHA-256, without salt. info binds them to what they are for.
func deriveKey(secret [32]byte, info []byte) [32]byte {
	key, _ := hkdf.Key(sha256.New, secret[:], nil, string(info), sha256.Size) // so many bytes there always are
	return [32]byte(key)
}

// derive makes 32 bytes of a shared secret, for the single use that kind names.
func derive(kind string, s shamir.Secret, setup protocol.Setup, id protocol.ClientID) [32]byte {
	info := protocol.NewTranscript("fedsim/secagg/secret/v1").Text(kind).Bytes(setup.Session[:]).Uint(setup.Round).Uint(uint64(id)).Encoding()
	return deriveKey(s.Bytes(), info)
}

// privateKey is a mask key. In active mode its private half is the shared secret itself, so that what is dealt can be checked
// against the public half, and x25519 is nil. Elsewhere x25519 is derived from the secret.
type privateKey struct {
	secret shamir.Secret
	x25519 *ecdh.PrivateKey
	public protocol.Key
}

// maskKey is the key that a shared secret stands for.
func maskKey(l layer, s shamir.Secret, setup protocol.Setup, id protocol.ClientID, m Mode) privateKey {
	if m == Active {
		return privateKey{secret: s, public: s.Point()}
	}
	b := derive(l.tag(keyKind), s, setup, id)
	x, _ := ecdh.X25519().NewPrivateKey(b[:]) // any 32 bytes are one
	return privateKey{s, x, protocol.Key(x.PublicKey().Bytes())}
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
func (r *roster) pairSecrets(l layer, own privateKey, i int, others []int, known *Agreements, run protocol.Runner) ([][32]byte, []error) {
	keys := lists.Map(others, func(j int) protocol.Key { return l.key(&r.members[j].Keys) })
	word, out, errs := "pair-of-points", make([][32]byte, len(keys)), make([]error, len(keys))
	if own.x25519 != nil {
		word = l.tag("pair")
		out, errs = known.common(r.setup.Round, own.x25519, keys, run)
	} else {
		run.Each(len(keys), func(k int) { out[k], errs[k] = own.secret.Common(keys[k]) })
	}
	for k, j := range others {
		low, high := &r.members[min(i, j)], &r.members[max(i, j)]
		lowKey, highKey := l.key(&low.Keys), l.key(&high.Keys)
		out[k] = deriveKey(out[k], protocol.NewTranscript("fedsim/secagg/"+word+"/v1").Uint(uint64(low.Client)).Bytes(lowKey[:]).
			Uint(uint64(high.Client)).Bytes(highKey[:]).Encoding())
	}
	return out, errs
}
