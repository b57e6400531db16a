package attack

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// shrink is so many ratings of a user's mean that each genre has besides its own, so that one rated film does
// not make a favourite.
const shrink = 5

// guesses holds the data with which an attacker guesses favourite genres.
type guesses struct {
	a       *attacker
	genres  [][]int // of each item
	names   []string
	labels  []int // favourite of each user; -1: no rated item has a genre
	half    *experiment.Experiment
	learn   []int       // users whom the attacker learns from
	ratings [][]float64 // of each user, what the known half of the ratings says
	popular [][]float64 // of each user, which items are known to be rated, by popularity alone
}

// attribute guesses favourite genres. The attacker knows half of each user's ratings and the released model, and
// fits the user to the model by these ratings. It knows the favourites of all users that are not attacked, and
// trains a linear classifier on them. For comparison it guesses without the model too, and from nothing except
// the popularity of the known items.
func (a *attacker) attribute(ctx context.Context, at *At) error {
	g, err := a.newGuesses()
	if err != nil {
		return err
	}
	in := a.coins(a.cfg.Shadows, 1)
	right := make([][]float64, len(in))
	err = a.each(ctx, len(in), func(r int) error {
		run, f, failed := a.open(r, a.without(func(t int) bool { return !in[r][t] }))
		if failed == nil {
			right[r], failed = g.byModel(ctx, run, f)
		}
		return failed
	})
	if err != nil {
		return err
	}
	// Of each target the share of the runs in which the guess is right, with it and without.
	with, without := make([]float64, len(a.targets)), make([]float64, len(a.targets))
	for r := range in {
		for t := range a.targets {
			if in[r][t] {
				with[t] += right[r][t] / float64(len(in)/2)
			} else {
				without[t] += right[r][t] / float64(len(in)/2)
			}
		}
	}
	gain := floats.SubTo(make([]float64, len(with)), with, without)
	mean := func(v []float64) Interval { return means(v, a.seed) }
	at.Attribute = &Attribute{
		Genres: len(g.names), Runs: len(in), In: mean(with), Out: mean(without), Gain: mean(gain),
		Ratings: mean(g.right(g.ratings)), Popularity: mean(g.right(g.popular)), Majority: mean(g.majority()),
	}
	return nil
}

// means is a mean over targets with the interval of a bootstrap over them.
func means(values []float64, seed uint64) Interval {
	return bootstrap(len(values), seed, func(pick func(i int) int) (sum float64) {
		for i := range values {
			sum += values[pick(i)]
		}
		return sum / float64(len(values))
	})
}

// bootstrap returns a number of n targets with the interval of a bootstrap over them. of computes the number of the targets that pick names.
func bootstrap(n int, seed uint64, of func(pick func(i int) int) float64) Interval {
	random := entropy.Public(seed, "audit/attack/bootstrap")
	samples := make([]float64, resamples)
	for i := range samples {
		samples[i] = of(func(int) int { return random.IntN(n) })
	}
	return percentiles(of(func(i int) int { return i }), samples)
}

// newGuesses finds out the favourites and what the attacker knows.
func (a *attacker) newGuesses() (*guesses, error) {
	e := a.full
	g := &guesses{a: a, genres: make([][]int, e.Data.Items)}
	for _, list := range e.Data.Genres {
		g.names = append(g.names, list...)
	}
	slices.Sort(g.names)
	g.names = slices.Compact(g.names)
	if len(g.names) < 2 {
		return nil, config.Errorf("%s names no genres of its items, and the attack guesses favourite genres; take data with genres", e.Data.Name)
	}
	for j, list := range e.Data.Genres {
		for _, name := range list {
			k, _ := slices.BinarySearch(g.names, name)
			g.genres[j] = append(g.genres[j], k)
		}
	}
	for u := range e.Data.Users {
		label := -1
		if likes := g.likes(e.Row(u)); slices.ContainsFunc(likes, func(x float64) bool { return x != 0 }) {
			label = slices.Index(likes, slices.Max(likes))
		}
		g.labels = append(g.labels, label)
	}
	var err error
	if g.half, err = a.halved(); err != nil {
		return nil, err
	}
	g.known()
	return g, nil
}

// likes returns how much a user likes each genre: the sum of the distances of the genre's ratings above the
// user's mean, divided by their number plus a constant.
func (g *guesses) likes(r model.Ratings) []float64 {
	sum, n := make([]float64, len(g.names)), make([]float64, len(g.names))
	var mean float64
	for _, x := range r.Values {
		mean += float64(x) / float64(len(r.Values))
	}
	for k, j := range r.Items {
		for _, genre := range g.genres[j] {
			sum[genre] += float64(r.Values[k]) - mean
			n[genre]++
		}
	}
	for k := range sum {
		sum[k] /= n[k] + shrink
	}
	return sum
}

// halved is the experiment with the half of each user's training ratings that the attacker knows.
func (a *attacker) halved() (*experiment.Experiment, error) {
	random := entropy.Public(a.seed, "audit/attack/known")
	unknown := make(map[[2]int32]bool)
	for u := range a.full.Data.Users {
		items, _ := a.full.Train.Row(u)
		for i, k := range random.Perm(len(items)) {
			if i%2 == 1 {
				unknown[[2]int32{int32(u), items[k]}] = true //nolint:gosec // users are counted in 32 bits
			}
		}
	}
	return experiment.OpenSet(a.config, a.full.Data.Where(func(user, item int32) bool { return !unknown[[2]int32{user, item}] }))
}

