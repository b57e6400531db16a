package protocol

// Lengths in bytes. KeySize is of an X25519 public key, SignatureSize of an Ed25519 signature,
// HashSize of a SHA-256 hash, and NonceSize of the nonce in a commitment to a share.
const (
	KeySize       = 32
	SignatureSize = 64
	HashSize      = 32
	NonceSize     = 16
)

// Key is an X25519 public key.
type Key [KeySize]byte

// Hash is a SHA-256 hash.
type Hash [HashSize]byte

// Keys holds the keys that a client advertises. Mask is the key from which its masks are derived; it is used for one round. Channel
// is the key that shares for the client are encrypted to; it is used for a session. In active mode Signature is the client's over
// both. Where noise is replaced, the masks over the change of noise are derived from another key, Change, also used for one round;
// elsewhere Change is nil.
type Keys struct {
	Mask, Channel Key
	Change        *Key
	Signature     []byte
}

// Member is a client on a roster, with its keys.
type Member struct {
	Client ClientID
	Keys   Keys
}

// EncryptedShare goes from a dealer to a holder through the aggregator: the holder's shares of the dealer's secrets, encrypted to
// the holder. Peer is the holder in Shares and the dealer in Delivery. Committed is empty in semi-honest mode.
type EncryptedShare struct {
	Peer       ClientID
	Ciphertext []byte
	Committed  *Commitments
}

// Commitments are a dealer's hashes of the two shares that it dealt to one holder, of its self-mask's secret and of its mask key's,
// with the dealer's signature over both. A share that is revealed later is checked against them.
type Commitments struct {
	Seed, Key Hash
	Signature []byte
}

// RevealedShare is a holder's share of a secret of the client Of. If that client's vectors are in
// the sum, it is the secret behind the client's self-mask; if they are not, it is the secret behind
// its mask key. Nonce opens the dealer's commitment; empty in semi-honest mode.
type RevealedShare struct {
	Of    ClientID
	Share [32]byte
	Nonce []byte
}

// Complaint says that what neighbour Of dealt, and signed, is unusable. The client then shares no mask with that neighbour, and
// reveals Secret, the secret of that mask, so that the aggregator can remove the neighbour's side of it.
type Complaint struct {
	Of     ClientID
	Secret [32]byte
}

// Signed is a client's signature over the survivors that it was shown.
type Signed struct {
	Client    ClientID
	Signature []byte
}

// Bitmap is a subset of a roster: bit i mod 8 of byte ⌊i/8⌋, counted from the
// least significant, says whether the i-th member belongs to it.
type Bitmap []byte

// NewBitmap is the empty subset of n.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+7)/8) }

// Set puts member i into the subset.
func (b Bitmap) Set(i int) { b[i/8] |= 1 << (i % 8) }

// Clear takes i out.
func (b Bitmap) Clear(i int) { b[i/8] &^= 1 << (i % 8) }

// Has says whether member i is in the subset; false beyond its end.
func (b Bitmap) Has(i int) bool { return i >= 0 && i/8 < len(b) && b[i/8]>>(i%8)&1 == 1 }

// Count returns the number of members in the subset.
func (b Bitmap) Count() int {
	n := 0
	for i := range 8 * len(b) {
		if b.Has(i) {
			n++
		}
	}
	return n
}

// Fits says whether the bitmap is one of a roster of n: of that length, with nothing behind the last member.
func (b Bitmap) Fits(n int) bool {
	return len(b) == (n+7)/8 && (n%8 == 0 || b[len(b)-1]>>(n%8) == 0)
}

// Subset says whether every member of b is one of o.
func (b Bitmap) Subset(o Bitmap) bool {
	for i, x := range b {
		if i >= len(o) && x != 0 || i < len(o) && x&^o[i] != 0 {
			return false
		}
	}
	return true
}
