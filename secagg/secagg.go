// Package secagg adds up vectors of integers so that only their sum is seen.
//
// # Use
//
// A client makes a [Party] for a session and joins each iteration with it; the
// aggregator makes an [Aggregator] for each. Both are state machines without I/O:
// they answer with the messages of package protocol.
//
//	advertise     Client.Advertise    -> Aggregator.Receive, Close, Next -> Roster
//	share         Client.Share        -> ...                             -> Delivery
//	masked-input  Client.MaskedInput  -> ...                             -> Survivors
//	consistency   Client.Confirm      -> ... (active mode alone)         -> Quorum
//	unmask        Client.Check, Unmask -> Aggregator.Receive, Close, Sum
//	replace       Client.Replace      -> ... (where noise is replaced alone)
//
// What is heavy takes a protocol.Runner. An [Aggregator] may be asked for the
// sum whenever at least ⌈(1-ω)N⌉ clients answered each stage.
//
// # Protocol
//
// Double masking (Bonawitz et al., CCS 2017) on the sparse graph of Bell et al.
// (CCS 2020). A client's vector is hidden by its own mask and by one of each
// neighbour, which that neighbour's cancels. Two scalars, one behind each
// client's own mask and one behind its mask key, are shared among its neighbours
// ([shamir]); degree and threshold follow from the plan and the number on the
// roster ([graph]). Afterwards neighbours reveal of who survived the one and of
// who was lost the other, and of nobody both. Masks ([mask]), channels and
// signatures are bound to the plan, the model, the roster and who delivered
// shares, so clients that were told different things cancel nothing.
//
// Where noise is replaced, an iteration is two sums: what noise changes by says
// something about what stays, so it is masked in its turn, from secrets of its own
// among the same clients. It travels with the answers to unmask; who gave them is
// in the second sum, and one more stage unmasks that.
//
// # Promise
//
// In semi-honest mode: who follows the protocol, pools what the aggregator and up
// to ⌈γN⌉ clients see, and reports truthfully who was lost, learns who took part,
// and the sum over at least ⌈(1-ω)N⌉ clients, or both sums where noise is replaced,
// which active mode refuses ([ErrReplace]). In active mode an aggregator that
// lies, drops whom it likes and shows clients different things, and clients that
// lie, learn no more; but they can keep a sum from coming about. It rests on the
// enrolment list ([Params]) being the operator's. The chances are those of
// package graph. An error that is a [Fault] names who broke which rule.
//
// # Ideal sum
//
// [Ideal] is a trusted adder that goes through the same stages, loses the same
// clients at the same stages and returns the same integers for the same inputs.
// It hides nothing from whoever runs it, so only a simulation may use it; every
// result says which sum it came from.
package secagg

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/protocol"
)

// lift maps the residue x of Z_{2^width} to the integer nearest zero.
func lift(x uint64, width uint8) int64 {
	shift := 64 - width
	return int64(x<<shift) >> shift
}

// ErrRing is returned when no ring is wide enough for a sum.
var ErrRing = errors.New("the sum does not fit a ring of 64 bits")

// ringFailure is the chance, over a whole run, that noise makes a sum wrap.
const ringFailure = 0x1p-40

// Width is the fewest bits, from 8 to 64, of a ring in which the release's sum
// over the cohort cannot wrap but with probability 2^-40 over the given number
// of iterations: clients · largest coordinate + the tail of the noise.
// ErrRing is returned when 64 bits do not suffice; a smaller scale does it then.
func Width(c protocol.Cohort, r protocol.Release, iterations int) (uint8, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if iterations < 1 {
		return 0, fmt.Errorf("%d iterations; there must be at least 1", iterations)
	}
	largest, _ := r.Bounds()
	if r.LInf > 0 {
		largest = min(largest, r.LInf*r.Scale+0.5) // rounded to nearest
	}
	reach := float64(c.Clients)*math.Floor(largest) + noiseTail(c, r, iterations)
	for width := uint8(8); width <= 64; width++ {
		if reach < math.Ldexp(1, int(width)-1) {
			return width, nil
		}
	}
	return 0, fmt.Errorf("release %q: sums reach %.3g: %w; a smaller scale than %g is needed", r.Name, reach, ErrRing, r.Scale)
}

// noiseTail bounds the noise in any coordinate of any iteration, but for the
// probability ringFailure. All N clients add a = V/w each; for Skellam noise
// of variance v, P[|S| >= t] <= 2·exp(-t²/(2(v + t/3))) (Bernstein).
func noiseTail(c protocol.Cohort, r protocol.Release, iterations int) float64 {
	if r.Noise.Variance == 0 {
		return 0
	}
	v := float64(c.Clients) * c.ShareVariance(r.Noise.Variance)
	l := math.Log(2 * float64(r.Len) * float64(iterations) / ringFailure)
	return l/3 + math.Sqrt(l*l/9+2*l*v)
}
