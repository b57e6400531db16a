package dp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
)

// Search is the record of a search that chose the settings of a run by the same data. A private search has Runs. Without
// Runs the search compared exact scores, and no ε covers its choice.
type Search struct {
	// Candidates is the number of settings that the search chose from; 0 if that is unknown.
	Candidates int       `json:"candidates,omitempty"`
	Law        Selection `json:"law,omitzero"` // of the number of runs of a private search
	// Runs holds the releases of a run with each candidate, the release of its score among them. A candidate may be
	// left out if another candidate costs at least as much at every Rényi order.
	Runs [][]Event `json:"runs,omitempty"`
	// SamplerError is the largest samplers' error of one run, as in Problem.
	SamplerError float64 `json:"sampler_error,omitempty"`
	// Winner identifies the run that a private search released. The cost of the search includes that run. Any other
	// run with the chosen settings is a further release.
	Winner string `json:"winner,omitempty"`
}

// NewSearch returns the record of a private search. candidates has the events of a run with each candidate, the release
// of its score among them. samplerError is the largest samplers' error of one run.
func NewSearch(law Selection, candidates [][]Event, samplerError float64) (*Search, error) {
	s := &Search{Candidates: len(candidates), Law: law, SamplerError: samplerError}
	var kept []renyiCurve
	for _, events := range candidates {
		events = joined(events)
		curve, err := standInCurve(events)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(kept, func(k renyiCurve) bool { return curve.within(k) }) {
			continue
		}
		for i := len(kept) - 1; i >= 0; i-- {
			if kept[i].within(curve) {
				kept, s.Runs = slices.Delete(kept, i, i+1), slices.Delete(s.Runs, i, i+1)
			}
		}
		kept, s.Runs = append(kept, curve), append(s.Runs, events)
	}
	return s, s.Validate()
}

// joined returns a single Gaussian release that costs as much as all events, or the events if one is sampled or has too
// little noise for the theorem of GDPSkellam.
func joined(events []Event) []Event {
	square := 0.0
	for _, e := range events {
		if e.Mechanism.Sampled() || !e.Dominated() || e.Validate() != nil {
			return events
		}
		z := gaussianStandIn(e).NoiseMultiplier
		square += float64(e.Count) / (z * z)
	}
	return []Event{Gaussian(1 / math.Sqrt(square))}
}

// within reports whether the curve is at most another curve at every order.
func (curve renyiCurve) within(other renyiCurve) bool {
	return slices.EqualFunc(curve, other, func(d, o float64) bool { return d <= o })
}

// Private reports whether an ε covers the choice of the search.
func (s Search) Private() bool { return len(s.Runs) > 0 }

// Validate reports a record that cannot be.
func (s Search) Validate() error {
	if s.Candidates < 0 || !(s.SamplerError >= 0 && s.SamplerError < 1) {
		return fmt.Errorf("dp: a search over %d candidates, with a samplers' error of %v", s.Candidates, s.SamplerError)
	}
	if !s.Private() {
		if s.Law != (Selection{}) || s.Winner != "" || s.SamplerError != 0 {
			return errors.New("dp: a private search without the releases of its runs")
		}
		return nil
	}
	errs := problems.List{s.Law.Validate()}
	for _, events := range s.Runs {
		errs.If(len(events) == 0, "dp: a search with a run without releases")
		errs = append(errs, lists.Map(events, Event.Validate)...)
	}
	return errors.Join(errs...)
}

// curve returns the Rényi curve of the whole search. D is the largest of all candidates at each order, since a run draws
// its candidate without looking at data.
func (s Search) curve(neighbours func(renyiCurve) renyiCurve) (renyiCurve, error) {
	worst := make(renyiCurve, len(renyiOrders))
	for _, events := range s.Runs {
		curve, err := standInCurve(events)
		if err != nil {
			return nil, err
		}
		for i, d := range curve {
			worst[i] = max(worst[i], d)
		}
	}
	return s.Law.renyi(neighbours(worst)), nil
}

