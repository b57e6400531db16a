package encoder

import (
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/problems"
)

// Optimiser is the rule that updates θ from a gradient.
type Optimiser string

const (
	// Adam is Algorithm 1 of Kingma & Ba (2015), with their β1 = 0.9, β2 = 0.999 and ε = 1e-8.
	Adam Optimiser = "adam"
	// SGD is plain gradient descent, without momentum.
	SGD Optimiser = "sgd"
)

// Optimisers lists all rules.
var Optimisers = []Optimiser{Adam, SGD}

// Decay is the schedule by which the learning rate falls over the steps of a round, from
// Settings.Rate at the first.
type Decay string

const (
	// Constant keeps the rate.
	Constant Decay = "constant"
	// Cosine falls along half a cosine, to a tenth at the last step.
	Cosine Decay = "cosine"
	// Linear falls evenly, to a tenth at the last step.
	Linear Decay = "linear"
)

// lastRate is the fraction of the rate at the last step of a falling schedule.
const lastRate = 0.1

// Settings describes the encoder and its fit. Callers keep numbers in their ranges.
type Settings struct {
	// Dim is the length of a feature's embedding; 0 means the rank. Without a dense layer these
	// embeddings are added up, so Dim must be the rank.
	Dim int
	// Dense adds a dense layer after the concatenated embeddings of the categories. Without it they
	// are added up, and the encoder is linear.
	Dense bool
	// IDs gives each item an embedding of its id besides its features' embeddings. Without features
	// there are only ids, whatever IDs says.
	IDs bool
	// StartNorm is the root mean square of ‖v_j‖ at the start over the items that have features;
	// above 0 and at most 1e9.
	StartNorm float64

	Optimiser Optimiser
	Rate      float64 // learning rate; above 0
	Decay     Decay
	Steps     int // gradient steps of a round; at least 1
	// Batch is the most items that a step uses; 0 means all of them. An epoch divides the items
	// into batches whose sizes differ by at most one.
	Batch int
	// Ridge is ρ in ½ρ‖θ‖², which is added to the mean loss of the items. It is not negative, and
	// applies to the dense layer, too.
	Ridge float64
}

// Validate reports what does not go with an encoder of that rank. Ranges of numbers stand with the keys of the settings.
func (s Settings) Validate(rank int) error {
	var errs problems.List
	bad := func(holds bool, format string, args ...any) { errs.If(holds, "encoder: "+format, args...) }
	bad(rank < 1, "rank is %d; it must be at least 1", rank)
	bad(s.Dim < 0, "dim is %d; it must be at least 1, or 0 for the rank", s.Dim)
	bad(!s.Dense && s.Dim > 0 && s.Dim != rank, "dim is %d without a dense layer; embeddings that are added up must have the rank, %d", s.Dim, rank)
	bad(!slices.Contains(Optimisers, s.Optimiser), "optimiser is %q; it must be one of %v", s.Optimiser, Optimisers)
	return errors.Join(errs...)
}

// rate is the learning rate of a step, counted from 0.
func (s Settings) rate(step int) float64 {
	if s.Decay == Constant || s.Steps == 1 {
		return s.Rate
	}
	left := 1 - float64(step)/float64(s.Steps-1) // from 1 to 0
	if s.Decay == Cosine {
		left = (1 - math.Cos(math.Pi*left)) / 2
	}
	return s.Rate * (lastRate + (1-lastRate)*left)
}
