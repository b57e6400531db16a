// Package basepoint computes the secrets that X25519 keys have in common, for a caller who holds
// both halves of both, as a simulation does. A secret is the base point times the product of the
// two private keys. It comes from a table of multiples of one point. That takes a seventh of the
// time of the ladder over the other's public key that crypto/ecdh climbs. The bytes are the same.
//
// It is not constant-time: the time, and the places of memory that it touches, depend on the keys.
// A party of a deployment never holds two private keys to call it with.
package basepoint

import (
	"errors"
	"sync"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// Size is the length in bytes of keys and of what they have in common.
const Size = 32

// Key is a private key, as a multiple of the base point: clamped (RFC 7748, section 5) and modulo the order of that.
type Key struct{ s edwards25519.Scalar }

// ErrSize is returned for a private key that is not of Size bytes.
var ErrSize = errors.New("basepoint: a private key has 32 bytes")

// NewKey takes the bytes of a private key.
func NewKey(private []byte) (*Key, error) {
	k := new(Key)
	if _, err := k.s.SetBytesWithClamping(private); err != nil {
		return nil, ErrSize
	}
	return k, nil
}

// Common returns the secret that a key has in common with each of others: the result of X25519 of
// one's private and the other's public key.
func (k *Key) Common(others []*Key) [][Size]byte {
	scalars := make([]edwards25519.Scalar, len(others))
	for i, o := range others {
		scalars[i].Multiply(&k.s, &o.s)
	}
	return multiples(scalars)
}

// multiples returns the coordinates u on the Montgomery curve of multiples of the base point. From the Edwards curve, u =
// (1+y)/(1-y) = (Z+Y)/(Z-Y), and 0 for the neutral point. All quotients share one inversion: the inverse of a product gives the
// inverse of each factor by the products of all others.
func multiples(scalars []edwards25519.Scalar) [][Size]byte {
	out := make([][Size]byte, len(scalars))
	if len(scalars) == 0 {
		return out
	}
	t := base()
	up, down, before := make([]field.Element, len(scalars)), make([]field.Element, len(scalars)), make([]field.Element, len(scalars))
	all := new(field.Element).One()
	for i := range scalars {
		p := t.multiple(scalars[i].Bytes())
		up[i].Add(&p.z, &p.y)
		down[i].Subtract(&p.z, &p.y)
		if down[i].Equal(zero) == 1 {
			up[i].Zero()
			down[i].One()
		}
		before[i].Set(all)
		all.Multiply(all, &down[i])
	}
	inverse := new(field.Element).Invert(all)
	for i := len(scalars) - 1; i >= 0; i-- {
		up[i].Multiply(&up[i], before[i].Multiply(&before[i], inverse))
		inverse.Multiply(inverse, &down[i])
		copy(out[i][:], up[i].Bytes())
	}
	return out
}

var zero = new(field.Element)

// Scalars are taken apart into digits from -128 to 127 to the base of 256.
const (
	digits  = 32
	highest = 128 // magnitude of a digit
)

// affine is a point as it is added: y+x, y-x and 2dxy.
type affine struct{ sum, difference, product field.Element }

// table has, for each digit, the multiples that it may stand for.
type table [digits][highest]affine

// point is a point in extended coordinates: x = X/Z, y = Y/Z, xy = T/Z (Hisil et al. 2008).
type point struct{ x, y, z, t field.Element }

// multiple is the multiple of the base point by a scalar, of 32 bytes in little endian below 2^253.
func (t *table) multiple(scalar []byte) *point {
	p := new(point)
	p.y.One()
	p.z.One()
	carry := 0
	for i, b := range scalar {
		d := int(b) + carry
		if carry = 0; d >= highest && i < digits-1 {
			d, carry = d-2*highest, 1
		}
		switch {
		case d > 0:
			p.add(&t[i][d-1].sum, &t[i][d-1].difference, &t[i][d-1].product, false)
		case d < 0: // the negative of a point: x and xy are negated
			p.add(&t[i][-d-1].difference, &t[i][-d-1].sum, &t[i][-d-1].product, true)
		}
	}
	return p
}

// add adds an affine point, by the formulas that are complete on this curve (Hisil et al. 2008, section
// 3.1, with a = -1 and a second point whose Z is 1); product is to be subtracted for the negative of a point.
func (p *point) add(sum, difference, product *field.Element, negative bool) {
	var a, b, c, d, e, f, g, h field.Element
	a.Multiply(a.Subtract(&p.y, &p.x), difference)
	b.Multiply(b.Add(&p.y, &p.x), sum)
	c.Multiply(&p.t, product)
	d.Add(&p.z, &p.z)
	e.Subtract(&b, &a)
	h.Add(&b, &a)
	if negative {
		f.Add(&d, &c)
		g.Subtract(&d, &c)
	} else {
		f.Subtract(&d, &c)
		g.Add(&d, &c)
	}
	p.x.Multiply(&e, &f)
	p.y.Multiply(&g, &h)
	p.z.Multiply(&f, &g)
	p.t.Multiply(&e, &h)
}

// base is the table of the base point: half a megabyte, made in milliseconds when it is first needed.
var base = sync.OnceValue(func() *table {
	t, zs := new(table), make([]field.Element, 0, digits*highest)
	first, before := edwards25519.NewGeneratorPoint(), field.Element{}
	before.One()
	all := new(field.Element).One()
	products := make([]field.Element, 0, digits*highest)
	for i := range t {
		p := new(edwards25519.Point).Set(first)
		for j := range t[i] {
			x, y, z, _ := p.ExtendedCoordinates()
			t[i][j].sum, t[i][j].difference = *x, *y // not yet: divided by z below
			products, zs = append(products, *all), append(zs, *z)
			all.Multiply(all, z)
			p.Add(p, first)
		}
		for range 8 {
			first.Double(first)
		}
	}
	// d = -121665/121666
	d := new(field.Element).Invert(new(field.Element).Mult32(new(field.Element).One(), 121666))
	d.Negate(d.Mult32(d, 121665))
	twice := new(field.Element).Add(d, d)
	inverse := new(field.Element).Invert(all)
	for k := len(zs) - 1; k >= 0; k-- {
		e, byZ := &t[k/highest][k%highest], new(field.Element).Multiply(&products[k], inverse)
		inverse.Multiply(inverse, &zs[k])
		x, y := new(field.Element).Multiply(&e.sum, byZ), new(field.Element).Multiply(&e.difference, byZ)
		e.sum.Add(y, x)
		e.difference.Subtract(y, x)
		e.product.Multiply(e.product.Multiply(x, y), twice)
	}
	return t
})
