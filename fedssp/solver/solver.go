// Package solver has the ways to compute items from statistics, one file each. The file says what the
// solver asks of users, with the bound and its proof. It has the client's computation, the server's
// use of the sum, the bytes in broadcasts and checkpoints, and the solver's own keys. The posteriors
// of [Variational] take three files.
//
// It imports kernel, settings and both sides, and never a stage or the registration of algorithms.
package solver

import (
	"fmt"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/protocol"
)

// Whole is a solver with both its sides. Each solver has one file: its settings, what it asks of
// users and the bound, the client's computation, the server's use of the sum, and its bytes in
// broadcasts and checkpoints. Most solvers embed [closed] or [descending].
type Whole interface {
	settings.Solver
	user.Solver
	serving.Solver
	// Keys returns the keys that have an effect with this solver alone.
	Keys() []*config.Key
	// Read takes the solver's own settings from a configuration in which nothing is open.
	Read(*kernel.Params, settings.Settings)
	// Check adds errors about the settings of this solver.
	Check(*kernel.Params, *settings.Problems)
	// AgainstSums says why a round cannot take as many sums as Params.Resample, which is above 1;
	// "": it can.
	AgainstSums(*kernel.Params) string
	// Ask adds the releases of a sum with their bounds, for a share of μ².
	Ask(*kernel.Params, *kernel.Step, float64)
	// Length counts the coordinates of the release of a name; 0: the solver has no such release.
	Length(*kernel.Params, string) int
	// Finer multiplies the resolution that releases are rounded to.
	Finer(*kernel.Params) float64
}

// Of returns the settings' solver with both its sides.
func Of(p *kernel.Params) Whole { return p.Solver.(Whole) }

// plainSolver has the defaults that closed and descending share.
type plainSolver struct{}

func (plainSolver) Encoder(p *kernel.Params) (*dataset.ItemFeatures, encoder.Settings) {
	return p.Features, p.Encoder
}
func (plainSolver) Read(*kernel.Params, settings.Settings)                   {}
func (plainSolver) Serves(settings.Settings) bool                            { return true }
func (plainSolver) Traits(settings.Settings) settings.Traits                 { return settings.Traits{} }
func (plainSolver) Usual(_, _ bool) kernel.Usual                             { return kernel.Usual{} }
func (plainSolver) Learns() bool                                             { return false }
func (plainSolver) Logistic(*kernel.Params) bool                             { return false }
func (plainSolver) ByUser() bool                                             { return false }
func (plainSolver) Finer(*kernel.Params) float64                             { return 1 }
func (plainSolver) Keeps(*kernel.Params) int                                 { return 0 }
func (plainSolver) Fit(w *user.Workspace, p *kernel.Params, m kernel.Shared) { w.LeastSquares(p, m) }
func (plainSolver) Start(*kernel.Params, []float64, func() float64)          {}
func (plainSolver) Planned(*serving.Strategy, *kernel.Model)                 {}
func (plainSolver) Settle(*serving.Strategy, *kernel.Model)                  {}

// stateless is the state of a solver that keeps nothing from sum to sum.
type stateless struct {
	solveSum func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error
}

func (x stateless) Solve(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	return x.solveSum(s, r, run)
}
func (stateless) Save(b []byte) []byte { return b }
func (x stateless) Restore(_ *kernel.Params, b []byte) (serving.Solving, []byte, error) {
	return x, b, nil
}

// closed is a solver of normal equations: users send second-order statistics of their embeddings
// and moments of their ratings.
type closed struct{ plainSolver }

func (closed) keys() []*config.Key {
	return []*config.Key{
		settings.Keys.Gramian.Key, settings.Keys.ClipUser.Key, settings.Keys.ClipRating.Key, settings.Keys.NormItems.Key, settings.Keys.ShareGramian.Key, settings.Keys.Resample.Key,
		settings.Keys.TopItems.Key, settings.Keys.ChooseBy.Key, settings.Keys.ItemsFile.Key,
	}
}

func (closed) Encodes(*kernel.Params) bool { return false }
func (closed) Speaks(*kernel.Params) bool  { return false }
func (closed) Exact() bool                 { return false }
func (closed) SecondOrder() bool           { return true }
func (closed) Numbers(*kernel.Params) int  { return 0 }

func (closed) Open(*kernel.Params, *kernel.Broadcast, func(int, *[]byte)) {}

func (closed) Check(p *kernel.Params, e *settings.Problems) {
	checkUserRidge(p, e)
	checkClips(p, e, true)
	checkItems(p, e)
	checkStart(p, e)
}

// AgainstSums allows an encoder fresh statistics for each of its steps.
func (closed) AgainstSums(p *kernel.Params) string {
	switch {
	case !p.Encodes():
		return "a closed form takes the statistics of a round once, so it must be 1"
	case p.Resample > p.Encoder.Steps:
		return fmt.Sprintf("an encoder of %d steps takes fresh statistics at most so often", p.Encoder.Steps)
	default:
		return ""
	}
}

