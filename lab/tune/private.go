package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// Cost holds what a private search costs, and the noise and the law that it pays for.
type Cost struct {
	// Epsilon covers the search at Delta: its scores, its choice and the chosen model. Each is the ε of one run.
	Epsilon, Delta, Each float64
	Law                  dp.Selection // of the number of runs
	// Multiplier is the deviation of the noise of a run's score, in units of the most that a user adds to it.
	Multiplier float64

	search *dp.Search // the record of the search
}

// Runs draws how many runs a search has.
func (c *Cost) Runs(bits *noise.Bits) int { return draw(c.Law, uniform(bits)) }

// Score adds noise to a sum to which one user adds at most most.
func (c *Cost) Score(sum, most float64, bits *noise.Bits) (float64, error) {
	g, err := noise.NewGaussian(most * c.Multiplier)
	if err != nil {
		return 0, err
	}
	noisy := []float64{sum}
	err = g.Add(noisy, bits)
	return noisy[0], err
}

// uniform draws from [0, 1).
func uniform(bits *noise.Bits) float64 { return float64(bits.Uint64()>>11) / (1 << 53) }

// session names the stream of the search's secrets.
var session = protocol.SessionID{'t', 'u', 'n', 'e'}

// privately draws how many runs there are and which candidate each has, and accounts for the search.
func (s Search) privately(ctx context.Context, candidates [][]config.Setting, out *SearchResult) error {
	cost, err := s.cost(ctx, candidates)
	if err != nil {
		return err
	}
	s.Settings = with(s.Settings, cost.Each)
	out.Epsilon, out.Delta, out.Each = cost.Epsilon, cost.Delta, cost.Each
	c, err := config.Resolve(s.Settings)
	if err != nil {
		return err
	}
	bits := noise.NewBits(sim.Apart(algorithm.Seed.Of(c), session).Stream("selection", 0))
	for number := range cost.Runs(bits) {
		if err = s.try(ctx, out, candidates, int(uniform(bits)*float64(len(candidates))), number+1, cost, bits); err != nil {
			return err
		}
	}
	won := *cost.search
	won.Winner, won.Candidates = out.winner, len(candidates)
	out.Final = append(out.Final, chosenWith(&won))
	return bits.Err()
}

// with returns settings with an ε of one run.
func with(settings []config.Setting, epsilon float64) []config.Setting {
	all, _ := config.Over(settings, []config.Setting{{Key: algorithm.Epsilon.Name, Value: strconv.FormatFloat(epsilon, 'g', -1, 64)}})
	return all
}

func (s Search) cost(ctx context.Context, candidates [][]config.Setting) (*Cost, error) {
	law, err := SelectionOf(s.Eta, s.Runs)
	if err != nil {
		return nil, config.Wrap(err)
	}
	if s.Total == 0 {
		return s.account(ctx, law, candidates)
	}
	return s.solve(ctx, law, candidates)
}

// A search whose ε is wanted has at least nearTotal of it, where so many accounts reach that.
const (
	nearTotal    = 0.99
	mostAccounts = 8
)

// solve finds the ε of one run whose search costs at most s.Total. A run of normal noise foretells the ε of the search; the account of the
// candidates corrects the forecast. Only an account decides.
func (s Search) solve(ctx context.Context, law dp.Selection, candidates [][]config.Setting) (*Cost, error) {
	if !(s.Total > 0) || math.IsInf(s.Total, 0) {
		return nil, config.Errorf("--total-epsilon %v: it must be positive and finite", s.Total)
	}
	var best *Cost
	each := s.Total / 2
	for range mostAccounts {
		tried := s
		tried.Settings = with(s.Settings, each)
		c, err := tried.account(ctx, law, candidates)
		switch {
		case err != nil:
			return nil, err
		case c.Each != each:
			return nil, config.Errorf("--total-epsilon finds the epsilon of one run; take epsilon out of --over")
		case c.Epsilon <= s.Total && (best == nil || c.Epsilon > best.Epsilon):
			best = c
		}
		if best != nil && best.Epsilon >= nearTotal*s.Total {
			return best, nil
		}
		forecast, err := normalTotal(law, each, c.Delta)
		if err != nil {
			return nil, err
		}
		aim := (1 + nearTotal) / 2 * s.Total * forecast / c.Epsilon
		if each, err = normalEach(law, aim, c.Delta); err != nil {
			return nil, err
		}
	}
	if best == nil {
		return nil, config.Errorf("--total-epsilon %v: no epsilon of one run is small enough for a mean of %v runs; raise it, or lower --mean-runs", s.Total, s.Runs)
	}
	return best, nil
}

