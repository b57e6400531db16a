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
// the result with something published, such as the public key or a hash of the secret. Or
// they have the dealer publish the points of edwards25519 of the secret and of all shares.
// [Lagrange.Verify] checks these before anything is combined, and [Secret.Point] each share.
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
	"slices"

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
	// ErrPoint is returned for bytes that encode no point of edwards25519, or a point whose order divides 8.
	ErrPoint = errors.New("shamir: not a point of edwards25519, or of low order")
	// ErrDealt is returned for points of shares that would restore different secrets.
	ErrDealt = errors.New("shamir: the points are not of shares of one secret with this threshold")
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
		_, _ = scalars[i].SetUniformBytes(buf[size*i:][:size]) // 64 bytes fit
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
	err := uniform(s[:], random)
	return Secret{s[0]}, err
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
	return Share{Holder: holder, value: v}, err
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

// Lagrange holds the weights with which the shares of a set of holders add up to the
// secret. It depends on the holders only: compute it once, and combine with it all
// secrets of which they have shares. It is immutable, so any number of goroutines may
// share it.
type Lagrange struct {
	holders []Index
	weights []edwards25519.Scalar
}

// NewLagrange computes the weights of the holders, who are distinct, in any order,
// and none 0, else the error is ErrHolder. There must be at least threshold of
// them, the threshold with which the secrets were split, else it is ErrTooFew;
// just as many make the least work, and more change nothing in the result. The
// error is ErrThreshold for a threshold below 1.
//
// It takes len(holders)² multiplications and a single inversion.
func NewLagrange(threshold int, holders []Index) (*Lagrange, error) {
	if threshold < 1 {
		return nil, fmt.Errorf("%w: %d; it must be at least 1", ErrThreshold, threshold)
	}
	if err := checkHolders(holders); err != nil {
		return nil, err
	}
	if len(holders) < threshold {
		return nil, fmt.Errorf("%w: %d holders, and the threshold is %d", ErrTooFew, len(holders), threshold)
	}
	l := &Lagrange{slices.Clone(holders), make([]edwards25519.Scalar, len(holders))}
	x := make([]edwards25519.Scalar, len(holders))
	product := Index(1).scalar()
	for i, h := range holders {
		x[i] = h.scalar()
		product.Multiply(&product, &x[i])
	}
	// λ_i = Π x_j / (x_i·Π (x_j - x_i)), the products over all j and over j ≠ i.
	var difference edwards25519.Scalar
	for i := range x {
		l.weights[i] = x[i]
		for j := range x {
			if j != i {
				l.weights[i].Multiply(&l.weights[i], difference.Subtract(&x[j], &x[i]))
			}
		}
	}
	invert(l.weights)
	for i := range l.weights {
		l.weights[i].Multiply(&l.weights[i], &product)
	}
	return l, nil
}

// invert replaces every element by its inverse; no element may be zero. It inverts once, the
// product of all (Montgomery's trick).
func invert(v []edwards25519.Scalar) {
	before := make([]edwards25519.Scalar, len(v)) // before[i] = v[0]···v[i-1]
	rest := Index(1).scalar()
	for i := range v {
		before[i] = rest
		rest.Multiply(&rest, &v[i])
	}
	rest.Invert(&rest)
	for i := len(v) - 1; i >= 0; i-- { // rest = 1/(v[0]···v[i])
		inverse := before[i]
		inverse.Multiply(&inverse, &rest)
		rest.Multiply(&rest, &v[i])
		v[i] = inverse
	}
}

// Combine recovers the secret of these shares: one of each holder, in the order in which the
// holders were given to [NewLagrange]. Otherwise the error is ErrMismatch, or ErrTooFew if shares
// are missing. Shares of several secrets, or of a secret that was split with a higher threshold,
// give some other secret and no error; see the package comment.
//
// It takes len(shares) multiplications and additions.
func (l *Lagrange) Combine(shares []Share) (Secret, error) {
	switch n := len(l.holders); {
	case len(shares) < n:
		return Secret{}, fmt.Errorf("%w: %d, and the weights are for %d", ErrTooFew, len(shares), n)
	case len(shares) > n:
		return Secret{}, fmt.Errorf("%w: %d shares, and the weights are for %d", ErrMismatch, len(shares), n)
	}
	var sum Secret
	for i := range shares {
		if shares[i].Holder != l.holders[i] {
			return Secret{}, fmt.Errorf("%w: share %d of %d is of holder %d; holder %d is due",
				ErrMismatch, i+1, len(shares), shares[i].Holder, l.holders[i])
		}
		sum.s.MultiplyAdd(&l.weights[i], &shares[i].value, &sum.s)
	}
	return sum, nil
}

