package experiment

import (
	"math"

	"github.com/fedsim/fedsim/fedmf"
)

// defaultRank is what serves an algorithm on ratings like MovieLens'.
func defaultRank(a Algorithm) int {
	if a == SGDMF {
		return 20 // FMF paper, section 4.3
	}
	// In ten noisy iterations nothing above rank 1 is learnt: on the synthetic
	// sets ranks 1 to 20 end within 0.004 of one another, and rank 1 sends least.
	return 1
}

// centralLearningRate is the step of sgd-mf for one rating.
const centralLearningRate = 0.01

// learningRate chooses η (fedmf.LFLParams) by the noise: a small one learns
// little, a large one mostly noise. Everything it looks at is public, so the
// choice costs no privacy. Its constants were fitted at ε from 1 to inf on
// splits of other seeds than those that are reported, on the synthetic sets
// and, for all-ratings, on MovieLens latest-small too.
func (e *Experiment) learningRate() float64 {
	sigma := math.Sqrt(e.Release.Noise.Variance) / e.Release.Scale // of the summed gradient
	scale := math.Sqrt(e.Params.StartMean) / float64(e.Cohort.Clients)
	m := float64(e.Params.Items)
	if e.Params.Contribution == fedmf.AllRatings {
		// What counts is how far one user can move V, g = η·m·C, and the noise
		// that a prediction takes on in an iteration at g = 1. Beyond 185
		// items that half of the users rated overshoot.
		const still, linear, square = 1. / 185, 6, 450
		kappa := scale * sigma / e.Params.Clip
		return 1 / (m * e.Params.Clip * (still + linear*kappa + square*kappa*kappa))
	}
	// With one rating the sum's signal for an item falls with the number of
	// items, so η itself counts, and the noise that a prediction takes on at
	// η = 1. Without noise popular items overshoot beyond 0.03, and where items
	// outnumber users a single rating does, when it takes its item more than a
	// sixth of the way.
	const linear, square = 5.6, 0.21
	still := max(1/0.03, 6*2*e.Params.StartMean*m/float64(e.Cohort.Clients))
	kappa := scale * m * sigma
	return 1 / (still + linear*kappa + square*kappa*kappa)
}
