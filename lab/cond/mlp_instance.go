package cond

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// mlpInstance trains embeddings of fields under a perceptron, with all examples in one place.
type mlpInstance struct {
	algorithm.OnePlace
	setup       *algorithm.Setup
	o           MLPOptions
	conditioned bool
	middle      float64
	train       *Categorical // training examples, labels less the middle
	all         *Categorical // for a regression all examples, labels zero, to predict; nil with ratings
	calibrated  calibration
}

// openMLP sets up the options, the noise and the statement.
func openMLP(s *algorithm.Setup, f *family) (algorithm.Instance, error) {
	p := s.Data.Profile
	if p != nil && len(p.Fields)+len(p.Private) == 0 {
		return nil, config.Errorf("%s: %s learns from categories, which a table has (columns label=NAME) and synthetic:fields, or from ratings; this has none", s.Data.Name, f.about.Name)
	}
	x := &mlpInstance{setup: s, conditioned: f.conditioned, middle: (s.Data.Min + s.Data.Max) / 2}
	if p == nil {
		x.takeRatings()
	} else {
		x.take(p)
	}
	if x.conditioned && len(x.train.Public) == 0 {
		return nil, config.Errorf("%s: all features are private, and none are left to condition by; take mlp-dp-sgd", s.Data.Name)
	}
	if len(x.train.Y) == 0 {
		return nil, config.Errorf("%s: the training part has no labels", s.Data.Name)
	}
	x.options(f)
	if x.o.SamplingRate < 0x1p-32 {
		return nil, config.Errorf("%s: %v of %d examples is below the least sampling rate, 2^-32; raise it", batch.Name, batch.Value(s.Config), len(x.train.Y))
	}
	var err error
	if x.calibrated, err = x.o.calibrate(x.train.relation()); err != nil {
		return nil, config.Wrap(err)
	}
	if !s.Private() {
		return x, nil
	}
	st := x.calibrated.statement
	s.Privacy.Proved = dp.Result{Epsilon: st.Epsilon, Accountant: st.Accountant}
	s.Privacy.Law, s.Privacy.Relation, s.Privacy.Sampling = st.Noise, st.Relation, st.Sampling
	return x, nil
}

// take finds the training examples.
func (x *mlpInstance) take(p *dataset.Profile) {
	x.all = &Categorical{Public: p.Fields, Private: p.Private, Y: make([]float64, x.setup.Data.Users)}
	x.train = &Categorical{}
	var rows []int32
	for u := range x.setup.Data.Users {
		for _, v := range x.setup.Row(u).Values {
			rows = append(rows, int32(u))
			x.train.Y = append(x.train.Y, float64(v)-x.middle)
		}
	}
	pick := func(fields []dataset.Field) []dataset.Field {
		out := slices.Clone(fields)
		for k, f := range fields {
			out[k].Values = model.At(f.Values, rows)
		}
		return out
	}
	x.train.Public, x.train.Private = pick(p.Fields), pick(p.Private)
}

// takeRatings makes an example of each rating, with the fields user and item: which pairs are rated is public.
func (x *mlpInstance) takeRatings() {
	x.train = ratingFields(x.setup.Data.Users, x.setup.Data.Items)
	user, item := &x.train.Public[0], &x.train.Public[1]
	for u := range x.setup.Data.Users {
		row := x.setup.Row(u)
		for k, j := range row.Items {
			user.Values, item.Values = append(user.Values, int32(u)), append(item.Values, j)
			x.train.Y = append(x.train.Y, float64(row.Values[k])-x.middle)
		}
	}
}

// ratingFields returns the fields of ratings, without examples.
func ratingFields(users, items int) *Categorical {
	return &Categorical{Public: []dataset.Field{{Name: "user", Size: users}, {Name: "item", Size: items}}}
}

func (x *mlpInstance) options(f *family) {
	c := x.setup.Config
	x.o = MLPOptions{
		Width: algorithm.Rank.Int(c), Steps: algorithm.Rounds.Int(c), Hidden: hiddenOf(hidden.Of(c)), Spread: 0.01, // the paper's
		SamplingRate: min(1, batch.Value(c)/float64(max(1, len(x.train.Y)))), Rate: rate.Value(c), Clip: clip.Value(c), Seed: algorithm.Seed.Of(c),
		Budget: dp.Budget{Epsilon: algorithm.Epsilon.Value(c), Delta: algorithm.Delta.Value(c), Accountant: dp.Accountant(algorithm.Accountant.Of(c))},
	}
	if f.switches {
		x.o.Switch = min(max(1, int(math.Round(switchAt.Value(c)*float64(x.o.Steps)))), x.o.Steps-1)
	}
	if f.conditioned {
		x.o.C = FieldConditioning(x.train, floor.Value(c))
	}
}

// mlpPasses is the number of measurements during a run.
const mlpPasses = 20

// Epochs returns the number of passes, about twenty; a pass contains so many steps.
func (x *mlpInstance) Epochs() int { return min(x.o.Steps, mlpPasses) }

// until returns the step at which a pass ends.
func (x *mlpInstance) until(pass int) int { return x.o.Steps * pass / x.Epochs() }

func (x *mlpInstance) Train(ctx context.Context, run protocol.Runner, from algorithm.Passes, src entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	o := x.o
	o.Run = run
	r, err := newMLPRun(x.train, o, x.calibrated, src)
	if err != nil {
		return nil, err
	}
	if from.Done > 0 {
		if err = r.restore(from.State, x.until(from.Done)); err != nil {
			return nil, err
		}
	}
	var last *model.Trained
	for pass := from.Done + 1; pass <= x.Epochs(); pass++ {
		for r.done < x.until(pass) {
			if err = errors.Join(ctx.Err(), r.next()); err != nil {
				return nil, err
			}
		}
		last = x.trained(r.model(), run)
		if err = passed(algorithm.Epoch{Number: pass, Model: last.Predictor, Save: r.save}); err != nil {
			return nil, err
		}
	}
	if last == nil {
		last = x.trained(r.model(), run)
	}
	return last, nil
}

