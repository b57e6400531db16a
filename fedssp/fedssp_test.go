package fedssp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/lab/ssp/steps"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// serial is a runner of one worker.
type serial struct{}

func (serial) Each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// plain are settings of the simplest run, without bias, mean and counts.
func plain(items, rank int) kernel.Params {
	return kernel.Params{
		Items: items, Rank: rank, Min: 1, Max: 5, Feedback: kernel.Explicit, Seed: 1, Split: kernel.BudgetSplit{WeightCounts: 0.2, Gramian: 0.5},
		StatisticsParams: kernel.StatisticsParams{Gramian: kernel.PerItem, ClipUser: 1, ClipRating: 2, Rounds: 2, Resample: 1},
		WeighingParams:   kernel.WeighingParams{Budgeting: kernel.Weights}, UserParams: kernel.UserParams{UserRidge: 0.5},
		SolverParams: kernel.SolverParams{Solver: solver.ALS, ItemRidge: 0.1, StartSpread: 0.5},
	}
}

// full are settings in which everything is released.
func full(items, rank int) kernel.Params {
	p := plain(items, rank)
	p.Gramian, p.Bias, p.Exponent, p.CountCap, p.MeanCap = kernel.One, true, 0.25, 7, 5
	p.ClipBias, p.BiasRidge, p.UserBiasRidge, p.ItemPrior = 1.5, 2, 2, 1
	p.Split = kernel.BudgetSplit{Counts: 0.05, Mean: 0.05, Bias: 0.4, WeightCounts: 0.2, Gramian: 0.1}
	return p
}

// someFeatures are two categories of random features; every fifth item has none in the second.
func someFeatures(items int) *dataset.ItemFeatures {
	rng := rand.New(rand.NewPCG(3, 3))
	f := &dataset.ItemFeatures{Items: items, Digest: "d"}
	for c := range 2 {
		cat := dataset.Category{Name: fmt.Sprint("category", c), Values: []string{"a", "b", "c"}, Start: []int32{0}}
		for j := range items {
			if c == 0 || j%5 != 0 {
				cat.Value = append(cat.Value, int32(rng.IntN(3)))
				cat.Weight = append(cat.Weight, 0.5+float64(c))
			}
			cat.Start = append(cat.Start, int32(len(cat.Value)))
		}
		f.Categories = append(f.Categories, cat)
	}
	return f
}

