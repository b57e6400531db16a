package inputproof

import (
	"crypto/sha3"
	"encoding/binary"
	"fmt"
	"slices"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/protocol"
)

// transcript has hashed everything up to a proof's first message.
func (s *Shape) transcript(context, first []byte) *sha3.SHAKE {
	h := sha3.NewSHAKE256()
	for _, part := range [][]byte{[]byte("fedsim/inputproof/v1"), context} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // never fails, nor do the others
		_, _ = h.Write(part)
	}
	for _, b := range s.bounds {
		for _, x := range []int64{int64(b.Len), b.LInf, b.Squares} {
			_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(x)))
		}
	}
	_, _ = h.Write(first)
	return h
}

// challenges weigh the equations that are proved. u by row and v by column are for bits to be bits. value by row, and slackWeights by
// slack row and column, are for the squares of vectors.
type challenges struct {
	u, v, vectors, value []scalar
	slackWeights         [][]scalar
}

// columnBytes is the size of a column's weight: 2^16 of them add up to less than 2^128.
const columnBytes = 14

func (s *Shape) challenge(h *sha3.SHAKE) challenges {
	c := challenges{u: small(h, len(s.rows), 16), v: small(h, s.columns, columnBytes), vectors: small(h, len(s.bounds), 16), value: make([]scalar, len(s.rows))}
	for i, r := range s.rows {
		if r.value >= 0 {
			c.value[i].Multiply(&c.vectors[s.values[r.value]], ofInt(r.weight))
		} else {
			c.slackWeights = append(c.slackWeights, make([]scalar, s.columns))
		}
	}
	s.eachSlack(func(row, column, vector, exponent int) {
		c.slackWeights[row-len(s.rows)+len(c.slackWeights)][column].Multiply(&c.vectors[vector], ofInt(1<<exponent))
	})
	return c
}

// weight is the weight of a column, as an integer.
func (c *challenges) weight(column int) (hi, lo uint64) {
	b := c.v[column].Bytes()
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)
}

// last is the last challenge, which hashes the second message too. It is not 0 but with a chance of 2^-252.
func (s *Shape) last(h *sha3.SHAKE, second []byte) *scalar {
	var b [64]byte
	_, _ = h.Read(b[:32])
	then := sha3.NewSHAKE256()
	_, _ = then.Write(b[:32])
	_, _ = then.Write(second)
	_, _ = then.Read(b[:])
	x, _ := new(scalar).SetUniformBytes(b[:])
	return x
}

// evaluation holds the factors of rows at x.
type evaluation struct {
	up, down []scalar // powers of x and of its inverse
	bits     []scalar // by committed row, in the response r1: u·x^-i
	values   []scalar // by value row, in the response r2
	second   []scalar // by row of the polynomial
}

func (s *Shape) evaluate(x *scalar, c challenges) evaluation {
	n := len(s.rows)
	e := evaluation{up: powers(x, n+s.width+2), down: powers(new(scalar).Invert(x), n+s.width+2), bits: make([]scalar, n), values: make([]scalar, len(s.values))}
	for i, r := range s.rows {
		e.bits[i].Multiply(&c.u[i], &e.down[i+1])
		if r.value >= 0 {
			e.values[r.value].MultiplyAdd(&c.value[i], &e.down[i+1], &e.values[r.value])
		}
	}
	for i := range s.below {
		e.second = append(e.second, e.down[(s.below-i)*s.width])
	}
	for i := range s.above {
		e.second = append(e.second, e.up[1+i*s.width])
	}
	e.second = append(e.second, e.up[1], e.up[2])
	return e
}

