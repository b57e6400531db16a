// Package solver has the ways to compute items from statistics, one file each. The file says what the
// solver asks of users, with the bound and its proof. It has the client's computation, the server's
// use of the sum, the bytes in broadcasts and checkpoints, and the solver's own keys. The posteriors
// of [Variational] take three files.
//
// It imports kernel, settings and both sides, and never a stage or the registration of algorithms.
package solver

import (
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// Solver is a solver with both its sides. Each solver has one file: its settings, what it asks of
// users and the bound, the client's computation, the server's use of the sum, and its bytes in
// broadcasts and checkpoints. A solver embeds [Base], or [Closed] if it solves normal equations, and
// then writes seven methods or fewer.
type Solver interface {
	settings.Solver
	user.Solver
	serving.Solver
	// Keys returns the keys that have an effect with this solver alone.
	Keys() []*config.Key
	// Read takes the solver's own settings from a configuration in which nothing is open.
	Read(*kernel.Params, settings.Settings)
	// Check adds errors about the settings of this solver.
	Check(*kernel.Params, *problems.List)
	// AppendReleases adds the releases of a sum with their bounds, for a share of μ².
	AppendReleases(*kernel.Params, *kernel.Step, float64)
	// ScaleFactor multiplies the resolution that releases are rounded to.
	ScaleFactor(*kernel.Params) float64
}

// Of returns the settings' solver with both its sides.
func Of(p *kernel.Params) Solver { return p.Solver.(Solver) }

// Base has the defaults of all methods of a [Solver] except String, Traits, Bound, Keys,
// AppendReleases, Contribute and Begin.
type Base struct{}

func (Base) Encoder(p *kernel.Params) (*dataset.ItemFeatures, encoder.Settings) {
	return p.Features, p.Encoder
}
func (Base) Start(*kernel.Params, []float64, func() float64)           {}
func (Base) Sends(*kernel.Params) (none kernel.Sends)                  { return none }
func (Base) Serves(settings.Settings) bool                             { return true }
func (Base) Loss(settings.Settings) settings.Loss                      { return settings.Loss{} }
func (Base) Defaults(settings.Settings) (none settings.SolverDefaults) { return none }
func (Base) Fit(w *user.Workspace, p *kernel.Params, m *kernel.Model)  { w.LeastSquares(p, m) }
func (Base) Keeps(*kernel.Params) int                                  { return 0 }
func (Base) Planned(*serving.Strategy, *kernel.Model)                  {}
func (Base) Settle(*serving.Strategy, *kernel.Model)                   {}
func (Base) Read(*kernel.Params, settings.Settings)                    {}
func (Base) Check(*kernel.Params, *problems.List)                      {}
func (Base) ScaleFactor(*kernel.Params) float64                        { return 1 }

// Stateless is the state of a solver that keeps nothing from sum to sum: a function that takes in a
// sum of statistics.
type Stateless func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error

// Solve calls the function.
func (x Stateless) Solve(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	return x(s, r, run)
}

// Closed is a solver of normal equations: users send second-order statistics of their embeddings
// and moments of their ratings.
type Closed struct{ Base }

// With returns the keys of such statistics, and more.
func (Closed) With(more ...*config.Key) []*config.Key {
	return append([]*config.Key{
		settings.Keys.Gramian.Key, settings.Keys.ClipUser.Key, settings.Keys.ClipRating.Key, settings.Keys.NormItems.Key, settings.Keys.ShareGramian.Key, settings.Keys.Resample.Key,
		settings.Keys.TopItems.Key, settings.Keys.ChooseBy.Key,
	}, more...)
}

func (Closed) Bound(p *kernel.Params) float64 { return p.TargetBound() * p.ClipUser }

func (Closed) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	AppendStatistics(p, to, share, kernel.Gramians, 1, kernel.Moments)
}

func (Closed) Contribute(c *user.Contribution, name string) (protocol.Vector, error) {
	if takesPart, err := c.TakesPart(); err != nil || !takesPart {
		return protocol.Vector{Index: []uint32{}}, err
	}
	c.Fit(c.Target)
	if name == kernel.Gramian {
		return c.Gramian(), nil
	}
	return c.Statistics(name == kernel.Gramians, nil), nil
}

// AppendStatistics adds the releases of an alternating step: second-order statistics, whose rows have
// norm at most curvature·Γ_u², and first-order ones.
func AppendStatistics(p *kernel.Params, to *kernel.Step, share float64, items string, curvature float64, name string) {
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
		to.Add(Weighed(p, Rows(p, items, p.Packed(), curvature*norm2), curvature*norm2), second)
	}
	to.Add(Weighed(p, Rows(p, name, p.Rank, p.ItemsBound()), p.Solver.Bound(p)), first)
}

