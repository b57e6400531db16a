package ease

import (
	"math"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
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
	t.Server = &modelserver.Server{Schedule: x.setup.Schedule, Cohort: x.setup.Cohort, Session: session, Name: name, Domain: "fedsim/fedssp/ease/v2\n", Shared: t}
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
	list := lists.Map(l.matrices(), func(n model.Named) model.Embeddings { return model.Embeddings{Named: n, IDs: x.setup.Data.ItemIDs} })
	return list, nil
}

func (l *linear) matrices() []model.Named {
	vectors := model.NewMatrix(l.params.items, l.columns()) // zeros for items that were not chosen
	if l.vectors != nil {
		for k, j := range l.choice.items {
			copy(vectors.Row(int(j)), l.vectors.Row(k))
		}
	}
	return []model.Named{
		{Name: "item_embeddings", Matrix: vectors}, {Name: algorithm.ItemCounts, Matrix: model.Wrap(l.params.items, 1, l.popular)},
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
		t.counts = t.params.withPublic(sums.Values[0], t.params.countsOf)
		return nil
	}
	c := t.params.choose(t.params.popularityOf(t.counts))
	t.vectors = t.params.vectorsOf(t.params.withPublic(sums.Values[0], func(items []int32) protocol.Vector { return c.pairsOf(items, t.params.norm) }))
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

// Round rounds counts and vectors.
func (t *strategy) Round() {
	model.Round(t.counts)
	if t.vectors != nil {
		model.Round(t.vectors.Data())
	}
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
	return algorithm.Trainers(c.setup.Data.Users, func(u int) algorithm.Trainer {
		return &trainer{params: c.params, row: func(hear func(model.Ratings)) { c.setup.Lend(u, hear) }}
	})
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

const name = "private-ease"

// Pairs of M items are M²/2 integers, of about 20 bits each: 5 MB for 2,000 items, once.
const bytesOfPair = 2.5

var upload = config.DeclareNumber(config.Key{
	Name: "pairs.max-upload", Kind: config.Real, Default: "5", Range: config.Between(0.001, 1000), Unit: "MB", When: algorithm.Private,
	Help: "Megabytes that a client sends for pairs at most, by an estimate of 2.5 bytes a pair: 5 allow 2,000 items. It bounds auto of pairs.items.",
})

// keys of pairs. The defaults follow from ε and from public facts.
var keys = struct{ items, norm, counts, ridge config.NumberKey }{
	items: config.DeclareNumber(config.Key{
		Name: "pairs.items", Kind: config.Whole, Default: "auto", Auto: "4.5·√users·ε^0.4, at most what pairs.max-upload allows; 0 where ε·√users is below 70 or users are fewer than 150; 1000 without noise", Range: config.Between(0, 20_000),
		Help:         "Number of items whose pairs are summed: the items that users like most, by private counts. 0 learns popularity alone.",
		ChooseNumber: chooseItems,
	}),
	norm: config.DeclareNumber(config.Key{
		Name: "pairs.norm", Kind: config.Real, Default: "auto", Auto: "4; 1000 without noise", Range: config.Between(1, 10_000),
		Help:         "How many liked items of a user count in full in sums of pairs. The pairs of a user with more weigh less.",
		ChooseNumber: config.Either(algorithm.Private, config.Fixed(4), config.Fixed(1000)),
	}),
	counts: config.DeclareNumber(config.Key{
		Name: "pairs.share-counts", Kind: config.Real, Default: "auto", Auto: "0.65·ε^-0.4, from 0.1 to 0.65", Range: config.Inside(0, 1), When: algorithm.Private,
		Help: "Share of the budget for private counts; the rest is for pairs.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			return config.Fixed(min(0.65, max(0.1, 0.65*math.Pow(algorithm.Epsilon.Chosen(c), -0.4))))
		},
	}),
	ridge: config.DeclareNumber(config.Key{
		Name: "pairs.ridge", Kind: config.Real, Default: "0.5", Range: config.Between(0, 100), When: algorithm.Private,
		Help: "Ridge of the weights between items, relative to the largest eigenvalue of the noise. A ridge for few users adds to it.",
	}),
}

// chooseItems lets pairs begin where a sum of them tells more than the noise.
func chooseItems(c config.Config, f *config.Facts) config.Number {
	if f == nil {
		return config.Auto
	}
	n, e := 1000.0, algorithm.Epsilon.Chosen(c) // without noise no eigenvalue may be left out, and all of them take M³
	if users := math.Sqrt(float64(f.Users)); algorithm.Private(c) {
		if e*users < 70 || f.Users < 150 {
			return config.Fixed(0)
		}
		most := math.Sqrt(2e6 * upload.Value(c) / bytesOfPair)
		n = min(math.Floor(most), math.Round(4.5*users*math.Pow(e, 0.4)))
	}
	return config.Fixed(min(n, float64(f.Items)))
}

// New returns private-ease, for the family to register.
func New() algorithm.Algorithm { return private{} }

type private struct{}

var about = algorithm.About{
	Name: name, Default: true, Help: "a linear model from a user's items to each other item, by one noisy sum of pairs of items: ranks without training", Paper: "EASE: Steck, WWW 2019, in our private form",
	Clients: algorithm.Users, Noise: algorithm.DistributedNoise, Private: true, OnlyRanks: true, ByUser: true, Features: algorithm.TakesFeatures, Years: "released",
	Units: []dp.Unit{dp.User}, OtherUnit: "one like of a user moves all pairs with the user's other likes: privacy is stated per user", Relation: dp.ZeroOut,
	Keys: append(algorithm.Federated(), algorithm.NoiseDraw.Key, algorithm.FeatureSpec.Key, algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.LeastRatings.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key, algorithm.SplitUsers.Key,
		keys.items.Key, upload.Key, keys.norm.Key, keys.counts.Key, keys.ridge.Key),
	Rounds: algorithm.Always(2),
	Rank:   algorithm.Always(mostDirections),
	CheckFeedback: config.Against(func(c config.Config) bool {
		return algorithm.Feedback.Is(c, "explicit")
	}, name+" ranks by what users like and predicts no ratings; leave feedback at implicit"),
}

func (private) About() *algorithm.About { return &about }

// params holds the public settings of a run.
type params struct {
	items, top int     // of the catalogue; whose pairs are summed
	fewest     int     // likes of a user, as is publicly known
	norm       float64 // K
	ridge      float64
	least      float64 // an exact count that stays as it is; 0 of a model that was read
	noise      float64 // deviation of the noise of counts
	sigma      float64 // deviation of the noise of a sum of pairs
	features   *dataset.ItemFeatures
	public     [][]int32 // likes of each public user, ascending

	mu     sync.Mutex // of the choice that clients of one process share
	counts []byte     // that made it, as broadcast
	last   *choice
}

func paramsOf(c config.Config, set *dataset.Set, f *dataset.ItemFeatures) *params {
	if algorithm.FeatureSpec.Is(c, "none") {
		f = nil // a baseline is given the features of its run
	}
	k, top := keys.norm.Value(c), min(keys.items.Int(c), set.Items)
	return &params{items: set.Items, top: top, fewest: algorithm.LeastRatings.Int(c), norm: math.Sqrt(k * (k + 1) / 2), ridge: keys.ridge.Value(c), features: f}
}

// likesOf returns the items that each user rated with at least so many stars, of users with such items.
func likesOf(rows *dataset.Rows, users int, least float64) (likes [][]int32) {
	for u := range users {
		items, values := rows.Row(u)
		var list []int32
		for k, j := range items {
			if float64(values[k]) >= least {
				list = append(list, j)
			}
		}
		if list != nil {
			likes = append(likes, list)
		}
	}
	return likes
}

func (private) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	p := paramsOf(s.Config, s.Data, s.Features)
	if r := s.Data.Raters; r != nil {
		p.public = likesOf(r.ByUser(), r.Users, algorithm.LikedIn(s.Config, s.Data))
	}
	releases, sizes, shares := []protocol.Release{p.countsRelease()}, []int{0}, [][]float64{{1}}
	if p.top > 0 {
		counts := keys.counts.Value(s.Config)
		releases, sizes = append(releases, p.pairsRelease()), append(sizes, model.EncodedSize(1, p.items))
		shares = [][]float64{{counts}, {1 - counts}}
	}
	s.Schedule = nil
	for i, r := range releases {
		r.Scale, r.Width = algorithm.Scale(r), 8 // the ring is fitted later
		s.Schedule = append(s.Schedule, protocol.Step{Rounds: 1, Phase: r.Name, Releases: []protocol.Release{r}, Model: sizes[i]})
	}
	s.Schedule[len(s.Schedule)-1].Model = model.EncodedSize(1, p.items+p.top*p.columns()) // the final model is broadcast too
	if err := s.CalibrateSplit(shares); err != nil {
		return nil, err
	}
	p.least = 0.1
	if s.Private() {
		deviation := func(i int) float64 {
			r := s.Schedule[i].Releases[0]
			return math.Sqrt(r.Noise.Variance) / r.Scale
		}
		p.noise = deviation(0)
		if p.top > 0 {
			p.sigma = deviation(1)
		}
	}
	return &instance{setup: s, params: p}, nil
}

// Load ranks by the files of a finished run.
func (private) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	f := files.Features()
	if f == nil {
		var err error
		if f, _, err = algorithm.ReadFeatures(c, set); err != nil {
			return nil, err
		}
	}
	p := paramsOf(c, set, f)
	vectors, err := files.Matrix("item_embeddings", p.items, p.columns())
	if err != nil {
		return nil, err
	}
	counts, err := files.Matrix(algorithm.ItemCounts, p.items, 1)
	if err != nil {
		return nil, err
	}
	var chosen *model.Matrix
	if p.top > 0 {
		chosen = model.Wrap(p.top, p.columns(), vectors.AppendRows(nil, p.choose(p.popularityOf(counts.Data())).items))
	}
	l := p.newLinear(counts.Data(), chosen)
	out := &algorithm.Saved{Items: vectors, Popularity: make([]float64, p.items), Score: func(user int, to []float64) {
		files.Train().Lend(user, func(items []int32, values []float32) { l.Score(user, items, values, to) })
	}}
	l.Score(0, nil, nil, out.Popularity)
	return out, nil
}
