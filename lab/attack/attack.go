// Package attack measures what attackers learn from simulated runs at each ε. They guess which users were trained on,
// what a user likes, or which items a client rated. They see the released model, the sums, or the updates of single
// clients. Package audit tests whether the stated ε holds; package attack measures how much protection that ε gives.
package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/secagg"
)

// Kind names the secret that an attacker guesses.
type Kind string

// The kinds of attack.
const (
	// MembershipUser tells whether all ratings of a user were trained on.
	MembershipUser Kind = "membership-user"
	// MembershipRating tells whether one rating of a user was.
	MembershipRating Kind = "membership-rating"
	// AttributeGenre tells which genre a user likes best.
	AttributeGenre Kind = "attribute"
	// Reconstruction tells which items a client rated, and how.
	Reconstruction Kind = "reconstruction"
	// Promote has lying clients bring an item into the lists of others.
	Promote Kind = "promote"
	// Degrade has lying clients make the model worse.
	Degrade Kind = "degrade"
)

// Config is an attack on the releases of simulated runs.
type Config struct {
	Kind     Kind
	Epsilons []Epsilon // each is attacked by itself
	// Shadows are runs of which the attacker knows whom they had, and learns. As many, whose
	// coins it does not know, measure it. Of [AttributeGenre] it learns nothing from them, and all measure;
	// [Reconstruction] takes a run or two of its own.
	Shadows int
	// Targets is the number of attacked users, ratings or clients, and of [Promote] and [Degrade] the number of runs,
	// each with an item, liars and noise of its own; 0: the default of the kind.
	Targets int
	// Liars are the shares of the clients that lie, of [Promote] and [Degrade].
	Liars []float64
	// Control leaves all targets out of all runs, whatever their coins: the attacks of membership have
	// nothing to find then, and an attack that finds something is wrong.
	Control bool
	// Progress, if set, is told how many of the runs of all budgets are made.
	Progress func(done, total int)
}

// DefaultShadows are enough for a normal law of each target in both worlds.
const DefaultShadows = 32

// fewestShadows and fewestTargets: with fewer there is nothing to fit, and no interval.
const (
	fewestShadows = 8
	fewestTargets = 2
)

// membership reports whether the attack is one of membership.
func (k Kind) membership() bool { return k == MembershipUser || k == MembershipRating }

// target names the thing that an attack of membership looks for: a user, or a rating.
func (k Kind) target() string { return strings.TrimPrefix(string(k), "membership-") }

// lies reports whether the attacker is among the clients.
func (k Kind) lies() bool { return k == Promote || k == Degrade }

// Validate reports everything that makes the attack unusable.
func (c Config) Validate() error {
	var errs problems.List
	if kinds := Kinds(); !slices.Contains(kinds, c.Kind) {
		errs.Add("attack is %q; it must be one of %v", c.Kind, kinds)
	}
	errs.If(len(c.Epsilons) == 0, "no epsilon is given; there must be at least one")
	for i, e := range c.Epsilons {
		errs.If(!(e > 0), "epsilon is %v; it must be above 0, or inf", e)
		errs.If(slices.Contains(c.Epsilons[:i], e), "epsilon %v is there twice", e)
	}
	errs.If(c.Shadows < fewestShadows || c.Shadows%2 != 0, "shadows is %d; it must be even, and at least %d", c.Shadows, fewestShadows)
	if c.Targets != 0 && c.Targets < fewestTargets {
		name := "targets"
		if c.Kind.lies() {
			name = "runs"
		}
		errs.Add("%s is %d; there must be at least %d", name, c.Targets, fewestTargets)
	}
	for _, share := range c.Liars {
		errs.If(!(share > 0 && share <= mostLiars), "liars is %v; it must be above 0, and at most %v", share, mostLiars)
	}
	errs.If((len(c.Liars) > 0) != c.Kind.lies(),
		"liars is %v; %s and %s take at least one share, and other attacks none", c.Liars, Promote, Degrade)
	errs.If(c.Control && !c.Kind.membership(), "control is for attacks of membership; %s has no coins to find", c.Kind)
	return errors.Join(errs...)
}

