package inputproof

import (
	"fmt"
	"io"
	"math/bits"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
)

// prover is a proof in the making. Bits are by committed row, eight columns to a byte.
type prover struct {
	*Shape
	challenges
	values     [][]int64
	bits       [][]byte
	hide       []scalar    // by committed row
	blind      [3][]scalar // rows that hide the responses
	hideBlind  []scalar
	mask       []scalar // hides the polynomial
	hideSecond []scalar
}

// Prove proves that the vectors are within their bounds, bound to the context. It returns ErrBeyond if they are not. A context may
// serve one proof. Blindings are secret: a sum of the blindings of clients opens the sum of their commitments to a party that knows
// the sum of their vectors ([Shape.Open]).
func (s *Shape) Prove(context []byte, vectors [][]int64, random io.Reader, run protocol.Runner) (proof []byte, blindings []*scalar, err error) {
	p := &prover{Shape: s}
	if p.values, err = s.tableau(vectors); err != nil {
		return nil, nil, err
	}
	if err = p.write(); err != nil {
		return nil, nil, err
	}
	secret, err := draw(random, len(s.rows)+3*s.columns+3+s.width-1+s.second())
	if err != nil {
		return nil, nil, err
	}
	take := func(n int) []scalar {
		out := secret[:n]
		secret = secret[n:]
		return out
	}
	p.hide = take(len(s.rows))
	for i := range p.blind {
		p.blind[i] = take(s.columns)
	}
	p.hideBlind, p.mask, p.hideSecond = take(3), take(s.width-1), take(s.second())

	proof = appendPoints(make([]byte, 0, s.Size()), p.commitments(run), run)
	t := s.transcript(context, proof)
	p.challenges = s.challenge(t)
	polynomial := p.polynomial(run)
	second := make([]*point, s.second())
	run.Each(len(second), func(i int) { second[i] = commit(polynomial[i], &p.hideSecond[i]) })
	before := len(proof)
	proof = appendPoints(proof, second, run)
	blindings = p.blindings()
	return p.respond(proof, s.last(t, proof[before:]), polynomial, blindings), blindings, nil
}

func appendPoints(dst []byte, points []*point, run protocol.Runner) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, 32*len(points))...)
	run.Each(len(points), func(i int) { copy(dst[at+32*i:], points[i].Bytes()) })
	return dst
}

// write writes values and slacks as bits.
func (p *prover) write() error {
	p.bits = make([][]byte, len(p.rows))
	left := lists.Map(p.bounds, func(b Bound) int64 { return b.Squares })
	for i := range p.bits {
		p.bits[i] = make([]byte, p.columns/8)
	}
	rest := make([]int64, p.columns)
	for i := len(p.rows) - 1; i >= 0; i-- {
		r := p.rows[i]
		if r.value < 0 {
			continue
		}
		y, first := p.values[r.value], i+1 == len(p.rows) || p.rows[i+1].value != r.value
		bound := p.bounds[p.Shape.values[r.value]]
		for m := range rest {
			if first { // bits of the highest weight are taken first
				slack := &left[p.Shape.values[r.value]]
				if y[m] > bound.LInf || y[m] < -bound.LInf || y[m]*y[m] > *slack {
					return fmt.Errorf("%w: the coordinates are at most %d, and their squares add up to at most %d", ErrBeyond, bound.LInf, bound.Squares)
				}
				rest[m], *slack = y[m]+bound.LInf, *slack-y[m]*y[m]
			}
			if rest[m] >= r.weight {
				rest[m] -= r.weight
				p.bits[i][m/8] |= 1 << (m % 8)
			}
		}
	}
	p.eachSlack(func(row, column, vector, exponent int) {
		p.bits[row][column/8] |= byte(left[vector]>>exponent&1) << (column % 8)
	})
	return nil
}

// each calls f with the columns of a row's bits that are set.
func (p *prover) each(row int, f func(column int)) {
	for g, b := range p.bits[row] {
		for ; b != 0; b &= b - 1 {
			f(8*g + bits.TrailingZeros8(b))
		}
	}
}

// over is the sum of x over the bits of a row that are set.
func (p *prover) over(row int, x []scalar) *scalar {
	sum := new(scalar)
	p.each(row, func(m int) { sum.Add(sum, &x[m]) })
	return sum
}

// commitments are of the rows of bits, and of the rows that hide the responses.
func (p *prover) commitments(run protocol.Runner) []*point {
	sums := subsets(p.columns)
	out := make([]*point, p.first())
	run.Each(len(out), func(i int) {
		if blind := i - len(p.rows); blind >= 0 {
			out[i] = commit(p.blind[blind], &p.hideBlind[blind])
			return
		}
		out[i] = new(point).ScalarBaseMult(&p.hide[i])
		for g, b := range p.bits[i] {
			out[i].Add(out[i], &sums[g][b])
		}
	})
	return out
}

// blindings open the commitments of value rows, which are sums of commitments to bits.
func (p *prover) blindings() []*scalar {
	out := make([]*scalar, len(p.values))
	for i := range out {
		out[i] = new(scalar)
	}
	for i, r := range p.rows {
		if r.value >= 0 {
			out[r.value].MultiplyAdd(ofInt(r.weight), &p.hide[i], out[r.value])
		}
	}
	return out
}

