package fedssp

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/model"
)

// Numbers of a mean by inverse variances, written out by hand: variances 1 and 1/3 weigh 1 to 3, and their mean has variance 1/4.
func TestSumsAreJoinedByPrecision(t *testing.T) {
	own := &serving.Sum{Value: []float64{4, 8, 1, 1, 5, 5}, Precision: []float64{1, 2, math.Inf(1)}}
	before := &serving.Sum{Value: []float64{0, 4, 7, 7, 9, 9}, Precision: []float64{3, 0, 1}}
	x := own.Joined(before)
	near(t, "values", x.Value, []float64{1, 5, 1, 1, 5, 5}, 1e-15)
	if !slices.Equal(x.Precision, []float64{4, 2, math.Inf(1)}) {
		t.Errorf("precisions %v", x.Precision)
	}
	var none *serving.Sum
	if none.Joined(before) != before || own.Joined(nil) != own || none.Joined(nil) != nil || none.Aged(0.5) != nil {
		t.Error("a sum that is missing is not the other one")
	}
	if p := before.Aged(0.5).Precision; !slices.Equal(p, []float64{1.5, 0, 0.5}) {
		t.Errorf("aged precisions %v", p)
	}
}

// A session that starts from sums of full weight has the model that the sums ended with, before any round.
func TestStartHasTheModelOfTheSums(t *testing.T) {
	for _, name := range []string{"pooled", "full"} {
		p := kinds(12, 2)[name]
		p.Rounds = 3
		users, _ := people(&p, 25, 0.5, 5)
		first := newStrategy(t, p, 25, 0.01)
		for round(t, first, users, nil) {
		}
		next := newStrategy(t, p, 25, 0.01)
		if err := next.StartFrom(first.Together(), 1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a, b := first.Current(), next.Current()
		near(t, name+": mean", []float64{b.Mean}, []float64{a.Mean}, 1e-9)
		near(t, name+": items", b.Items, a.Items, 1e-6)
		near(t, name+": biases", b.Bias, a.Bias, 1e-9)

		// Twice the same measurement, with noise of its own each time, is twice as precise.
		for round(t, next, users, nil) {
		}
		one, two := first.Together().Moments.Precision[0], next.Together().Moments.Precision[0]
		if math.Abs(two-2*one) > 1e-9*one {
			t.Errorf("%s: precision %v after one session and %v after two", name, one, two)
		}
	}
}

// A session that starts from sums of the same ratings measures the same. Its model has biases already, but its first sums for
// biases are of ratings about the mean. Only later sums are of residuals.
func TestStartedSessionMeasuresTheSame(t *testing.T) {
	for _, name := range []string{"pooled", "full", "refined"} {
		p := kinds(12, 2)[name]
		users, _ := people(&p, 40, 0.5, 5)
		first := newStrategy(t, p, 40, 0.01)
		for round(t, first, users, nil) {
		}
		again, _ := people(&p, 40, 0.5, 5)
		next := newStrategy(t, p, 40, 0.01)
		if err := next.StartFrom(first.Together(), 1); err != nil {
			t.Fatal(err)
		}
		for round(t, next, again, nil) {
		}
		near(t, name+": biases", next.Current().Bias, first.Current().Bias, 0.08)
	}
}

// A newer sum of more ratings hides an older sum where noise is small, and is averaged with it where noise is large. The shares are solved from
// the two equations of the best linear estimate, by hand.
func TestNewerSumsWeighMore(t *testing.T) {
	// Ten users then and twenty now, with a weight of 1 each; the scatter of a rating is 4. With noise of variance 1 for both,
	// the covariance is ((4/10+1, 4/20), (4/20, 4/20+1)). Its inverse times (1, 1) is in proportion to (1, 1.2).
	then, now := serving.Measure{Gain: 1, Scatter: 0.1}, serving.Measure{Gain: 1, Scatter: 0.05}
	for _, c := range []struct{ noise, want float64 }{{1, 1.2 / 2.2}, {1e6, 0.5}, {1e-9, 1}} {
		if got := serving.Newer(1/c.noise, 1/c.noise, now, then, 4); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("with noise %v the newer sum has the share %v, want %v", c.noise, got, c.want)
		}
	}
}

