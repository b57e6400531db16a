package protocol

import (
	"errors"
	"fmt"
	"iter"
	"math"
)

// Vector is a party's contribution to one release. Index nil: dense, Value holds
// every coordinate. Otherwise it is sparse, and what is not listed is zero.
//
// The coordinates of a sparse vector fall into blocks of Block each, 0 standing for 1, so that a
// row of numbers for one item costs one index. Index lists blocks, ascending. Block Index[i] is
//
//   - Value[i*Block : (i+1)*Block], or
//   - with Factor, Factor[i] times Value, which is one block then. A user's contribution to its
//     items is often a multiple of one row, and need not be written out to be summed.
type Vector struct {
	Index  []uint32
	Block  int
	Factor []float64
	Value  []float64
}

// ErrShape is returned for a vector whose parts do not fit together, or do not fit the
// release. The error contains no number of the vector, which may be private.
var ErrShape = errors.New("the vector does not have the shape of the release")

// Validate reports whether the vector is one of n coordinates; if not, the error is an ErrShape. It looks at no value.
func (v Vector) Validate(n int) error {
	if v.Factor == nil {
		return validate(v.Index, v.Block, len(v.Value), n)
	}
	switch {
	case v.Index == nil:
		return fmt.Errorf("%w: factors are of listed blocks", ErrShape)
	case len(v.Factor) != len(v.Index):
		return fmt.Errorf("%w: there must be one factor for each index", ErrShape)
	case len(v.Value) != max(v.Block, 1):
		return fmt.Errorf("%w: what factors multiply must be one block", ErrShape)
	}
	return checkIndex(v.Index, v.Block, n)
}

// Each goes through the coordinates that are listed, in order.
func (v Vector) Each(f func(coordinate int, x float64)) {
	block := max(1, v.Block)
	if v.Index == nil {
		for j, x := range v.Value {
			f(j, x)
		}
		return
	}
	for i, at := range v.Index {
		for a := range block {
			x := 0.
			if v.Factor != nil {
				x = v.Factor[i] * v.Value[a]
			} else {
				x = v.Value[i*block+a]
			}
			f(int(at)*block+a, x)
		}
	}
}

// Parts yields the values that are listed, in order and in parts of any length. A part is valid until the next.
func (v Vector) Parts() iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		if v.Factor == nil {
			yield(v.Value)
			return
		}
		length := len(v.Value)
		blocks := max(1, partLength/max(length, 1))
		part := make([]float64, min(blocks, len(v.Factor))*length)
		for from := 0; from < len(v.Factor); from += blocks {
			n := 0
			for _, f := range v.Factor[from:min(from+blocks, len(v.Factor))] {
				row := part[n : n+length]
				for a, x := range v.Value {
					row[a] = f * x
				}
				n += length
			}
			if !yield(part[:n]) {
				return
			}
		}
	}
}

// partLength is about the length of a part of many short blocks.
const partLength = 256

// Integers is a Vector in fixed point, each block written out. A sparse one may hold what fits 32 bits in Narrow instead of Value:
// contributions of a whole federation lie in memory at once when it is simulated.
type Integers struct {
	Index  []uint32
	Block  int
	Value  []int64
	Narrow []int32
}

// Validate reports whether the integers are a vector of n coordinates; if not, the error is an ErrShape.
func (v Integers) Validate(n int) error {
	if v.Narrow == nil {
		return validate(v.Index, v.Block, len(v.Value), n)
	}
	if v.Index == nil || v.Value != nil {
		return fmt.Errorf("%w: narrow integers stand at indices, and alone", ErrShape)
	}
	return validate(v.Index, v.Block, len(v.Narrow), n)
}

// AddTo adds the integers, which must be valid for len(sum) coordinates, modulo 2^64.
func (v Integers) AddTo(sum []int64) {
	switch {
	case v.Index == nil:
		for j, x := range v.Value {
			sum[j] += x
		}
	case v.Narrow != nil:
		addBlocks(sum, v.Index, max(v.Block, 1), v.Narrow)
	default:
		addBlocks(sum, v.Index, max(v.Block, 1), v.Value)
	}
}

func addBlocks[T int32 | int64](sum []int64, index []uint32, block int, values []T) {
	if block == 4 {
		for i, j := range index {
			to, x := (*[4]int64)(sum[int(j)*4:]), (*[4]T)(values[i*4:])
			to[0] += int64(x[0])
			to[1] += int64(x[1])
			to[2] += int64(x[2])
			to[3] += int64(x[3])
		}
		return
	}
	for i, j := range index {
		to := sum[int(j)*block:][:block]
		for a, x := range values[i*block : (i+1)*block] {
			to[a] += int64(x)
		}
	}
}

