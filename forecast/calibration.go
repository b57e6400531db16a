package forecast

import "math"

// Calibration estimates the cost of a simulation on this machine, with all roles in one process. The
// times are extrapolated from training on some of its users.
type Calibration struct {
	// Processor is the processor time of the whole training, in seconds, with the measurements
	// after every round; and of a round. Wall is the time on the wall clock, with all workers, at
	// the last trial's ratio of the two.
	Processor float64 `json:"processor_seconds"`
	Round     float64 `json:"processor_seconds_per_round"`
	Wall      float64 `json:"wall_seconds"`
	Workers   int     `json:"workers"`
	// PeakMemory is the largest memory of the simulation, roughly ([PeakMemory]).
	PeakMemory int64 `json:"peak_memory_bytes"`

	Trials []Trial `json:"trials"`       // the trials behind the estimate
	Took   float64 `json:"took_seconds"` // of the trials, on the wall clock
}

// Trial is a timed training run.
type Trial struct {
	Users   int     `json:"users"`
	Ratings int     `json:"ratings"`           // trained on
	Seconds float64 `json:"processor_seconds"` // of the training run
	Wall    float64 `json:"wall_seconds"`      // of the training run
}

// CalibrationOf draws a line through one or two trials, by ratings. The line begins at the time that
// does not depend on ratings, such as for noise and for solving for the items; it is not below zero.
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
