package fedssp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
)

// Matrices of a record. Sums are for each user, and a precision is the inverse variance of the noise.
//
//	sums-of-items  for each item: weight and its precision; the sum for its bias about the middle of the scale, its precision, and
//	               the scatter of both; moments (d), their precision, weight and scatter; second-order statistics of its own
//	               (packed), if there are any
//	sum-of-mean    the sum of ratings' places on the scale, their number, and the precision of both
//	mean-gramian   the Gramian of an average user, d x d, if there is one
const (
	sumsOfItems = "sums-of-items"
	sumOfMean   = "sum-of-mean"
	meanGramian = "mean-gramian"
)

// columns of sums-of-items.
type recordColumns struct{ weight, bias, scatter, moments, precision, gain, spread, items, all int }

func columnsOf(p *kernel.Params) recordColumns {
	d := p.Rank
	c := recordColumns{weight: 0, bias: 2, scatter: 4, moments: 5, precision: 5 + d, gain: 6 + d, spread: 7 + d, items: 8 + d, all: 8 + d}
	if p.Gramian == kernel.PerItem {
		c.all += p.Packed()
	}
	return c
}

// checkStart refuses settings with which sums of another session cannot be combined.
func (x *instance) checkStart() error {
	s := x.setup
	if s.Start == nil {
		return nil
	}
	p := &x.params
	refuse := func(format string, args ...any) error {
		return config.Errorf("start-from: "+format, args...)
	}
	if _, ok := p.Solver.(interface {
		Begin(*kernel.Params) serving.Solving
	}).Begin(p).(serving.Resumer); !ok {
		return refuse("the solver %s combines no sums of different sessions; say statistics.posteriors no, encoder.optimiser exact and statistics.resample 1", p.Solver)
	}
	if p.TopItems > 0 {
		return refuse("this session trains on %d of %d items, and sums of sessions with different choices do not combine; say statistics.top-items 0", p.TopItems, p.Items)
	}
	for _, past := range s.Start.Sessions {
		if s.Private() && past.Epsilon == nil && past.Search == nil { // it released exact sums
			return refuse("a session before %s had no noise, and its exact sums would count alone; start from a private session, or say --epsilon inf", s.Start.From)
		}
	}
	if !s.Start.Known() {
		return nil
	}
	have, ok := s.Start.Matrix(sumsOfItems)
	if want := columnsOf(p).all; ok && have.Matrix.Cols() != want {
		return refuse("%s has %d numbers for each item, and this session has %d; say the statistics.gramian of that session", s.Start.From, have.Matrix.Cols(), want)
	}
	_, known, err := s.Start.Rows(sumsOfItems, s.Data.ItemIDs, columnsOf(p).all)
	if err != nil {
		return refuse("%w", err)
	}
	if !slices.Contains(known, true) {
		return refuse("%s knows none of these %d items; start from another folder", s.Start.From, len(known))
	}
	return nil
}

// startFrom gives a strategy the sums of earlier sessions, with a row of precision 0 for an item that they did not have.
func (x *instance) startFrom(s *serving.Strategy) error {
	p, from := &x.params, x.setup.Start
	col := columnsOf(p)
	rows, _, err := from.Rows(sumsOfItems, x.setup.Data.ItemIDs, col.all)
	if err != nil {
		return err
	}
	m := rows.Rows()
	column := func(at, width, precision int) *serving.Sum {
		out, any := &serving.Sum{Value: make([]float64, 0, m*width), Precision: make([]float64, m)}, false
		for j := range m {
			row := rows.Row(j)
			out.Value = append(out.Value, row[at:at+width]...)
			out.Precision[j] = row[precision]
			any = any || row[precision] > 0
		}
		if !any {
			return nil
		}
		return out
	}
	r := &serving.Record{Weight: column(col.weight, 1, col.weight+1), Bias: column(col.bias, 1, col.bias+1), Moments: column(col.moments, p.Rank, col.precision)}
	single := func(at int) (out []float64) {
		for j := range m {
			out = append(out, rows.Row(j)[at])
		}
		return out
	}
	r.BiasScatter, r.Gain, r.Scatter = single(col.scatter), single(col.gain), single(col.spread)
	if col.all > col.items && r.Moments != nil {
		r.Items = column(col.items, p.Packed(), col.precision).Value
	}
	if mean, ok := from.Matrix(sumOfMean); ok && mean.Matrix.Cols() == 3 {
		row := mean.Matrix.Row(0)
		r.Mean = &serving.Sum{Value: row[:2], Precision: row[2:]}
	}
	if g, ok := from.Matrix(meanGramian); ok && g.Matrix.Cols() == p.Rank*p.Rank {
		r.Gramian = slices.Clone(g.Matrix.Row(0))
	} else if p.Gramian == kernel.One {
		r.Moments = nil // they say nothing without it
	}
	return s.StartFrom(r, settings.Keys.StartDecay.Value(x.setup.Config))
}

