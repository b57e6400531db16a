package protocol

import (
	"errors"
	"math/bits"
	"time"

	"github.com/fedsim/fedsim/internal/lists"
)

// Work is a heavy computation that a role asks for. Do computes from the values it was given and writes no field of the role; the
// role takes in the result when it is stepped with the Done that Do returns. So Do may run on any goroutine while the role receives
// messages, and a result that never comes, or comes too late, changes nothing. Do may change what the role has behind an interface
// (a trainer, a strategy or a sum); the role does not use it meanwhile.
//
// The driver runs Do once and feeds the role what it returns. Works of one role run one
// at a time, in the order in which it asked for them. NewWork makes one.
type Work struct {
	ID uint64
	Do func(Runner) Done
	// Checks says that the work only finds out whether a peer's message is sound. In a simulation
	// it takes no virtual time: the computations of a role take time there.
	Checks bool
}

// Done reports that a Work has run, and carries its result.
type Done struct {
	ID  uint64
	Err error
	// apply has the role take the result in. It is a function since the result's type
	// is known only where the work was asked for; nil where it failed.
	apply func(now time.Time) Effects
}

// Apply passes the result to the role and returns what the role wants done next. Only a
// role's Step calls it. Work that failed has no result.
func (d Done) Apply(now time.Time) Effects {
	if d.apply == nil {
		return Effects{}
	}
	return d.apply(now)
}

// NewWork makes the work that computes a result, and what the role does with it. compute runs on any goroutine; take runs in the
// role's Step, and is left out where there was an error.
func NewWork[T any](id uint64, compute func(Runner) (T, error), take func(now time.Time, result T) Effects) Work {
	return Work{ID: id, Do: func(run Runner) Done {
		result, err := compute(run)
		if err != nil {
			return Done{ID: id, Err: err}
		}
		return Done{ID: id, apply: func(now time.Time) Effects { return take(now, result) }}
	}}
}

// NewDone makes the Done of a Work that NewWork did not make: a Work of NewWork takes more memory,
// which counts if many wait to be run.
func NewDone(id uint64, err error, take func(now time.Time) Effects) Done {
	if err != nil {
		return Done{ID: id, Err: err}
	}
	return Done{ID: id, apply: take}
}

// Workers runs independent computations on a fixed number of goroutines. It is a Runner.
type Workers int

// Each runs f(0) to f(n-1) and returns when all have returned. The order is not fixed; f must write to places of its own only.
func (w Workers) Each(n int, f func(i int)) {
	lists.Each(int(w), n, f)
}

// Culprit is a client that has been proved to have broken the protocol, and by what.
type Culprit struct {
	Client ClientID
	Err    error
}

// NoModel stands in place of the final model where no round of a session released anything. It is no model of any algorithm.
var NoModel = []byte("fedsim/no-model/v1\n")

// ErrNothingReleased is returned at the end of a session if no round released anything.
var ErrNothingReleased = errors.New("no round of the session released anything: there is no model. A client is charged for each round in which it sent its masked vector, and for no other (fednode status tells its owner). The log of the aggregator and of the server says why (client-excluded, sum-refused, round-aborted)")

// Lengths in bytes. KeySize is of a public key, SignatureSize of an Ed25519 signature, and
// HashSize of a SHA-256 hash.
const (
	KeySize       = 32
	SignatureSize = 64
	HashSize      = 32
)

// Key is a public key: of X25519 or, where that is said, a point of edwards25519 (RFC 8032, section 5.1.2).
type Key [KeySize]byte

// Hash is a SHA-256 hash.
type Hash [HashSize]byte

// Keys holds the keys that a client advertises. Mask is the key from which its masks are derived; it is used for one round. Channel
// is the key that shares for the client are encrypted to; it is used for a session. In active mode Mask is the point of the
// secret that the client shares, and Signature is the client's over both. Where noise is replaced, the masks over the change of noise are derived from another key, Change, also used for one round;
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

// Commitments are the points of the two shares that a dealer dealt to one holder, of its self-mask's secret and of its mask key's,
// with the dealer's signature over both. The aggregator checks them before it delivers, and a share that is revealed against them.
type Commitments struct {
	Seed, Key Key
	Signature []byte
}

// RevealedShare is a holder's share of a secret of the client Of. If that client's vectors are in
// the sum, it is the secret behind the client's self-mask; if they are not, it is the secret behind
// its mask key.
type RevealedShare struct {
	Of    ClientID
	Share [32]byte
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
	for _, x := range b {
		n += bits.OnesCount8(x)
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
