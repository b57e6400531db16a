package experiment

import "math"

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

// learningRate chooses the step that an item with its even share of the
// ratings takes (fedmf.LFLParams) by how much noise such a step brings: with
// η = 1, one iteration moves a prediction by noise of deviation
//
//	κ = √mean · m/N · σ,  σ the noise's deviation in the gradient's units.
//
// A small η learns little, a large one mostly noise. The best η falls as 1/κ²
// where noise rules and ends at 0.03 where there is none, beyond which popular
// items overshoot. The three constants were fitted on the synthetic sets at
// ε = 1, 5, 10, 20, 50 and inf, on splits of other seeds than those reported;
// all of it is public, so the choice costs no privacy.
func (e *Experiment) learningRate() float64 {
	const still, linear, square = 1 / 0.03, 5.6, 0.21
	sigma := math.Sqrt(e.Release.Noise.Variance) / e.Release.Scale
	kappa := math.Sqrt(e.Params.StartMean) * float64(e.Params.Items) / float64(e.Cohort.Clients) * sigma
	return 1 / (still + linear*kappa + square*kappa*kappa)
}
