// Package cond learns regressions whose features are public and whose labels are private: DP-SGD, Cond-DP and Switch-Cond-DP
// ("Private Learning with Public Feature Conditioning", ICML 2026) of linear models. One organisation has all examples, or several
// share them, with secure sums and distributed noise. With ratings the examples are the ratings, and their features are the items'
// features.
//
// The protected unit is one label (unit=example, relation=label): features, participation and the
// assignment of examples are public. That is far less than a user.
//
// The three algorithms differ in the transform C of the features. In DP-SGD C is a number. In Cond-DP it is VΣ⁻¹Vᵀ of public
// features UΣVᵀ. Switch-Cond-DP begins with the matrix and ends with the number.
//
// Embeddings of categories under a perceptron ([MLP]) are trained in one place, by samples of
// examples; private features may be among them.
package cond

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lists"
	_ "github.com/fedsim/fedsim/lab/cond/regression" // opens the sets of regressions
	"github.com/fedsim/fedsim/model"
)

type family struct {
	about                 algorithm.About
	conditioned, switches bool
	steps                 bool // for randomised labels: noised steps follow
	perceptron            bool
}

func (f *family) About() *algorithm.About { return &f.about }

const paper = "Private Learning with Public Feature Conditioning"

func init() {
	declareKeys()
	for _, f := range []*family{
		{about: regression("dp-sgd", "regression of private labels on public features by noisy gradients: the baseline of cond-dp", "")},
		{about: regression("cond-dp", "regression of private labels on public features, conditioned by their spectrum", paper, floor.Key), conditioned: true},
		{about: regression("switch-cond-dp", "cond-dp that ends conditioning half way", paper, floor.Key, switchAt.Key), conditioned: true, switches: true},
		{about: randomised("rr-on-bins", "regression on labels that are randomised within bins, by pure differential privacy, in one place", "Ghazi et al. 2023", algorithm.LabelNoise)},
		{about: randomised("rr-dp-sgd", "dp-sgd in one place from a start that is fitted to randomised labels", "Chua et al. 2024", algorithm.LabelStepNoise,
			algorithm.Rounds.Key, step.Key, clip.Key, labelShare.Key), steps: true},
		{about: perceptron("mlp-dp-sgd", "embeddings of categories under a perceptron by noisy Adam: the baseline of mlp-cond-dp", ""), perceptron: true},
		{about: perceptron("mlp-cond-dp", "embeddings of public categories, conditioned by their spectrum, under a perceptron", paper, floor.Key), perceptron: true, conditioned: true},
		{about: perceptron("mlp-switch-cond-dp", "mlp-cond-dp that ends conditioning on the way", paper, floor.Key, switchAt.Key), perceptron: true, conditioned: true, switches: true},
	} {
		algorithm.MustRegister(f)
	}
}

// randomised returns an algorithm that releases labels.
func randomised(name, help, paper string, form algorithm.NoiseForm, own ...*config.Key) algorithm.About {
	a := regression(name, help, paper)
	a.Clients, a.Noise, a.OneParty = algorithm.Nobody, form, false
	a.Keys = slices.Concat(labelKeys, own)
	return a
}

// perceptron returns an algorithm of embeddings of categories.
func perceptron(name, help, paper string, own ...*config.Key) algorithm.About {
	a := regression(name, help, paper)
	a.Clients, a.Noise, a.OneParty, a.Fields, a.Features = algorithm.Nobody, algorithm.StepNoise, false, true, algorithm.NoFeatures
	a.OtherUnit = name + " protects labels and private features of single examples: public features, who takes part and which example is whose are public"
	a.Keys = slices.Concat(mlpKeys, own)
	a.Rounds, a.Rank = mlpSteps, algorithm.Always(16)
	return a
}

// rounds returns the number of rounds that gradients need to converge. Conditioned gradients need
// few rounds, in all directions, and rounds do not add noise: each is noised by as much more as
// more of them are averaged. Plain gradients never have enough rounds.
func rounds(c config.Config, _ *config.Facts) config.Number {
	if conditions(c) {
		return config.Fixed(20)
	}
	return config.Fixed(400)
}

func regression(name, help, paper string, own ...*config.Key) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.UserParties, Noise: algorithm.DistributedNoise, Private: true, OneParty: true,
		Features: algorithm.TakesFeatures, Profiles: true,
		Units: []dp.Unit{dp.Example}, Relation: dp.Label,
		OtherUnit: name + " protects single labels: features, who takes part and which example is whose are public",
		Keys:      slices.Concat(keys, own),
		Rounds:    rounds, Rank: algorithm.Always(1),
	}
}

