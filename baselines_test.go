package fedsim_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/effort"
	_ "github.com/fedsim/fedsim/lab" // the baselines
)

// This file runs baselines from their settings to their metrics, and computes the same from the ratings and the split that the
// run wrote. The second computations are plain loops over whole matrices.

// liked draws which of 300 users like which of 1,200 items. The first items are liked most, and no two are alike.
func liked() (list []fedsim.Rating) {
	rng := rand.New(rand.NewPCG(1, 2))
	for u := range 300 {
		for j := range 1200 {
			if rng.Float64() < (0.2+float64(u%7)/7)/(1+float64(j)/15) {
				list = append(list, fedsim.Rating{User: fmt.Sprint("user ", u), Item: fmt.Sprint("item ", j), Value: float64(1 + rng.IntN(5))})
			}
		}
	}
	return list
}

// runOf runs settings on ratings, without lost clients, and keeps the folder.
func runOf(t *testing.T, list []fedsim.Rating, settings map[string]string) *fedsim.Result {
	t.Helper()
	all := map[string]string{"out": t.TempDir(), "dropout": "0", "tolerance": "0", "colluders": "0", "baselines": "quick"}
	maps.Copy(all, settings)
	r, err := fedsim.Run(context.Background(), fedsim.Options{Settings: all, Ratings: list, RatingMin: 1, RatingMax: 5, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// matrix returns a matrix of the run's model, a row for each user or item of Data.
func matrix(t *testing.T, r *fedsim.Result, name string) *mat.Dense {
	t.Helper()
	for _, m := range r.Model.Matrices {
		if m.Name == name {
			return mat.NewDense(m.Rows(), m.Cols(), slices.Clone(m.Data()))
		}
	}
	t.Fatalf("the model has no %s", name)
	return nil
}

// partsOf returns the ratings of each part as a matrix of users and items, by the run's split.csv. Rows of the file have
// a user, an item and a part; all other ratings are for training.
func partsOf(t *testing.T, r *fedsim.Result, list []fedsim.Rating) map[string]*mat.Dense {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Folder, "split.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	part := map[[2]string]string{}
	for _, row := range rows[1:] {
		part[[2]string{row[0], row[1]}] = row[2]
	}
	parts := map[string]*mat.Dense{}
	for _, x := range list {
		name := cmp.Or(part[[2]string{x.User, x.Item}], "train")
		if parts[name] == nil {
			parts[name] = mat.NewDense(r.Data.Users, r.Data.Items, nil)
		}
		parts[name].Set(slices.Index(r.Data.UserIDs, x.User), slices.Index(r.Data.ItemIDs, x.Item), x.Value)
	}
	return parts
}

// recall is the mean Recall@K of Liang et al. (2018), equation 6, of one list for all users. History is left out of a list.
func recall(scores []float64, history, target *mat.Dense, k int) float64 {
	order := make([]int, len(scores))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var sum, users float64
	for u := range target.RawMatrix().Rows {
		var hits, wanted, length float64
		for _, j := range order {
			if target.At(u, j) > 0 {
				wanted++
			}
			if length < float64(k) && history.At(u, j) == 0 {
				length++
				if target.At(u, j) > 0 {
					hits++
				}
			}
		}
		if wanted > 0 {
			users++
			sum += hits / min(float64(k), wanted)
		}
	}
	return sum / users
}

// gaussianMu returns the largest μ at which a μ-GDP release is (ε, δ)-DP (Dong, Roth, Su 2022, corollary 2.13), by halving.
func gaussianMu(epsilon, delta float64) float64 {
	normal := distuv.UnitNormal
	low, high := 1e-6, 50.
	for range 100 {
		mu := (low + high) / 2
		if normal.CDF(mu/2-epsilon/mu)-math.Exp(epsilon)*normal.CDF(-mu/2-epsilon/mu) > delta {
			high = mu
		} else {
			low = mu
		}
	}
	return low
}

// sumsOf returns, for each item, the sum of 1/√n over its users, who have n items each.
func sumsOf(x *mat.Dense) []float64 {
	users, items := x.Dims()
	sums := make([]float64, items)
	for u := range users {
		var n float64
		for j := range items {
			n += min(x.At(u, j), 1)
		}
		for j := range items {
			if x.At(u, j) > 0 {
				sums[j] += 1 / math.Sqrt(n)
			}
		}
	}
	return sums
}

// Popularity by private counts (private-item-bias on rankings) releases, of each item, the sum over users of 1/√n, where n is the
// number of the user's items. With ε the released numbers differ from the naive sums by noise of deviation 1/μ, since one user's
// numbers have norm 1. With local noise every client adds as much. Recall@20 is the recall of a plain sort.
func TestPrivatePopularityByNaiveSums(t *testing.T) {
	list := liked()
	const epsilon, delta = 2, 1e-5
	mu := gaussianMu(epsilon, delta)
	for _, c := range []struct {
		name, epsilon, noise string
		deviation            func(users float64) float64
	}{
		{"exact", "inf", "auto", func(float64) float64 { return 0 }},
		{"central", "2", "auto", func(float64) float64 { return 1 / mu }},
		{"local", "2", "local", func(users float64) float64 { return math.Sqrt(users) / mu }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runOf(t, list, map[string]string{
				"algorithm": "private-item-bias", "feedback": "implicit", "split.positive": "1",
				"epsilon": c.epsilon, "delta": "1e-5", "noise": c.noise, "eval.top-k": "20",
			})
			parts := partsOf(t, r, list)
			naive, users := sumsOf(parts["train"]), float64(r.Data.Users)
			released := matrix(t, r, "item_bias").RawMatrix().Data
			apart := make([]float64, len(naive))
			for j, x := range released {
				apart[j] = x*users - naive[j]
			}
			mean, deviation := stat.MeanStdDev(apart, nil)
			if want := c.deviation(users); math.Abs(deviation-want) > max(0.07*want, 0.002) || math.Abs(mean) > max(4*want/math.Sqrt(float64(len(apart))), 0.001) {
				t.Errorf("the released numbers are %v ± %v apart from the naive sums, want 0 ± %v", mean, deviation, want)
			}
			if want := recall(released, parts["test-history"], parts["test-target"], 20); math.Abs(r.Ranking.Recall-want) > 1e-12 {
				t.Errorf("Recall@20 is %v, and %v of a plain sort", r.Ranking.Recall, want)
			}
			exact, _ := r.Baselines.Of("popularity")
			counts := make([]float64, len(naive))
			for j := range counts {
				for u := range r.Data.Users {
					counts[j] += min(parts["train"].At(u, j), 1)
				}
			}
			if want := recall(counts, parts["test-history"], parts["test-target"], 20); math.Abs(exact-want) > 1e-12 {
				t.Errorf("Recall@20 of popularity by exact counts is %v, and %v of a plain sort", exact, want)
			}
		})
	}
}

// FedMF without privacy (fmf-lfl) is gradient descent on whole matrices, as in figure 3(d) of Li, Song and Fanti (2022) and in
// Chai et al. (2021): each user fits its own embedding, and the server moves the items by the sum of all gradients. Embeddings are
// kept at 0 or above, in the ball of squared norm R. The step falls over the first 80% of the rounds to a tenth.
func TestFederatedFactorizationByWholeMatrices(t *testing.T) {
	effort.NotShort(t, "whole runs; TestPrivatePopularityByNaiveSums is one")
	const rank, rounds, rate, steps, top, mean = 3, 12, 0.0004, 7, 5, 3.5
	list := liked()
	settings := map[string]string{
		"algorithm": "fmf-lfl", "contribution": "all-ratings", "clip-norm": "100", "rank": fmt.Sprint(rank), "rounds": fmt.Sprint(rounds),
		"model.learning-rate": fmt.Sprint(rate), "model.fit-steps": fmt.Sprint(steps), "model.fit-ridge": "1",
	}
	got := runOf(t, list, settings)
	maps.Copy(settings, map[string]string{"rounds": "1", "model.learning-rate": "1e-12"})
	v := matrix(t, runOf(t, list, settings), "item_embeddings") // the start, which a seed determines
	x := partsOf(t, got, list)["train"]
	n, m := x.Dims()
	start := math.Sqrt(mean / rank)
	// off is the difference of predictions and ratings where there is a rating, and 0 elsewhere.
	off := func(u *mat.Dense) *mat.Dense {
		var e mat.Dense
		e.Mul(u, v.T())
		e.Apply(func(i, j int, p float64) float64 {
			if x.At(i, j) == 0 {
				return 0
			}
			return p - x.At(i, j)
		}, &e)
		return &e
	}
	// fitted descends for all users at once on half the squared errors and a ridge of the mean, 3.5, around the start. A user's step is one over the trace of the
	// Hessian.
	fitted := func() *mat.Dense {
		u := mat.NewDense(n, rank, nil)
		u.Apply(func(int, int, float64) float64 { return start }, u)
		for range steps {
			var g mat.Dense
			g.Mul(off(u), v)
			for i := range n {
				trace := mean * rank
				for j := range m {
					if x.At(i, j) > 0 {
						trace += mat.Dot(v.RowView(j), v.RowView(j))
					}
				}
				for c := range rank {
					u.Set(i, c, u.At(i, c)-(g.At(i, c)+mean*(u.At(i, c)-start))/trace)
				}
			}
			feasible(u, top)
		}
		return u
	}
	u := fitted() // users stay as they are while the items move
	for round := range rounds {
		var g mat.Dense
		g.Mul(off(u).T(), u)
		g.Scale(2*rate*(1-0.9*min(float64(round)/(0.8*rounds), 1))*float64(m)/float64(n), &g)
		v.Sub(v, &g)
		feasible(v, top)
	}
	for name, want := range map[string]*mat.Dense{"item_embeddings": v, "user_embeddings": fitted()} {
		var d mat.Dense
		d.Sub(matrix(t, got, name), want)
		if norm := mat.Norm(&d, math.Inf(1)); norm > 0.005 { // clients round what they send to a grid
			t.Errorf("%s are up to %v apart from the descent on whole matrices", name, norm)
		}
	}
}

// feasible sets negative numbers to 0 and takes rows of a squared norm above r to r.
func feasible(m *mat.Dense, r float64) {
	m.Apply(func(_, _ int, x float64) float64 { return max(x, 0) }, m)
	for i := range m.RawMatrix().Rows {
		if norm := mat.Dot(m.RowView(i), m.RowView(i)); norm > r {
			floats.Scale(math.Sqrt(r/norm), m.RawRowView(i))
		}
	}
}

// On MovieLens latest-small EASE, item-kNN and popularity have the Recall@20 and NDCG@20 that NumPy computes from the formulas of
// their papers (lab/baselines/testdata/baselines.py). The other methods start at random and are compared on lab/presets/benchmarks.md.
func TestRankingsByNumPy(t *testing.T) {
	effort.LongOnly(t, "two matrices of 6,000 items take a minute")
	const data = "../shared/data/ml-latest-small"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("MovieLens latest-small is not there: %v", err)
	}
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import numpy").Run() != nil {
		t.Skip("there is no Python with NumPy; Debian has it in python3-numpy")
	}
	args := []string{"lab/baselines/testdata/baselines.py", data}
	for _, name := range []string{"ease", "item-knn"} {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Algorithm: name, Seed: 2, Keep: true, Settings: map[string]string{"data": data, "out": t.TempDir()}})
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, r.Folder)
	}
	out, err := exec.CommandContext(t.Context(), python, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(out) {
		var x struct {
			Algorithm       string
			Fedsim, Numpy   map[string]float64
			Popularity      float64 `json:"fedsim popularity"`
			NumpyPopularity float64 `json:"numpy popularity"`
		}
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		if len(x.Numpy) != 2 || math.Abs(x.Popularity-x.NumpyPopularity) > 1e-9 {
			t.Errorf("%s", line)
		}
		for name, want := range x.Numpy {
			if math.Abs(x.Fedsim[name]-want) > 1e-9 {
				t.Errorf("%s: %s is %v, and %v by NumPy", x.Algorithm, name, x.Fedsim[name], want)
			}
		}
	}
}
