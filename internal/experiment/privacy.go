package experiment

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/protocol"
)

// Planned returns the cost of a run if every attempt is charged the most.
func (e *Experiment) Planned() (dp.Result, error) {
	switch {
	case !e.Private():
		return dp.Result{Epsilon: math.Inf(1), Accountant: dp.Unaccounted}, nil
	case e.Privacy.Proved.Accountant != "":
		return e.Privacy.Proved, nil
	}
	return e.Cost(e.Privacy.Run)
}

// Statement returns the privacy statement of a run in which the unit that spent most has spent epsilon. It covers the
// search that chose the settings, if one did.
func (e *Experiment) Statement(spent dp.Result) dp.Statement {
	s := e.statementAlone(spent)
	if e.Search == nil || !e.Private() {
		return s
	}
	all := e.Released()
	s, err := s.After(*e.Search, all.Events, all.SamplerError)
	if err != nil { // checkSearch has refused it
		s.Epsilon, s.Accountant = math.Inf(1), dp.Unaccounted
	}
	return s
}

// Released returns what the statement covers: the releases of the run, and the private search that chose its settings. The
// cost of the search includes the run that won.
func (e *Experiment) Released() dp.Problem {
	all := dp.Problem{Events: e.Privacy.Run, SamplerError: e.Privacy.Budget.SamplerError}
	if e.Search != nil && e.Search.Private() {
		all.Searches = []dp.Search{*e.Search}
		if e.Search.Winner == e.Fingerprint() {
			all.Events, all.SamplerError = nil, 0
		}
	}
	return all
}

// readSearch reads the record of the search that chose the settings, and refuses a run that no account joins with it.
func (e *Experiment) readSearch() error {
	var err error
	if e.Search, err = algorithm.SearchOf(e.Config); err != nil {
		return config.Errorf("%s: %w", algorithm.ChosenBy.Name, err)
	}
	if e.Search == nil || !e.Search.Private() || !e.Private() {
		return nil
	}
	if len(e.Privacy.Run) == 0 || algorithm.UnitOf(e.Config) != dp.User {
		return config.Errorf("%s: a private search protects users, and no account joins it with this run; leave the key out only if other data chose the settings", algorithm.ChosenBy.Name)
	}
	all := e.Released()
	if _, err = e.statementAlone(dp.Result{}).After(*e.Search, all.Events, all.SamplerError); err != nil {
		return config.Errorf("%s: %w", algorithm.ChosenBy.Name, err)
	}
	return nil
}

// FilesDigest is of what a run reads besides its ratings: the features of items and the program of an own algorithm.
func (e *Experiment) FilesDigest() string {
	if own, ok := e.instance.(algorithm.Programmed); ok {
		return e.FeaturesDigest() + own.Program()
	}
	return e.FeaturesDigest()
}

// FeaturesDigest is of what the features of items hold; "" without features.
func (e *Experiment) FeaturesDigest() string {
	if e.Features == nil {
		return ""
	}
	return e.Features.Digest
}

// Fingerprint returns a digest of a training: its data, its noise, its start, its program, the version of fedsim and every setting that
// changes the model. Noise that clients draw has other bits than noise of a sum, and mode active loses clients at other stages.
func (e *Experiment) Fingerprint() string {
	t := protocol.NewTranscript("fedsim/searched/v1").Bytes(e.session[:]).Uint(algorithm.Seed.Of(e.Config)).
		Text(e.Data.Digest).Text(e.Split.Digest).Text(e.FilesDigest()).Text(version.Program())
	for _, k := range e.About().Used() {
		draws := k == algorithm.NoiseDraw.Key && algorithm.NoiseDraw.Is(e.Config, "client") || k == algorithm.Mode.Key && algorithm.Mode.Is(e.Config, "active")
		if !aside(k) || draws {
			t.Text(k.Name).Text(e.Config.Text(k))
		}
	}
	sum := t.Sum()
	return hex.EncodeToString(sum[:16])
}

// statementAlone states a run whose settings were chosen without its data.
func (e *Experiment) statementAlone(spent dp.Result) dp.Statement {
	about := e.About()
	s := dp.Statement{
		Epsilon: math.Inf(1), Delta: e.Privacy.Budget.Delta, Unit: algorithm.UnitOf(e.Config), Relation: about.Relation,
		Accountant: dp.Unaccounted, Sampling: dp.NoSampling, Noise: dp.NoNoise,
	}
	if e.Data.Raters != nil {
		s.Open = e.Data.Raters.Users
	}
	if !e.Private() {
		return s
	}
	s.Epsilon, s.Accountant, s.Noise = spent.Epsilon, spent.Accountant, dp.SkellamNoise
	s.ClaimedEpsilon, s.NoiseDistance = e.Privacy.Claimed, e.Privacy.NoiseDistance
	switch {
	case e.Privacy.Law != "":
		s.Noise, s.Relation, s.Sampling = e.Privacy.Law, cmp.Or(e.Privacy.Relation, s.Relation), cmp.Or(e.Privacy.Sampling, s.Sampling)
		if spent.Accountant == dp.Pure {
			s.Delta = 0
		}
		return s
	case spent.Accountant == dp.Pure:
		s.Noise = dp.ObjectiveNoise
		return s
	case spent.Accountant == dp.Shuffling:
		s.Noise, s.Trust, s.LocalEpsilon = dp.RandomizedResponse, dp.Shuffler, e.Privacy.Local
		return s
	}
	if rounds := e.Schedule.Rounds(); e.Cohort.Enrolled > 0 {
		s.Rounds = rounds
		for _, step := range e.Schedule {
			s.Turns += e.Cohort.Turns(step.Rounds)
		}
		s.Turns = min(s.Turns, rounds)
	}
	n := e.Schedule.Noise()
	if n.Kind == protocol.LocalNoise {
		s.Trust = dp.Nobody
	}
	if n.Kind == protocol.PartyNoise {
		s.Noise = dp.FloatGaussianNoise
	}
	for _, ev := range e.Privacy.Run {
		if ev.SamplingRate > 0 && ev.SamplingRate < 1 {
			s.Sampling = dp.PoissonSampling
		}
	}
	return s
}