// A session that started from sums continues from a saved state to the bit.
func TestRestoreContinuesAfterAStart(t *testing.T) {
	for _, name := range []string{"pooled", "full", "cmf"} {
		p := kinds(12, 2)[name]
		users, _ := people(&p, 15, 0.4, 5)
		first := newStrategy(t, p, 15, 0.01)
		for round(t, first, users, nil) {
		}
		begin := func() *serving.Strategy {
			s := newStrategy(t, p, 15, 0.01)
			if err := s.StartFrom(first.Together(), 0.7); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return s
		}
		whole := begin()
		for k := 0; ; k++ {
			state, err := whole.Save()
			if err != nil {
				t.Fatal(err)
			}
			s := begin()
			if err := s.Restore(state); err != nil {
				t.Fatalf("%s: after %d rounds: %v", name, k, err)
			}
			if again, err := s.Save(); err != nil || !bytes.Equal(again, state) || !bytes.Equal(s.Model(), whole.Model()) {
				t.Fatalf("%s: restored after %d rounds, it is another (%v)", name, k, err)
			}
			near(t, name, s.Together().Weight.Value, whole.Together().Weight.Value, 0)
			if !round(t, whole, users, nil) {
				break
			}
		}
	}
}

// A record's rows go by id. An item that the record does not have starts with nothing known of it, and the row of an
// item that is gone stays and ages.
func TestRecordOfOtherItems(t *testing.T) {
	p := kinds(12, 2)["pooled"]
	users, _ := people(&p, 25, 0.5, 5)
	first := newStrategy(t, p, 25, 0.01)
	for round(t, first, users, nil) {
	}
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	x := &instance{setup: &algorithm.Setup{Data: &dataset.Set{ItemIDs: ids}}, params: p}
	list, err := x.Record(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	later := slices.Clone(ids)
	later[0] = "new" // in place of a
	var c config.Config
	algorithm.Name.Set(&c, "ssp-c")
	y := &instance{setup: &algorithm.Setup{Config: c, Data: &dataset.Set{ItemIDs: later}, Start: &algorithm.Start{Released: list}}, params: p}
	if err = y.checkStart(); err != nil {
		t.Fatal(err)
	}
	next := newStrategy(t, p, 25, 0.01)
	if err = y.startFrom(next); err != nil {
		t.Fatal(err)
	}
	for j, v := range next.Current().Items {
		if math.IsNaN(v) || math.Abs(v) > 10 {
			t.Errorf("item %d starts at %v", j/p.Rank, v)
		}
	}
	for j, v := range next.Current().Bias {
		if math.IsNaN(v) || math.Abs(v) > p.ClipBias {
			t.Errorf("item %d starts with the bias %v", j, v)
		}
	}
	for round(t, next, users, nil) {
	}
	kept, err := y.Record(next, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(list []model.Embeddings, id string, col int) float64 {
		return list[0].Matrix.Row(slices.Index(list[0].IDs, id))[col]
	}
	col := columnsOf(&p)
	old, own := at(list, "a", col.precision), at(kept, "new", col.precision)
	near(t, "precisions", []float64{at(kept, "a", col.precision), at(kept, "b", col.precision)}, []float64{0.8 * old, own + 0.8*old}, 1e-9*own)
	if at(kept, "a", col.moments) != at(list, "a", col.moments) {
		t.Error("sums of an item that is gone changed")
	}
}

// Solvers that combine no sums say so.
func TestStartNeedsASolverOfSums(t *testing.T) {
	p := kinds(12, 2)["encoder"]
	if err := newStrategy(t, p, 15, 0.01).StartFrom(&serving.Record{}, 1); !errors.Is(err, serving.ErrNotResumed) {
		t.Errorf("%v", err)
	}
}

// A session that starts from another one and loses all sums for biases continues with the earlier ones, and its record keeps the
// weights and their scatter for the session after it.
func TestStartedSessionWithoutBiases(t *testing.T) {
	for _, name := range []string{"pooled", "full"} {
		p := kinds(12, 2)[name]
		users, _ := people(&p, 25, 0.5, 5)
		first := newStrategy(t, p, 25, 0.01)
		for round(t, first, users, nil) {
		}
		before := first.Together()
		next := newStrategy(t, p, 25, 0.01)
		if err := next.StartFrom(before, 1); err != nil {
			t.Fatal(err)
		}
		for {
			plan, done, err := next.Next()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if plan.Phase == kernel.BiasStage || plan.Phase == kernel.Refine {
				next.Skip(plan, errors.New("lost"))
				continue
			}
			next.Round--
			round(t, next, users, nil)
		}
		r := next.Together()
		near(t, name+": weights", r.Gain, before.Weight.Value, 1e-12)
		near(t, name+": scatter", r.Scatter, before.BiasScatter, 1e-12)
	}
}