// known computes what is known without a model.
func (g *guesses) known() {
	e := g.half
	popularity := make([]float64, e.Data.Items)
	for u := range e.Data.Users {
		for _, j := range g.a.full.Row(u).Items {
			popularity[j]++
		}
	}
	targeted := make(map[int]bool)
	for _, t := range g.a.targets {
		targeted[t.user] = true
	}
	for u := range e.Data.Users {
		r := e.Row(u)
		count, mean := float64(len(r.Items)), 0.
		for _, j := range r.Items {
			mean += math.Log(popularity[j]) / count
		}
		g.popular = append(g.popular, []float64{math.Log1p(count), mean})
		g.ratings = append(g.ratings, g.likes(r))
		if !targeted[u] && g.labels[u] >= 0 && count > 0 {
			g.learn = append(g.learn, u)
		}
	}
}

// byModel makes a run, and says of each target 1 where its favourite is guessed.
func (g *guesses) byModel(ctx context.Context, run *experiment.Experiment, f *experiment.Federation) ([]float64, error) {
	out, err := g.a.simulate(ctx, run, f, nil)
	if err != nil {
		return nil, err
	}
	m, err := observe.Fitted(g.half, out.Model, protocol.Workers(1))
	if err != nil {
		return nil, err
	}
	features := make([][]float64, len(g.labels))
	for _, u := range g.learn {
		features[u] = g.predicted(m.Predictor, u)
	}
	for _, t := range g.a.targets {
		features[t.user] = g.predicted(m.Predictor, t.user)
	}
	return g.right(features), nil
}

// predicted returns the features of a user: for each genre, the model's mean prediction of its items less the
// mean prediction of all items; then the features from the known ratings.
func (g *guesses) predicted(p model.Predictor, user int) []float64 {
	out := make([]float64, len(g.genres))
	p.Predict(user, model.Indices(len(out)), out)
	sum, n := make([]float64, len(g.names)), make([]float64, len(g.names))
	var mean float64
	for j, x := range out {
		mean += x / float64(len(out))
		for _, genre := range g.genres[j] {
			sum[genre] += x
			n[genre]++
		}
	}
	for k := range sum {
		sum[k] = sum[k]/max(n[k], 1) - mean
	}
	return slices.Concat(sum, g.ratings[user])
}

// right learns from features of users, and says of each target 1 where its favourite is guessed.
func (g *guesses) right(features [][]float64) []float64 {
	var x, y [][]float64
	for _, u := range g.learn {
		x = append(x, features[u])
		of := make([]float64, len(g.names))
		of[g.labels[u]] = 1
		y = append(y, of)
	}
	fit := fitRidge(x, y)
	return g.guessed(func(user int) int {
		says := fit.predict(features[user])
		return slices.Index(says, slices.Max(says))
	})
}

// guessed says of each target 1 where a guess is its favourite.
func (g *guesses) guessed(guess func(user int) int) []float64 {
	return lists.Map(g.a.targets, func(t target) float64 {
		if g.labels[t.user] == guess(t.user) {
			return 1
		}
		return 0
	})
}

// majority guesses the favourite that most users have.
func (g *guesses) majority() []float64 {
	count := make([]int, len(g.names))
	for _, u := range g.learn {
		count[g.labels[u]]++
	}
	most := slices.Index(count, slices.Max(count))
	return g.guessed(func(int) int { return most })
}

// Attribute holds the shares of users whose favourite genre is guessed right.
type Attribute struct {
	Genres int `json:"genres"`
	Runs   int `json:"runs"`
	// In and Out are the shares of right guesses from the model and half of a user's ratings. In is of runs that
	// trained on the user, Out of runs that did not. Gain is In - Out: the leak by the user's part in the training.
	In   Interval `json:"in"`
	Out  Interval `json:"out"`
	Gain Interval `json:"gain"`
	// Ratings is the same without the model, Popularity knows how many items are known to be rated and how
	// popular they are, and Majority guesses what most users like best.
	Ratings    Interval `json:"ratings"`
	Popularity Interval `json:"popularity"`
	Majority   Interval `json:"majority"`
}

// attributeFigure draws the shares of favourites that are guessed right.
func attributeFigure(list []*Report, budgets []Epsilon) []page.Drawn {
	d := byBudget(string(AttributeGenre), "Which genre does a user like best?", "share of the guesses that are right",
		"The attacker knows half of the user's ratings and has the released model. Intervals of 95% over targets, which are wider than what lines differ by, stand with the numbers. "+notShown[5], budgets)
	for _, r := range list {
		line(&d, r.name()+", user in the run", budgets, r, func(at *At) *Interval { return &at.Attribute.In })
		line(&d, r.name()+", user not in it", budgets, r, func(at *At) *Interval { return &at.Attribute.Out })
	}
	x := list[0].Budgets[0].Attribute
	level(&d, "the known ratings alone", x.Ratings.Value)
	level(&d, "popularity alone", x.Popularity.Value)
	level(&d, "the genre that most like best", x.Majority.Value)
	d = numbered(d)
	for i := range d.Series { // bands that lie on each other hide what they are about
		d.Series[i].Low, d.Series[i].High = nil, nil
	}
	return []page.Drawn{d}
}
