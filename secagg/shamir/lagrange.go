package shamir

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/edwards25519"
)

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