// searched returns the ε of a problem with searches. The number K of runs is drawn without looking at data. Couple each run's
// drawn noise with exact noise: the two differ with probability at most E, the error of one run. The release of a search
// is a function of its K runs, so it differs with probability at most
//
//	Σ_k P(K=k)·(1 - (1-E)^k) <= E·(mean number of runs).
//
// The left side is reached if a failed sampler gives the best score and shows itself. So E counts once a run.
//
// neighbours turns the curve of a unit that is left out into the curve of the problem's neighbours.
func (p Problem) searched(neighbours func(renyiCurve) renyiCurve) (Result, error) {
	if p.Accountant != RDP && p.Accountant != Best {
		return Result{}, fmt.Errorf("%w: accountant %s does not cover a private search; %s does", ErrNoAccountant, p.Accountant, RDP)
	}
	all, err := standInCurve(p.Events)
	if err != nil {
		return Result{}, err
	}
	all = neighbours(all)
	for _, s := range p.Searches {
		curve, err := s.curve(neighbours)
		if err != nil {
			return Result{}, err
		}
		floats.Add(all, curve)
	}
	return Result{Epsilon: Budget{Delta: p.Delta, SamplerError: p.samplers()}.solve(all), Accountant: RDP}, nil
}

// replaced returns the curve for a unit that is replaced. With P and Q of the two units, and R without either,
//
//	D_α(P‖Q) <= (α-1/2)/(α-1)·D_2α(P‖R) + D_(2α-1)(R‖Q)
//
// (Mironov, "Rényi differential privacy", 2017, proposition 11). Divergences grow with the order, so the next order above stands for one
// between two orders.
func (curve renyiCurve) replaced() renyiCurve {
	at := func(order float64) float64 {
		if i, _ := slices.BinarySearch(renyiOrders, order); i < len(curve) {
			return curve[i]
		}
		return math.Inf(1)
	}
	return lists.Map(renyiOrders, func(alpha float64) float64 { return (alpha-0.5)/(alpha-1)*at(2*alpha) + at(2*alpha-1) })
}

// samplers returns the samplers' error of the run and of all searches.
func (p Problem) samplers() float64 {
	sum := p.SamplerError
	for _, s := range p.Searches {
		sum += s.SamplerError * s.Law.Runs()
	}
	return sum
}

func (p Problem) exact() Problem {
	p.SamplerError, p.Searches = 0, slices.Clone(p.Searches)
	for i := range p.Searches {
		p.Searches[i].SamplerError = 0
	}
	return p
}

// Chosen states the search that chose a run's settings by the same data. The zero Chosen states that none did.
type Chosen struct {
	By         SearchKind `json:"by"`
	Candidates int        `json:"candidates,omitempty"` // 0 if unknown
	Law        Selection  `json:"law,omitzero"`         // of the number of runs of a private search
	// RunEpsilon is the ε of the run alone. It would hold if the settings had been chosen without the data.
	RunEpsilon float64 `json:"run_epsilon"`
}

// SearchKind says whether an ε covers a search.
type SearchKind string

// The kinds of searches.
const (
	PlainSearch   SearchKind = "plain"   // compared exact scores: no ε covers its choice
	PrivateSearch SearchKind = "private" // private selection with a random number of runs
)

// Kind returns the kind of the search.
func (s Search) Kind() SearchKind {
	if s.Private() {
		return PrivateSearch
	}
	return PlainSearch
}

// After returns the statement of a run whose settings a search over the same data chose; s states the run alone. After a
// plain search no ε holds. ε of a private search includes the run that won. releases and samplerError are of a run that is
// another one, and costs its own ε besides; nil and 0 for the winner.
func (s Statement) After(search Search, releases []Event, samplerError float64) (Statement, error) {
	if math.IsInf(s.Epsilon, 1) {
		return s, nil
	}
	s.Chosen = Chosen{By: search.Kind(), Candidates: search.Candidates, Law: search.Law, RunEpsilon: s.Epsilon}
	if !search.Private() {
		s.Epsilon, s.Accountant = math.Inf(1), Unaccounted
		return s, nil
	}
	r, err := Problem{Events: releases, Delta: s.Delta, Accountant: RDP, SamplerError: samplerError, Searches: []Search{search}}.Epsilon()
	s.Epsilon, s.Accountant = r.Epsilon, r.Accountant
	return s, err
}