// Record returns the session's sums, combined with the sums of earlier sessions. Rows of items that are gone stay, and age.
func (x *instance) Record(s algorithm.Strategy, _ *model.Trained) ([]model.Embeddings, error) {
	strategy, ok := s.(*serving.Strategy)
	if !ok {
		return nil, fmt.Errorf("fedssp: a strategy of type %T", s)
	}
	p := &x.params
	if _, ok := strategy.Solving.(serving.Resumer); !ok || p.TopItems > 0 {
		return nil, nil
	}
	r, col := strategy.Together(), columnsOf(p)
	rows := model.NewMatrix(p.Items, col.all)
	put := func(sum *serving.Sum, at, precision int) {
		if sum == nil {
			return
		}
		width := len(sum.Value) / len(sum.Precision)
		for j := range p.Items {
			copy(rows.Row(j)[at:], sum.Value[j*width:(j+1)*width])
			rows.Row(j)[precision] = sum.Precision[j]
		}
	}
	put(r.Weight, col.weight, col.weight+1)
	put(r.Bias, col.bias, col.bias+1)
	put(r.Moments, col.moments, col.precision)
	for j := range p.Items {
		for at, x := range map[int][]float64{col.scatter: r.BiasScatter, col.gain: r.Gain, col.spread: r.Scatter} {
			if x != nil {
				rows.Row(j)[at] = x[j]
			}
		}
		if r.Items != nil {
			copy(rows.Row(j)[col.items:], r.Items[j*p.Packed():(j+1)*p.Packed()])
		}
	}
	decay := settings.Keys.StartDecay.Value(x.setup.Config)
	list := []model.Embeddings{x.setup.Start.Kept(model.NewEmbeddings(sumsOfItems, rows, x.setup.Data.ItemIDs), func(row []float64) {
		for _, at := range []int{col.weight + 1, col.bias + 1, col.precision} {
			row[at] *= decay
		}
	})}
	if r.Mean != nil {
		list = append(list, model.NewEmbeddings(sumOfMean, model.Wrap(1, 3, append(slices.Clone(r.Mean.Value), r.Mean.Precision[0])), []string{"mean"}))
	}
	if len(r.Gramian) > 0 {
		list = append(list, model.NewEmbeddings(meanGramian, model.Wrap(1, len(r.Gramian), slices.Clone(r.Gramian)), []string{"users"}))
	}
	return list, nil
}

// NewUser returns the trainer of a user with the given ratings, which it keeps and does not change.
// A user may have none. Items must ascend and be within the settings, and values be on the scale.
// For other ratings Contribute returns an error, to the owner only.
func NewUser(p *kernel.Params, r model.Ratings) *user.User {
	return &NewUsers(p, 1, r)[0]
}

// NewUsers returns the trainers of many users of one process.
func NewUsers(p *kernel.Params, n int, all model.RatingsByUser) []user.User {
	return user.New(p, stage.ClientSides(p), n, all, model.NewRowArena(n, p.Width()))
}

// New returns a strategy with the model at its start.
func New(p serving.StrategyParams) (*serving.Strategy, error) {
	return serving.New(p, stage.ServerSides)
}

