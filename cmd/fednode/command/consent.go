package command

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// consent holds the conditions under which a client takes part. The operator has signed who the server is, but the server alone chooses its
// demands: the budget of the ledger too, and how many clients it assumes to stay and not to collude.
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

// refuses says why the client takes no part in a session, if so. The session's terms follow from its configuration (agreement.Open).
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

// limit is the upper limit of the cost of all sessions of a ledger together, counted as the present session counts its own budget.
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

// consented tells the owner in one line what a client takes part in, and keeps it in the state with the owner's limits on epsilon.
func consented(e *experiment.Experiment, public []byte, state string, by *consent, log *zerolog.Logger) error {
	c, err := consentTo(e)
	if err != nil {
		return err
	}
	c.Agreement = digestOf(public)
	c.MaxEpsilon = strconv.FormatFloat(by.epsilon, 'g', -1, 64)
	for _, x := range by.ceilings {
		c.Ceilings = append(c.Ceilings, x.String())
	}
	if err = store.SaveConsent(state, c); err != nil {
		return err
	}
	line := log.Info().Str("session", c.Session).Str("algorithm", c.Algorithm).Stringer("privacy", c.Privacy).Str("mode", c.Mode).
		Int("clients", c.Clients).Float64("colluders", c.Colluders).Float64("tolerance", c.Tolerance).Int("rounds", c.Rounds)
	if c.Budget > 0 {
		line.Float64("budget", c.Budget)
	}
	if c.Start != "" {
		line.Str("start", c.Start)
	}
	line.Msg("consented to")
	if c.EpsilonToLiar > 0 {
		log.Warn().Str("epsilon_to_lying_aggregator", dp.RoundUp(c.EpsilonToLiar, 3)).
			Msg("mode semi-honest trusts the aggregator not to lie about who takes part; --require-mode active refuses such sessions")
	}
	if e.Private() && c.Colluders == 0 && e.Schedule.Noise().Kind != protocol.PartyNoise {
		log.Warn().Msg("colluders=0: epsilon counts on the noise of every other client; --min-colluders refuses such sessions")
	}
	return nil
}

// warnOmitted warns of sessions that a client's ledger has charged and that the server's start leaves out. The server then states
// a total of ε without them. Its state may be restored from an older copy, at an aggregator that has forgotten them too.
func warnOmitted(e *experiment.Experiment, charged []string, log *zerolog.Logger) {
	omitted := slices.DeleteFunc(charged, func(name string) bool {
		return name == fmt.Sprintf("%x", e.Session()) ||
			slices.ContainsFunc(e.Start.Sessions, func(past algorithm.PastSession) bool { return past.Session == name })
	})
	if len(omitted) > 0 {
		log.Warn().Strs("sessions", omitted).Msg("the server starts from releases that leave out sessions which this client's ledger has charged: " +
			"its total of epsilon for all sessions is smaller than this client's own. Ask the operator whether the server's state was restored from an older copy. The ledger counts every session")
	}
}

// digestOf names what is public of a session, which its terms follow from.
func digestOf(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}

// describedBefore refuses a session of which the owner has agreed to another description. No honest server changes the
// description of a session. The owner would read one, and the client take part in another.
func describedBefore(state string, session protocol.SessionID, public []byte) error {
	all, err := store.Consents(state)
	if err != nil {
		return nil // which status and check tell: the ledger limits what is spent
	}
	name := hex.EncodeToString(session[:])
	for _, c := range all {
		if c.Session == name && c.Agreement != "" && c.Agreement != digestOf(public) {
			return cli.Misusef("the session %s has another description now than the description that the owner agreed to on %s; the server must begin another session", name, c.At.Format(time.DateOnly))
		}
	}
	return nil
}

// consentTo records the terms that an owner agrees to in a session.
func consentTo(e *experiment.Experiment) (*store.Consent, error) {
	planned, err := e.Planned()
	if err != nil {
		return nil, err
	}
	c := &store.Consent{
		Session: fmt.Sprintf("%x", e.Session()), At: time.Now().UTC(), Algorithm: e.About().Name, Privacy: e.Statement(planned),
		Mode: e.Mode().String(), Clients: e.Cohort.All(), Colluders: e.Cohort.Colluders, Tolerance: e.Cohort.Tolerance, Rounds: e.Schedule.Rounds(),
	}
	if e.Start != nil {
		c.Start = hex.EncodeToString(e.Start.Digest[:])
	}
	if !e.Private() {
		return c, nil
	}
	if b := e.Privacy.Budget.Epsilon; !math.IsInf(b, 1) {
		c.Budget = b
	}
	if e.Mode() == graph.SemiHonest {
		c.EpsilonToLiar, err = toLiar(e)
	}
	return c, err
}

// toLiar is the ε of a session towards an aggregator that shows a client only itself, so that the sum is this client's
// vector with its own noise. Of split noise less than the share V/w is left: the aggregator says that all N clients survived,
// and the client gives back, in the clear, what exceeds V/(N-c). Hidden coins are counted as known: they hardly help a client
// that is alone. toLiar is 0 where a client's own noise is no part of a sum.
func toLiar(e *experiment.Experiment) (float64, error) {
	alone := e.Setup
	alone.Schedule = e.Schedule.Clone()
	for _, r := range alone.Schedule.All() {
		switch r.Noise.Kind {
		case protocol.Split:
			r.Noise = protocol.Noise{Kind: protocol.LocalNoise, Variance: r.Noise.Variance / float64(e.Cohort.Honest(e.Cohort.Wanted()))}
		case protocol.LocalNoise:
			r.Noise.SamplingRate = 0
		default:
			return 0, nil
		}
	}
	events, err := alone.Charges(alone.Schedule.Rounds())
	if err != nil {
		return 0, err
	}
	// Without the samplers' error, whose part of δ grows with e^ε: at such an ε it would be all of δ.
	b := e.Privacy.Budget
	r, err := dp.Problem{Events: events, Delta: b.Delta, Accountant: b.Accountant}.Epsilon()
	return r.Epsilon, err
}

// ceiling is the most that the sessions within any period of that length may cost.
type ceiling struct {
	epsilon float64
	period  time.Duration
	text    string
}

func (c ceiling) String() string { return c.text }

const day = 24 * time.Hour

// periodUnits are the letters behind the number of a period.
var periodUnits = map[string]time.Duration{"h": time.Hour, "d": day, "w": 7 * day}

var errCeiling = errors.New("an epsilon and a period are needed, like 2/30d; a period is a whole number of hours (h), days (d) or weeks (w), at most 100 years")

func parseCeiling(text string) (ceiling, error) {
	number, period, ok := strings.Cut(text, "/")
	epsilon, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(epsilon > 0) || math.IsInf(epsilon, 1) || period == "" {
		return ceiling{}, errCeiling
	}
	last := len(period) - 1
	n, err := strconv.ParseUint(period[:last], 10, 32)
	unit, known := periodUnits[period[last:]]
	if err != nil || !known || n == 0 || n > uint64(100*366*day/unit) {
		return ceiling{}, errCeiling
	}
	return ceiling{epsilon, time.Duration(n) * unit, fmt.Sprintf("%v/%s", epsilon, period)}, nil
}

// within returns the ceilings, counted as a session counts its own budget.
func (o *consent) within(session dp.Budget) []node.Ceiling {
	var list []node.Ceiling
	for _, c := range o.ceilings {
		b := session
		b.Epsilon = c.epsilon
		list = append(list, node.Ceiling{Budget: b, Period: c.period, Name: c.text})
	}
	return list
}
