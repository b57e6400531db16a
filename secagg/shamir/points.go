package shamir

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/edwards25519"
)

var (
	// ErrPoint is returned for bytes that encode no point of edwards25519, or a point whose order divides 8.
	ErrPoint = errors.New("shamir: not a point of edwards25519, or of low order")
	// ErrDealt is returned for points of shares that would restore different secrets.
	ErrDealt = errors.New("shamir: the points are not of shares of one secret with this threshold")
)

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

// Verify checks that points are of secrets and of shares that a dealer made by [Split] with a threshold, up to parts of low order. l
// has the weights of the dealer and of the holders. Of each secret there is its own point, and then those of its shares in the order
// of l without the dealer. Other points pass with a probability of 2^-252, if the dealer does not know what is read from random. The
// error is ErrDealt for points of other numbers, ErrPoint, ErrThreshold for an impossible threshold, ErrMismatch for points or a dealer
// that do not belong to l, or an error of random.
//
// It takes k·(k-threshold) multiplications for each secret, k the number of holders, and one sum of multiples of all points.
func (l *Lagrange) Verify(threshold int, dealer Index, random io.Reader, secrets ...[][Size]byte) error {
	if err := checkThreshold(threshold, len(l.holders)-1); err != nil {
		return err
	}
	// SCRAPE (Cascudo and David 2017). Take the polynomial F of degree at most k through the points, d the dealer's index, and g of
	// degree k-t. If F has a degree below t, (x-d)·g(x)·F(x) has one of at most k, and its values at the k+1 indices of l (0 at d) give
	// that at 0: Σ λ_x·(x-d)·g(x)·F(x) - (0-d)·g(0)·F(0) = 0. The weights of F here, over all g, are all that are zero for every
	// such F. So if F has a higher degree, they are zero for one g among 2^252.
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
