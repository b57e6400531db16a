package forecast

import "math"

// Calibration is what a simulation takes on this machine, with everybody in one process. How long is from training on some of its users.
type Calibration struct {
	// Processor is the processor time of the whole training, in seconds, with what is measured after every round; and of a round.
	// Wall is how long that takes on the wall, with all workers, at the last trial's ratio of the two.
	Processor float64 `json:"processor_seconds"`
	Round     float64 `json:"processor_seconds_per_round"`
	Wall      float64 `json:"wall_seconds"`
	Workers   int     `json:"workers"`
	// PeakMemory is about what the simulation takes at the most ([PeakMemory]).
	PeakMemory int64 `json:"peak_memory_bytes"`

	Trials []Trial `json:"trials"`       // what it was drawn from
	Took   float64 `json:"took_seconds"` // on the wall, to find out
}

// Trial is a training that was timed.
type Trial struct {
	Users   int     `json:"users"`
	Ratings int     `json:"ratings"`           // trained on
	Seconds float64 `json:"processor_seconds"` // of the training
	Wall    float64 `json:"wall_seconds"`      // of it
}

// CalibrationOf draws a line through one or two trials, by ratings: what does not depend on them, such as noise and solving for the
// items, is where it begins, which is not below zero.
func CalibrationOf(trials []Trial, ratings, rounds, workers int) *Calibration {
	last := trials[len(trials)-1]
	base, slope := 0., last.Seconds/math.Max(float64(last.Ratings), 1)
	if first := trials[0]; last.Ratings > first.Ratings {
		slope = math.Max(last.Seconds-first.Seconds, 0) / float64(last.Ratings-first.Ratings)
		if base = last.Seconds - slope*float64(last.Ratings); base < 0 {
			base, slope = 0, last.Seconds/float64(last.Ratings)
		}
	}
	total := base + slope*float64(ratings)
	wall := 1 / math.Max(float64(workers), 1)
	if last.Seconds > 0 && last.Wall > 0 {
		wall = last.Wall / last.Seconds
	}
	return &Calibration{
		Processor: total, Round: total / math.Max(float64(rounds), 1), Wall: total * wall, Workers: workers, Trials: trials,
	}
}