// Split shares secret among the holders so that any threshold of them recover
// it. Share i is for holders[i]; the holders are distinct, in any order, and none
// is 0, else the error is ErrHolder. It is ErrThreshold unless
// 1 <= threshold <= len(holders). All that is wrong is reported at once.
//
// It reads 64·(threshold-1) bytes of random, the coefficients a_1, a_2, ... of
// the package comment in this order, each 64 bytes, little endian, modulo ℓ. An
// error of random is returned.
//
// It takes len(holders)·(threshold-1) multiplications and additions.
func Split(secret Secret, threshold int, holders []Index, random io.Reader) ([]Share, error) {
	if err := errors.Join(checkThreshold(threshold, len(holders)), checkHolders(holders)); err != nil {
		return nil, err
	}
	coefficients := make([]edwards25519.Scalar, threshold)
	defer clear(coefficients)
	coefficients[0] = secret.s
	if err := uniform(coefficients[1:], random); err != nil {
		return nil, err
	}
	shares := make([]Share, len(holders))
	for i, h := range holders {
		x := h.scalar()
		shares[i].Holder = h
		evaluate(&shares[i].value, coefficients, &x)
	}
	return shares, nil
}

func checkThreshold(threshold, holders int) error {
	switch {
	case threshold < 1:
		return fmt.Errorf("%w: %d; it must be at least 1", ErrThreshold, threshold)
	case threshold > holders:
		return fmt.Errorf("%w: %d shares would be needed and there are %d holders", ErrThreshold, threshold, holders)
	}
	return nil
}

// evaluate sets y to the polynomial's value at x, by Horner's rule.
func evaluate(y *edwards25519.Scalar, coefficients []edwards25519.Scalar, x *edwards25519.Scalar) {
	last := len(coefficients) - 1
	*y = coefficients[last]
	for i := last - 1; i >= 0; i-- {
		y.MultiplyAdd(y, x, &coefficients[i])
	}
}

// Point returns the encoding (RFC 8032, section 5.1.2) of s·B, B the base point: the public key of a secret, or what a dealer
// commits to a share by. It fixes s. If s is uniform, nothing else of s can be computed from it.
func (s Secret) Point() [Size]byte {
	return [Size]byte(new(edwards25519.Point).ScalarBaseMult(&s.s).Bytes())
}

// Common returns the encoding of 8·s·P, which s has in common with the secret behind the point P. The error is ErrPoint.
func (s Secret) Common(point [Size]byte) ([Size]byte, error) {
	p, err := parsePoint(point)
	if err != nil {
		return [Size]byte{}, err
	}
	return [Size]byte(p.ScalarMult(&s.s, p).Bytes()), nil
}

// parsePoint returns a point times the cofactor 8.
func parsePoint(b [Size]byte) (*edwards25519.Point, error) {
	p, err := new(edwards25519.Point).SetBytes(b[:])
	if err != nil || p.MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return nil, ErrPoint
	}
	return p, nil
}

// Verify checks that points belong to secrets and shares that a dealer made by [Split] with a threshold, up to parts of low order. l
// has the weights of the dealer and of the holders. Each list has the point of a secret, and then the points of its shares in the
// order of l without the dealer. Other points pass with a probability of 2^-252, if the dealer does not know what is read from
// random. The error is ErrDealt for other points, or ErrPoint. It is ErrThreshold for an impossible threshold, and ErrMismatch for
// points or a dealer that do not belong to l. An error of random is returned.
//
// It takes k·(k-threshold) multiplications for each secret, k the number of holders, and one sum of multiples of all points.
func (l *Lagrange) Verify(threshold int, dealer Index, random io.Reader, secrets ...[][Size]byte) error {
	if err := checkThreshold(threshold, len(l.holders)-1); err != nil {
		return err
	}
	// SCRAPE (Cascudo and David 2017). F is the polynomial of degree at most k through the points of a secret, d is the dealer's index,
	// and g is random, of degree k-t. If the degree of F is below t, (x-d)·g(x)·F(x) has at most degree k. Then its values at the k+1
	// indices of l, which are 0 at d, give the value at 0: Σ λ_x·(x-d)·g(x)·F(x) - (0-d)·g(0)·F(0) = 0. All g together have all
	// weights for which this holds with every such F. So with an F of higher degree it holds for one g among 2^252.
	d, minus := dealer.scalar(), Index(1).scalar()
	indices := append([]Index{0}, l.holders...)
	weights := append([]edwards25519.Scalar{*minus.Negate(&minus)}, l.weights...)
	g := make([]edwards25519.Scalar, len(l.holders)-threshold)
	var scalars []*edwards25519.Scalar
	var points []*edwards25519.Point
	for _, list := range secrets {
		if len(list) != len(l.holders) || !slices.Contains(l.holders, dealer) {
			return fmt.Errorf("%w: %d points of holder %d's", ErrMismatch, len(list), dealer)
		}
		if err := uniform(g, random); err != nil {
			return err
		}
		for i, index := range indices {
			if index == dealer {
				continue
			}
			p, err := parsePoint(list[0])
			if err != nil {
				return err
			}
			var s edwards25519.Scalar
			x := index.scalar()
			evaluate(&s, g, &x)
			s.Multiply(s.Multiply(&s, &weights[i]), x.Subtract(&x, &d))
			scalars, points, list = append(scalars, &s), append(points, p), list[1:]
		}
	}
	if new(edwards25519.Point).VarTimeMultiScalarMult(scalars, points).Equal(edwards25519.NewIdentityPoint()) == 0 {
		return ErrDealt
	}
	return nil
}
