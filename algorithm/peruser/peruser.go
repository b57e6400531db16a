// Package peruser makes an algorithm of a few functions, where every client is a user: see
// [Algorithm].
package peruser

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/internal/purity"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Algorithm describes an algorithm by a few functions: every client is a user, the shared model is
// a matrix, and every round sums one vector a user. Everything else
// is done for it: calibrated noise, fixed point and ring, dropouts, ledgers, the statement,
// forecast, baselines and deployment.
//
// The functions must be pure: the same arguments give the same result, and nothing is kept
// between calls. ε rests on it. A simulation computes the vectors of a few users of each round twice, and a
// vector that differs ends the run. Functions get a setup without ratings, as in a deployment, and a copy of one user's ratings.
type Algorithm struct {
	// Name is in lower case, as the key algorithm has it. Help says in a line what the algorithm does.
	// Paper names the source; "" for an algorithm without one.
	Name, Help, Paper string
	// Keys are settings that the program declared (package config), besides rounds, rank and the keys of every run.
	Keys []*config.Key
	// Rounds and Rank replace auto; both are at least 1.
	Rounds, Rank int

	// Release describes what a user sends in a round: name, length and the bounds that hold by
	// construction, L2 and MaxNonZero at least. Scale, ring and noise are filled in. A
	// vector that exceeds the bounds is not sent; [Clip] brings a vector within them.
	Release func(*algorithm.Setup) protocol.Release
	// Rows names the rows of the shared model. nil: there is a row for each item. With Rows the model can
	// have any shape, such as one row of weights.
	Rows func(*algorithm.Setup) []string
	// Start makes the shared model before the first round.
	Start func(*algorithm.Setup) *model.Matrix
	// Contribute computes a user's vector from the user's training ratings, within the bounds of the
	// release. Randomness comes from src alone. Rounds count from 1. A user without ratings is not asked about: such a
	// user sends zeros.
	Contribute func(s *algorithm.Setup, m *model.Matrix, r model.Ratings, src entropy.Source, round uint64) (protocol.Vector, error)
	// Absorb moves the model in place by the noisy sum over survivors, the users whose vectors are in it.
	Absorb func(s *algorithm.Setup, m *model.Matrix, sum []float64, survivors int, round uint64)
	// Predict writes to out what a user with these training ratings is expected to give to every item,
	// in stars.
	Predict func(s *algorithm.Setup, m *model.Matrix, r model.Ratings, out []float64)
}

// New makes the algorithm, to be run by its value ([algorithm.Use]). It returns an error if a function, a
// round or the rank is missing.
func New(p Algorithm) (algorithm.Algorithm, error) {
	if p.Release == nil || p.Start == nil || p.Contribute == nil || p.Absorb == nil || p.Predict == nil || p.Rounds < 1 || p.Rank < 1 {
		return nil, fmt.Errorf("algorithm: %q: every function but Rows, and at least one round and rank 1, are needed", p.Name)
	}
	name := "model"
	if p.Rows == nil {
		name, p.Rows = itemMatrix, func(s *algorithm.Setup) []string { return s.Data.ItemIDs }
	}
	return &registered{p, name, algorithm.About{
		Name: p.Name, Help: p.Help, Paper: p.Paper, Clients: algorithm.Users, Noise: algorithm.DistributedNoise, Private: true,
		Units: []dp.Unit{dp.User}, OtherUnit: "a user's vector depends on all its ratings: privacy is stated per user", Relation: dp.ZeroOut,
		Keys:   append(append(algorithm.Federated(), algorithm.Rounds.Key, algorithm.Rank.Key, algorithm.NoiseDraw.Key), p.Keys...),
		Rounds: algorithm.Always(float64(p.Rounds)),
		Rank:   algorithm.Always(float64(p.Rank)),
	}}, nil
}

// Register makes the algorithm known by its name. It returns an error for an algorithm that [New] or
// [algorithm.Register] refuses.
func (p Algorithm) Register() error {
	a, err := New(p)
	if err != nil {
		return err
	}
	return algorithm.Register(a)
}

// MustRegister is Register for a package's init: it panics with the error.
func (p Algorithm) MustRegister() {
	if err := p.Register(); err != nil {
		panic(err)
	}
}

// itemMatrix is the model's name if it has a row for each item.
const itemMatrix = "item_embeddings"

type registered struct {
	Algorithm
	matrix string // the name of the model's file
	about  algorithm.About
}

func (a *registered) About() *algorithm.About { return &a.about }

// public returns a setup without ratings: no party of a deployment has all, and ε covers only what a user's vector says of them.
func public(s *algorithm.Setup) *algorithm.Setup {
	open, set := *s, *s.Data
	set.Ratings, set.Tested, set.Digest = dataset.Ratings{Users: set.Users, Items: set.Items}, nil, ""
	open.Data, open.Train, open.Ratings, open.Held = &set, nil, dataset.Ratings{}, nil
	return &open
}

