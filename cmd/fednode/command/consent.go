package command

import (
	"math"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/secagg/graph"
)

// consent holds the conditions under which a client takes part. The operator has signed who the
// server is, but the server alone chooses its demands: the budget of the ledger too, and how many
// clients it assumes to stay and not to collude.
type consent struct {
	epsilon    float64        // upper limit of the cost of all sessions together
	delta      float64        // upper limit of the delta at which epsilon is counted
	mode       string         // weakest mode of sums that is accepted; "": any
	colluders  float64        // smallest share of colluders that sums must withstand
	unit       string         // that is protected; "" and any: whatever is
	experiment *config.Config // the only experiment that is agreed to; nil: any
	file       string         // where that stands
	ceilings   []ceiling      // upper limits of the cost within periods
	tells      bool           // a client may say what it could afford
}

// refuses says why the client takes no part in a session, if so. The session's terms follow from its
// configuration (agreement.Open).
func (o *consent) refuses(p *agreement.Public) error {
	switch b := p.Terms.Budget; {
	case math.IsInf(b.Epsilon, 1) && !math.IsInf(o.epsilon, 1):
		return cli.Misusef("--max-epsilon %v: the session's sums are without noise, which only inf allows", o.epsilon)
	case !(b.Epsilon <= o.epsilon):
		return cli.Misusef("--max-epsilon %v: the session has a budget of epsilon=%v, which is more", o.epsilon, b.Epsilon)
	case !math.IsInf(b.Epsilon, 1) && !(b.Delta <= o.delta):
		return cli.Misusef("--max-delta %v: the session counts its epsilon at delta=%v, which is more", o.delta, b.Delta)
	}
	if err := o.floors(p); err != nil || o.experiment == nil {
		return err
	}
	agreed, err := agreement.Publish(*o.experiment, p.Facts, p.Session)
	if err != nil {
		return cli.Misusef("--experiment %s: it does not go with the session's data: %w", o.file, err)
	}
	other, err := party.OtherSettings(p, agreed)
	if err != nil {
		return err
	}
	if len(other) > 0 {
		return cli.Misusef("--experiment %s: the session is of another experiment, other in %s", o.file, strings.Join(other, ", "))
	}
	return nil
}

// limit is the upper limit of the cost of all sessions of a ledger together, counted as the present
// session counts its own budget.
func (o *consent) limit(session dp.Budget) *dp.Budget {
	session.Epsilon = min(o.epsilon, math.MaxFloat64) // inf: whatever each of them states
	return &session
}

// floors says on what that the owner does not accept the privacy of a session rests, if so.
func (o *consent) floors(p *agreement.Public) error {
	mode, unit := algorithm.Mode.Of(p.Config), string(p.Terms.Privacy.Unit)
	switch {
	case o.mode == graph.Active.String() && mode != o.mode:
		return cli.Misusef("--require-mode %s: the session is in mode %s", o.mode, mode)
	case !(p.Terms.Cohort.Colluders >= o.colluders):
		return cli.Misusef("--min-colluders %v: the session reckons with a share of %v who collude", o.colluders, p.Terms.Cohort.Colluders)
	case o.unit != "" && o.unit != anyUnit && o.unit != unit && !math.IsInf(p.Terms.Budget.Epsilon, 1):
		return cli.Misusef("--unit %s: the session protects unit=%s; --unit %s agrees to it", o.unit, unit, unit)
	}
	return nil
}

// anyUnit is the --unit of an owner to whom all are right.
const anyUnit = "any"