// Observers names the parties that the statement of privacy protects a unit from, for a sentence.
func (e *Experiment) Observers() string {
	switch trust := e.statementAlone(e.Privacy.Proved).Trust; {
	case trust == dp.Shuffler:
		return "all parties that see the messages behind the shuffler"
	case !e.About().Federated():
		return "all readers of the model"
	case trust == dp.Nobody:
		return "all parties except the user's own client"
	}
	switch noise := e.Schedule.Noise(); {
	case noise.Kind == protocol.PartyNoise && (noise.Spread || e.Cohort.All() == 1):
		return "the aggregator and the server"
	case noise.Kind == protocol.PartyNoise:
		return "the aggregator, the server and the other organisations"
	case e.Cohort.Colluding() == 0:
		return "the aggregator and the server"
	case e.Cohort.Colluding() == 1:
		return "the aggregator, the server and 1 colluding client"
	}
	return fmt.Sprintf("the aggregator, the server and up to %s colluding clients", units.Count(e.Cohort.Colluding()))
}

// Attempt describes what a round showed, as far as its price depends on it.
type Attempt struct {
	Survivors, Answered int
	Summed              bool
	Sent                bool // at least one masked input left its client
}

// Spent returns the largest cost of the attempts so far, from the first on, for any unit: in general the cost in the fullest
// ledger. Where a unit is spread over the parties, it is the cost in all ledgers together. With replaced noise it is the true
// cost of the views of every sum, and an attempt that ended without a sum counts at its full planned price.
func (e *Experiment) Spent(ledgers []*dp.Ledger, attempts []Attempt) (dp.Result, error) {
	if n := e.Schedule.Noise(); n.Kind == protocol.TwoRound || n.Spread {
		all, err := e.Charged(ledgers, attempts)
		if err != nil {
			return dp.Result{}, err
		}
		return e.Cost(all)
	}
	if l := fullest(ledgers); l != nil {
		return l.Spent(), nil
	}
	return dp.Result{}, nil
}

// Charged returns the releases that Spent is the cost of.
func (e *Experiment) Charged(ledgers []*dp.Ledger, attempts []Attempt) ([]dp.Event, error) {
	if n := e.Schedule.Noise(); n.Kind == protocol.TwoRound {
		return e.viewed(attempts)
	} else if n.Spread {
		// Each ledger holds what all would have spent, had they all done as its client did.
		var all []dp.Event
		for _, l := range ledgers {
			for _, ev := range l.Charged() {
				ev.Count /= len(ledgers)
				all = append(all, ev)
			}
		}
		return all, nil
	}
	if l := fullest(ledgers); l != nil {
		return l.Charged(), nil
	}
	return nil, nil
}

// fullest returns the ledger that has spent most; nil if there is none.
func fullest(ledgers []*dp.Ledger) (most *dp.Ledger) {
	for _, l := range ledgers {
		if most == nil || l.Spent().Epsilon >= most.Spent().Epsilon {
			most = l
		}
	}
	return most
}

// SpentAtMost is an upper bound on what the first attempts cost any unit. It holds
// without access to the ledgers, since each attempt counts at its full planned price,
// whatever its result. All attempts together cost what [Experiment.Planned] says.
func (e *Experiment) SpentAtMost(attempts int) (dp.Result, error) {
	if rounds := e.Schedule.Rounds(); attempts < 0 || attempts > rounds {
		return dp.Result{}, fmt.Errorf("experiment: %d attempts; there are at most %d", attempts, rounds)
	}
	if !e.Private() {
		return dp.Result{Epsilon: math.Inf(1), Accountant: dp.Unaccounted}, nil
	}
	events, err := e.Charges(attempts)
	if err != nil {
		return dp.Result{}, err
	}
	return e.Cost(events)
}

// viewed returns the views of every sum with replaced noise.
func (e *Experiment) viewed(attempts []Attempt) ([]dp.Event, error) {
	var all []dp.Event
	for i, a := range attempts {
		p := e.Plan(uint64(i) + 1)
		if p == nil {
			return nil, fmt.Errorf("experiment: %d attempts; there are at most %d", len(attempts), e.Schedule.Rounds())
		}
		switch {
		case a.Summed:
			for _, r := range p.Releases {
				views, err := p.Views(r, a.Survivors, a.Answered)
				if err != nil {
					return nil, err
				}
				all = append(all, views...)
			}
		case a.Sent:
			full, err := p.Charges()
			if err != nil {
				return nil, err
			}
			all = append(all, full...)
		}
	}
	return all, nil
}