// copied returns ratings that a function may change.
func copied(r model.Ratings) model.Ratings {
	return model.Ratings{Items: slices.Clone(r.Items), Values: slices.Clone(r.Values)}
}

func (a *registered) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	open := public(s)
	start := a.Start(open)
	if rows := a.Rows(open); start.Rows() != len(rows) {
		return nil, config.Errorf("%s: its model has %d rows; there must be one for each of %d items or names of Rows", a.about.Name, start.Rows(), len(rows))
	}
	r := a.Release(open)
	r.Scale, r.Width = algorithm.Scale(r), 8 // the ring is fitted later
	if err := r.Validate(); err != nil {
		return nil, config.Errorf("%s: %w", a.about.Name, err)
	}
	s.Schedule = algorithm.UniformSchedule(algorithm.Rounds.Int(s.Config), r, model.EncodedSize(start.Dims()))
	err := s.CalibrateSplit(nil)
	return &instance{a, s, public(s), start}, err
}

func (a *registered) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	s, train := public(&algorithm.Setup{Config: c, Data: set}), &algorithm.Setup{Train: files.Train()}
	m, err := files.Matrix(a.matrix, len(a.Rows(s)), a.Start(s).Cols())
	if err != nil {
		return nil, err
	}
	items := m
	if a.matrix != itemMatrix {
		items = model.NewMatrix(set.Items, 0) // no embedding: no item is like another
	}
	popular := make([]float64, set.Items)
	a.Predict(s, m, model.Ratings{}, popular)
	return &algorithm.Saved{
		Items: items, Popularity: algorithm.PopularityOf(popular),
		Score: func(user int, out []float64) { a.Predict(s, m, copied(train.Row(user)), out) },
	}, nil
}

type instance struct {
	*registered
	setup *algorithm.Setup
	open  *algorithm.Setup // without ratings, for the functions
	start *model.Matrix
}

// Program makes a run of another executable, which holds the functions, another run.
func (*instance) Program() string { return version.Executable() }

func (x *instance) decode(shared []byte) (*model.Matrix, error) {
	b, err := model.NewBroadcast(shared, x.start.Rows(), x.start.Cols())
	if err != nil {
		return nil, err
	}
	return b.Matrix(), nil
}

func (x *instance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	m := &modelserver.Matrix{Matrix: x.start.Clone()}
	return &strategy{x, &modelserver.Server{Schedule: x.setup.Schedule, Cohort: x.setup.Cohort, Session: session, Name: x.about.Name, Domain: stateDomain, Shared: m}, m}, nil
}

func (x *instance) ClientSide() (algorithm.ClientSide, error) { return clients{x}, nil }

func (x *instance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	user, err := l.UserOf(x.about.Name, which)
	if err != nil {
		return nil, err
	}
	t := &trainer{instance: x, user: -1, ratings: l.Row(user)}
	return &algorithm.Party{Ratings: len(t.ratings.Items), Trainer: t, Result: func() []model.Embeddings {
		predicted := model.NewMatrix(1, x.setup.Data.Items)
		x.Predict(x.open, t.final, copied(t.ratings), predicted.Row(0))
		return []model.Embeddings{model.NewEmbeddings("predicted", predicted, l.IDs(user, which))}
	}}, nil
}

func (x *instance) Shared(shared []byte) ([]model.Embeddings, error) {
	m, err := x.decode(shared)
	if err != nil {
		return nil, err
	}
	return []model.Embeddings{model.NewEmbeddings(x.matrix, m, x.Rows(x.open))}, nil
}

func (x *instance) Baselines() []algorithm.Baseline {
	return []algorithm.Baseline{
		{Name: "before_cooperation", Note: "this start, without any round", Predict: func(protocol.Runner) (model.Predictor, error) {
			return predictor{x, x.start}, nil
		}},
		algorithm.NonPrivate(x.setup, "", nil),
	}
}

type predictor struct {
	*instance
	items *model.Matrix
}

func (m predictor) Predict(user int, items []int32, out []float64) {
	all := make([]float64, m.setup.Data.Items)
	m.instance.Predict(m.open, m.items, copied(m.setup.Row(user)), all)
	for i, j := range items {
		out[i] = all[j]
	}
}

type clients struct{ *instance }

func (c clients) Trainers() []algorithm.Trainer {
	return algorithm.Trainers(c.setup.Data.Users, func(u int) algorithm.Trainer { return &trainer{instance: c.instance, user: u, ratings: c.setup.Row(u)} })
}

func (c clients) Interim(shared []byte, _ protocol.Runner) (model.Predictor, error) {
	m, err := c.decode(shared)
	return predictor{c.instance, m}, err
}