// String names the search in a few words, such as "private search, 20 candidates, 4 runs on average"; "" if there was none.
func (c Chosen) String() string {
	if c.By == "" {
		return ""
	}
	text := string(c.By) + " search"
	switch {
	case c.Candidates == 1:
		text += ", 1 candidate"
	case c.Candidates > 1:
		text += fmt.Sprintf(", %d candidates", c.Candidates)
	}
	if c.By == PrivateSearch {
		text += fmt.Sprintf(", %.4g runs on average", c.Law.Runs())
	}
	return text
}

// words says in sentences what the search means for ε; "" if there was none.
func (c Chosen) words(delta float64) string {
	alone := "ε = " + roundUp(c.RunEpsilon)
	if delta > 0 {
		alone += " and δ = " + RoundUp(delta, 3)
	}
	switch c.By {
	case PlainSearch:
		return NoEpsilonHolds + " (" + c.String() + "). Had the settings been chosen without the data, the run alone would have " + alone + "."
	case PrivateSearch:
		return " This ε covers the search that chose the settings (" + c.String() + "). The run alone has ε = " + roundUp(c.RunEpsilon) +
			". Release no other run of the search, and not how many there were."
	default:
		return ""
	}
}

// NoEpsilonHolds is the reason why no ε holds after a plain search.
const NoEpsilonHolds = "no ε holds: the settings were chosen on the private data without a private search"

// Selection is private selection with a random number of runs (Papernot and Steinke, ICLR 2022).
// It draws the number from a law and runs that many times. Each run has a candidate that is drawn uniformly.
// Only the run with the best score is released. Its number of runs has the truncated negative
// binomial law with parameters Eta and Gamma on 1, 2, 3, ...; Eta 1 is the geometric law, Eta 0 the
// logarithmic law.
type Selection struct {
	Eta   float64 `json:"eta"`   // above -1; a larger one has fewer draws that are far below the mean, and costs more
	Gamma float64 `json:"gamma"` // between 0 and 1
}

// Validate reports a law that is none.
func (s Selection) Validate() error {
	if !(s.Eta > -1 && s.Eta <= 100 && s.Gamma > 0 && s.Gamma < 1) {
		return fmt.Errorf("dp: no law of the number of runs with eta %v and gamma %v; eta must be above -1 and at most 100, gamma between 0 and 1", s.Eta, s.Gamma)
	}
	return nil
}

// Runs returns the mean number of runs.
func (s Selection) Runs() float64 {
	if s.Eta == 0 {
		return (1/s.Gamma - 1) / -math.Log(s.Gamma)
	}
	return s.Eta * (1 - s.Gamma) / (s.Gamma * -math.Expm1(s.Eta*math.Log(s.Gamma)))
}

// renyi returns the curve of the search. If a run has Rényi divergence D(α) at order α, in both directions, the search has at most
//
//	D(α) + (1+η)·(1-1/β)·D(β) + (1+η)·log(1/γ)/β + log(mean number of runs)/(α-1)
//
// for every order β (theorem 2 of the paper; dp/proofs.md).
func (s Selection) renyi(run renyiCurve) renyiCurve {
	beyond := math.Inf(1)
	for i, beta := range renyiOrders {
		beyond = min(beyond, (1+s.Eta)*((1-1/beta)*run[i]-math.Log(s.Gamma)/beta))
	}
	all := slices.Clone(run)
	for i, alpha := range renyiOrders {
		all[i] += beyond + math.Log(s.Runs())/(alpha-1)
	}
	return all
}

// standInCurve returns the Rényi curve of a run. Skellam events count as the Gaussians that dominate
// them, at all orders; those with too little noise for the theorem count as they are.
func standInCurve(events []Event) (renyiCurve, error) {
	stood := slices.Clone(events)
	for i, e := range stood {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if e.Dominated() {
			stood[i] = gaussianStandIn(e)
		}
	}
	c, err := compose(stood)
	if err != nil {
		return nil, err
	}
	return renyiSum(c)
}
