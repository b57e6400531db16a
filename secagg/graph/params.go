package graph

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/internal/problems"
)

// Mode says what the aggregator and the colluding clients may do.
type Mode uint8

const (
	// SemiHonest parties follow the protocol, report truthfully who was lost, and may
	// pool what they see.
	SemiHonest Mode = iota
	// Active parties may also lie, drop any clients, and show different clients different
	// things.
	Active
)

// String is the mode's name on the command line.
func (m Mode) String() string {
	switch m {
	case SemiHonest:
		return "semi-honest"
	case Active:
		return "active"
	default:
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
}

const (
	// MaxClients is the largest plan. Up to there the rounding of the computed
	// probabilities is covered.
	MaxClients = 1 << 20

	// CompleteUpTo is the number of clients up to which the graph of active
	// mode is complete, so that no choice of drops can cut it.
	CompleteUpTo = 500
)

// ErrBeacon is returned for a plan in active mode with more than CompleteUpTo clients and
// no beacon.
var ErrBeacon = errors.New("the order of clients on the ring could be predicted when the roster was made")

// ErrRoster is returned for a roster whose size the plan does not allow. A roster that is too small
// aborts the round.
var ErrRoster = errors.New("the plan does not allow a roster of this size")

// Params holds the assumptions of a plan about its clients.
type Params struct {
	Clients   int     // N, the clients the plan names: 2 to MaxClients
	Tolerance float64 // ω in [0, 1): the share of N that may be lost in a round, at all stages together
	Colluders float64 // γ in [0, 1): the share of N that may collude
	Mode      Mode    // SemiHonest or Active
	Rounds    int     // T, at least 1, failed attempts included: the bounds hold for all of them together
	Beacon    bool    // the ring is drawn from a value unpredictable until the roster was acknowledged
}

// Validate reports everything that makes the parameters unusable. In active
// mode with more than CompleteUpTo clients and no beacon that is ErrBeacon.
func (p Params) Validate() error {
	var errs problems.List
	errs.If(p.Clients < 2 || p.Clients > MaxClients, "clients is %d; secure aggregation takes 2 to %d", p.Clients, MaxClients)
	errs.If(!(p.Tolerance >= 0 && p.Tolerance < 1), "tolerance is %v; it must be at least 0 and below 1", p.Tolerance)
	errs.If(!(p.Colluders >= 0 && p.Colluders < 1), "colluders is %v; it must be at least 0 and below 1", p.Colluders)
	errs.If(p.Mode > Active, "mode is %d; it must be %d (%v) or %d (%v)", p.Mode, SemiHonest, SemiHonest, Active, Active)
	errs.If(p.Rounds < 1, "rounds is %d; it must be at least 1", p.Rounds)
	errs.If(p.Mode == Active && p.Clients > CompleteUpTo && !p.Beacon,
		"active mode with %d clients and no beacon: %w; use mode semi-honest or at most %d clients (then all are neighbours). A program can pass a beacon: randomness from outside, drawn after all clients had registered",
		p.Clients, ErrBeacon, CompleteUpTo)
	return errors.Join(errs...)
}

// slack keeps ⌊ωN⌋ and ⌈γN⌉ what they are on paper: 0.3·10 is 3, although the
// nearest float64 of 0.3 is a little less.
const slack = 1e-9

// Required is ⌈(1-ω)N⌉, the fewest survivors a round may end with.
func (p Params) Required() int {
	return p.Clients - int(math.Floor(p.Tolerance*float64(p.Clients)+slack))
}

// Colluding is c = ⌈γN⌉, how many clients may collude: at least 1 when γ > 0.
func (p Params) Colluding() int {
	least := 0
	if p.Colluders > 0 {
		least = 1
	}
	return max(least, int(math.Ceil(p.Colluders*float64(p.Clients)-slack)))
}
