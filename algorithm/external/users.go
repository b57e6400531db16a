package external

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/internal/purity"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// arraysOf returns users' ratings as the program gets them: where each user begins, items, ratings.
// Ratings are on the scale of the data, and shift is where the scale of fedsim begins.
func arraysOf(users []model.Ratings, shift float64) []array {
	n := 0
	for _, r := range users {
		n += len(r.Items)
	}
	start, items, ratings := make([]int64, 1, len(users)+1), make([]int64, 0, n), make([]float64, 0, n)
	for _, r := range users {
		for k, j := range r.Items {
			items = append(items, int64(j))
			ratings = append(ratings, float64(r.Values[k])-shift)
		}
		start = append(start, int64(len(items)))
	}
	return []array{
		{name: "start", shape: []int{len(start)}, whole: start},
		{name: "item", shape: []int{len(items)}, whole: items},
		{name: "rating", shape: []int{len(ratings)}, float: ratings},
	}
}

// contribute asks for the vectors of users and brings each within the bounds of the release. first is the number of the
// first user of a simulation, which has a few users asked again; -1 of a party. count counts the vectors.
func (x *instance) contribute(users []model.Ratings, first int, m *sent, round uint64, count *counts) ([]protocol.Vector, error) {
	ask := func(role seat, count *counts) purity.Compute {
		return func(users []model.Ratings) ([]protocol.Vector, error) { return x.ask(role, users, m, round, count) }
	}
	check := purity.Check{Name: name, Release: x.release(round), Round: round, First: first, Users: x.setup.Data.Users}
	if first >= 0 && x.setup.Private() {
		check.Again = ask(x.witness, new(counts))
	}
	list, err := purity.Vectors(users, ask(x.clients, count), check)
	if err == nil {
		count.vectors.Add(int64(len(users)))
	}
	return list, err
}

// ask returns the vectors as they are sent, within the bounds: a huge coordinate that is clipped hides no difference of the others.
func (x *instance) ask(p seat, users []model.Ratings, m *sent, round uint64, count *counts) ([]protocol.Vector, error) {
	what := fmt.Sprintf("contribute of round %d, for %d users", round, len(users))
	request := message{Type: "contribute", Round: round, arrays: append(arraysOf(users, x.setup.Data.Shift), m.array())}
	release := x.release(round)
	reply, err := p.ask(what, request, 12*int64(len(users))*int64(release.Len)+8)
	if err != nil {
		return nil, err
	}
	list, err := vectors(reply, len(users), release.Len)
	if err != nil {
		return nil, fmt.Errorf("external: %s: %w", what, err)
	}
	const rounding = 1e-9
	for u, v := range list {
		list[u] = peruser.Clip(v, release)
		if len(users[u].Items) > 0 && l1(v) > l1(list[u])*(1+rounding) {
			count.clipped.Add(1)
		}
	}
	return list, nil
}

// vectors reads the vectors of n users, of length coordinates each.
func vectors(reply message, n, length int) ([]protocol.Vector, error) {
	list := make([]protocol.Vector, n)
	if dense, ok := reply.named("vectors"); ok {
		if len(dense.shape) != 2 || dense.shape[0] != n || dense.shape[1] != length || dense.float == nil {
			return nil, fmt.Errorf("it returned an array of shape %v; (%d, %d) is needed, a row of floats for each user", dense.shape, n, length)
		}
		for u := range list {
			list[u] = protocol.Vector{Value: dense.float[u*length : (u+1)*length]}
		}
	} else if err := sparse(reply, list, length); err != nil {
		return nil, err
	}
	for u, v := range list {
		if k := dense.NotFinite(v.Value); k >= 0 {
			y := v.Value[k]
			if v.Index != nil {
				k = int(v.Index[k])
			}
			return nil, fmt.Errorf("coordinate %d of row %d is %v; all must be finite", k, u, y)
		}
	}
	return list, nil
}

// sparse reads vectors of which only the coordinates other than zero are listed.
func sparse(reply message, list []protocol.Vector, length int) error {
	start, a := reply.named("start")
	index, b := reply.named("index")
	value, c := reply.named("value")
	n, first := len(list), start.whole
	if !a || !b || !c || len(first) != n+1 || len(index.whole) != len(value.float) || first[0] != 0 || first[n] != int64(len(value.float)) {
		return fmt.Errorf("%w: neither vectors nor start, index and value of %d rows", errProtocol, n)
	}
	all := make([]uint32, len(value.float))
	for u := range list {
		from, to := first[u], first[u+1]
		if from > to || to > int64(len(all)) {
			return fmt.Errorf("%w: row %d begins at %d and ends at %d", errProtocol, u, from, to)
		}
		list[u] = protocol.Vector{Index: all[from:to:to], Value: value.float[from:to]}
		last := int64(-1)
		for k, j := range index.whole[from:to] {
			if j <= last || j >= int64(length) {
				return fmt.Errorf("%w: row %d has the coordinate %d after %d; they must ascend, below %d", errProtocol, u, j, last, length)
			}
			list[u].Index[k], last = uint32(j), j
		}
	}
	return nil
}