// Epsilon is a budget; in JSON a number or "inf".
type Epsilon float64

// String is the number, or inf.
func (e Epsilon) String() string { return config.Fixed(float64(e)).String() }

// MarshalJSON writes an infinite ε as "inf", which JSON numbers cannot express.
func (e Epsilon) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(e), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(e))
}

// UnmarshalJSON reads a number or "inf".
func (e *Epsilon) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` {
		*e = Epsilon(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(e))
}

// target is an attacked user, or one attacked rating of a user.
type target struct {
	user   int
	item   int32 // of a rating; -1: all of the user's
	active bool  // the user is among the users with the most ratings
}

// attacker makes the runs of one budget.
type attacker struct {
	cfg     Config
	config  config.Config // of the runs, except the seed
	seed    uint64
	full    *experiment.Experiment // with all targets
	bare    *experiment.Experiment // without any target; nil unless membership is attacked
	targets []target
	tables  *noise.Tables // that all runs share
	made    func()        // a run is made
}

// Run attacks an experiment at each budget, on the data that its settings name. It returns
// a [config.Error] if the experiment cannot be attacked.
func Run(ctx context.Context, said []config.Setting, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := methods()[slices.Index(Kinds(), c.Kind)]
	c.Targets = cmp.Or(c.Targets, m.targets)
	var set *dataset.Set
	var r *Report
	done, total := 0, 0
	var lock sync.Mutex
	for _, e := range c.Epsilons {
		total += c.runs(e)
	}
	made := func() {
		lock.Lock()
		defer lock.Unlock()
		if done++; c.Progress != nil {
			c.Progress(done, total)
		}
	}
	for _, e := range c.Epsilons {
		a, err := newAttacker(ctx, said, c, e, set)
		if err != nil {
			return nil, err
		}
		a.made, set = made, a.full.Data
		if r == nil {
			r = a.report(said)
		}
		at := At{Epsilon: e, Limit: a.limit(e)}
		if a.full.Private() {
			at.Delta = a.full.Privacy.Budget.Delta
		}
		if err = m.measure(a, ctx, &at); err != nil {
			return nil, err
		}
		r.Budgets = append(r.Budgets, at)
	}
	return r, nil
}

// samplers limits the noise samplers kept for a budget: enough for all releases of all rounds of most schedules.
const samplers = 64

// newAttacker opens the experiment at a budget, and draws the targets. set is the data, if
// they are read.
func newAttacker(ctx context.Context, said []config.Setting, c Config, e Epsilon, set *dataset.Set) (*attacker, error) {
	// By default every client is in every round, so that the attacker sees each target in each round.
	said, _ = config.Over([]config.Setting{{Key: algorithm.Dropout.Name, Value: "0", Origin: "the attack"}}, said)
	said, _ = config.Over(said, []config.Setting{{Key: algorithm.Epsilon.Name, Value: e.String(), Origin: "--epsilon"}})
	cfg, err := config.Resolve(said)
	if err != nil {
		return nil, err
	}
	algorithm.NoiseDraw.Set(&cfg, "sum")
	if algorithm.Secagg.Is(cfg, "real") { // which changes no sum
		algorithm.Secagg.Set(&cfg, "ideal")
		algorithm.Mode.Set(&cfg, secagg.SemiHonest.String())
		algorithm.VerifyInputs.Set(&cfg, "no")
	}
	algorithm.SplitSeed.Set(&cfg, algorithm.SplitSeedOf(cfg))
	if set == nil {
		if set, err = experiment.OpenData(ctx, cfg, algorithm.Data.Of(cfg), nil); err != nil {
			return nil, err
		}
	}
	a := &attacker{cfg: c, config: cfg, seed: algorithm.Seed.Of(cfg), tables: &noise.Tables{Keep: samplers}}
	if a.full, err = experiment.OpenSet(cfg, set); err != nil {
		return nil, err
	}
	about := a.full.About()
	if c.Kind.lies() {
		if !about.Federated() {
			return nil, config.Errorf("%s has all ratings in one place, and no client that lies; take a federated algorithm, ssp-c say", about.Name)
		}
		return a, nil
	}
	if about.Clients != algorithm.Users || about.Noise != algorithm.DistributedNoise {
		return nil, config.Errorf("%s has no clients that are users and whose vectors are summed, and the attack needs what these release; take an algorithm with such clients, ssp-c or lfl-sgdmf say", about.Name)
	}
	if a.targets, err = a.draw(); err != nil {
		return nil, err
	}
	if c.Kind.membership() {
		a.bare, err = experiment.OpenSet(cfg, a.without(func(int) bool { return true }))
	}
	return a, err
}

// draw takes half of the targets from those with the most ratings, whom a model has to follow most,
// and half at random from the others, all of them with ratings enough.
func (a *attacker) draw() ([]target, error) {
	const enough = 4 // to know half of them and have some left
	count := func(u int) int {
		items, _ := a.full.Train.Row(u)
		return len(items)
	}
	var users []int
	for u := range a.full.Data.Users {
		if count(u) >= enough {
			users = append(users, u)
		}
	}
	n := a.cfg.Targets
	if most := len(users) / 2; n > most {
		return nil, config.Errorf("targets is %d; of %d users with at least %d ratings in the training part, at most half can be", n, len(users), enough)
	}
	slices.SortStableFunc(users, func(u, v int) int { return cmp.Compare(count(v), count(u)) })
	random := entropy.Public(a.seed, "audit/attack/targets")
	rest := users[n/2:]
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	list := make([]target, n)
	for i, u := range users[:n] {
		list[i] = target{user: u, item: -1, active: i < n/2}
		if a.cfg.Kind == MembershipRating {
			items, _ := a.full.Train.Row(u)
			list[i].item = items[random.IntN(len(items))]
		}
	}
	return list, nil
}

// without is the data without the targets that out says.
func (a *attacker) without(out func(target int) bool) *dataset.Set {
	gone := make(map[int]int32)
	for i, t := range a.targets {
		if out(i) {
			gone[t.user] = t.item
		}
	}
	return a.full.Data.Where(func(user, item int32) bool {
		which, is := gone[int(user)]
		return !is || which >= 0 && which != item
	})
}

// coins say of each run which targets are in it: half of the runs from the first on that learn, and half of
// those behind them that measure.
func (a *attacker) coins(runs int, parts int) [][]bool {
	in := make([][]bool, runs)
	for r := range in {
		in[r] = make([]bool, len(a.targets))
	}
	random := entropy.Public(a.seed, "audit/attack/coins")
	size := runs / parts
	for t := range a.targets {
		for p := range parts {
			for k, r := range random.Perm(size) {
				in[p*size+r][t] = k < size/2
			}
		}
	}
	return in
}

// each makes runs on all workers, and stops at the first error.
func (a *attacker) each(ctx context.Context, runs int, f func(run int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.full.Workers().Each(runs, func(r int) {
		if ctx.Err() != nil {
			return
		}
		if err := f(r); err != nil {
			cancel(err)
			return
		}
		a.made()
	})
	return context.Cause(ctx)
}

// open is the experiment of one run: it differs in whom it has, and in all that is drawn but the split.
func (a *attacker) open(run int, set *dataset.Set) (*experiment.Experiment, *experiment.Federation, error) {
	c := a.config
	algorithm.Seed.Set(&c, entropy.Public(a.seed, fmt.Sprintf("audit/attack/run/%d", run)).Uint64()>>1)
	e, err := experiment.OpenSet(c, set)
	if err != nil {
		return nil, nil, err
	}
	f, err := e.Federation()
	return e, f, err
}

// limit returns the most that any attack of this kind can find at ε. It returns nil if the guarantee sets no such limit.
func (a *attacker) limit(e Epsilon) *Limit {
	if !a.cfg.Kind.membership() || !a.full.Private() {
		return nil
	}
	epsilon, delta := float64(e), a.full.Privacy.Budget.Delta
	switch unit := algorithm.UnitOf(a.full.Config); {
	case unit == dp.Rating && a.cfg.Kind == MembershipUser:
		return nil // a user is as many units as ratings
	case unit == dp.User && a.cfg.Kind == MembershipRating:
		// The user without the rating is another user: two steps over the empty one.
		epsilon, delta = 2*epsilon, delta*(1+math.Exp(epsilon))
	}
	return newLimit(epsilon, min(1, delta))
}

// method holds everything that a kind of attack brings besides its texts, which are in report.tmpl.
type method struct {
	kind    Kind
	targets int // the default number
	words   int // columns of its table before the numbers
	measure func(*attacker, context.Context, *At) error
	figures func(list []*Report, budgets []Epsilon) []page.Drawn
}

// methods returns the methods of all kinds, in the order of pages.
func methods() []method {
	return []method{
		{MembershipUser, 40, 2, (*attacker).membership, membershipFigures},
		{MembershipRating, 40, 2, (*attacker).membership, membershipFigures},
		{AttributeGenre, 100, 1, (*attacker).attribute, attributeFigure},
		{Reconstruction, 100, 2, (*attacker).reconstruct, figureOfEach(rebuiltFigure)},
		{Promote, 5, 4, (*attacker).lie, figureOfEach(liesFigure)},
		{Degrade, 5, 4, (*attacker).lie, figureOfEach(liesFigure)},
	}
}

// runs is the number of runs that are simulated for a budget.
func (c Config) runs(e Epsilon) int {
	switch {
	case c.Kind.membership():
		return 2 * c.Shadows
	case c.Kind == AttributeGenre:
		return c.Shadows
	case c.Kind.lies(): // counts of liars that fall together are seen only with the data
		return c.Targets
	case math.IsInf(float64(e), 1):
		return 1
	}
	return 2
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return lists.Map(methods(), func(m method) Kind { return m.kind })
}

// ridge is a linear fit to standardised features, with an offset.
type ridge struct {
	mean, deviation []float64
	weights         *mat.Dense // features x outputs
	offset          []float64
}

// penalty of squared weights, in rows of deviation 1.
const penalty = 10

// fitRidge fits rows of outputs to rows of features by least squares with a penalty.
func fitRidge(x, y [][]float64) *ridge {
	n, d, outputs := len(x), len(x[0]), len(y[0])
	r := &ridge{mean: make([]float64, d), deviation: make([]float64, d), offset: make([]float64, outputs)}
	for i := range x {
		floats.AddScaled(r.mean, 1/float64(n), x[i])
		floats.AddScaled(r.offset, 1/float64(n), y[i])
	}
	for i := range x {
		for k, v := range x[i] {
			r.deviation[k] += (v - r.mean[k]) * (v - r.mean[k]) / float64(n)
		}
	}
	for k, v := range r.deviation {
		r.deviation[k] = math.Sqrt(v)
	}
	gram, cross := mat.NewSymDense(d, nil), mat.NewDense(d, outputs, nil)
	for i := range x {
		z := mat.NewVecDense(d, r.standard(x[i]))
		gram.SymRankOne(gram, 1, z)
		cross.RankOne(cross, 1, z, mat.NewVecDense(outputs, floats.SubTo(make([]float64, outputs), y[i], r.offset)))
	}
	for k := range d {
		gram.SetSym(k, k, gram.At(k, k)+penalty)
	}
	var c mat.Cholesky
	c.Factorize(gram) // positive definite by the penalty
	r.weights = mat.NewDense(d, outputs, nil)
	if err := c.SolveTo(r.weights, cross); err != nil {
		r.weights.Zero() // too ill conditioned to say anything
	}
	return r
}

// standard is a row in deviations from the mean; 0 of what never varies.
func (r *ridge) standard(x []float64) []float64 {
	z := make([]float64, len(x))
	for k, v := range x {
		if r.deviation[k] > 0 {
			z[k] = (v - r.mean[k]) / r.deviation[k]
		}
	}
	return z
}

// predict is the outputs for a row.
func (r *ridge) predict(x []float64) []float64 {
	out := append([]float64(nil), r.offset...)
	for a, z := range r.standard(x) {
		for b := range out {
			out[b] += z * r.weights.At(a, b)
		}
	}
	return out
}
