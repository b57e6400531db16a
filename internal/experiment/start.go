package experiment

import (
	"encoding/hex"
	"errors"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/server"
)

// readStart reads the releases that the session starts from, if the configuration names any.
func (e *Experiment) readStart() error {
	dir := algorithm.StartFrom.Of(e.Config)
	if dir == "" || !e.About().Has(algorithm.StartFrom.Key) {
		return nil
	}
	s, err := lineage.Read(dir)
	if err != nil {
		return config.Errorf("start-from: %w", err)
	}
	e.Start = s
	return e.checkStart()
}

// ErrNoReleases is wrapped by the error for the strategy of a session that starts from releases which are not at hand.
var ErrNoReleases = errors.New("the releases that the session starts from are not here")

// checkStart refuses releases of another algorithm or scale.
func (e *Experiment) checkStart() error {
	s := e.Start
	switch name, feedback := e.About().Name, algorithm.Feedback.Chosen(e.Config); {
	case s.Algorithm != name:
		return config.Errorf("start-from: %s was trained by %s, and this session is of %s; say --algorithm %s, or start from another folder", s.From, s.Algorithm, name, s.Algorithm)
	case s.Feedback != feedback:
		return config.Errorf("start-from: %s was trained on %s feedback, and this session is of %s feedback; say --feedback %s, or start from another folder", s.From, s.Feedback, feedback, s.Feedback)
	case s.Min != e.Data.Min || s.Max != e.Data.Max:
		return config.Errorf("start-from: %s was trained on ratings from %v to %v, and these are from %v to %v; say --rating-min %v --rating-max %v, or start from another folder",
			s.From, s.Min, s.Max, e.Data.Min, e.Data.Max, s.Min, s.Max)
	default:
		return e.checkUnits()
	}
}

// checkSearches refuses to start from a session whose settings a plain search chose, unless this session states no ε either.
func (e *Experiment) checkSearches() error {
	if e.Start == nil || !e.Private() || e.Search != nil && !e.Search.Private() {
		return nil
	}
	for _, past := range e.Start.Sessions {
		if past.Search != nil && !past.Search.Private() {
			return config.Errorf("start-from: %s: %s, so no ε would cover this session with it. Start from a run of fedsim tune --private, or of settings that other data chose. With --set %s=plain this session starts there too, and states no ε",
				e.Start.From, dp.NoEpsilonHolds, algorithm.ChosenBy.Name)
		}
	}
	return nil
}

// checkUnits refuses earlier sessions with another unit of privacy: no ε would hold for all sessions together.
func (e *Experiment) checkUnits() error {
	unit := algorithm.UnitOf(e.Config)
	for _, past := range e.Start.Sessions {
		if past.Unit != unit {
			return config.Errorf("start-from: %s depends on a session that protects each %s, and this session protects each %s; say --unit %s, or start from another folder",
				e.Start.From, past.Unit, unit, past.Unit)
		}
	}
	return nil
}

// takeRank gives an open rank the value of the session that this session starts from, and refuses another value.
func (e *Experiment) takeRank() error {
	if e.Start == nil || !e.About().Has(algorithm.Rank.Key) {
		return nil
	}
	rank := algorithm.Rank.Of(e.Config)
	if rank.Given && rank.Value != float64(e.Start.Rank) {
		return config.Errorf("start-from: %s was trained with rank %d, and this session has rank %v; say --rank %d, or start from another folder", e.Start.From, e.Start.Rank, rank.Value, e.Start.Rank)
	}
	algorithm.Rank.Set(&e.Config, float64(e.Start.Rank))
	return nil
}

// Record returns what the session of a strategy released, for a later session to start from; nil if its algorithm
// has nothing to start from. trained is the model that a simulated session ended with; nil in a deployment. skipped
// counts the rounds that released nothing.
func (e *Experiment) Record(s server.Strategy, trained *model.Trained, skipped int) (*algorithm.Start, error) {
	x, ok := e.instance.(algorithm.Recorder)
	strategy, durable := s.(algorithm.Strategy)
	if !ok || !durable || !e.About().Has(algorithm.StartFrom.Key) {
		return nil, nil
	}
	released, err := x.Record(strategy, trained)
	if err != nil || released == nil {
		return nil, err
	}
	past, err := e.past(skipped)
	if err != nil {
		return nil, err
	}
	out := &algorithm.Start{
		Algorithm: e.About().Name, Feedback: algorithm.Feedback.Chosen(e.Config), Rank: int(algorithm.Rank.Chosen(e.Config)),
		Min: e.Data.Min, Max: e.Data.Max, Released: released,
	}
	if e.Start != nil {
		out.Sessions = append(out.Sessions, e.Start.Sessions...)
	}
	out.Sessions = append(out.Sessions, past)
	return out, nil
}

// past states the cost of this session.
func (e *Experiment) past(skipped int) (algorithm.PastSession, error) {
	p := algorithm.PastSession{Session: hex.EncodeToString(e.session[:]), Unit: algorithm.UnitOf(e.Config), Skipped: skipped, Events: []dp.Event{}}
	if !e.Private() {
		return p, nil
	}
	planned, err := e.Planned()
	if err != nil || math.IsInf(planned.Epsilon, 1) {
		return p, err
	}
	b := e.Privacy.Budget
	releases, samplers := e.Privacy.Run, b.SamplerError
	if p.Search = e.Search; e.Search != nil {
		planned.Epsilon = e.Statement(planned).Epsilon
		releases, samplers = e.searchedBeside()
	}
	p.Delta, p.Accountant, p.SamplerError = b.Delta, b.Accountant, samplers
	if !math.IsInf(planned.Epsilon, 1) {
		p.Epsilon = &planned.Epsilon
	}
	p.Events = append(p.Events, releases...)
	return p, nil
}