// trained returns a model's predictions and matrices.
func (x *mlpInstance) trained(m *MLP, run protocol.Runner) *model.Trained {
	out := &model.Trained{Matrices: m.matrices()}
	if x.all == nil {
		out.Predictor = newPairs(m, x.middle)
		return out
	}
	p := m.Predict(x.all, run)
	floats.AddConst(x.middle, p)
	out.Predictor = byUser(p)
	return out
}

// byUser holds predictions of one item.
type byUser []float64

func (p byUser) Predict(user int, items []int32, out []float64) {
	for k := range items {
		out[k] = p[user]
	}
}

// pairs predicts ratings.
type pairs struct {
	m      *MLP
	middle float64
	free   sync.Pool // of batches
}

func newPairs(m *MLP, middle float64) *pairs {
	p := &pairs{m: m, middle: middle}
	p.free.New = func() any { return newMLPBatch(m) }
	return p
}

func (p *pairs) Predict(user int, items []int32, out []float64) {
	b := p.free.Get().(*mlpBatch)
	defer p.free.Put(b)
	n := len(items)
	users := slices.Repeat([]int32{p.m.slots[0][user]}, n)
	b.forward([][]int32{users, model.At(p.m.slots[1], items)}, model.Indices(n), nil, protocol.Workers(1))
	for k, v := range b.out {
		out[k] = v + p.middle
	}
}

// matrices returns the parameters by layer, as files of a run. Embeddings cover all values of all
// fields, with zeros for values in no example.
func (m *MLP) matrices() (out []model.Named) {
	var embeddings []float64
	for k, slots := range m.slots {
		for _, at := range slots {
			if at < 0 {
				embeddings = append(embeddings, make([]float64, m.width)...)
			} else {
				embeddings = append(embeddings, m.row(m.theta, k, int(at))...)
			}
		}
	}
	out = append(out, model.Named{Name: embeddingsName, Matrix: model.Wrap(len(embeddings)/m.width, m.width, embeddings)})
	for _, p := range m.parts() {
		out = append(out, model.Named{Name: p.name, Matrix: model.Wrap(p.rows, p.cols, m.theta[p.from:p.from+p.rows*p.cols])})
	}
	return out
}

// part is a matrix of parameters.
type part struct {
	name             string
	rows, cols, from int
}

const embeddingsName = "embeddings"

// parts returns all parameters except the embeddings.
func (s *mlpShape) parts() []part {
	h1, h2 := s.hidden[0], s.hidden[1]
	return []part{
		{"layer1", h1, s.fields * s.width, 0}, {"layer1_bias", h1, 1, s.b1},
		{"layer2", h2, h1, s.w2}, {"layer2_bias", h2, 1, s.b2},
		{"layer3", 1, h2, s.w3}, {"layer3_bias", 1, 1, s.w3 + h2},
	}
}

// loadMLP reads the model of a run on ratings.
func loadMLP(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	x := ratingFields(set.Users, set.Items)
	m := newMLP(x, MLPOptions{Width: algorithm.Rank.Int(c), Hidden: hiddenOf(hidden.Of(c)), whole: true})
	for _, p := range append(m.parts(), part{embeddingsName, set.Users + set.Items, m.width, m.tables[0]}) {
		read, err := files.Matrix(p.name, p.rows, p.cols)
		if err != nil {
			return nil, err
		}
		copy(m.theta[p.from:], read.Data())
	}
	f := newPairs(m, (set.Min+set.Max)/2)
	first, all := m.tables[1], model.Indices(set.Items)
	return &algorithm.Saved{
		Items: model.Wrap(set.Items, m.width, m.theta[first:first+set.Items*m.width]),
		Score: func(user int, out []float64) { f.Predict(user, all, out) },
	}, nil
}

// save returns the state that a run needs to continue: the step, 1 while conditioning is on, and θ, the average and Adam's moments.
func (r *mlpRun) save() []byte {
	b := binary.BigEndian.AppendUint64([]byte(mlpStateDomain), uint64(r.done))
	b = binary.BigEndian.AppendUint64(b, uint64(r.age))
	return model.AppendFloats(b, slices.Concat(r.m.theta, r.average, r.first, r.second)...)
}

const mlpStateDomain = "fedsim/fedcond/mlp/v1\n"

// restore continues from a state of save.
func (r *mlpRun) restore(state []byte, done int) error {
	n, head := r.m.len(), len(mlpStateDomain)+16
	if len(state) != head+8*4*n || string(state[:len(mlpStateDomain)]) != mlpStateDomain {
		return fmt.Errorf("cond: a state of %d bytes; %d and the beginning %q are right: it is of another model", len(state), head+8*4*n, mlpStateDomain)
	}
	if at := binary.BigEndian.Uint64(state[len(mlpStateDomain):]); at != uint64(done) {
		return fmt.Errorf("cond: the state is of step %d; the run's is %d", at, done)
	}
	if r.o.Switch > 0 && done > r.o.Switch {
		r.scale = nil
	}
	r.done, r.age = done, int(binary.BigEndian.Uint64(state[head-8:]))
	numbers := model.Floats(state[head:])
	for k, to := range [][]float64{r.m.theta, r.average, r.first, r.second} {
		copy(to, numbers[k*n:(k+1)*n])
	}
	return nil
}

func (x *mlpInstance) Baselines() []algorithm.Baseline { return nonPrivate(x.setup, rate) }
