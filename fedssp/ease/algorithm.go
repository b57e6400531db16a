package ease

import (
	"math"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

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
		Help: "How many liked items of a user count in full in sums of pairs. The pairs of a user with more weigh less.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			if algorithm.Private(c) {
				return config.Fixed(4)
			}
			return config.Fixed(1000)
		},
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
	Rounds: func(config.Config) float64 { return 2 },
	Rank:   func(config.Config) float64 { return mostDirections },
	CheckFeedback: func(c config.Config) string {
		if algorithm.Feedback.Is(c, "explicit") {
			return name + " ranks by what users like and predicts no ratings; leave feedback at implicit"
		}
		return ""
	},
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

func (private) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	p := paramsOf(s.Config, s.Data, s.Features)
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
		chosen = model.NewMatrix(p.top, p.columns())
		for k, j := range p.choose(p.popularityOf(counts.Data())).items {
			copy(chosen.Row(k), vectors.Row(int(j)))
		}
	}
	l := p.newLinear(counts.Data(), chosen)
	out := &algorithm.Saved{Items: vectors, Popularity: make([]float64, p.items), Score: func(user int, to []float64) {
		files.Train().Lend(user, func(items []int32, values []float32) { l.Score(user, items, values, to) })
	}}
	l.Score(0, nil, nil, out.Popularity)
	return out, nil
}