func (closed) Bound(p *kernel.Params) float64 { return p.TargetBound() * p.ClipUser }

func (closed) Length(p *kernel.Params, name string) int {
	return statisticsLength(p, name, kernel.Gramians, kernel.Moments)
}

func (closed) Ask(p *kernel.Params, to *kernel.Step, share float64) {
	askStatistics(p, to, share, kernel.Gramians, 1, kernel.Moments)
}

func (closed) Contribute(c *user.Contribution, name string) (protocol.Vector, error) {
	if err := c.Weigh(); err != nil {
		return protocol.Vector{}, err
	}
	if in, err := c.InBatch(); err != nil || !in {
		return protocol.Vector{Index: []uint32{}}, err
	}
	c.Fit(c.Target)
	if name == kernel.Gramian {
		return c.Gramian(), nil
	}
	return c.Statistics(name == kernel.Gramians, nil), nil
}

// checkUserRidge, checkClips, checkItems and checkStart check settings that several solvers need.
func checkUserRidge(p *kernel.Params, e *settings.Problems) {
	e.Within(settings.Keys.UserRidge, p.UserRidge)
}

func checkClips(p *kernel.Params, e *settings.Problems, ratings bool) {
	if p.Rounds == 0 {
		return
	}
	e.Within(settings.Keys.ClipUser, p.ClipUser)
	if ratings && p.Feedback == kernel.Explicit {
		e.Within(settings.Keys.ClipRating, p.ClipRating)
	}
}

func checkItems(p *kernel.Params, e *settings.Problems) {
	if p.Rounds > 0 && p.ItemRidge == 0 && p.ItemPrior == 0 {
		e.Add("item-ridge and item-prior are 0; one must be positive, else an item that is hardly rated has no solution")
	}
}

func checkStart(p *kernel.Params, e *settings.Problems) {
	if p.Rounds == 0 {
		return
	}
	if !p.Encodes() {
		e.Within(settings.Keys.StartSpread, p.StartSpread)
	} else {
		settings.CheckEncoder(p.Encoder, p.Rank, e)
	}
}

func checkExplicit(p *kernel.Params, e *settings.Problems) {
	if p.Feedback == kernel.Implicit {
		e.Add("solver %s is for explicit feedback", p.Solver)
	}
}

// askStatistics adds the releases of an alternating step: second-order statistics, whose rows have
// norm at most curvature·Γ_u², and first-order ones.
func askStatistics(p *kernel.Params, to *kernel.Step, share float64, items string, curvature float64, name string) {
	second, first := share*p.Split.Gramian, share*(1-p.Split.Gramian)
	norm2 := p.ClipUser * p.ClipUser
	if p.Gramian == kernel.One || p.Feedback == kernel.Implicit {
		if p.Gramian == kernel.One {
			to.Add(gramianRelease(p), second)
		} else {
			to.Add(gramianRelease(p), second*commonShare)
			second *= 1 - commonShare
		}
	}
	if p.Gramian == kernel.PerItem {
		to.Add(rows(p, items, p.Packed(), curvature*norm2), second)
	}
	to.Add(rows(p, name, p.Rank, p.ItemsBound()), first)
}

// gramianRelease is Σ u uᵀ over all users: ‖svec(u uᵀ)‖ = ‖u‖² <= Γ_u².
func gramianRelease(p *kernel.Params) protocol.Release {
	norm2 := p.ClipUser * p.ClipUser
	return protocol.Release{Name: kernel.Gramian, Len: p.Packed(), L2: norm2, LInf: norm2, MaxNonZero: p.Packed()}
}

func statisticsLength(p *kernel.Params, name, second, first string) int {
	switch name {
	case kernel.Gramian:
		return p.Packed()
	case second:
		return p.Trained() * p.Packed()
	case first:
		return p.Trained() * p.Rank
	default:
		return 0
	}
}

// commonShare is the part of a sum's second-order share for the Gramian over all users, if implicit
// feedback releases it beside the items' Gramians. It sums over all users and needs very little.
const commonShare = 0.1

// rows is a release with a row of the given length for each item that is trained on. One user's row
// has norm at most w_j·bound.
func rows(p *kernel.Params, name string, length int, bound float64) protocol.Release {
	return RowsOf(p, p.Trained(), name, length, bound)
}

func RowsOf(p *kernel.Params, items int, name string, length int, bound float64) protocol.Release {
	return protocol.Release{Name: name, Len: items * length, L2: bound, LInf: bound, MaxNonZero: mostRated(p, items) * length}
}

// mostRated is the most items that a user contributes to. Without sampling it is all of them: the
// number of a user's ratings is private, and must not show in the plan or in a message's length.
func mostRated(p *kernel.Params, items int) int {
	if p.Budgeting == kernel.Weights {
		return items
	}
	return min(p.PerUser, items)
}