// polynomial returns the coefficients of ⟨l(X), r(X)⟩, but the constant one, in rows, and two rows that hide them: see inputproof.md.
func (p *prover) polynomial(run protocol.Runner) [][]scalar {
	n := len(p.rows)
	out := make([][]scalar, p.second())
	for i := range out {
		out[i] = make([]scalar, p.width)
	}
	coefficient := func(e int) *scalar {
		if e < 0 {
			e += p.below * p.width
			return &out[e/p.width][e%p.width]
		}
		return &out[p.below+(e-1)/p.width][(e-1)%p.width]
	}
	add := func(e int, x *scalar) { c := coefficient(e); c.Add(c, x) }

	// Sums of column weights by the bits of eight columns, as integers of 128 bits. A weight has 112 bits.
	tables := make([][256][2]uint64, p.columns/8)
	for g := range tables {
		for b := 1; b < 256; b++ {
			hi, lo := p.weight(8*g + bits.TrailingZeros8(uint8(b)))
			rest := tables[g][b&(b-1)]
			var carry uint64
			lo, carry = bits.Add64(lo, rest[1], 0)
			tables[g][b] = [2]uint64{hi + rest[0] + carry, lo}
		}
	}
	common := func(a, b []byte) *scalar {
		var hi, lo, carry uint64
		for g := range tables {
			t := &tables[g][a[g]&b[g]]
			lo, carry = bits.Add64(lo, t[1], 0)
			hi += t[0] + carry
		}
		return of128(hi, lo)
	}
	// weighed[i] is ⟨b_i, v⟩, shifted[i][j] is ⟨b_i, y_j - K⟩, and slack[i][k] is ⟨b_i, τ_k⟩ of the k-th slack row.
	weighed, shifted, slack := make([]*scalar, n), make([][]int64, n), make([][]*scalar, n)
	run.Each(n, func(i int) {
		weighed[i], shifted[i] = common(p.bits[i], p.bits[i]), make([]int64, len(p.values))
		for j, y := range p.values {
			k := p.bounds[p.Shape.values[j]].LInf
			p.each(i, func(m int) { shifted[i][j] += y[m] - k })
		}
		for _, t := range p.slackWeights {
			slack[i] = append(slack[i], p.over(i, t))
		}
	})
	// with returns ⟨b_a, r_b⟩.
	with := func(a, b int, both *scalar) *scalar {
		x := new(scalar).Subtract(both, weighed[a])
		x.Multiply(x, &p.u[b])
		if j := p.rows[b].value; j >= 0 {
			return x.MultiplyAdd(&p.value[b], ofInt(shifted[a][j]), x)
		}
		return x.Add(x, slack[a][b-n+len(p.slackWeights)])
	}
	run.Each(n-1, func(i int) {
		e := i + 1
		for b := range n - e {
			both := common(p.bits[b], p.bits[b+e])
			add(e, with(b+e, b, both))
			add(-e, with(b, b+e, both))
		}
	})
	// The rows that hide the responses.
	d, dv, hidden := p.blind[0], make([]scalar, p.columns), make([]scalar, p.columns)
	all, allWeighed := new(scalar), new(scalar)
	for m := range d {
		dv[m].Multiply(&d[m], &p.v[m])
		hidden[m].MultiplyAdd(&p.v[m], &p.blind[1][m], &p.blind[2][m])
		all.Add(all, &d[m])
		allWeighed.Add(allWeighed, &dv[m])
	}
	ofValues := make([]*scalar, len(p.values))
	run.Each(len(ofValues), func(j int) {
		x := new(scalar).Multiply(all, ofInt(-p.bounds[p.Shape.values[j]].LInf))
		for m, y := range p.values[j] {
			x.MultiplyAdd(&d[m], ofInt(y), x)
		}
		ofValues[j] = x
	})
	run.Each(n, func(i int) {
		x := p.over(i, dv)
		x.Multiply(x.Subtract(x, allWeighed), &p.u[i])
		if j := p.rows[i].value; j >= 0 {
			x.MultiplyAdd(&p.value[i], ofValues[j], x)
		} else {
			x.Add(x, inner(d, p.slackWeights[i-n+len(p.slackWeights)]))
		}
		add(n-i, x)
		add(i-n-1, p.over(i, hidden))
	})
	add(-1, inner(d, hidden))
	for j := range p.mask {
		out[p.below+p.above][j+1].Set(&p.mask[j])
		out[p.below+p.above+1][j].Negate(&p.mask[j])
	}
	return out
}

// respond appends what the proof answers to x.
func (p *prover) respond(proof []byte, x *scalar, polynomial [][]scalar, blindings []*scalar) []byte {
	at := p.evaluate(x, p.challenges)
	n := len(p.rows)
	responses := [4][]scalar{p.blind[0], p.blind[1], p.blind[2], make([]scalar, p.width)}
	hidden := make([]scalar, 4)
	for i, w := range []*scalar{&at.up[n+1], &at.down[n+2], &at.down[n+2]} {
		hidden[i].Multiply(&p.hideBlind[i], w)
		for m := range responses[i] {
			responses[i][m].Multiply(&responses[i][m], w)
		}
	}
	for i := range p.rows {
		p.each(i, func(m int) {
			responses[0][m].Add(&responses[0][m], &at.up[i+1])
			responses[1][m].Add(&responses[1][m], &at.bits[i])
		})
		hidden[0].MultiplyAdd(&p.hide[i], &at.up[i+1], &hidden[0])
		hidden[1].MultiplyAdd(&p.hide[i], &at.bits[i], &hidden[1])
	}
	for j, y := range p.values {
		for m := range y {
			responses[2][m].MultiplyAdd(&at.values[j], ofInt(y[m]), &responses[2][m])
		}
		hidden[2].MultiplyAdd(blindings[j], &at.values[j], &hidden[2])
	}
	for i, line := range polynomial {
		for j := range line {
			responses[3][j].MultiplyAdd(&at.second[i], &line[j], &responses[3][j])
		}
		hidden[3].MultiplyAdd(&p.hideSecond[i], &at.second[i], &hidden[3])
	}
	for _, list := range append(responses[:], hidden) {
		for i := range list {
			proof = append(proof, list[i].Bytes()...)
		}
	}
	return proof
}