// mlpSteps returns the number of steps, fewer with noise. They are fitted, with rate and clip, to
// validation errors on synthetic:fields at ε = 1 and 4, and with 200,000 examples.
func mlpSteps(c config.Config, _ *config.Facts) config.Number {
	if algorithm.Private(c) {
		return config.Fixed(800)
	}
	return config.Fixed(2000)
}

// The keys of regressions.
var (
	itemIDs, userBias, hidden                                     config.TextKey
	step, clip, floor, itemRidge, switchAt, userRidge, labelShare config.NumberKey
	rate, batch                                                   config.NumberKey
	keys, labelKeys, mlpKeys                                      []*config.Key
)

// Words.
const (
	yes = "yes"
	no  = "no"
)

func declareKeys() {
	step = config.DeclareNumber(config.Key{
		Name: "regression.step", Kind: config.Real, Default: "auto", Auto: "1", Range: config.Above(0, 10),
		Help:         "Learning rate of a regression, in the largest with which gradient descent converges in every direction, from the spectrum of the features.",
		ChooseNumber: func(config.Config, *config.Facts) config.Number { return config.Fixed(1) },
	})
	clip = config.DeclareNumber(config.Key{
		Name: "regression.clip", Kind: config.Real, Default: "auto", Auto: "a quarter of the scale's range, and less where noise is large", Range: config.Above(0, 1e9),
		Help: "Largest norm of what an example adds to a gradient, where features have the length 1 in quadratic mean: twice the largest error that is not clipped there.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			if f == nil {
				return config.Auto
			}
			return config.Fixed(chooseClip(c, f))
		},
	})
	floor = config.DeclareNumber(config.Key{
		Name: "regression.floor", Kind: config.Real, Default: "0.001", Range: config.Above(0, 1),
		Help: "Least singular value that conditioning inverts, as a part of the largest; those below count as that much.",
		When: conditions,
	})
	switchAt = config.DeclareNumber(config.Key{
		Name: "regression.switch", Kind: config.Real, Default: "0.5", Range: config.Inside(0, 1),
		Help: "Part of the rounds of switch-cond-dp after which conditioning ends.",
	})
	word := func(k config.Key) config.TextKey {
		k.Kind, k.Default, k.Words = config.Word, "auto", []string{yes, no}
		k.ChooseWord = func(_ config.Config, f *config.Facts) string {
			switch {
			case f == nil:
				return "auto"
			case f.Items > 1:
				return yes
			}
			return no
		}
		return config.DeclareText(k)
	}
	itemIDs = word(config.Key{
		Name: "regression.item-ids", Auto: "yes where there are several items", Help: "Whether which item it is, is a feature of an example.",
	})
	userBias = word(config.Key{
		Name: "regression.user-bias", Auto: "yes where there are several items", Help: "Whether each user has a bias besides, fitted to its own labels at the end; it stays with the user's party.",
	})
	userRidge = config.DeclareNumber(config.Key{
		Name: "regression.user-ridge", Kind: config.Real, Default: "5", Range: config.Between(0, 1e9),
		Help: "How many labels' worth of weight zero has in a user's bias.",
		When: func(c config.Config) bool { return !userBias.Is(c, no) },
	})
	itemRidge = config.DeclareNumber(config.Key{
		Name: "regression.item-ridge", Kind: config.Real, Default: "auto", Auto: "4, and more where there is noise, by how much", Range: config.Between(0, 1e9),
		Help:         "How many labels' worth of weight zero has in an item's own weight.",
		When:         func(c config.Config) bool { return !itemIDs.Is(c, no) },
		ChooseNumber: func(config.Config, *config.Facts) config.Number { return config.Auto },
	})
	labelShare = config.DeclareNumber(config.Key{
		Name: "regression.label-share", Kind: config.Real, Default: "0.5", Range: config.Inside(0, 1),
		Help: "Part of epsilon for the randomised labels of rr-dp-sgd; its start is fitted to these labels.",
	})
	rate = config.DeclareNumber(config.Key{
		Name: "regression.rate", Kind: config.Real, Default: "auto", Auto: "0.003; 0.001 without noise", Range: config.Above(0, 1),
		Help: "Learning rate of Adam, which trains embeddings and a perceptron.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			if algorithm.Private(c) {
				return config.Fixed(0.003)
			}
			return config.Fixed(0.001)
		},
	})
	batch = config.DeclareNumber(config.Key{
		Name: "regression.batch", Kind: config.Real, Default: "4096", Range: config.Above(0, 1e9),
		Help: "Examples that a step's sample has in the mean; each is in it by a coin of its own. All are where there are no more.",
	})
	hidden = config.DeclareText(config.Key{
		Name: "regression.hidden", Kind: config.Text, Default: "64-32",
		Help: "Units of the two hidden layers of a perceptron.",
		Check: func(c config.Config) string {
			if text := hidden.Of(c); hiddenOf(text) == [2]int{} {
				return fmt.Sprintf("%q does not name two layers, such as 64-32, of 1 to 4096 units each", text)
			}
			return ""
		},
	})
	mlpKeys = []*config.Key{algorithm.Rounds.Key, algorithm.Rank.Key, clip.Key, rate.Key, batch.Key, hidden.Key}
	labelKeys = []*config.Key{algorithm.FeatureSpec.Key, itemIDs.Key, itemRidge.Key, userBias.Key, userRidge.Key}
	keys = slices.Concat(algorithm.Federated(), []*config.Key{
		algorithm.Rounds.Key, algorithm.Parties.Key, algorithm.NoiseDraw.Key, algorithm.FeatureSpec.Key,
		step.Key, clip.Key, itemIDs.Key, itemRidge.Key, userBias.Key, userRidge.Key,
	})
}

