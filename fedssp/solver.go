package fedssp

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Solver is how the server computes the items from the statistics, as far as models and bounds
// depend on it. String is its name in errors and settings.
type Solver interface {
	fmt.Stringer
	// encodes reports whether items are the output of an encoder. encoder returns the features and
	// settings of that encoder.
	encodes(*Params) bool
	encoder(*Params) (*dataset.ItemFeatures, encoder.Settings)
	// learns reports whether priors are always learned from the statistics.
	learns() bool
	// speaks reports whether features predict items that are not trained on.
	speaks(*Params) bool
	// exact reports whether the solver needs all items, and broadcasts in double precision.
	exact() bool
	// logistic reports whether predictions are logits.
	logistic(*Params) bool
	// bound is the largest norm of a user's addition to moments or gradients.
	bound(*Params) float64
	// secondOrder reports whether there are second-order statistics. byUser reports whether a
	// user's gradient is clipped as a whole.
	secondOrder() bool
	byUser() bool
	// start improves the start of V, which is drawn at random.
	start(p *Params, v []float64, draw func() float64)
	// open reads the solver's part of a broadcast beside the items. numbers counts the numbers of
	// that part.
	open(p *Params, v *broadcast, take func(n int, dst *[]byte))
	numbers(*Params) int
}

// SolverParams holds the settings of solvers: common ones, and each solver's own.
type SolverParams struct {
	Solver Solver
	// ItemRidge is λ_v, added to A_j in proportion to c_j, as if to every rating.
	ItemRidge float64
	// ItemPrior pulls each coordinate of v_j to zero with the weight of so many ratings, however
	// many ratings the item has. If the statistics are noisy, the discount for noise pulls as well.
	// It is 1/τ² for a prior deviation of τ and residuals of about 1.
	ItemPrior float64
	// StartSpread is the standard deviation of the coordinates of V at the start. An encoder has a
	// start norm of its own.
	StartSpread float64
	Loss        Loss // Convex only
	LossWidth   float64
	CMF         CMFParams
	Descent     DescentParams    // of the solvers that take gradients
	Pool        PoolParams       // Pool.Iterations > 0: priors of biases are learned; with Pooled, priors of items too
	Encoder     encoder.Settings // of the solvers with an encoder, see Encodes
}

// side is a solver with both its sides. Each solver has one file: its settings, what it asks of
// users and the bound, the client's computation, the server's use of the sum, and its bytes in
// broadcasts and checkpoints. Most solvers embed [closed] or [descending].
type side interface {
	Solver
	clientSide
	serverSide
	// keys returns the keys that have an effect with this solver alone.
	keys() []*config.Key
	// read takes the solver's own settings from a configuration in which nothing is open.
	read(*Params, settings)
	// check adds errors about the settings of this solver.
	check(*Params, *problems)
	// againstSums says why a round cannot take as many sums as Params.Resample, which is above 1;
	// "": it can.
	againstSums(*Params) string
	// ask adds the releases of a sum with their bounds, for a share of μ².
	ask(*Params, *Step, float64)
	// length counts the coordinates of the release of a name; 0: the solver has no such release.
	length(*Params, string) int
	// finer multiplies the resolution that releases are rounded to.
	finer(*Params) float64
}

// clientSide is the client's computation.
type clientSide interface {
	// fit sets w.beta to the user's own solution for a broadcast model.
	fit(w *workspace, p *Params, m shared)
	// contribute computes one release of a sum.
	contribute(c *contribution, release string) (protocol.Vector, error)
	// keeps counts the numbers that a client keeps from sum to sum.
	keeps(*Params) int
}

// clientSideOf returns the client's part of the settings' solver.
func clientSideOf(p *Params) clientSide { return p.Solver.(clientSide) }

// serverSide is the server's part of a solver.
type serverSide interface {
	// begin makes the state that the server keeps from sum to sum.
	begin(*Params) solving
	// planned adds to the model of a plan what clients need beside the items. settle brings a model
	// up to the last sum.
	planned(*Strategy, *Model)
	settle(*Strategy, *Model)
}

// serverSideOf returns the server's part of the settings' solver.
func serverSideOf(p *Params) serverSide { return p.Solver.(serverSide) }

// solving is the server's side of a solver during a run.
type solving interface {
	// solve takes in a sum of statistics.
	solve(s *Strategy, r absorbed, run protocol.Runner) error
	// save appends the solver's part of a checkpoint. restore reads that part and returns the bytes
	// after it.
	save(b []byte) []byte
	restore(p *Params, b []byte) (solving, []byte, error)
}

