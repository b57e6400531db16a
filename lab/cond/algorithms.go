// Package cond learns regressions whose features are public and whose labels are private:
// DP-SGD, Cond-DP and Switch-Cond-DP ("Private Learning with Public Feature Conditioning", ICML
// 2026) of linear models. One organisation has all examples, or several share them, with secure
// sums and distributed noise. With ratings the examples are the ratings, and their features are the
// items' features.
//
// The protected unit is one label (unit=example, relation=label): features, participation and the
// assignment of examples are public. That is far less than a user.
//
// The three algorithms differ in the transform C of the features. In DP-SGD C is a number. In
// Cond-DP it is VΣ⁻¹Vᵀ of public features UΣVᵀ. Switch-Cond-DP begins with the matrix and ends with
// the number.
//
// Embeddings of categories under a perceptron ([MLP]) are trained in one place, by samples of
// examples; private features may be among them.
package cond

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	_ "github.com/fedsim/fedsim/lab/cond/regression" // opens the sets of regressions
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
	a.Rounds, a.Rank = mlpSteps, func(config.Config) float64 { return 16 }
	return a
}

// rounds returns the number of rounds that gradients need to converge. Conditioned gradients need
// few rounds, in all directions, and rounds do not add noise: each is noised by as much more as
// more of them are averaged. Plain gradients never have enough rounds.
func rounds(c config.Config) float64 {
	if conditions(c) {
		return 20
	}
	return 400
}

func regression(name, help, paper string, own ...*config.Key) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.UserParties, Noise: algorithm.DistributedNoise, Private: true, OneParty: true,
		Features: algorithm.TakesFeatures, Profiles: true,
		Units: []dp.Unit{dp.Example}, Relation: dp.Label,
		OtherUnit: name + " protects single labels: features, who takes part and which example is whose are public",
		Keys:      slices.Concat(keys, own),
		Rounds:    rounds, Rank: func(config.Config) float64 { return 1 },
	}
}

// mlpSteps returns the number of steps, fewer with noise. They are fitted, with rate and clip, to
// validation errors on synthetic:fields at ε = 1 and 4, and with 200,000 examples.
func mlpSteps(c config.Config) float64 {
	if algorithm.Private(c) {
		return 800
	}
	return 2000
}