// l1 returns a vector's L1 norm, which clipping to any bound makes smaller.
func l1(v protocol.Vector) (norm float64) {
	for _, y := range v.Value {
		norm += math.Abs(y)
	}
	return norm
}

// predict asks for users' ratings of some items, a list for each user; nil: of all items. A program may answer with all items in any case.
// The row of a user is the user's part of the result.
func (x *instance) predict(by seat, users []model.Ratings, wanted [][]int32, m *sent) ([][]float64, error) {
	what := fmt.Sprintf("predict for %d users", len(users))
	items := x.setup.Data.Items
	request := message{Type: "predict", arrays: append(arraysOf(users, x.setup.Data.Shift), m.array())}
	if wanted != nil {
		request.arrays = append(request.arrays, wantedArrays(wanted)...)
	}
	reply, err := by.ask(what, request, 8*int64(len(users))*int64(items))
	if err != nil {
		return nil, err
	}
	got, _ := reply.named("predicted")
	pairs := 0
	for _, list := range wanted {
		pairs += len(list)
	}
	some := wanted != nil && len(got.shape) == 1 && got.shape[0] == pairs
	if all := len(got.shape) == 2 && got.shape[0] == len(users) && got.shape[1] == items; !all && !some || got.float == nil {
		return nil, fmt.Errorf("external: %s: it returned an array of shape %v; (%d, %d) floats are needed, a row for each user and a column for each item", what, got.shape, len(users), items)
	}
	list := make([][]float64, len(users))
	for u, rest := 0, got.float; u < len(users); u++ {
		switch {
		case some:
			list[u], rest = rest[:len(wanted[u])], rest[len(wanted[u]):]
		case wanted != nil:
			list[u] = model.At(got.float[u*items:(u+1)*items], wanted[u])
		default:
			list[u] = got.float[u*items : (u+1)*items]
		}
		for k, y := range list[u] {
			if math.IsNaN(y) || math.IsInf(y, 0) {
				if wanted != nil {
					k = int(wanted[u][k])
				}
				return nil, fmt.Errorf("external: %s: the prediction of row %d and item %d is %v; all must be finite", what, u, k, y)
			}
			list[u][k] += x.setup.Data.Shift
		}
	}
	return list, nil
}

// wantedArrays returns the items of which predictions are wanted, as the program gets them.
func wantedArrays(wanted [][]int32) []array {
	start, items := make([]int64, 1, len(wanted)+1), []int64{}
	for _, list := range wanted {
		items = append(items, lists.Map(list, func(j int32) int64 { return int64(j) })...)
		start = append(start, int64(len(items)))
	}
	return []array{{name: "want_start", shape: []int{len(start)}, whole: start}, {name: "want_item", shape: []int{len(items)}, whole: items}}
}

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
			return p.predictPurely(from, to, wanted)
		})
		copy(out, some)
		return err
	}
	whole := func(from, to int) ([][]float64, error) { return p.predictPurely(from, to, nil) }
	all, err := p.predicted.one(job{model: p.model}, user, p.setup.Data.Users, whole)
	if err != nil {
		return err
	}
	for i, j := range items {
		out[i] = all[j]
	}
	return nil
}

// predictPurely is predict of some users in a row. In a run with noise one of them is asked again alone, and must get the same.
func (p *predictor) predictPurely(from, to int, wanted [][]int32) ([][]float64, error) {
	const rounding = 1e-3 // as a share of the scale: other shapes of arrays round otherwise
	list, err := p.predict(p.clients, p.ratingsOf(from, to), wanted, p.model)
	if err != nil || to-from < 2 || !p.setup.Private() {
		return list, err
	}
	k := max(0, slices.IndexFunc(list, func(y []float64) bool { return len(y) > 0 }))
	again, err := p.predict(p.witness, p.ratingsOf(from+k, from+k+1), wanted[min(k, len(wanted)):min(k+1, len(wanted))], p.model)
	if err != nil {
		return nil, err
	}
	for j, y := range again[0] {
		if apart := math.Abs(y - list[k][j]); apart > rounding*max(p.setup.Data.Max-p.setup.Data.Min, math.Abs(y)) {
			return nil, fmt.Errorf("external: a user's predictions changed by %.2g when the user was asked again alone. So they depend on other users' ratings or on chance, "+
				"and what is measured is not covered by epsilon. Predict must be pure: use a user's ratings and the model alone", apart)
		}
	}
	return list, nil
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
	return algorithm.Trainers(c.setup.Data.Users, func(u int) algorithm.Trainer { return &trainer{instance: c.instance, user: u} })
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
	p, rows := &predictor{instance: c.instance, model: m, last: true}, map[string][]string{c.matrix(): c.rows()}
	return &model.Trained{Predictor: p, Matrices: []model.Named{{Name: c.matrix(), Matrix: m.matrix}}, Rows: rows}, nil
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
	all, err := t.predict(t.clients, []model.Ratings{t.ratings}, nil, m)
	if err != nil {
		return err
	}
	t.predicted = all[0]
	return nil
}

const stateDomain = "fedsim/algorithm/external/v2\n"

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