// validate checks how many values are listed, and where.
func validate(index []uint32, block, listed, n int) error {
	if index == nil {
		if block != 0 || listed != n {
			return fmt.Errorf("%w: a dense vector has %d coordinates, and no blocks", ErrShape, n)
		}
		return nil
	}
	if err := checkIndex(index, block, n); err != nil {
		return err
	}
	if listed != len(index)*max(block, 1) { // at most n after the check
		return fmt.Errorf("%w: there must be a block of values for each index", ErrShape)
	}
	return nil
}

// checkIndex checks that the blocks are parts of n coordinates and ascend.
func checkIndex(index []uint32, block, n int) error {
	if block < 0 || block > 0 && n%block != 0 {
		return fmt.Errorf("%w: %d coordinates do not fall into such blocks", ErrShape, n)
	}
	blocks := uint64(n / max(block, 1))
	for k, j := range index {
		if uint64(j) >= blocks || k > 0 && index[k-1] >= j {
			return fmt.Errorf("%w: indices must ascend below %d", ErrShape, blocks)
		}
	}
	return nil
}

// HonestSumBound bounds the sum of a release, in integers. A sum over honest clients, noise included, lies outside with probability
// at most HonestSumFailure, over all rounds of a session. A sum outside is a liar's, or wrong.
type HonestSumBound struct {
	LInf float64 // of the magnitude of any coordinate
	L2   float64 // of the L2 norm
	// Client has the same bounds for the vector of one honest client, without noise. An honest
	// client moves a sum by at most as much.
	Client struct{ LInf, L2 float64 }
}

// HonestSumFailure is the chance, over all rounds and releases of a session, that an honest sum lies beyond its HonestSumBound.
const HonestSumFailure = 0x1p-40

// HonestSumBound returns the bound of a release's sum over survivors clients; answered of them reduced their noise.
//
// Clients: a vector's norm is at most the declared D2 in integers ([Release.VectorBounds]), which every client checks, and a
// coordinate at most that or the declared LInf, rounded. Sums are at most as many times these.
//
// Noise is Skellam in each coordinate, independent, of a variance v that [Noise.Final] knows. Let p = HonestSumFailure /
// (i(i+1)·releases): over rounds i = 1, 2, ... the p add up to HonestSumFailure, however many there will be. With l = ln(4·Len/p),
//
//	P[|S_j| >= t] <= 2·exp(-t²/(2(v + t/3)))  (Bernstein)
//
// is p/(2·Len) at t = l/3 + √(l²/9 + 2lv), so all coordinates are within t except with probability p/2. Then X_j = min(S_j², t²)
// equals S_j² and is between 0 and t². Its mean is at most v and its second moment at most E S_j⁴ = 3v² + v. Bernstein once more,
// with l' = ln(2/p), bounds the sum of the X_j. Except with probability p/2 it is at most Len·v + t²l'/3 + √((t²l'/3)² +
// 2l'·Len·(3v² + v)).
func (p *Plan) HonestSumBound(r Release, survivors, answered int) HonestSumBound {
	d2, _ := r.VectorBounds()
	var out HonestSumBound
	out.Client.L2, out.Client.LInf = d2, d2
	if r.LInf > 0 {
		out.Client.LInf = min(d2, r.LInf*r.Scale+0.5)
	}
	out.Client.LInf = math.Floor(out.Client.LInf)
	n := float64(survivors)
	out.L2, out.LInf = n*d2, n*out.Client.LInf
	if r.Noise.Variance > 0 {
		i := float64(p.Round)
		linf, l2 := noiseBound(r.Len, r.Noise.Final(p.Cohort, survivors, answered), HonestSumFailure/(i*(i+1)*float64(len(p.Releases))))
		out.LInf, out.L2 = out.LInf+linf, out.L2+l2
	}
	return out
}

// noiseBound bounds the magnitude of each of length numbers of Skellam noise of variance v, and their L2 norm. HonestSumBound
// says how. The bounds do not hold together with at most the given chance.
func noiseBound(length int, v, chance float64) (linf, l2 float64) {
	n := float64(length)
	t := tail(math.Log(4*n/chance), 1, v)
	return t, math.Sqrt(n*v + tail(math.Log(2/chance), t*t, n*(3*v*v+v)))
}

// InputBound bounds one honest client's vector of a release with its share of the noise, in integers: the magnitude of any
// coordinate, and the L2 norm. Both hold for all clients in at most so many rounds, except with probability HonestSumFailure.
func (p *Plan) InputBound(r Release, rounds int) (linf, l2 float64) {
	client := p.HonestSumBound(r, p.Cohort.Required(), p.Cohort.Required()).Client
	linf, l2 = client.LInf, client.L2
	if r.Noise.Variance > 0 {
		t, norm := noiseBound(r.Len, r.Noise.Share(p.Cohort), p.clientChance(rounds))
		linf, l2 = linf+t, l2+norm
	}
	l2 *= 1 + 1e-9 // the rounding of this arithmetic
	return min(linf, l2), l2
}