// chooseClip returns a clip of twice an eighth of the range (the deviation of labels), or less with noise. With ν the noise of
// predictions at a clip of 1, it is 0.14/√ν eighths. For a large ν it is better to learn from the signs of errors than to drown
// their size. (Fitted to validation errors at ε of 0.25 to 4 of synthetic:regression-1, synthetic:fields, synthetic:ml-1m and
// ml-latest-small, whose best clips were 0.3 to 2.7 of an eighth.)
func chooseClip(c config.Config, f *config.Facts) float64 {
	deviation := (f.Max - f.Min) / 8
	e := algorithm.Epsilon.Chosen(c)
	if math.IsInf(e, 1) {
		return 4 * deviation
	}
	if of, ok := algorithm.Of(c).(*family); ok && of.perceptron {
		return deviation / 2
	}
	n := float64(max(f.Examples, f.Published, f.Users))
	directions := 1 + float64(f.Columns)
	if f.Items > 1 { // a direction with few labels hardly counts: see settle
		directions += min(float64(f.Items), n/50)
	}
	const mu = 5 // ε is about that many times the μ of Gaussian privacy at the usual δ
	noise := math.Sqrt2 * directions * mu / (n * e)
	return deviation * min(2, 0.14/math.Sqrt(noise))
}

// hiddenOf returns the units of "64-32"; zeros if the text has another form.
func hiddenOf(text string) [2]int {
	one, two, _ := strings.Cut(text, "-")
	h := [2]int{}
	for k, part := range []string{one, two} {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > 4096 {
			return [2]int{}
		}
		h[k] = n
	}
	return h
}

// conditions reports whether features are conditioned.
func conditions(c config.Config) bool {
	f, ok := algorithm.Of(c).(*family)
	return ok && f.conditioned
}

// layout counts the weights of each kind, in their order: columns of users' profiles, features of items, and the items themselves.
type layout struct{ profile, features, ids int }

func (l layout) len() int { return l.profile + l.features + l.ids }

// mostColumns limits the columns of a profile, or of features of items: decomposing their second
// moments takes time in the cube of the number.
const mostColumns = 1000

// catalogue holds the public features of items, dense: 1, then each value of each category.
type catalogue struct {
	rows    *model.Matrix
	columns []string
}

// newCatalogue spreads the features of a set's items.
func newCatalogue(s *algorithm.Setup) (*catalogue, error) {
	c := &catalogue{columns: []string{"1"}}
	if f := s.Features; f != nil {
		for _, category := range f.Categories {
			for _, v := range category.Values {
				c.columns = append(c.columns, category.Name+"="+v)
			}
		}
	}
	if n := len(c.columns); n > mostColumns {
		return nil, config.Errorf("features: they have %d values, and conditioning takes the spectrum of at most %d; name fewer of them", n, mostColumns)
	}
	c.rows = model.NewMatrix(s.Data.Items, len(c.columns))
	for j := range s.Data.Items {
		row := c.rows.Row(j)
		row[0] = 1
		if s.Features == nil {
			continue
		}
		at := 1
		for k := range s.Features.Categories {
			category := &s.Features.Categories[k]
			values, weights := category.Features(j)
			for n, v := range values {
				row[at+int(v)] = weights[n]
			}
			at += len(category.Values)
		}
	}
	return c, nil
}