// Verify returns an ErrRefused for anything but a proof of the shape with the context.
func (s *Shape) Verify(context, proof []byte) error {
	if len(proof) != s.Size() {
		return fmt.Errorf("%w: it has %d bytes, and must have %d", ErrRefused, len(proof), s.Size())
	}
	points := make([]*point, s.points())
	for i := range points {
		if points[i] = decode(proof[32*i : 32*i+32]); points[i] == nil {
			return fmt.Errorf("%w: what should be a point is none", ErrRefused)
		}
	}
	answers := make([]scalar, s.scalars())
	for i := range answers {
		from := 32 * (s.points() + i)
		if _, err := answers[i].SetCanonicalBytes(proof[from : from+32]); err != nil {
			return fmt.Errorf("%w: what should be a scalar is none", ErrRefused)
		}
	}
	h := s.transcript(context, proof[:32*s.first()])
	c := s.challenge(h)
	x := s.last(h, proof[32*s.first():32*s.points()])
	if x.Equal(new(scalar)) == 1 {
		return ErrRefused
	}
	at, n, m := s.evaluate(x, c), len(s.rows), s.columns
	l, r1, r2, t, hidden := answers[:m], answers[m:2*m], answers[2*m:3*m], answers[3*m:3*m+s.width], answers[3*m+s.width:]
	if !s.product(c, at, l, r1, r2, t) {
		return fmt.Errorf("%w: its numbers contradict the bounds", ErrRefused)
	}
	// Four equations between points, each times a weight that the proof cannot foresee.
	weigh := sha3.NewSHAKE256()
	_, _ = weigh.Write(proof)
	_, _ = weigh.Write(at.up[1].Bytes())
	w := small(weigh, 3, 16)
	factors, columns := make([]scalar, s.points()), make([]scalar, max(m, s.width))
	of := new(scalar) // the sum of all generators: value rows are shifted by their bound
	for i, r := range s.rows {
		factors[i].MultiplyAdd(&w[0], &at.bits[i], &at.up[i+1])
		if r.value >= 0 {
			f := new(scalar).Multiply(&at.values[r.value], ofInt(r.weight))
			factors[i].MultiplyAdd(&w[1], f, &factors[i])
		}
	}
	for j, k := range s.values {
		of.MultiplyAdd(&at.values[j], ofInt(s.bounds[k].LInf), of)
	}
	factors[n].Set(&at.up[n+1])
	factors[n+1].Multiply(&w[0], &at.down[n+2])
	factors[n+2].Multiply(&w[1], &at.down[n+2])
	for i := range at.second {
		factors[n+3+i].Multiply(&w[2], &at.second[i])
	}
	for i := range l {
		f := columns[i].Add(&r2[i], of)
		f.MultiplyAdd(&w[1], f, &l[i])
		f.MultiplyAdd(&w[0], &r1[i], f)
	}
	for i := range t {
		columns[i].MultiplyAdd(&w[2], &t[i], &columns[i])
	}
	f := new(scalar).MultiplyAdd(&w[0], &hidden[1], &hidden[0])
	f.MultiplyAdd(&w[1], &hidden[2], f)
	f.MultiplyAdd(&w[2], &hidden[3], f)
	if !opens(factors, points, columns, f) {
		return fmt.Errorf("%w: it commits to other numbers", ErrRefused)
	}
	return nil
}

// product reports whether ⟨l(x), r(x)⟩ agrees with the polynomial and its public constant.
func (s *Shape) product(c challenges, at evaluation, l, r1, r2, t []scalar) bool {
	n := len(s.rows)
	allBits, allValues := new(scalar), new(scalar)
	for i := range at.bits {
		allBits.Add(allBits, &at.bits[i])
	}
	want := inner(t, at.up[:s.width])
	for j, k := range s.values {
		bound := ofInt(s.bounds[k].LInf)
		allValues.MultiplyAdd(&at.values[j], bound, allValues)
		// Each coordinate of a row adds ω(y + K)(y - K) = ω(y² - K²).
		square := new(scalar).Multiply(bound, bound)
		square.Multiply(square, &c.vectors[k])
		want.Subtract(want, square.Multiply(square, ofInt(int64(s.columns))))
	}
	for k, b := range s.bounds {
		want.MultiplyAdd(&c.vectors[k], ofInt(b.Squares), want)
	}
	is, r := new(scalar), new(scalar)
	for m := range l {
		r.Subtract(&r1[m], allBits)
		r.MultiplyAdd(r, &c.v[m], &r2[m])
		r.Subtract(r, allValues)
		for i, w := range c.slackWeights {
			r.MultiplyAdd(&w[m], &at.down[n-len(c.slackWeights)+i+1], r)
		}
		is.MultiplyAdd(&l[m], r, is)
	}
	return is.Equal(want) == 1
}

// Open returns an ErrRefused unless the proofs commit to vectors with these sums. Each proof must have been verified.
// Blindings are the sums of the clients' blindings.
func (s *Shape) Open(proofs [][]byte, sums [][]int64, blindings []*scalar, run protocol.Runner) error {
	values, err := s.tableau(sums)
	if err != nil || len(blindings) != len(values) {
		return fmt.Errorf("%w: the sums do not have its shape", ErrRefused)
	}
	h := sha3.NewSHAKE256()
	for _, proof := range proofs {
		_, _ = h.Write(proof)
	}
	for j := range values {
		_, _ = h.Write(blindings[j].Bytes())
		for _, x := range values[j] {
			_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(x)))
		}
	}
	w := small(h, len(values), 16)
	points := make([]*point, len(s.rows))
	run.Each(len(points), func(i int) {
		sum := edwards25519.NewIdentityPoint()
		for _, proof := range proofs {
			p := decode(proof[32*i : 32*i+32])
			if p == nil {
				return
			}
			sum.Add(sum, p)
		}
		points[i] = sum
	})
	if slices.Contains(points, nil) {
		return fmt.Errorf("%w: it was not verified", ErrRefused)
	}
	factors, hidden, of := make([]scalar, len(points)), new(scalar), new(scalar)
	for i, r := range s.rows {
		if r.value >= 0 {
			factors[i].Multiply(&w[r.value], ofInt(r.weight))
		}
	}
	columns := make([]scalar, s.columns)
	for j, y := range values {
		hidden.MultiplyAdd(&w[j], blindings[j], hidden)
		of.MultiplyAdd(&w[j], ofInt(int64(len(proofs))*s.bounds[s.values[j]].LInf), of)
		for m, x := range y {
			columns[m].MultiplyAdd(&w[j], ofInt(x), &columns[m])
		}
	}
	for m := range columns {
		columns[m].Add(&columns[m], of)
	}
	if !opens(factors, points, columns, hidden) {
		return fmt.Errorf("%w: the sum is not of the vectors that were proved", ErrRefused)
	}
	return nil
}
