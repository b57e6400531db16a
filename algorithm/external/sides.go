package external

import (
	"fmt"
	"math"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/internal/matrixserver"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// predictor predicts by a model and users' ratings. After a failure all predictions are NaN.
type predictor struct {
	*instance
	model *sent
	mu    sync.Mutex
	err   error
}

func (x *instance) predictor(m *model.Matrix) *predictor {
	return &predictor{instance: x, model: &sent{matrix: m}}
}

// Predict writes the predictions of some items.
func (p *predictor) Predict(user int, items []int32, out []float64) {
	all, err := p.predicted.one(job{model: p.model}, user, p.setup.Data.Users, func(from, to int) ([][]float64, error) {
		users := make([]model.Ratings, 0, to-from)
		for u := from; u < to; u++ {
			users = append(users, p.setup.Row(u))
		}
		return p.predict(users, p.model)
	})
	if err != nil {
		p.fail(err)
	}
	for i, j := range items {
		if out[i] = math.NaN(); err == nil {
			out[i] = all[j]
		}
	}
}

func (p *predictor) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// Err returns the first failure.
func (p *predictor) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// clients are the clients of a simulation.
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
	return &predictor{instance: c.instance, model: m}, err
}

func (c clients) Final(shared []byte, _ protocol.Runner) (*model.Trained, error) {
	m, err := c.decode(shared)
	if err != nil {
		return nil, err
	}
	t := &model.Trained{Predictor: &predictor{instance: c.instance, model: m}, Matrices: []model.Named{{Name: c.matrix(), Matrix: m.matrix}}}
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
		return t.contribute([]model.Ratings{t.ratings}, m, p.Round, &t.counts)
	}
	v, err := t.contributed.one(job{m, p.Round}, t.user, t.setup.Data.Users, func(from, to int) ([]protocol.Vector, error) {
		users := make([]model.Ratings, 0, to-from)
		for u := from; u < to; u++ {
			users = append(users, t.setup.Row(u))
		}
		return t.contribute(users, m, p.Round, &t.instance.counts)
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

// stateDomain begins a saved state.
const stateDomain = "fedsim/algorithm/external/v1\n"

// strategy is the server's side.
type strategy struct {
	*instance
	*matrixserver.Server
}

func (t *strategy) Absorb(p *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	what := fmt.Sprintf("absorb of round %d", p.Round)
	now := &sent{matrix: t.Matrix}
	sum := array{name: "sum", shape: []int{len(sums.Values[0])}, float: sums.Values[0]}
	reply, err := t.program.ask(what, message{Type: "absorb", Round: p.Round, Survivors: sums.Survivors, arrays: []array{sum, now.array()}}, 8*int64(len(t.Matrix.Data())))
	if err != nil {
		return err
	}
	m, err := matrix(reply)
	if err == nil && (m.Rows() != t.Matrix.Rows() || m.Cols() != t.Matrix.Cols()) {
		err = fmt.Errorf("it returned a model of %d x %d; %d x %d is needed, as at the start", m.Rows(), m.Cols(), t.Matrix.Rows(), t.Matrix.Cols())
	}
	if err != nil {
		return fmt.Errorf("external: %s: %w", what, err)
	}
	t.Matrix = m
	return nil
}