func (f *family) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	s := settings.Of(c)
	m := saved{lastUnknown: s.Implicit() && s.Chooses()}
	var err error
	read := func(name string, rows, cols int) *model.Matrix {
		x, readErr := files.Matrix(name, rows, cols)
		err = errors.Join(err, readErr)
		return x
	}
	if m.items = read("item_embeddings", set.Items, -1); err != nil {
		return nil, err
	}
	m.users = read("user_embeddings", set.Users, m.items.Cols())
	if s.Biases() || files.Has("item_bias") {
		m.itemBias = read("item_bias", set.Items, 1)
	}
	if s.Biases() || files.Has("user_bias") {
		m.userBias = read("user_bias", set.Users, 1)
	}
	if err != nil {
		return nil, err
	}
	if files.Mean() == nil {
		return nil, errors.New("summary.json: there is no mean, which predictions of this model are on top of")
	}
	m.mean = *files.Mean()
	if s.Loss().Logits {
		if m.logistic, err = m.logits(set, m.items.Cols()); err != nil {
			return nil, err
		}
	}
	out := &algorithm.Saved{Items: m.items, Popularity: m.popularity(), Score: m.score}
	if err = m.order(out, c, set, files); err != nil {
		return nil, err
	}
	return out, nil
}

// order makes a saved model order lists as the run did. With implicit feedback scores are that order.
func (m *saved) order(out *algorithm.Saved, c config.Config, set *dataset.Set, files algorithm.Files) error {
	s := settings.Of(c)
	weight := s.OrderWeight()
	if weight == 0 || !files.Has(algorithm.ItemCounts) {
		return nil
	}
	counts, err := files.Matrix(algorithm.ItemCounts, set.Items, 1)
	if err != nil {
		return err
	}
	f := files.Features()
	if f == nil && s.TakesFeatures() {
		if f, _, err = algorithm.ReadFeatures(c, set); err != nil {
			return err
		}
	}
	order := kernel.NewOrder(counts.Data(), f, weight)
	if !s.Implicit() {
		out.Order = order.Rank
		return nil
	}
	rows := files.Train()
	out.Score = func(user int, to []float64) {
		m.score(user, to)
		rows.Lend(user, func(items []int32, _ []float32) { order.Rank(items, to) })
	}
	if out.Popularity = make([]float64, set.Items); len(out.Popularity) > 0 {
		order.Rank(nil, out.Popularity)
	}
	return nil
}

// saved is a model that was read. With biases, each bias matrix has one number in each row.
type saved struct {
	users, items       *model.Matrix
	userBias, itemBias *model.Matrix // nil in a model without biases
	mean               float64
	logistic           *kernel.Model // the model if its predictions are logits, else nil
	lastUnknown        bool          // an item without an embedding was not trained on, and comes last
}

// logits assembles a model whose predictions are logits.
func (m *saved) logits(set *dataset.Set, width int) (*kernel.Model, error) {
	l := &kernel.Model{Mean: m.mean, Items: m.items.Data()}
	if m.itemBias != nil {
		l.Bias = m.itemBias.Data()
	}
	return kernel.DecodeModel(l.Encode(), &kernel.Params{Items: set.Items, Rank: width, Min: set.Min, Max: set.Max, SolverParams: kernel.SolverParams{Solver: solver.ALS, Logits: true}})
}

// popularity returns the predictions for a user of whom nothing is known: mean and item biases. It is
// nil for a model without biases.
func (m *saved) popularity() []float64 {
	if m.itemBias == nil {
		return nil
	}
	unknown := *m
	unknown.users, unknown.userBias = model.NewMatrix(1, m.items.Cols()), nil
	out := make([]float64, m.items.Rows())
	unknown.score(0, out)
	return algorithm.PopularityOf(out)
}

// score predicts a user's rating of every item.
func (m *saved) score(user int, out []float64) {
	u, own := m.users.Row(user), 0.
	if m.userBias != nil {
		own = m.userBias.Row(user)[0]
	}
	for j := range out {
		if m.logistic != nil {
			out[j] = m.logistic.Predict(u, own, j)
			continue
		}
		if m.lastUnknown && kernel.Nothing(m.items.Row(j)) {
			out[j] = math.NaN()
			continue
		}
		out[j] = m.mean + model.Dot(u, m.items.Row(j))
		if m.itemBias != nil {
			out[j] += m.itemBias.Row(j)[0]
		}
		out[j] += own
	}
}
