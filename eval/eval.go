// Package eval measures predictors: rating errors in stars and rankings for held-out users, both
// also by the popularity of items. It has simple baselines that need nothing but ratings. It reads
// exact ratings and is not private: use it for measuring only. Sums run in a fixed order, so that
// results do not depend on the number of workers.
package eval

import (
	"maps"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Quality is the error of predictions on the test ratings, in stars, after clamping them to the
// rating scale. With implicit feedback it is the quality of rankings for held-out users.
type Quality struct {
	RMSE, MSE, MAE float64
	Ranking        *Ranking // nil with explicit feedback, which is measured by errors
}

// PrimaryMetric returns the metric that compares runs and baselines: the RMSE, or Recall@20.
func (q Quality) PrimaryMetric() float64 {
	if q.Ranking != nil {
		return q.Ranking.Recall
	}
	return q.RMSE
}

// Test holds the ratings and users that predictors are measured on.
type Test struct {
	// Rows holds the test ratings by user, in stars; with implicit feedback, the targets of
	// held-out users.
	Rows *dataset.Rows
	// Validation holds the ratings of the validation part; nil if there is none.
	Validation *dataset.Rows
	// Held says which users are held out; nil with explicit feedback, where no user is.
	Held *split.HoldOut
	// Buckets holds the buckets of popularity in training.
	Buckets Buckets
	// Min and Max are the ends of the rating scale, in stars. Predictions are clamped to
	// it.
	Min, Max float64

	train *dataset.Rows // the training ratings
	known *dataset.Rows // the training ratings or, with implicit feedback, the histories of the test's users
	fame  fame
}

// NewTest makes the test of a split, on the rating scale from low to high. held is nil if the split
// is of ratings and not of users. buckets is the number of buckets of popularity.
func NewTest(s *split.Parts, low, high float64, buckets int) Test {
	t := Test{Rows: s.Test.ByUser(), Held: s.Held, Min: low, Max: high, train: s.Train.ByUser()}
	t.known, t.fame = t.train, newFame(s.Train)
	t.Buckets = bucketsOf(t.fame.ratings, buckets)
	if s.Held != nil {
		t.known = s.Held.Test.History.ByUser()
	}
	if s.Validation.Len() > 0 {
		t.Validation = s.Validation.ByUser()
	}
	return t
}

// Measure compares a predictor with the test ratings; the result is NaN if there are none. It adds
// up errors per user and then over users in order, so that the result does not depend on the number
// of workers. With implicit feedback the predictor must be a [Scorer] and ranks items for held-out
// users.
func (t *Test) Measure(p model.Predictor, run protocol.Runner) Quality {
	if t.Held != nil {
		return t.rank(t.Held.Test, p, run)
	}
	return t.measure(t.Rows, p, run)
}

// rank measures a predictor on held-out users. A predictor that is no Scorer gets NaN.
func (t *Test) rank(h split.HeldOut, p model.Predictor, run protocol.Runner) Quality {
	s, ok := model.As[Scorer](p)
	if !ok {
		return Quality{Ranking: &Ranking{Recall: math.NaN(), NDCG: math.NaN()}}
	}
	r := Rank(h, s, t.Buckets, run)
	return Quality{Ranking: &r}
}

// Validate is Measure on the validation part; nil if there is none.
func (t *Test) Validate(p model.Predictor, run protocol.Runner) *Quality {
	switch {
	case t.Validation == nil:
		return nil
	case t.Held != nil:
		return new(t.rank(t.Held.Validation, p, run))
	}
	return new(t.measure(t.Validation, p, run))
}

// errorSums are sums over the errors of one user.
type errorSums struct{ n, squared, absolute float64 }

func (s *errorSums) add(_ int32, d float64) {
	s.n++
	s.squared += d * d
	s.absolute += math.Abs(d)
}

func (t *Test) measure(rows *dataset.Rows, p model.Predictor, run protocol.Runner) Quality {
	var q Quality
	var n float64
	model.Expect(p, func(user int) []int32 {
		items, _ := rows.Row(user)
		return items
	})
	addErrors(t, rows, p, run, (*errorSums).add, func(_ int, of *errorSums) {
		n += of.n
		q.MSE += of.squared
		q.MAE += of.absolute
	})
	q.MSE, q.MAE = q.MSE/n, q.MAE/n
	q.RMSE = math.Sqrt(q.MSE)
	return q
}

// someUsers is the number of users whose errors are kept at once, and fewUsers the number that are
// measured one after the other, in the same memory.
const (
	someUsers = 1 << 14
	fewUsers  = 64
)

// addErrors calls hear with each error of a user and the user's sums, and then add with the sums, user by user.
func addErrors[S any](t *Test, rows *dataset.Rows, p model.Predictor, run protocol.Runner, hear func(of *S, item int32, d float64), add func(user int, of *S)) {
	some := make([]S, min(rows.Len(), someUsers))
	for from := 0; from < rows.Len(); from += len(some) {
		to := min(from+len(some), rows.Len())
		clear(some)
		t.each(rows, from, to, p, run, func(user int, item int32, value float32, predicted float64) {
			hear(&some[user-from], item, predicted-float64(value))
		})
		for i := range some[:to-from] {
			add(from+i, &some[i])
		}
	}
}

// each calls hear with every rating of the users from <= user < to and its prediction, clamped to the
// rating scale. Calls are sequential for one user, and may be concurrent for different users.
func (t *Test) each(rows *dataset.Rows, from, to int, p model.Predictor, run protocol.Runner, hear func(user int, item int32, value float32, predicted float64)) {
	run.Each((to-from+fewUsers-1)/fewUsers, func(few int) {
		var out []float64
		first := from + few*fewUsers
		for u := first; u < min(first+fewUsers, to); u++ {
			rows.Lend(u, func(items []int32, values []float32) {
				if len(items) == 0 {
					return
				}
				out = slices.Grow(out[:0], len(items))[:len(items)]
				p.Predict(u, items, out)
				for i, x := range values {
					hear(u, items[i], x, min(max(out[i], t.Min), t.Max))
				}
			})
		}
	})
}

// Slices returns the RMSE of Measure in each bucket of popularity, from head to tail.
func (t *Test) Slices(p model.Predictor, run protocol.Runner) []ErrorSlice {
	type errors struct {
		n       [MostBuckets]int
		squared [MostBuckets]float64
	}
	b := t.Buckets
	out := make([]ErrorSlice, len(b.sizes))
	var sums [MostBuckets]float64
	addErrors(t, t.Rows, p, run, func(of *errors, item int32, d float64) {
		of.n[b.of[item]]++
		of.squared[b.of[item]] += d * d
	}, func(_ int, of *errors) {
		for bucket := range out {
			out[bucket].Ratings += of.n[bucket]
			sums[bucket] += of.squared[bucket]
		}
	})
	for bucket := range out {
		s := &out[bucket]
		s.Items = b.sizes[bucket]
		if s.Ratings > 0 {
			s.RMSE = new(math.Sqrt(sums[bucket] / float64(s.Ratings)))
		}
	}
	return out
}

// ShareBins is the number of bins of equal width that count the values of a category by their share
// in the head.
const ShareBins = 10

// FeatureShares says how popular the items with features of a category are (DP-CMF paper, Figure
// 2).
type FeatureShares struct {
	Category string `json:"category"`
	// Shares holds the shares of the category's entries (an item's value each) in the buckets from
	// head to tail; they sum to 1.
	Shares []float64 `json:"shares"`
	// Weights holds the shares of the sum of weights in the same buckets.
	Weights []float64 `json:"weights"`
	// Head counts the values by the share of their own entries in the head: bin k counts shares
	// from k/10 to (k+1)/10, the last bin also 1.
	Head [ShareBins]int `json:"head"`
}

// ByPopularity returns, for each category, how popular the items of its entries are. Buckets are by
// exact counts of private ratings: use it for measuring only; no privacy statement covers it.
func ByPopularity(f *dataset.ItemFeatures, b Buckets) []FeatureShares {
	list := make([]FeatureShares, 0, len(f.Categories))
	for i := range f.Categories {
		c := &f.Categories[i]
		s := FeatureShares{Category: c.Name, Shares: make([]float64, len(b.sizes)), Weights: make([]float64, len(b.sizes))}
		head, all := make([]int, len(c.Values)), make([]int, len(c.Values))
		weight := 0.
		for j := range f.Items {
			values, weights := c.Features(j)
			for k, v := range values {
				all[v]++
				if b.of[j] == 0 {
					head[v]++
				}
				s.Shares[b.of[j]]++
				s.Weights[b.of[j]] += weights[k]
				weight += weights[k]
			}
		}
		for k := range s.Shares {
			s.Shares[k] /= float64(len(c.Value))
			s.Weights[k] /= weight
		}
		for v, n := range all {
			s.Head[min(ShareBins*head[v]/n, ShareBins-1)]++ // every value belongs to some item
		}
		list = append(list, s)
	}
	return slices.Clip(list)
}

// EachPrediction calls hear with the prediction of each test rating, user by user: in stars,
// clamped to the rating scale. With implicit feedback it passes the scores of the targets of
// held-out users, or nothing if the predictor is no [Scorer]. After the first error of hear, which
// it returns, it calls hear no more.
func (t *Test) EachPrediction(p model.Predictor, hear func(user int, item int32, value float32, predicted float64) error) error {
	if t.Held != nil {
		return t.eachScore(p, hear)
	}
	var err error
	t.each(t.Rows, 0, t.Rows.Len(), p, protocol.Workers(1), func(user int, item int32, value float32, predicted float64) {
		if err == nil {
			err = hear(user, item, value, predicted)
		}
	})
	return err
}

func (t *Test) eachScore(p model.Predictor, hear func(int, int32, float32, float64) error) error {
	score := t.allItems(p)
	if score == nil {
		return nil
	}
	scores := make([]float64, t.Held.Test.Target.Items)
	users, _ := t.wishes(0, 0)
	for _, u := range users {
		score(u.user, scores)
		_, values := t.Rows.Row(u.user)
		for i, item := range u.wanted {
			if err := hear(u.user, item, values[i], scores[item]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ByUser holds metrics of single users, which means hide.
type ByUser struct {
	users  []int
	values map[string][]float64 // by metric, one for each user
}

// Spread says how metrics differ between users, and with how much a user has rated.
type Spread struct {
	Quantiles map[string]Quantiles `json:"quantiles"` // by metric
	// Activity holds fifths of the users by their number of known ratings, the fewest first. Users with equally many are in
	// one of them, so that there may be fewer than five.
	Activity []Activity `json:"by_activity"`
}

// Quantiles holds values below which 5, 25, 50, 75 and 95% of the users are, with linear interpolation between users.
type Quantiles struct {
	P5  float64 `json:"p5"`
	P25 float64 `json:"p25"`
	P50 float64 `json:"p50"`
	P75 float64 `json:"p75"`
	P95 float64 `json:"p95"`
}

// Activity holds means over users who have rated alike much.
type Activity struct {
	Users int                `json:"users"`
	From  int                `json:"ratings_from"`
	To    int                `json:"ratings_to"`
	Means map[string]float64 `json:"means"` // by metric
}

// activities is the number of groups of users.
const activities = 5

// ErrorsByUser returns the RMSE and the MAE of each user with a test rating, in stars; nil for rankings.
func (t *Test) ErrorsByUser(p model.Predictor, run protocol.Runner) *ByUser {
	if t.Held != nil {
		return nil
	}
	b := &ByUser{values: make(map[string][]float64)}
	addErrors(t, t.Rows, p, run, (*errorSums).add, func(user int, of *errorSums) {
		if of.n > 0 {
			b.users = append(b.users, user)
			b.values["rmse"] = append(b.values["rmse"], math.Sqrt(of.squared/of.n))
			b.values["mae"] = append(b.values["mae"], of.absolute/of.n)
		}
	})
	return b
}

// Spread describes metrics of users; tables may be nil. It returns nil if no user has a metric.
func (t *Test) Spread(tables ...*ByUser) *Spread {
	tables = slices.DeleteFunc(tables, func(b *ByUser) bool { return b == nil || len(b.users) == 0 })
	if len(tables) == 0 {
		return nil
	}
	s := &Spread{Quantiles: make(map[string]Quantiles)}
	active := make(map[int]int) // ratings of each user
	for _, b := range tables {
		for _, u := range b.users {
			t.known.Lend(u, func(items []int32, _ []float32) { active[u] = len(items) })
		}
		for name, x := range b.values {
			sorted := slices.Sorted(slices.Values(x))
			s.Quantiles[name] = Quantiles{quantile(sorted, 0.05), quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75), quantile(sorted, 0.95)}
		}
	}
	sorted := slices.Sorted(maps.Values(active))
	below := -1 // the most ratings of the groups before
	for g := 1; g <= activities; g++ {
		to := sorted[(len(sorted)*g+activities-1)/activities-1]
		if to == below {
			continue
		}
		first, _ := slices.BinarySearch(sorted, below+1)
		end, _ := slices.BinarySearch(sorted, to+1)
		a := Activity{Users: end - first, From: sorted[first], To: to, Means: make(map[string]float64)}
		for _, b := range tables {
			for name, x := range b.values {
				var sum, of float64
				for i, u := range b.users {
					if n := active[u]; n > below && n <= to {
						sum, of = sum+x[i], of+1
					}
				}
				if of > 0 {
					a.Means[name] = sum / of
				}
			}
		}
		s.Activity, below = append(s.Activity, a), to
	}
	return s
}

// quantile returns a quantile of sorted numbers by linear interpolation (Hyndman and Fan 1996, type 7).
func quantile(sorted []float64, p float64) float64 {
	at, part := math.Modf(p * float64(len(sorted)-1))
	i := int(at)
	return sorted[i] + part*(sorted[min(i+1, len(sorted)-1)]-sorted[i])
}
