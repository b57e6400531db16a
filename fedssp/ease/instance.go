package ease

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// instance is private-ease with its data.
type instance struct {
	setup  *algorithm.Setup
	params *params
}

func (x *instance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	t := &strategy{params: x.params, counts: make([]float64, x.params.items)}
	t.Server = &modelserver.Server{Schedule: x.setup.Schedule, Cohort: x.setup.Cohort, Session: session, Name: name, Domain: "fedsim/fedssp/ease/v1\n", Shared: t}
	return t, nil
}

func (x *instance) ClientSide() (algorithm.ClientSide, error) { return clients{x}, nil }

func (x *instance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	user, err := l.UserOf(name, which)
	if err != nil {
		return nil, err
	}
	r := l.Row(user)
	t := &trainer{params: x.params, row: func(hear func(model.Ratings)) { hear(r) }, alone: true}
	return &algorithm.Party{Ratings: len(r.Items), Trainer: t, Result: func() []model.Embeddings {
		u := model.Wrap(1, x.params.columns(), t.final.embed(r.Items))
		return []model.Embeddings{model.NewEmbeddings("user_embeddings", u, l.IDs(user, which))}
	}}, nil
}

func (x *instance) Shared(shared []byte) ([]model.Embeddings, error) {
	l, err := x.params.decode(shared)
	if err != nil {
		return nil, err
	}
	var list []model.Embeddings
	for _, n := range l.matrices() {
		list = append(list, model.Embeddings{Named: n, IDs: x.setup.Data.ItemIDs})
	}
	return list, nil
}

func (l *linear) matrices() []model.Named {
	return []model.Named{
		{Name: "item_embeddings", Matrix: l.itemVectors()}, {Name: algorithm.ItemCounts, Matrix: model.Wrap(l.params.items, 1, l.popular)},
	}
}

// Baselines compares with private popularity for the same budget, and with exact sums.
func (x *instance) Baselines() []algorithm.Baseline {
	return []algorithm.Baseline{
		{Name: "private_popularity", Note: "one list for all, by private counts", Vary: func(c *config.Config) {
			keys.items.Set(c, 0)
			algorithm.FeatureSpec.Set(c, "none")
		}},
		algorithm.NonPrivate(x.setup, "pairs", func(c *config.Config) {
			c.Reset(keys.items.Key)
			c.Reset(keys.norm.Key)
		}),
	}
}

// Lost says what a lost round takes.
func (x *instance) Lost(step protocol.Step) string {
	if step.Phase == countsName {
		return "the round of counts was skipped: items are not ordered by popularity, and pairs are of the first items of the catalogue"
	}
	return "the round of pairs was skipped: popularity alone orders items"
}

// strategy is the server's side, and its model: counts, and vectors once pairs are summed.
type strategy struct {
	*modelserver.Server
	params  *params
	counts  []float64
	vectors *model.Matrix
}

func (t *strategy) Next() (*protocol.Plan, bool, error) {
	p, over, err := t.Server.Next()
	if p != nil && p.Round == 1 {
		p.Broadcast = nil // nothing is known yet
	}
	return p, over, err
}

func (t *strategy) Absorb(p *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	if p.Phase == countsName {
		t.counts = slices.Clone(sums.Values[0])
		return nil
	}
	t.vectors = t.params.vectorsOf(sums.Values[0])
	return nil
}

// Limits calls hear with inequalities that the vector of each honest client keeps ([server.Limited]). Counts are not
// negative. With the weights of items taken out, a pair is liked by no client who does not like both its items:
// 0 <= g_ij/(w_i·w_j) <= g_ii/w_i² and g_jj/w_j².
func (t *strategy) Limits(p *protocol.Plan, hear func(terms ...protocol.Term)) {
	if p.Phase == countsName {
		for j := range t.counts {
			hear(protocol.Term{Coordinate: j, Factor: -1})
		}
		return
	}
	c := t.params.choose(t.params.popularityOf(t.counts))
	m := len(c.items)
	diagonal := func(i int) protocol.Term {
		return protocol.Term{Coordinate: i*m - i*(i-1)/2, Factor: -1 / (c.weight[i] * c.weight[i])}
	}
	at := 0
	for i := range m {
		for j := i; j < m; j++ {
			if j > i {
				pair := protocol.Term{Coordinate: at, Factor: 1 / (c.weight[i] * c.weight[j])}
				hear(pair, diagonal(i))
				hear(pair, diagonal(j))
			}
			hear(protocol.Term{Coordinate: at, Factor: -1})
			at++
		}
	}
}

// Encode returns the model as it is broadcast: counts, and vectors behind them.
func (t *strategy) Encode() []byte {
	b := model.Wrap(1, len(t.counts), t.counts).Encode()
	if t.vectors != nil {
		b = append(b, t.vectors.Encode()...)
	}
	return b
}

// Decode reads what Encode wrote.
func (t *strategy) Decode(b []byte) error {
	l, err := t.params.decode(b)
	if err == nil {
		t.counts, t.vectors = l.counts, l.vectors
	}
	return err
}

// trainer is one user's side.
type trainer struct {
	params *params
	row    func(hear func(model.Ratings)) // lends the user's likes, items ascending
	alone  bool                           // a party of a deployment
	final  *linear
}

func (t *trainer) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) (list []protocol.Vector, err error) {
	t.row(func(r model.Ratings) {
		if p.Phase == countsName {
			list = []protocol.Vector{t.params.countsOf(r.Items)}
			return
		}
		var c *choice
		if c, err = t.params.chosenBy(p.Broadcast); err == nil {
			list = []protocol.Vector{c.pairsOf(r.Items, t.params.norm)}
		}
	})
	return list, err
}

// Finish keeps the model of a party. The clients of a simulation share one, which Final decodes.
func (t *trainer) Finish(shared []byte, _ protocol.Runner) (err error) {
	if t.alone {
		t.final, err = t.params.decode(shared)
	}
	return err
}

// clients are all users of a simulation.
type clients struct{ *instance }

func (c clients) Trainers() []algorithm.Trainer {
	list := make([]algorithm.Trainer, c.setup.Data.Users)
	for u := range list {
		list[u] = &trainer{params: c.params, row: func(hear func(model.Ratings)) { c.setup.Lend(u, hear) }}
	}
	return list
}

func (c clients) Interim(shared []byte, _ protocol.Runner) (model.Predictor, error) {
	l, err := c.params.decode(shared)
	return predictor{l, c.setup}, err
}

func (c clients) Final(shared []byte, _ protocol.Runner) (*model.Trained, error) {
	l, err := c.params.decode(shared)
	if err != nil {
		return nil, err
	}
	return &model.Trained{Predictor: predictor{l, c.setup}, Matrices: l.matrices()}, nil
}

// predictor scores the users of training by their likes there.
type predictor struct {
	*linear
	setup *algorithm.Setup
}

// Predict writes scores. Their order alone counts.
func (m predictor) Predict(user int, items []int32, out []float64) {
	all := make([]float64, m.params.items)
	m.setup.Lend(user, func(r model.Ratings) { m.Score(user, r.Items, r.Values, all) })
	for i, j := range items {
		out[i] = all[j]
	}
}
