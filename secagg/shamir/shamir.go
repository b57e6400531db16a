// Package shamir is Shamir's secret sharing (1979): a secret is split among holders so
// that any t of them can reconstruct it and fewer than t learn nothing about it.
//
// # Use
//
// A dealer splits a secret among the holders, which are known by their indices:
//
//	secret, err := shamir.NewSecret(random)
//	shares, err := shamir.Split(secret, t, holders, random) // shares[i] is for holders[i]
//
// With the shares of at least t holders, weights are computed once for these holders, and
// any number of secrets that were shared with them is combined with the same weights:
//
//	weights, err := shamir.NewLagrange(t, holders)
//	secret, err := weights.Combine(shares)
//
// # Scheme
//
// Secrets and shares are integers modulo the prime
//
//	ℓ = 2^252 + 27742317777372353535851937790883648493,
//
// the order of the edwards25519 group. The dealer draws a_1 ... a_{t-1} uniformly and
// gives f(x) = secret + a_1·x + ... + a_{t-1}·x^{t-1} to the holder with index x. Holders
// S recover f(0) = Σ λ_x·f(x), λ_x = Π y/(y-x) over the other y in S. Everything is
// encoded as 32 bytes, little endian, less than ℓ.
//
// # Promise
//
// For any t-1 shares and any secret there is exactly one polynomial that fits both. All these
// polynomials are equally likely, except that a coefficient, 64 random bytes reduced modulo ℓ, may
// differ from uniform by 2^-259. This needs randomness that is uniform, secret and never used
// twice.
//
// Shares contain no check: a wrong one gives another secret and no error. Callers compare
// the result with something published, such as the public key or a hash of the secret.
//
// Arithmetic takes the same time whatever the secrets and shares are. Indices, t and the
// number of holders are public, and the time does depend on them. Split clears the
// coefficients that it drew. Secrets and shares are values, cleared by assigning their
// zero value; copies that the runtime made of a stack cannot be cleared.
package shamir

import (
	"errors"
	"fmt"
	"io"

	"filippo.io/edwards25519"
)

// Size is the length of an encoded secret or share in bytes.
const Size = 32

var (
	// ErrThreshold is returned for a threshold below 1 or above the number of
	// holders it is to be split among.
	ErrThreshold = errors.New("shamir: impossible threshold")
	// ErrHolder is returned when holders are not distinct or one is 0, the place
	// of the secret itself.
	ErrHolder = errors.New("shamir: holders must be distinct and not 0")
	// ErrTooFew is returned when there are fewer holders than the threshold.
	ErrTooFew = errors.New("shamir: too few shares")
	// ErrMismatch is returned for shares of other holders than the weights are for.
	ErrMismatch = errors.New("shamir: shares do not belong to these weights")
	// ErrEncoding is returned for bytes that encode no integer below ℓ.
	ErrEncoding = errors.New("shamir: not the encoding of a scalar")
)

// Index identifies a holder of a secret. It is the point at which the polynomial is
// evaluated, so 0, the place of the secret itself, is no holder.
type Index uint32

// scalar returns the index as an element of the field.
func (x Index) scalar() edwards25519.Scalar {
	var s edwards25519.Scalar
	b := [Size]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)}
	_, _ = s.SetCanonicalBytes(b[:]) // cannot fail: 32 bytes and below 2^32
	return s
}

// parse decodes 32 bytes, little endian, below ℓ.
func parse(what string, b []byte) (edwards25519.Scalar, error) {
	var s edwards25519.Scalar
	if len(b) != Size {
		return s, fmt.Errorf("%w: %s has %d bytes; it must have %d", ErrEncoding, what, len(b), Size)
	}
	if _, err := s.SetCanonicalBytes(b); err != nil {
		return s, fmt.Errorf("%w: %s is not reduced modulo the order of edwards25519", ErrEncoding, what)
	}
	return s, nil
}

// uniform draws scalars, each of 64 bytes of random, little endian, modulo ℓ.
func uniform(scalars []edwards25519.Scalar, random io.Reader) error {
	const size = 64
	buf := make([]byte, size*len(scalars))
	defer clear(buf)
	if _, err := io.ReadFull(random, buf); err != nil {
		return fmt.Errorf("shamir: drawing %d random bytes: %w", len(buf), err)
	}
	for i := range scalars {
		if _, err := scalars[i].SetUniformBytes(buf[size*i:][:size]); err != nil {
			return fmt.Errorf("shamir: reducing random bytes: %w", err)
		}
	}
	return nil
}

// Secret is an integer from 0 to ℓ-1. The zero Secret is the integer 0.
type Secret struct {
	s edwards25519.Scalar
}

// NewSecret draws a uniform secret: 64 bytes of random, little endian, modulo ℓ.
func NewSecret(random io.Reader) (Secret, error) {
	var s [1]edwards25519.Scalar
	if err := uniform(s[:], random); err != nil {
		return Secret{}, err
	}
	return Secret{s[0]}, nil
}

// ParseSecret decodes what [Secret.Bytes] returns. The error is ErrEncoding
// unless b is 32 bytes, little endian, and below ℓ.
func ParseSecret(b []byte) (Secret, error) {
	s, err := parse("a secret", b)
	return Secret{s}, err
}

// Bytes returns the 32 bytes of the secret, little endian.
func (s Secret) Bytes() [Size]byte {
	return [Size]byte(s.s.Bytes())
}

// Equal reports in constant time whether s and o are the same integer.
func (s Secret) Equal(o Secret) bool {
	return s.s.Equal(&o.s) == 1
}

// Share is one holder's share of a secret.
type Share struct {
	Holder Index
	value  edwards25519.Scalar
}

// ParseShare decodes the bytes of a share, which do not say whose it is. The
// error is ErrHolder for holder 0, and ErrEncoding unless b is 32 bytes, little
// endian, and below ℓ.
func ParseShare(holder Index, b []byte) (Share, error) {
	if holder == 0 {
		return Share{}, fmt.Errorf("%w: a share for holder 0", ErrHolder)
	}
	v, err := parse(fmt.Sprintf("the share of holder %d", holder), b)
	if err != nil {
		return Share{}, err
	}
	return Share{Holder: holder, value: v}, nil
}

// Bytes returns the 32 bytes of the share, little endian, without its holder.
func (s Share) Bytes() [Size]byte {
	return [Size]byte(s.value.Bytes())
}

// checkHolders reports every index that is 0 or stands twice.
func checkHolders(holders []Index) error {
	var problems []error
	first := make(map[Index]int, len(holders))
	for i, h := range holders {
		j, again := first[h]
		switch {
		case h == 0:
			problems = append(problems, fmt.Errorf("%w: holder %d of %d is 0", ErrHolder, i+1, len(holders)))
		case again:
			problems = append(problems, fmt.Errorf("%w: holders %d and %d of %d are both %d", ErrHolder, j+1, i+1, len(holders), h))
		default:
			first[h] = i
		}
	}
	return errors.Join(problems...)
}
