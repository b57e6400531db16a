package align

import (
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gtank/ristretto255"
)

// Sizes in bytes.
const (
	pointSize = 32
	nameSize  = 16 // of a pseudonym's hash: two of 2^22 meet with a chance of 2^-85
)

// suite is the domain of hashing to the group; what hashes under it is an input to nothing else.
const suite = "fedsim-align-v1-ristretto255-SHA512"

var (
	errPoint    = errors.New("a point that does not decode")
	errIdentity = errors.New("the identity in place of a point")
)

// expand is expand_message_xmd of RFC 9380, section 5.3.1, with SHA-512, to 64 bytes. The
// domain is at most 255 bytes long.
func expand(message, domain []byte) []byte {
	tail := append(append([]byte(nil), domain...), byte(len(domain)))
	h := sha512.New()
	h.Write(make([]byte, h.BlockSize()))
	h.Write(message)
	h.Write([]byte{0, sha512.Size, 0})
	h.Write(tail)
	first := h.Sum(nil)
	h.Reset()
	h.Write(first)
	h.Write([]byte{1})
	h.Write(tail)
	return h.Sum(nil)
}

// hash is hash_to_ristretto255 of RFC 9380, appendix B.
func hash(message, domain []byte) *ristretto255.Element {
	e, err := ristretto255.NewIdentityElement().SetUniformBytes(expand(message, domain))
	if err != nil {
		panic(err) // there are 64 bytes
	}
	return e
}

// drawScalar draws a scalar that is not zero.
func drawScalar(r io.Reader) (*ristretto255.Scalar, error) {
	var b [64]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, fmt.Errorf("align: drawing a scalar: %w", err)
		}
		s, err := ristretto255.NewScalar().SetUniformBytes(b[:])
		if err != nil {
			return nil, err
		}
		if s.Equal(ristretto255.NewScalar()) == 0 {
			return s, nil
		}
	}
}

// invertAll returns the inverse of each scalar, with one inversion. No scalar may be zero.
func invertAll(list []*ristretto255.Scalar) []*ristretto255.Scalar {
	out := make([]*ristretto255.Scalar, len(list))
	if len(list) == 0 {
		return out
	}
	product := list[0]
	for i, s := range list {
		if i > 0 {
			out[i] = product // of all before
			product = ristretto255.NewScalar().Multiply(product, s)
		}
	}
	inverse := ristretto255.NewScalar().Invert(product)
	for i := len(list) - 1; i > 0; i-- {
		out[i] = ristretto255.NewScalar().Multiply(inverse, out[i])
		inverse = ristretto255.NewScalar().Multiply(inverse, list[i])
	}
	out[0] = inverse
	return out
}

// decode reads a point that may be multiplied.
func decode(b []byte) (*ristretto255.Element, error) {
	e, err := ristretto255.NewIdentityElement().SetCanonicalBytes(b)
	switch {
	case err != nil:
		return nil, errPoint
	case e.Equal(ristretto255.NewIdentityElement()) == 1:
		return nil, errIdentity
	}
	return e, nil
}

// multiply multiplies an encoded point in place.
func multiply(b []byte, s *ristretto255.Scalar) error {
	e, err := decode(b)
	if err != nil {
		return err
	}
	copy(b, e.ScalarMult(s, e).Bytes())
	return nil
}

// digest is the output of RFC 9497, section 3.3.1, for an input of at most 65,535 bytes.
func digest(input, point []byte) [sha512.Size]byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(input)))
	b = append(b, input...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(point)))
	b = append(append(b, point...), "Finalize"...)
	return sha512.Sum512(b)
}
