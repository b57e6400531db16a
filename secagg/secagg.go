// Package secagg is secure aggregation: it sums integer vectors of many clients so that
// the aggregator sees only the sum.
//
// # Use
//
// A client makes a [Party] for a session and joins each round with it; the aggregator
// makes an [Aggregator] for each. Both are state machines without I/O: they return the
// messages of package protocol.
//
//	advertise     Client.Advertise    -> Aggregator.Receive, Close, Next -> Roster
//	share         Client.Share        -> ...                             -> Delivery
//	masked-input  Client.MaskedInput  -> ...                             -> Survivors
//	consistency   Client.Confirm      -> ... (active mode alone)         -> Quorum
//	unmask        Client.Check, Unmask -> Aggregator.Receive, Close, Sum
//	replace       Client.Replace      -> ... (where noise is replaced alone)
//
// Heavy computations take a protocol.Runner. An [Aggregator] can return the sum if at
// least ⌈(1-ω)N⌉ clients answered each stage.
//
// # Protocol
//
// Double masking (Bonawitz et al., CCS 2017) on the sparse graph of Bell et al. (CCS
// 2020). A client adds to its vector its own mask and one mask for each neighbour, which
// cancels against that neighbour's. Each client shares two secret scalars among its
// neighbours ([shamir]): the seed of its own mask and its mask key. Degree and threshold
// follow from the plan and the number of clients on the roster ([graph]). After the
// masked inputs, neighbours reveal their shares of the first secret for clients that
// survived, and of the second for clients that were lost, never of both for one client.
// In a federation of more than [WholeUpTo] clients, in semi-honest mode, a client is shown its
// neighbours alone, with a proof that they are its part of a ring under one root.
// Masks ([mask]), channels and signatures are bound to the plan, the model, the roster
// and the list of clients whose shares arrived, so the masks of clients that were told
// different things do not cancel.
//
// Where noise is replaced, a round has two sums. The change of a client's noise says
// something about the noise that stays, so it is masked as well, with separate secrets
// among the same clients. It travels with the answers to unmask; the second sum is over
// the clients that gave one, and one more stage unmasks it.
//
// # Promise
//
// In semi-honest mode the adversary follows the protocol, reports truthfully which clients were
// lost, and pools everything that the aggregator and up to ⌈γN⌉ clients see. It learns only who
// took part and the sum over at least ⌈(1-ω)N⌉ clients; where noise is replaced, both sums. In
// active mode, which refuses replaced noise ([ErrReplace]), the aggregator may lie, drop any
// clients and show clients different things, and colluding clients may lie. They learn no more, but
// they can prevent a sum. This relies on an enrolment list ([Params]) that the operator has signed.
// Package graph has the probabilities of failure. An error that is a [Fault] names who broke which
// rule.
//
// # Ideal sum
//
// [Ideal] is a trusted adder. It goes through the same stages, loses the same clients at
// the same stages and returns the same integers for the same inputs. It hides nothing
// from the process that runs it, so only a simulation may use it; every result says which
// kind of sum it came from.
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

// Width is the smallest ring width, from 8 to 64 bits, that holds the release's sum over the
// cohort. The sum may wrap with probability at most 2^-40 over the given number of rounds. Width
// adds clients · largest coordinate and the tail of the noise. ErrRing is returned when 64 bits do
// not suffice; then use a smaller scale.
func Width(c protocol.Cohort, r protocol.Release, rounds int) (uint8, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if rounds < 1 {
		return 0, fmt.Errorf("%d rounds; there must be at least 1", rounds)
	}
	largest, _ := r.VectorBounds()
	if r.LInf > 0 {
		largest = min(largest, r.LInf*r.Scale+0.5) // rounded to nearest
	}
	reach := float64(c.Clients) * math.Floor(largest)
	if r.Noise.Variance > 0 { // all N clients add a = V/w each: Bernstein, as [protocol.Plan.HonestSumBound] has it
		v, l := float64(c.Clients)*r.Noise.Share(c), math.Log(2*float64(r.Len)*float64(rounds)/ringFailure)
		reach += l/3 + math.Sqrt(l*l/9+2*l*v)
	}
	for width := uint8(8); width <= 64; width++ {
		if reach < math.Ldexp(1, int(width)-1) {
			return width, nil
		}
	}
	return 0, fmt.Errorf("release %q: sums reach %.3g: %w; a smaller scale than %g is needed", r.Name, reach, ErrRing, r.Scale)
}