// gramianRelease is Σ u uᵀ over all users: ‖svec(u uᵀ)‖ = ‖u‖² <= Γ_u².
func gramianRelease(p *kernel.Params) protocol.Release {
	norm2 := p.ClipUser * p.ClipUser
	return protocol.Release{Name: kernel.Gramian, Len: p.Packed(), L2: norm2, LInf: norm2, MaxNonZero: p.Packed()}
}

// commonShare is the part of a sum's second-order share for the Gramian over all users, if implicit
// feedback releases it beside the items' Gramians. It sums over all users and needs very little.
const commonShare = 0.1

// Rows is a release with a row of the given length for each item that is trained on. One user's row
// has norm at most w_j·bound.
func Rows(p *kernel.Params, name string, length int, bound float64) protocol.Release {
	return RowsOf(p, p.Trained(), name, length, bound)
}

// RowsOf is Rows for so many items. Without sampling a user contributes to all of them: the number of a user's ratings is
// private, and must not show in the plan or in a message's length.
func RowsOf(p *kernel.Params, items int, name string, length int, bound float64) protocol.Release {
	most := items
	if p.Budgeting != kernel.Weights {
		most = min(p.PerUser, items)
	}
	return protocol.Release{Name: name, Len: items * length, L2: bound, LInf: bound, MaxNonZero: most * length}
}

// Weighed bounds the coordinates of rows that have norm at most each times the weight of a rating.
func Weighed(p *kernel.Params, r protocol.Release, each float64) protocol.Release {
	const rounding = 1 + 1e-12 // of products in another order
	r.LInf = min(r.LInf, p.MostWeight()*each*rounding)
	return r
}

// ALS is the solver that sets v_j to the solution of A_j v = b_j (DPALS and AdaDPALS).
var ALS settings.Solver = als{}

type als struct{ Closed }

func (als) String() string { return "als" }

func (als) Traits() kernel.Traits { return kernel.Traits{ByItem: true} }

func (x als) Keys() []*config.Key {
	return x.With(settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key)
}

func (als) Begin(*kernel.Params) serving.Solving {
	return resuming(func(s *serving.Strategy, y *serving.Equations, run protocol.Runner) {
		y.SolveItems(s.Current().Items, run)
	})
}

// resuming is a solving whose session can start from earlier sums: a function that solves for the items. All of its state
// follows from V.
type resuming func(s *serving.Strategy, y *serving.Equations, run protocol.Runner)

// Solve solves for the items of a sum, combined with earlier ones.
func (x resuming) Solve(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	n := s.Times(r)
	y := s.Equations(r, n, kernel.Gramians, kernel.Moments)
	s.Join(y, dense.Sqr(r.Noise[kernel.Moments]*n))
	x(s, y, run)
	return nil
}

// Resume solves for the items of earlier sums.
func (x resuming) Resume(s *serving.Strategy, run protocol.Runner) error {
	if y, _ := s.EquationsBefore(); y != nil {
		x(s, y, run)
	}
	return nil
}

// Encoded is the solver in which a public encoder computes v_j from the item's features or its id.
// The encoder takes gradient steps on the statistics (SSP-c, SSP-i, AM-SSP).
var Encoded settings.Solver = encoderSolver{}

type encoderSolver struct{ Closed }

func (encoderSolver) String() string { return "encoder" }

func (x encoderSolver) Keys() []*config.Key {
	return x.With(slices.Concat(settings.EncoderKeys(), settings.PassKeys(), []*config.Key{settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key})...)
}

func (encoderSolver) Read(p *kernel.Params, s settings.Settings) {
	p.Encoder = settings.EncoderOf(s.Config)
}

// Serves takes features, or an embedding of each item's id. The latter is a lookup table, whose optimum
// has a closed form unless the statistics change with every step.
func (encoderSolver) Serves(s settings.Settings) bool {
	return !s.Featureless() || settings.Keys.Resample.Or(s.Config, 1) > 1
}

func (encoderSolver) Traits() kernel.Traits {
	return kernel.Traits{Encodes: true, PredictsFromFeatures: true}
}

func (encoderSolver) Begin(*kernel.Params) serving.Solving {
	return Stateless(func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		return s.FitEncoder(s.Equations(r, s.Times(r), kernel.Gramians, kernel.Moments), run)
	})
}