// declareItems declares the ridges on items, and the start of items.
func declareItems() {
	keys.itemRidge = number("statistics.item-ridge", config.AtLeast(0), notPool, "0.01", "Ridge of an item, added to every rating.", value(0.01))
	keys.itemPrior = config.DeclareNumber(config.Key{
		Name: "statistics.item-prior", Kind: config.Real, Default: "auto", Auto: "5 to 20; 0.1 where little can be learned", Range: config.AtLeast(0), When: notPool.when(),
		Help: "How many ratings pull an item to zero.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			s := settingsOf(c)
			if f != nil && s.nearStart(f) {
				return config.Fixed(0.1)
			}
			return config.Fixed(s.itemPrior())
		},
		Check: func(c config.Config) string {
			if keys.itemPrior.Of(c) == config.Fixed(0) && keys.itemRidge.Of(c) == config.Fixed(0) {
				return "it is 0, and statistics.item-ridge too: an item with hardly any ratings would have no solution"
			}
			return ""
		},
	})
	keys.startSpread = number("statistics.start-spread", config.Positive(), func(s settings) bool { return s.items() && !s.encodes() }, "0.3", "Standard deviation of the coordinates at the start.", value(0.3))
}

// sideOf returns the settings' solver with both its sides.
func sideOf(p *Params) side { return p.Solver.(side) }

// itemsBound is the largest norm of a user's addition to moments or gradients.
func (p *Params) itemsBound() float64 { return atMost(p.NormItems, p.Solver.bound(p)) }

// weighsItems reports whether the weights of items' ratings are released.
func (p *Params) weighsItems() bool { return p.Bias || !p.Solver.byUser() }

// plainSolver has the defaults that closed and descending share.
type plainSolver struct{}

func (plainSolver) encoder(p *Params) (*dataset.ItemFeatures, encoder.Settings) {
	return p.Features, p.Encoder
}
func (plainSolver) read(*Params, settings)                   {}
func (plainSolver) learns() bool                             { return false }
func (plainSolver) logistic(*Params) bool                    { return false }
func (plainSolver) byUser() bool                             { return false }
func (plainSolver) finer(*Params) float64                    { return 1 }
func (plainSolver) keeps(*Params) int                        { return 0 }
func (plainSolver) fit(w *workspace, p *Params, m shared)    { w.leastSquares(p, m) }
func (plainSolver) start(*Params, []float64, func() float64) {}
func (plainSolver) planned(*Strategy, *Model)                {}
func (plainSolver) settle(*Strategy, *Model)                 {}

// stateless is the state of a solver that keeps nothing from sum to sum.
type stateless struct {
	solveSum func(s *Strategy, r absorbed, run protocol.Runner) error
}

func (x stateless) solve(s *Strategy, r absorbed, run protocol.Runner) error {
	return x.solveSum(s, r, run)
}
func (stateless) save(b []byte) []byte                                   { return b }
func (x stateless) restore(_ *Params, b []byte) (solving, []byte, error) { return x, b, nil }

// closed is a solver of normal equations: users send second-order statistics of their embeddings
// and moments of their ratings.
type closed struct{ plainSolver }

func (closed) keys() []*config.Key {
	return []*config.Key{
		keys.gramian.Key, keys.clipUser.Key, keys.clipRating.Key, keys.normItems.Key, keys.shareGramian.Key, keys.resample.Key,
		keys.topItems.Key, keys.chooseBy.Key, keys.itemsFile.Key,
	}
}

func (closed) encodes(*Params) bool { return false }
func (closed) speaks(*Params) bool  { return false }
func (closed) exact() bool          { return false }
func (closed) secondOrder() bool    { return true }
func (closed) numbers(*Params) int  { return 0 }

func (closed) open(*Params, *broadcast, func(int, *[]byte)) {}

func (closed) check(p *Params, e *problems) {
	checkUserRidge(p, e)
	checkClips(p, e, true)
	checkItems(p, e)
	checkStart(p, e)
}

// againstSums allows an encoder fresh statistics for each of its steps.
func (closed) againstSums(p *Params) string {
	switch {
	case !p.Encodes():
		return "a closed form takes the statistics of a round once, so it must be 1"
	case p.Resample > p.Encoder.Steps:
		return fmt.Sprintf("an encoder of %d steps takes fresh statistics at most so often", p.Encoder.Steps)
	default:
		return ""
	}
}

func (closed) bound(p *Params) float64 { return p.targetBound() * p.ClipUser }

func (closed) length(p *Params, name string) int { return p.statisticsLength(name, Gramians, Moments) }

func (closed) ask(p *Params, to *Step, share float64) {
	p.askStatistics(to, share, Gramians, 1, Moments)
}

func (closed) contribute(c *contribution, name string) (protocol.Vector, error) {
	if err := c.weigh(); err != nil {
		return protocol.Vector{}, err
	}
	if in, err := c.inBatch(); err != nil || !in {
		return protocol.Vector{Index: []uint32{}}, err
	}
	c.fit(c.target)
	if name == Gramian {
		return c.gramian(), nil
	}
	return c.statistics(name == Gramians, nil), nil
}

// checkUserRidge, checkClips, checkItems and checkStart check settings that several solvers need.
func checkUserRidge(p *Params, e *problems) { e.within(keys.userRidge, p.UserRidge) }

func checkClips(p *Params, e *problems, ratings bool) {
	if p.Rounds == 0 {
		return
	}
	e.within(keys.clipUser, p.ClipUser)
	if ratings && p.Feedback == Explicit {
		e.within(keys.clipRating, p.ClipRating)
	}
}