// tail is Bernstein's bound solved for the deviation that is exceeded with a chance of
// e^-l, of a sum of variance v in steps of at most step.
func tail(l, step, v float64) float64 {
	a := step * l / 3
	return a + math.Sqrt(a*a+2*l*v)
}

// Beyond returns an error that names the release if honest clients and their noise cannot have given a sum; nil if they can. The
// sum is over survivors clients; answered of them reduced their noise.
func (p *Plan) Beyond(r Release, sum []int64, survivors, answered int) error {
	reach := p.HonestSumBound(r, survivors, answered)
	var squares float64
	for j, x := range sum {
		v := float64(x)
		if math.Abs(v) > reach.LInf {
			return fmt.Errorf("release %q: coordinate %d of the sum is %d, and %d honest clients with their noise reach %.6g: one of them lied about its vector", r.Name, j, x, survivors, reach.LInf)
		}
		squares += v * v
	}
	const rounding = 1 + 1e-9 // of this arithmetic
	if norm := math.Sqrt(squares); norm > reach.L2*rounding {
		return fmt.Errorf("release %q: the sum's L2 norm is %.6g, and %d honest clients with their noise reach %.6g: one of them lied about its vector", r.Name, norm, survivors, reach.L2)
	}
	return nil
}

// Term is a coordinate of a release times a factor. Release is its place in the plan.
type Term struct {
	Release, Coordinate int
	Factor              float64
}

// Limits calls hear with each inequality Σ factor·x <= 0 that the vectors of every honest client keep in a round, and so
// their sums do. Terms of an inequality are of different coordinates. The first term names the release.
type Limits func(hear func(terms ...Term))

// Broken returns an error that names the first limit that honest clients and their noise cannot have broken; nil if there
// is none. The sums are over sums.Survivors clients; answered of them reduced their noise. Honest sums break a limit by
// more than their slack with probability at most HonestSumFailure, over all rounds of a session.
func (p *Plan) Broken(limits Limits, sums Sums, answered int) (err error) {
	n, i := 0., float64(p.Round)
	limits(func(...Term) { n++ })
	l := math.Log(i * (i + 1) * n / HonestSumFailure)
	limits(func(terms ...Term) {
		if err != nil {
			return
		}
		var x float64
		for _, t := range terms {
			x += t.Factor * sums.Values[t.Release][t.Coordinate]
		}
		if slack := p.Slack(l, sums.Survivors, answered, terms...); !(x <= slack) {
			err = fmt.Errorf("release %q: coordinate %d of the sum passes a limit that each client keeps by %.6g, and rounding and noise by at most %.6g: a client lied about its vector",
				p.Releases[terms[0].Release].Name, terms[0].Coordinate, x, slack)
		}
	})
	return err
}

// Slack returns the number that Σ factor·x over honest clients passes with probability at most e^-l, if Σ factor·x <= 0
// for the vector of each.
//
// Rounding moves an integer of a client by less than 1. The noise of the terms is a sum of independent Skellam numbers
// with the variance V = Σ (factor/scale)²·v, in steps of at most max |factor|/scale, and one-sided Bernstein bounds it.
// Parties that noise their vectors themselves keep no limit: their slack is infinite.
func (p *Plan) Slack(l float64, survivors, answered int, terms ...Term) float64 {
	var rounded, variance, step float64
	for _, t := range terms {
		r := &p.Releases[t.Release]
		if r.Noise.Kind == PartyNoise {
			return math.Inf(1)
		}
		size := math.Abs(t.Factor) / r.Scale
		rounded, step = rounded+float64(survivors)*size, max(step, size)
		if r.Noise.Variance > 0 {
			variance += size * size * r.Noise.Final(p.Cohort, survivors, answered)
		}
	}
	if variance == 0 {
		return rounded
	}
	return rounded + tail(l, step, variance)
}

// RemovalBound bounds one honest client's removal where noise is split, if so many inputs are in the sum, in integers: the magnitude
// of any coordinate, and the L2 norm. Both hold for all clients in at most so many rounds, except with probability
// HonestSumFailure. A removal is Skellam of the variance that the client's share has beyond its part of the target.
func (p *Plan) RemovalBound(r Release, rounds, survivors int) (linf, l2 float64) {
	surplus := r.Noise.Share(p.Cohort) - r.Noise.Variance/float64(p.Cohort.Honest(survivors))
	return noiseBound(r.Len, max(0, surplus), p.clientChance(rounds))
}

// clientChance is the part of HonestSumFailure for one client, release and round.
func (p *Plan) clientChance(rounds int) float64 {
	return HonestSumFailure / (float64(max(1, rounds)) * float64(max(1, len(p.Releases))) * float64(p.Cohort.Clients))
}