// moments holds the data on public features that conditioning needs: second moments over examples,
// and each item's share of the examples. They depend on no label.
type moments struct {
	examples          float64
	profile, features *mat.SymDense
	shares            []float64 // of items
	noise             float64   // about the largest eigenvalue of the noise in the profile's moments
}

// packed returns the length of the upper triangle of a square.
func packed(n int) int { return n * (n + 1) / 2 }

// positive makes a noisy matrix of moments positive semidefinite.
func positive(m *mat.SymDense) error {
	eigen, err := eigenOf(m, true)
	if err != nil {
		return err
	}
	var v mat.Dense
	eigen.VectorsTo(&v)
	for i, s := range eigen.Values(nil) {
		if s < 0 {
			m.SymRankOne(m, -s, v.ColView(i))
		}
	}
	return nil
}

// momentsOf computes the moments from sums over examples: the number of each item's examples, and Σ
// P_u·P_uᵀ, its upper triangle row by row. Each sum has noise of that deviation.
func momentsOf(l layout, c *catalogue, sums []float64, deviation float64) (moments, error) {
	var m moments
	items := c.rows.Rows()
	m.shares = make([]float64, items)
	for j := range m.shares {
		m.shares[j] = math.Max(0, sums[j]) // noise may make a count negative
		m.examples += m.shares[j]
	}
	if !(m.examples >= 1) {
		return m, fmt.Errorf("cond: the parties counted %.3g examples; there is nothing to learn from", m.examples)
	}
	for j := range m.shares {
		m.shares[j] /= m.examples
	}
	if l.profile > 0 {
		m.noise = 2 * math.Sqrt(float64(l.profile)) * deviation / m.examples // of a symmetric matrix of such entries (Wigner)
		m.profile = mat.NewSymDense(l.profile, nil)
		at := items
		for a := range l.profile {
			for b := a; b < l.profile; b++ {
				m.profile.SetSym(a, b, sums[at]/m.examples)
				at++
			}
		}
		if err := positive(m.profile); err != nil {
			return m, err
		}
	}
	m.features = mat.NewSymDense(l.features, nil)
	for j, share := range m.shares {
		m.features.SymRankOne(m.features, share, mat.NewVecDense(l.features, c.rows.Row(j)))
	}
	return m, nil
}

// Unbiased returns labels whose expectation, over the answers, is the middle of the true label's
// bin. With c_j the middles, m bins and keep of its responder, an answer a stands for (c_a - (1
// - keep)·mean(c))/keep. They scatter more than Values, by Variance; a fit of many examples
// averages the scatter, while it would fit Values too flat. A label's place within its bin stays lost, for any number of examples.
func (n *NoisyLabels) Unbiased() []float64 {
	u := n.Bins.unbiased()
	return lists.Map(n.Answers, func(a int) float64 { return u[a] })
}

// unbiased returns the value of each answer.
func (b *Bins) unbiased() []float64 {
	out, keep := b.middles(), b.response.keep()
	var mean float64
	for _, c := range out {
		mean += c / float64(len(out))
	}
	for j, c := range out {
		out[j] = (c - (1-keep)*mean) / keep
	}
	return out
}

// middles returns the mean labels of the bins, by the noisy histogram; for an empty bin, the middle of its cells.
func (b *Bins) middles() []float64 {
	out, start := make([]float64, len(b.Ends)), 0
	for j, end := range b.Ends {
		var share, sum, plain float64
		for c := start; c < end; c++ {
			share += b.Shares[c]
			sum += b.Shares[c] * b.Options.middle(c)
			plain += b.Options.middle(c) / float64(end-start)
		}
		if out[j] = plain; share > 0 {
			out[j] = sum / share
		}
		start = end
	}
	return out
}

// Variance returns the scatter of unbiased labels, by the noisy histogram: the mean square of their
// distance from the true label's cell.
func (b *Bins) Variance() float64 {
	u, keep := b.unbiased(), b.response.keep()
	even := (1 - keep) / float64(len(u)) // the chance of any bin; the true bin has keep more
	var sum float64
	for c, share := range b.Shares {
		for j, v := range u {
			chance := even
			if j == b.bin(c) {
				chance += keep
			}
			d := v - b.Options.middle(c)
			sum += share * chance * d * d
		}
	}
	return sum
}

// square returns the mean square of labels, by the noisy histogram.
func (b *Bins) square() (sum float64) {
	for c, share := range b.Shares {
		m := b.Options.middle(c)
		sum += share * m * m
	}
	return sum
}