// kinds are settings of every kind of run.
func kinds(items, rank int) map[string]kernel.Params {
	uniform := plain(items, rank)
	uniform.Budgeting, uniform.PerUser = kernel.UniformSample, 4
	tail := full(items, rank)
	tail.Budgeting, tail.PerUser, tail.Exponent = kernel.TailSample, 4, 0
	implicit := plain(items, rank)
	implicit.Feedback, implicit.Unobserved = kernel.Implicit, 0.1
	implicitOne := implicit
	implicitOne.Gramian = kernel.One
	cmf := full(items, rank)
	cmf.Solver, cmf.Features = solver.CMF, someFeatures(items)
	cmf.CMF = kernel.CMFParams{FeatureWeight: 0.5, Unobserved: 0.05, Sweeps: 2}
	perItem := full(items, rank)
	perItem.Gramian = kernel.PerItem
	encoded := full(items, rank)
	encoded.Solver, encoded.Features = solver.Encoded, someFeatures(items)
	encoded.Encoder = encoder.Settings{Dense: true, StartNorm: 1, Optimiser: encoder.Adam, Rate: 0.01, Steps: 12, Batch: items/2 + 1, Ridge: 1e-3}
	ids := encoded
	ids.Features, ids.Encoder.Dense, ids.Resample = nil, false, 4
	encodedConvex := encoded
	withLoss(&encodedConvex, steps.EncodedConvex, steps.Settings{Loss: steps.Logistic})
	encodedConvex.Gramian, encodedConvex.Resample = kernel.PerItem, 3
	pooled := full(items, rank)
	pooled.Solver, pooled.Features, pooled.Pool = solver.Pooled, someFeatures(items), kernel.PoolParams{Iterations: 3, Decay: 0.5}
	pooled.BiasRidge, pooled.ItemRidge, pooled.ItemPrior = 0, 0, 0
	global := full(items, rank)
	global.Normalise, global.Headroom, global.OfStages = kernel.GlobalNorm, 0.25, map[string]float64{"statistics.count-margin": 2}
	tasteful := pooled
	tasteful.UserFeatures = kernel.NewUserFeatures(tasteful.Features, 0.7)
	tastefulConvex := encodedConvex
	tastefulConvex.UserFeatures = tasteful.UserFeatures
	normed, normedPooled := perItem, tasteful
	normed.NormBias, normed.NormItems, normed.Growth = 0.7, 0.3, 1.5
	normedPooled.NormBias, normedPooled.NormItems, normedPooled.Growth = 0.7, 0.3, 1.5
	descent := plain(items, rank)
	descent.Solver, descent.Gramian, descent.ClipUser, descent.ClipRating, descent.Split.Gramian = steps.Gradient, "", 0, 0, 0
	descent.Resample, descent.ItemPrior, descent.Own = 3, 0.5, steps.Settings{Clip: 0.5, Radius: 2, Rate: 1}
	descentAfterAll := full(items, rank)
	descentAfterAll.Solver, descentAfterAll.Own, descentAfterAll.NormItems = steps.Gradient, descent.Own, 0.3
	descentAfterAll.Budgeting, descentAfterAll.PerUser, descentAfterAll.Exponent = kernel.TailSample, 4, 0
	byEncoder := tasteful
	byEncoder.Solver, byEncoder.Pool, byEncoder.Encoder, byEncoder.Resample = steps.EncoderGradient, kernel.PoolParams{}, encoded.Encoder, 3
	byEncoder.BiasRidge, byEncoder.Own = 2, steps.Settings{Clip: 0.4}
	byIDs := descent
	byIDs.Solver, byIDs.Encoder, byIDs.Resample, byIDs.Budgeting, byIDs.PerUser = steps.EncoderGradient, ids.Encoder, 2, kernel.UniformSample, 4
	joint := byEncoder
	joint.Solver, joint.Resample = steps.Joint, 1
	jointSample := joint
	jointSample.Bias, jointSample.UserFeatures, jointSample.Budgeting, jointSample.PerUser, jointSample.Exponent = false, nil, kernel.UniformSample, 4, 0
	refinedPooled, refinedConvex := normedPooled, tastefulConvex
	refinedPooled.BiasRounds, refinedPooled.Pool.Strength = 3, 50
	refinedConvex.BiasRounds = 2
	tilted := refinedPooled
	tilted.Popularity, tilted.Tilt = 0.2, 0.7
	popular := implicitOne
	popular.Rounds = 0
	weighed := tasteful
	weighed.Popularity = 0.2
	variational := weighed
	variational.Solver, variational.Gramian, variational.ClipUser, variational.UserRidge = solver.Variational, kernel.PerItem, 1, 0
	bounded := variational
	bounded.PerUser, bounded.NormItems = 4, 0.8
	out := map[string]kernel.Params{
		"gradients": descent, "gradients, after all stages": descentAfterAll, "gradients of an encoder": byEncoder, "gradients of ids": byIDs,
		"joint": joint, "joint, of samples": jointSample,
		"refined": refinedPooled, "tilted pooled": tilted, "refined, convex": refinedConvex, "popularity": popular,
		"popularity of users": weighed, "variational": variational, "variational, bounded": bounded,
		"norms, per item": normed, "norms, pooled": normedPooled,
		"weights of one scale": global,
		"pooled":               pooled, "pooled, with tastes": tasteful, "convex, with tastes": tastefulConvex,
		"encoder": encoded, "encoder of ids, resampled": ids, "encoder, convex, resampled": encodedConvex,
		"plain": plain(items, rank), "full": full(items, rank), "full per item": perItem, "uniform": uniform, "tail": tail,
		"implicit": implicit, "implicit one": implicitOne, "cmf": cmf,
	}
	for _, loss := range []steps.Loss{steps.Squared, steps.Huber, steps.Logistic} {
		for _, form := range []kernel.GramianForm{kernel.PerItem, kernel.One} {
			p := full(items, rank)
			withLoss(&p, steps.Convex, steps.Settings{Loss: loss, LossWidth: 0.7})
			p.Gramian = form
			out[fmt.Sprintf("convex %s %s", loss, form)] = p
		}
	}
	return out
}