func (c clients) Final(shared []byte, _ protocol.Runner) (*model.Trained, error) {
	m, err := c.decode(shared)
	if err != nil {
		return nil, err
	}
	rows := map[string][]string{c.matrix: c.Rows(c.open)}
	return &model.Trained{Predictor: predictor{c.instance, m}, Matrices: []model.Named{{Name: c.matrix, Matrix: m}}, Rows: rows}, nil
}

// trainer is one user's side: of a user of a simulation, by its number, or of a party with its own ratings.
type trainer struct {
	*instance
	user    int // -1 of a party
	ratings model.Ratings
	final   *model.Matrix
}

func (t *trainer) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	m, err := t.decode(p.Broadcast)
	if err != nil {
		return nil, err
	}
	compute := func(users []model.Ratings) ([]protocol.Vector, error) {
		v, err := t.registered.Contribute(t.open, m, copied(users[0]), src, p.Round)
		return []protocol.Vector{v}, err
	}
	var check purity.Check
	if t.user >= 0 && t.setup.Private() { // the streams of a simulation repeat
		check = purity.Check{Again: compute, Name: t.about.Name, Release: *t.setup.Schedule.First(), Round: p.Round, First: t.user, Users: p.Cohort.Clients}
	}
	return purity.Vectors([]model.Ratings{t.ratings}, compute, check)
}

func (t *trainer) Finish(shared []byte, _ protocol.Runner) (err error) {
	t.final, err = t.decode(shared)
	return err
}

const stateDomain = "fedsim/algorithm/peruser/v2\n"

type strategy struct {
	*instance
	*modelserver.Server
	shared *modelserver.Matrix
}

func (t *strategy) Absorb(p *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	t.registered.Absorb(t.open, t.shared.Matrix, sums.Values[0], sums.Survivors, p.Round)
	if i := dense.NotFinite(t.shared.Data()); i >= 0 {
		return fmt.Errorf("%s: coordinate %d of the model became %v in round %d", t.about.Name, i, t.shared.Data()[i], p.Round)
	}
	return nil
}

// Clip brings a vector within all bounds of the release, each vector on its own. At most r.MaxNonZero
// coordinates stay: the largest, and of equal ones the first. No coordinate exceeds r.LInf in magnitude, and the
// L1 and L2 norms are at most r.L1 and r.L2. A bound of 0 on coordinates or on the L1 norm sets no limit.
//
// A coordinate that is not a number becomes 0. An infinite coordinate counts as the largest float. A vector
// within the bounds keeps its values. v itself does not change. The result lists its coordinates.
func Clip(v protocol.Vector, r protocol.Release) protocol.Vector {
	out := numbersOf(v)
	limit := math.MaxFloat64
	if r.LInf > 0 {
		limit = r.LInf
	}
	for i, x := range out.Value {
		out.Value[i] = min(max(x, -limit), limit)
	}
	keepLargest(&out, r.MaxNonZero)
	largest := 0.
	for _, x := range out.Value {
		largest = max(largest, math.Abs(x))
	}
	if largest == 0 {
		return out
	}
	var l1, l2 float64 // of the vector divided by its largest coordinate: no square overflows
	for _, x := range out.Value {
		a := math.Abs(x) / largest
		l1 += a
		l2 += a * a
	}
	shrink := min(1, r.L2/largest/math.Sqrt(l2))
	if r.L1 > 0 {
		shrink = min(shrink, r.L1/largest/l1)
	}
	if shrink < 1 {
		for i := range out.Value {
			out.Value[i] *= shrink
		}
	}
	return out
}

// numbersOf returns the coordinates that are neither 0 nor NaN, in memory of their own.
func numbersOf(v protocol.Vector) protocol.Vector {
	out := protocol.Vector{Index: make([]uint32, 0, len(v.Value)), Value: make([]float64, 0, len(v.Value))}
	if v.Index == nil || v.Block > 1 || v.Factor != nil {
		v.Each(func(j int, x float64) {
			if x != 0 && !math.IsNaN(x) {
				out.Index, out.Value = append(out.Index, uint32(j)), append(out.Value, x)
			}
		})
		return out
	}
	for i, j := range v.Index { // half of the time of Each
		if x := v.Value[i]; x != 0 && !math.IsNaN(x) {
			out.Index, out.Value = append(out.Index, j), append(out.Value, x)
		}
	}
	return out
}

// keepLargest leaves the n coordinates of largest magnitude, in their order.
func keepLargest(v *protocol.Vector, n int) {
	if len(v.Index) <= n {
		return
	}
	order := model.Indices(len(v.Index))
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(math.Abs(v.Value[b]), math.Abs(v.Value[a])) })
	order = order[:n]
	slices.Sort(order)
	kept := protocol.Vector{Index: make([]uint32, n), Value: make([]float64, n)}
	for k, i := range order {
		kept.Index[k], kept.Value[k] = v.Index[i], v.Value[i]
	}
	*v = kept
}
