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
	t := p.Terms
	err := o.keeps("the session", t.Budget, algorithm.Mode.Of(p.Config), t.Cohort.Colluders, t.Privacy.Unit)
	if err != nil || o.experiment == nil {
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

// keeps says which of the owner's limits a session or the owner's own experiment does not keep, if so.
func (o *consent) keeps(whose string, b dp.Budget, mode string, colluders float64, unit dp.Unit) error {
	noiseless := math.IsInf(b.Epsilon, 1)
	switch {
	case noiseless && !math.IsInf(o.epsilon, 1):
		return cli.Misusef("--max-epsilon %v: %s has sums without noise, which only inf allows", o.epsilon, whose)
	case !(b.Epsilon <= o.epsilon):
		return cli.Misusef("--max-epsilon %v: %s has a budget of epsilon=%v, which is more", o.epsilon, whose, b.Epsilon)
	case !noiseless && !(b.Delta <= o.delta):
		return cli.Misusef("--max-delta %v: %s counts its epsilon at delta=%v, which is more", o.delta, whose, b.Delta)
	case o.mode == graph.Active.String() && mode != o.mode:
		return cli.Misusef("--require-mode %s: %s is in mode %s", o.mode, whose, mode)
	case !(colluders >= o.colluders):
		return cli.Misusef("--min-colluders %v: %s reckons with a share of %v who collude", o.colluders, whose, colluders)
	case o.unit != "" && o.unit != anyUnit && o.unit != string(unit) && !noiseless:
		return cli.Misusef("--unit %s: %s protects unit=%s; --unit %s agrees to it", o.unit, whose, unit, unit)
	}
	return nil
}

// anyUnit is the --unit of an owner to whom all are right.
const anyUnit = "any"
