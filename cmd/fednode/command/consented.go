package command

import (
	"fmt"
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// consented tells the owner in one line what a client takes part in, and keeps it in the state.
func consented(e *experiment.Experiment, state string, log *zerolog.Logger) error {
	c, err := consentTo(e)
	if err != nil {
		return err
	}
	if err = store.SaveConsent(state, c); err != nil {
		return err
	}
	line := log.Info().Str("session", c.Session).Str("algorithm", c.Algorithm).Stringer("privacy", c.Privacy).Str("mode", c.Mode).
		Int("clients", c.Clients).Float64("colluders", c.Colluders).Float64("tolerance", c.Tolerance).Int("rounds", c.Rounds)
	if c.Budget > 0 {
		line.Float64("budget", c.Budget)
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

// consentTo is what an owner agrees to in a session.
func consentTo(e *experiment.Experiment) (*store.Consent, error) {
	planned, err := e.Planned()
	if err != nil {
		return nil, err
	}
	c := &store.Consent{
		Session: fmt.Sprintf("%x", e.Session()), At: time.Now().UTC(), Algorithm: e.About().Name, Privacy: e.Statement(planned),
		Mode: e.Mode().String(), Clients: e.Cohort.All(), Colluders: e.Cohort.Colluders, Tolerance: e.Cohort.Tolerance, Rounds: e.Schedule.Iterations(),
	}
	if !e.Private() {
		return c, nil
	}
	if b := e.Privacy.Budget.Epsilon; !math.IsInf(b, 1) {
		c.Budget = b
	}
	if e.Mode() == graph.SemiHonest {
		c.EpsilonToLiar = toLiar(e)
	}
	return c, nil
}

// toLiar is the ε of a session towards an aggregator that shows a client nobody but itself, so that of
// all noise the client's own share is left; 0 where shares do not hide anything, or nothing is known of it.
func toLiar(e *experiment.Experiment) float64 {
	b := e.Privacy.Budget
	// Without the sampler's error, whose part of δ grows with e^ε: at such an ε it would be all of it.
	problem := dp.Problem{Delta: b.Delta, Accountant: b.Accountant}
	for _, step := range e.Schedule {
		for _, r := range step.Releases {
			share := 0.0
			switch r.Noise.Kind {
			case protocol.Split, protocol.LocalNoise:
				share = r.Noise.Share(e.Cohort)
			case protocol.TwoRound: // with nobody lost, what is replaced leaves the least
				share = r.Noise.Variance / float64(e.Cohort.Honest(e.Cohort.Wanted()))
			default:
				return 0
			}
			d2, d1 := r.Bounds()
			problem.Events = append(problem.Events, dp.Skellam(share, d2, d1).Times(e.Cohort.Turns(step.Iterations)))
		}
	}
	liar, err := problem.Epsilon()
	if err != nil || math.IsInf(liar.Epsilon, 1) || math.IsNaN(liar.Epsilon) {
		return 0
	}
	return liar.Epsilon
}
