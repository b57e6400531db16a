package external

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// predictor predicts by a model and users' ratings. After a failure all predictions are NaN.
type predictor struct {
	*instance
	model    *sent
	last     bool // lists of all items follow, which use the same predictions
	expected atomic.Pointer[expectation]
	failure  atomic.Pointer[error] // the first
}

// expectation holds what a predictor will be asked.
type expectation struct{ items func(user int) []int32 }

func (x *instance) predictor(m *model.Matrix) *predictor {
	return &predictor{instance: x, model: &sent{matrix: m}}
}

// Expect has the program send predictions of these items only, except at the end of a run.
func (p *predictor) Expect(items func(user int) []int32) {
	if !p.last {
		p.expected.Store(&expectation{items})
	}
}

// Predict writes the predictions of some items.
func (p *predictor) Predict(user int, items []int32, out []float64) {
	if err := p.predictInto(user, items, out); err != nil {
		p.failure.CompareAndSwap(nil, &err)
		for i := range items {
			out[i] = math.NaN()
		}
	}
}

func (p *predictor) predictInto(user int, items []int32, out []float64) error {
	if e := p.expected.Load(); e != nil && slices.Equal(items, e.items(user)) {
		some, err := p.chosen.one(job{model: p.model, expected: e}, user, p.setup.Data.Users, func(from, to int) ([][]float64, error) {
			wanted := make([][]int32, 0, to-from)
			for u := from; u < to; u++ {
				wanted = append(wanted, e.items(u))
			}
			return p.predictOf(p.ratingsOf(from, to), wanted, p.model)
		})
		copy(out, some)
		return err
	}
	all, err := p.predicted.one(job{model: p.model}, user, p.setup.Data.Users, func(from, to int) ([][]float64, error) {
		return p.predict(p.ratingsOf(from, to), p.model)
	})
	if err != nil {
		return err
	}
	for i, j := range items {
		out[i] = all[j]
	}
	return nil
}

func (x *instance) ratingsOf(from, to int) []model.Ratings {
	users := make([]model.Ratings, 0, to-from)
	for u := from; u < to; u++ {
		users = append(users, x.setup.Row(u))
	}
	return users
}

// Err returns the first failure.
func (p *predictor) Err() error {
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return nil
}

type clients struct{ *instance }

func (c clients) Trainers() []algorithm.Trainer {
	list := make([]algorithm.Trainer, c.setup.Data.Users)
	for u := range list {
		list[u] = &trainer{instance: c.instance, user: u}
	}
	return list
}

func (c clients) Interim(shared []byte, _ protocol.Runner) (model.Predictor, error) {
	m, err := c.decode(shared)
	return &predictor{instance: c.instance, model: m, last: c.absorbed.Load()}, err
}

func (c clients) Final(shared []byte, _ protocol.Runner) (*model.Trained, error) {
	m, err := c.decode(shared)
	if err != nil {
		return nil, err
	}
	t := &model.Trained{Predictor: &predictor{instance: c.instance, model: m, last: true}, Matrices: []model.Named{{Name: c.matrix(), Matrix: m.matrix}}}
	if !c.byItem() {
		t.Rows = map[string][]string{c.matrix(): c.rows()}
	}
	return t, nil
}

// trainer is one user's side: of a user of a simulation, by its number, or of a party with its own ratings.
type trainer struct {
	*instance
	user      int // -1 of a party
	ratings   model.Ratings
	predicted []float64
	counts    counts // of a party
}

func (t *trainer) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	m, err := t.decode(p.Broadcast)
	if err != nil {
		return nil, err
	}
	if t.user < 0 {
		return t.contribute([]model.Ratings{t.ratings}, -1, m, p.Round, &t.counts)
	}
	v, err := t.contributed.one(job{model: m, round: p.Round}, t.user, t.setup.Data.Users, func(from, to int) ([]protocol.Vector, error) {
		return t.contribute(t.ratingsOf(from, to), from, m, p.Round, &t.instance.counts)
	})
	return []protocol.Vector{v}, err
}

func (t *trainer) Finish(shared []byte, _ protocol.Runner) error {
	m, err := t.decode(shared)
	if err != nil || t.user >= 0 {
		return err
	}
	all, err := t.predict([]model.Ratings{t.ratings}, m)
	if err != nil {
		return err
	}
	t.predicted = all[0]
	return nil
}

const stateDomain = "fedsim/algorithm/external/v1\n"

type strategy struct {
	*instance
	*modelserver.Server
	shared *modelserver.Matrix
}

func (t *strategy) Absorb(p *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	what := fmt.Sprintf("absorb of round %d", p.Round)
	now := &sent{matrix: t.shared.Matrix}
	sum := array{name: "sum", shape: []int{len(sums.Values[0])}, float: sums.Values[0]}
	reply, err := t.server.ask(what, message{Type: "absorb", Round: p.Round, Survivors: sums.Survivors, arrays: []array{sum, now.array()}}, 8*int64(len(t.shared.Matrix.Data())))
	if err != nil {
		return fmt.Errorf("%w; absorb runs in a program of its own, which has seen no ratings", err)
	}
	m, err := matrix(reply)
	if err == nil && (m.Rows() != t.shared.Matrix.Rows() || m.Cols() != t.shared.Matrix.Cols()) {
		err = fmt.Errorf("it returned a model of %d x %d; %d x %d is needed, as at the start", m.Rows(), m.Cols(), t.shared.Matrix.Rows(), t.shared.Matrix.Cols())
	}
	if err != nil {
		return fmt.Errorf("external: %s: %w", what, err)
	}
	t.shared.Matrix = m
	t.absorbed.Store(p.Round >= uint64(t.setup.Schedule.Rounds()))
	return nil
}