// kindNames are the kinds in a fixed order.
func kindNames() []string {
	var names []string
	for name := range kinds(10, 2) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// complete sets scale, width and noise: variance v of every coordinate in the units of the
// contributions, none if it is 0.
func complete(t testing.TB, p kernel.Params, v float64) []kernel.Step {
	t.Helper()
	steps, err := stage.Steps(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		for i := range s.Releases {
			r := &s.Releases[i]
			if r.Scale, r.Width = 1, 64; v > 0 {
				r.Noise = protocol.Noise{Kind: protocol.Split, Variance: v}
			}
		}
	}
	return steps
}

func newStrategy(t testing.TB, p kernel.Params, clients int, variance float64) *serving.Strategy {
	t.Helper()
	s, err := New(serving.StrategyParams{Params: p, Session: protocol.SessionID{7}, Cohort: protocol.Cohort{Clients: clients, Tolerance: 0.5}, Steps: complete(t, p, variance)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start is where settings start.
func start(p kernel.Params) *kernel.Model {
	m, err := p.Start()
	if err != nil {
		panic(err)
	}
	return m
}

// spread is a vector with every coordinate.
func spread(v protocol.Vector, n int) []float64 {
	if v.Index == nil {
		return v.Value
	}
	out, block := make([]float64, n), max(v.Block, 1)
	for i, k := range v.Index {
		row := out[int(k)*block : (int(k)+1)*block]
		if v.Factor == nil {
			copy(row, v.Value[i*block:])
			continue
		}
		for a := range row {
			row[a] = v.Factor[i] * v.Value[a]
		}
	}
	return out
}

// contribute has a user answer a plan.
func contribute(t testing.TB, u *user.User, plan *protocol.Plan, party int) []protocol.Vector {
	t.Helper()
	v, err := u.Contribute(plan, simulated.New(5, fmt.Sprint("client/", party)), serial{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// round sums what users contribute to the next plan, of all but those it is told to lose, and has the
// strategy absorb it. It reports false when the strategy is done.
func round(t testing.TB, s *serving.Strategy, users []*user.User, lost func(i int) bool) bool {
	t.Helper()
	plan, done, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	if done {
		return false
	}
	sums := protocol.Sums{Values: make([][]float64, len(plan.Releases))}
	for i, r := range plan.Releases {
		sums.Values[i] = make([]float64, r.Len)
	}
	for i, u := range users {
		vectors := contribute(t, u, plan, i)
		if lost != nil && lost(i) {
			continue
		}
		sums.Survivors++
		for k, v := range vectors {
			for c, x := range spread(v, plan.Releases[k].Len) {
				sums.Values[k][c] += x
			}
		}
	}
	if err := s.Absorb(plan, sums, serial{}); err != nil {
		t.Fatal(err)
	}
	return true
}

// train runs a whole schedule.
func train(t testing.TB, s *serving.Strategy, users []*user.User) {
	t.Helper()
	for round(t, s, users, nil) {
	}
}

// people are users with random ratings of the items, each rated with the given chance.
func people(p *kernel.Params, n int, chance float64, seed uint64) ([]*user.User, []model.Ratings) {
	rng := rand.New(rand.NewPCG(seed, 1))
	users, rows := make([]*user.User, n), make([]model.Ratings, n)
	for i := range users {
		for j := range p.Items {
			if rng.Float64() < chance {
				rows[i].Items = append(rows[i].Items, int32(j))
				rows[i].Values = append(rows[i].Values, float32(1+rng.IntN(5)))
			}
		}
		users[i] = NewUser(p, rows[i])
	}
	return users, rows
}

// Every problem is reported at once.
func TestValidate(t *testing.T) {
	for name, p := range kinds(10, 2) {
		if err := stage.Validate(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		change func(p *kernel.Params)
		want   string
	}{
		{func(p *kernel.Params) { p.Items, p.Rank = 1<<24, 100 }, "lower the rank"},
		{func(p *kernel.Params) { p.Min = 5 }, "the rating scale is 5 to 5"},
		{func(p *kernel.Params) { p.Max = inf }, "the rating scale"},
		{func(p *kernel.Params) { p.Feedback, p.Solver = kernel.Implicit, steps.Convex }, "solver convex is for explicit"},
		{func(p *kernel.Params) { p.Rounds, p.Bias = 0, false }, "nothing would be learned"},
		{func(p *kernel.Params) { p.Rounds = 100_001 }, "100001 rounds of 1 sums are too many; there are at most 100000"},
		{func(p *kernel.Params) { *p = kinds(10, 2)["encoder"]; p.Rounds, p.Resample = 8334, 12 }, "8334 rounds of 12 sums are too many"},
		{func(p *kernel.Params) { *p = kinds(10, 2)["encoder"]; p.Rounds, p.Resample = math.MaxInt, 12 }, "of 12 sums are too many"},
	} {
		p := full(10, 2)
		c.change(&p)
		if err := stage.Validate(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
		if _, err := stage.Steps(p); err == nil {
			t.Errorf("%q: Steps accepts the settings", c.want)
		}
	}
	p := full(10, 2)
	p.Min, p.TopItems = 5, 10
	if err := stage.Validate(p); err == nil || !strings.Contains(err.Error(), "rating scale") || !strings.Contains(err.Error(), "of 10 items") {
		t.Errorf("not every problem is reported: %v", err)
	}
}

func descends(p *kernel.Params) bool { return p.Solver.Traits().FirstOrder }
func byUser(p *kernel.Params) bool   { return p.Solver.Traits().ByUser }

// withLoss sets a solver of a convex loss.
func withLoss(p *kernel.Params, x kernel.Solver, own steps.Settings) {
	p.Solver, p.Own, p.Logits = x, own, own.Loss == steps.Logistic
}

// clip sets the largest norm of a gradient.
func clip(p *kernel.Params, norm float64) {
	own := steps.Of(p)
	own.Clip = norm
	p.Own = own
}

// openedModel is a model as its clients read it.
func openedModel(t testing.TB, p *kernel.Params, m *kernel.Model) *kernel.Model {
	t.Helper()
	b, err := kernel.OpenBroadcast(m.Encode(), p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fit fits a user to a model.
func fit(t testing.TB, p *kernel.Params, m *kernel.Model, r model.Ratings) (u []float64, bias float64) {
	t.Helper()
	return user.Fit(openedModel(t, p, m), r)
}
