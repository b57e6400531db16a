package eval

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

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
	n := t.Rows.Len()
	counts, squared, absolute := make([]float64, n), make([]float64, n), make([]float64, n)
	t.eachError(t.Rows, 0, n, p, run, func(u int, _ int32, d float64) {
		counts[u]++
		squared[u] += d * d
		absolute[u] += math.Abs(d)
	})
	b := &ByUser{values: make(map[string][]float64)}
	for u, c := range counts {
		if c > 0 {
			b.users = append(b.users, u)
			b.values["rmse"] = append(b.values["rmse"], math.Sqrt(squared[u]/c))
			b.values["mae"] = append(b.values["mae"], absolute[u]/c)
		}
	}
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
	var sorted []int
	for _, n := range active {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	below := -1 // the most ratings of the groups before
	for g := 1; g <= activities; g++ {
		to := sorted[(len(sorted)*g+activities-1)/activities-1]
		if to == below {
			continue
		}
		a := Activity{From: math.MaxInt, To: to, Means: make(map[string]float64)}
		for _, n := range sorted {
			if n > below && n <= to {
				a.Users, a.From = a.Users+1, min(a.From, n)
			}
		}
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
