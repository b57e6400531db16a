package protocol

import (
	"fmt"
	"math"
)

// HonestSumBound bounds the sum of a release, in integers. A sum over honest clients, noise
// included, lies outside with probability at most HonestSumFailure, over all rounds of a session. A
// sum outside is a liar's, or wrong.
type HonestSumBound struct {
	LInf float64 // of the magnitude of any coordinate
	L2   float64 // of the L2 norm
	// Client has the same bounds for the vector of one honest client, without noise. An honest
	// client moves a sum by at most as much.
	Client struct{ LInf, L2 float64 }
}

// HonestSumFailure is the chance, over all rounds and releases of a session, that an
// honest sum lies beyond its HonestSumBound.
const HonestSumFailure = 0x1p-40

// HonestSumBound returns the bound of a release's sum over survivors clients; answered of them
// reduced their noise.
//
// Clients: a vector's norm is at most the declared D2 in integers ([Release.VectorBounds]),
// which every client checks, and a coordinate at most that or the declared LInf, rounded.
// Sums are at most as many times these.
//
// Noise is Skellam in each coordinate, independent, of a variance v that [Noise.Final]
// knows. Let p = HonestSumFailure / (i(i+1)·releases): over rounds i = 1, 2, ... the
// p add up to HonestSumFailure, however many there will be. With l = ln(4·Len/p),
//
//	P[|S_j| >= t] <= 2·exp(-t²/(2(v + t/3)))  (Bernstein)
//
// is p/(2·Len) at t = l/3 + √(l²/9 + 2lv), so all coordinates are within t except with probability
// p/2. Then X_j = min(S_j², t²) equals S_j² and is between 0 and t². Its mean is at most v and its
// second moment at most E S_j⁴ = 3v² + v. Bernstein once more, with l' = ln(2/p), bounds the sum of
// the X_j. Except with probability p/2 it is at most Len·v + t²l'/3 + √((t²l'/3)² + 2l'·Len·(3v² +
// v)).
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
		v, length, i := r.Noise.Final(p.Cohort, survivors, answered), float64(r.Len), float64(p.Round)
		chance := HonestSumFailure / (i * (i + 1) * float64(len(p.Releases)))
		t := tail(math.Log(4*length/chance), 1, v)
		l := math.Log(2 / chance)
		out.LInf += t
		out.L2 += math.Sqrt(length*v + tail(l, t*t, length*(3*v*v+v)))
	}
	return out
}

// tail is Bernstein's bound solved for the deviation that is exceeded with a chance of
// e^-l, of a sum of variance v in steps of at most step.
func tail(l, step, v float64) float64 {
	a := step * l / 3
	return a + math.Sqrt(a*a+2*l*v)
}

// Beyond returns an error that names the release if honest clients and their noise cannot have
// given a sum; nil if they can. The sum is over survivors clients; answered of them reduced their
// noise.
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

// RemovalBound bounds a coordinate of one honest client's removal, where noise is split, in
// integers. It holds for all clients of at most so many rounds, except with probability
// HonestSumFailure: a removal is Skellam of a variance below the variance of the client's share.
func (c Cohort) RemovalBound(r Release, rounds int) float64 {
	l := math.Log(2 * float64(r.Len) * float64(c.Clients) * float64(max(1, rounds)) / HonestSumFailure)
	return tail(l, 1, c.ShareVariance(r.Noise.Variance))
}
