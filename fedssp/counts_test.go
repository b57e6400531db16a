package fedssp

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/protocol"
)

// counted returns a strategy of 600 users with released weights of items, the logarithms of the true
// weights, and features that explain half of their variance.
func counted(noise float64) (*serving.Strategy, []float64) {
	const items, users, kinds = 900, 600, 6
	rng := entropy.Public(5, "counts")
	f := &dataset.ItemFeatures{Items: items, Categories: []dataset.Category{{Name: "decade", Values: []string{"0", "1", "2", "3", "4", "5"}, Start: []int32{0}}}}
	cat := &f.Categories[0]
	logs, weight := make([]float64, items), make([]float64, items)
	for j := range items {
		kind := j % kinds
		cat.Start, cat.Value, cat.Weight = append(cat.Start, int32(j+1)), append(cat.Value, int32(kind)), append(cat.Weight, 1)
		logs[j] = 0.6*(float64(kind)-2.5) + rng.NormFloat64()
		weight[j] = (math.Exp(logs[j]) + noise*rng.NormFloat64()) / users
	}
	p := kernel.Params{Items: items, Features: f}
	return &serving.Strategy{Params: serving.StrategyParams{Params: p, Cohort: protocol.Cohort{Clients: users}}, Weight: weight, WeightNoise: noise / users}, logs
}

// Against the true logarithms, which the estimate does not see: where noise hides most weights, features
// tell more than the released numbers.
func TestCountsRestOnFeatures(t *testing.T) {
	for _, noise := range []float64{0.5, 2, 5} {
		s, logs := counted(noise)
		known := slices.Clone(s.Weight)
		got := s.Counts()
		if !slices.Equal(known, s.Weight) {
			t.Fatal("the estimate changed the released weights")
		}
		for j := range got {
			got[j] = math.Log(got[j])
		}
		with := stat.Correlation(got, logs, nil)
		plain := stat.Correlation(s.Weight, logs, nil)
		s.Params.Features = nil
		alone := s.Counts()
		for j := range alone {
			alone[j] = math.Log(alone[j])
		}
		without := stat.Correlation(alone, logs, nil)
		if !(with > without+0.01 && without > plain) {
			t.Errorf("noise %v: correlation with the truth %.3f by features, %.3f without, %.3f of released weights", noise, with, without, plain)
		}
	}
}

// Weights far above their noise are taken as they are, and weights without noise exactly, in their
// order.
func TestCountsOfSureWeights(t *testing.T) {
	s, _ := counted(0)
	got := s.Counts()
	for j, x := range s.Weight {
		if want := x * 600; math.Abs(got[j]/want-1) > 1e-12 {
			t.Fatalf("item %d without noise: %v, released %v", j, got[j], want)
		}
	}
	s, _ = counted(0.01)
	got = s.Counts()
	for j, x := range s.Weight {
		if want := x * 600; want > 1 && math.Abs(got[j]/want-1) > 0.001 {
			t.Errorf("item %d: %v, released %v with noise of 0.01", j, got[j], want)
		}
	}
}

// A release of zeros, or of noise alone, gives finite positive numbers.
func TestCountsOfNothing(t *testing.T) {
	s, _ := counted(3)
	for _, weight := range []float64{0, -5} {
		for j := range s.Weight {
			s.Weight[j] = weight
		}
		for _, noise := range []float64{0, 0.005} {
			s.WeightNoise = noise
			for j, x := range s.Counts() {
				if !(x > 0) || math.IsInf(x, 1) {
					t.Fatalf("weight %v, noise %v: item %d counts %v", weight, noise, j, x)
				}
			}
		}
	}
}