func checkItems(p *Params, e *problems) {
	if p.Rounds > 0 && p.ItemRidge == 0 && p.ItemPrior == 0 {
		e.add("item-ridge and item-prior are 0; one must be positive, else an item that is hardly rated has no solution")
	}
}

func checkStart(p *Params, e *problems) {
	if p.Rounds == 0 {
		return
	}
	if !p.Encodes() {
		e.within(keys.startSpread, p.StartSpread)
	} else if err := p.Encoder.Validate(p.Rank); err != nil {
		*e = append(*e, err)
	}
}

func checkExplicit(p *Params, e *problems) {
	if p.Feedback == Implicit {
		e.add("solver %s is for explicit feedback", p.Solver)
	}
}

// askStatistics adds the releases of an alternating step: second-order statistics, whose rows have
// norm at most curvature·Γ_u², and first-order ones.
func (p *Params) askStatistics(to *Step, share float64, items string, curvature float64, name string) {
	second, first := share*p.Split.Gramian, share*(1-p.Split.Gramian)
	norm2 := p.ClipUser * p.ClipUser
	if p.Gramian == One || p.Feedback == Implicit {
		if p.Gramian == One {
			to.add(p.gramianRelease(), second)
		} else {
			to.add(p.gramianRelease(), second*commonShare)
			second *= 1 - commonShare
		}
	}
	if p.Gramian == PerItem {
		to.add(p.rows(items, p.packed(), curvature*norm2), second)
	}
	to.add(p.rows(name, p.Rank, p.itemsBound()), first)
}

// gramianRelease is Σ u uᵀ over all users: ‖svec(u uᵀ)‖ = ‖u‖² <= Γ_u².
func (p *Params) gramianRelease() protocol.Release {
	norm2 := p.ClipUser * p.ClipUser
	return protocol.Release{Name: Gramian, Len: p.packed(), L2: norm2, LInf: norm2, MaxNonZero: p.packed()}
}

func (p *Params) statisticsLength(name, second, first string) int {
	switch name {
	case Gramian:
		return p.packed()
	case second:
		return p.trained() * p.packed()
	case first:
		return p.trained() * p.Rank
	default:
		return 0
	}
}

// fit solves for the user, clips u, and bounds the additions of the user's ratings. It needs the
// weights.
//
// slope returns the bounded factor of u for the chosen rating k. x is the user's own part of the
// prediction.
func (c *contribution) fit(slope func(k int, x float64) float64) {
	if c.work != nil {
		return
	}
	p := c.params
	c.work = newWorkspace(p)
	c.work.gather(p, c.model, c.ratings)
	c.work.fit(p, c.model)
	clipUser(c.embedding(), p.ClipUser)
	c.slopes = make([]float64, len(c.chosen))
	u, d := c.embedding(), p.Rank
	for i, k := range c.chosen {
		x := c.work.offset[k] + c.work.own(k, d)
		c.slopes[i] = c.weights[i] * slope(k, x)
	}
	c.share = 1
	if p.NormItems > 0 {
		c.share = restrain(c.slopes, dense.Norm(c.slopes)*dense.Norm(u), p.itemsBound())
	}
}

// embedding is u as it enters the statistics.
func (c *contribution) embedding() []float64 { return c.work.beta[:c.params.Rank] }

// target is a rating less everything in its prediction except the user's own part, x.
func (c *contribution) target(k int, x float64) float64 {
	return dense.Clamp(c.work.value[k]-x, c.params.targetBound())
}

// gramian is svec(u uᵀ).
func (c *contribution) gramian() protocol.Vector {
	v := protocol.Vector{Value: make([]float64, c.params.packed())}
	dense.PackOuter(v.Value, c.embedding())
	for i := range v.Value {
		v.Value[i] *= c.share
	}
	return v
}

// statistics returns the user's addition to the rows of its items. Each row is a multiple of u or,
// for second order, of svec(u uᵀ) times the curvature of its rating; nil: 1.
func (c *contribution) statistics(second bool, curvature func(k int) float64) protocol.Vector {
	p, u := c.params, c.embedding()
	row := slices.Clone(u)
	if second {
		row = make([]float64, p.packed())
		dense.PackOuter(row, u)
	}
	v := protocol.Vector{Index: c.items(), Block: len(row), Factor: make([]float64, len(c.chosen)), Value: row}
	if !second {
		copy(v.Factor, c.slopes)
		return c.trainedOn(v)
	}
	for i, k := range c.chosen {
		v.Factor[i] = c.share * c.weights[i]
		if curvature != nil {
			v.Factor[i] *= curvature(k)
		}
	}
	return c.trainedOn(v)
}

// trainedOn keeps the rows of the items that statistics cover, by their places among those items,
// if weights chose them. Dropping coordinates never makes a vector longer.
func (c *contribution) trainedOn(v protocol.Vector) protocol.Vector {
	if c.model.chosen == nil || !c.model.chosen.late {
		return v
	}
	n := 0
	for i, j := range v.Index {
		if at, trainedOn := c.model.place(int(j)); trainedOn {
			v.Index[n], v.Factor[n] = uint32(at), v.Factor[i]
			n++
		}
	}
	v.Index, v.Factor = v.Index[:n], v.Factor[:n]
	return v
}