// normalTotal returns the ε of a search whose runs have normal noise alone.
func normalTotal(law dp.Selection, each, delta float64) (float64, error) {
	mu := dp.GaussianMu(each, delta)
	search := dp.Search{Law: law, Runs: [][]dp.Event{{dp.Gaussian(1 / mu), dp.Gaussian(1 / (scoreShare * mu))}}}
	r, err := dp.Problem{Delta: delta, Accountant: dp.RDP, Searches: []dp.Search{search}}.Epsilon()
	return r.Epsilon, err
}

// leastEach is the smallest ε of one run, as a share of the total, that a search may have.
const leastEach = 1e-3

// normalEach inverts normalTotal. It rounds to four digits, so that a person can write the result down.
func normalEach(law dp.Selection, total, delta float64) (float64, error) {
	low, high := math.Log(leastEach*total), math.Log(total)
	for range 40 {
		mid := (low + high) / 2
		at, err := normalTotal(law, math.Exp(mid), delta)
		if err != nil {
			return 0, err
		}
		if at > total {
			high = mid
		} else {
			low = mid
		}
	}
	return strconv.ParseFloat(strconv.FormatFloat(math.Exp(low), 'g', 4, 64), 64)
}

// account opens every candidate and computes what the search costs.
func (s Search) account(ctx context.Context, law dp.Selection, candidates [][]config.Setting) (*Cost, error) {
	opened := make([]*experiment.Experiment, len(candidates))
	for i, candidate := range candidates {
		var err error
		if opened[i], err = s.open(ctx, s.of(candidate, 1)); err != nil {
			return nil, fmt.Errorf("candidate %d: %w", i+1, err)
		}
	}
	return CostOf(law, opened...)
}

// CostOf chooses the noise of scores and computes what a private search over these runs costs.
func CostOf(law dp.Selection, candidates ...*experiment.Experiment) (*Cost, error) {
	var runs [][]dp.Event
	var samplers float64
	out := &Cost{Law: law}
	for i, e := range candidates {
		if len(e.Privacy.Run) == 0 || algorithm.UnitOf(e.Config) != dp.User {
			return nil, config.Errorf("--private: candidate %d has no releases that protect users. It needs a finite epsilon and unit user, with clients", i+1)
		}
		if e.Search != nil {
			return nil, config.Errorf("%s: no account covers a private search over settings that another search chose; leave it out if other data chose them", algorithm.ChosenBy.Name)
		}
		b := e.Privacy.Budget
		if i > 0 && (b.Delta != out.Delta || b.Epsilon != out.Each) {
			return nil, config.Errorf("--private: candidates differ in epsilon or delta; search over other keys")
		}
		out.Delta, out.Each = b.Delta, b.Epsilon
		samplers = max(samplers, b.SamplerError)
		runs = append(runs, e.Privacy.Run)
	}
	out.Multiplier = 1 / (scoreShare * dp.GaussianMu(out.Each, out.Delta))
	for i := range runs {
		runs[i] = append(slices.Clone(runs[i]), dp.Gaussian(out.Multiplier))
	}
	var err error
	if out.search, err = dp.NewSearch(law, runs, samplers); err != nil {
		return nil, err
	}
	r, err := dp.Problem{Delta: out.Delta, Accountant: dp.RDP, Searches: []dp.Search{*out.search}}.Epsilon()
	out.Epsilon = r.Epsilon
	return out, err
}

// scoreShare scales μ, the parameter of normal noise that a run's ε and δ ask for: a score has scoreShare·μ.
// In squares that is a twentieth of the run.
const scoreShare = 0.22

// SelectionOf returns the law of an Eta with a mean number of runs above 1.
func SelectionOf(eta, runs float64) (dp.Selection, error) {
	if !(runs > 1 && runs <= 1e6) {
		return dp.Selection{}, fmt.Errorf("a mean of %v runs; it must be above 1 and at most 1e6", runs)
	}
	low, high := math.Log(1e-300), 0.0 // the mean falls as gamma grows
	for range 200 {
		if mid := (low + high) / 2; (dp.Selection{Eta: eta, Gamma: math.Exp(mid)}).Runs() > runs {
			low = mid
		} else {
			high = mid
		}
	}
	s := dp.Selection{Eta: eta, Gamma: math.Exp(low)}
	return s, s.Validate()
}

// draw returns the number of runs for a uniform u of [0, 1).
func draw(s dp.Selection, u float64) int {
	k, q := 1, 1-s.Gamma
	p := q / -math.Log(s.Gamma)
	if s.Eta != 0 {
		p = s.Eta * q * math.Exp(s.Eta*math.Log(s.Gamma)) / -math.Expm1(s.Eta*math.Log(s.Gamma))
	}
	for u >= p && k < mostRuns {
		u -= p
		p *= q * (float64(k) + s.Eta) / float64(k+1)
		k++
	}
	return k
}

// mostRuns ends a draw that rounding would not end.
const mostRuns = 1 << 30
