package fedsim

import (
	"context"
	"math"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/sim"
)

// Samples that a forecast of time is made from: of so many users at first, and of times as many until the next takes enough more to be
// measured.
const (
	firstSample = 64
	nextSample  = 4
	enough      = 0.5 // seconds of processor time
)

// Calibrate forecasts the time that training takes on this machine: it trains on some users, then on four times as many, until
// that takes half a second of processor time more, and draws a line through the last two by their ratings. With real sums, whose
// clients have the more neighbours the more there are, or without clients, it is a [config.Error].
func Calibrate(ctx context.Context, e *experiment.Experiment) (*forecast.Effort, error) {
	if e.Real() || !e.About().Federated() || !e.About().ByUser {
		return nil, config.Errorf("calibrate: time is forecast of ideal sums over clients that are users, and not of %s with secagg %s", e.About().Name, algorithm.Secagg.Of(e.Config))
	}
	began := time.Now()
	var trials []forecast.Trial
	for users := min(firstSample, e.Data.Users); ; users = min(nextSample*users, e.Data.Users) {
		sample, err := e.Sample(users)
		if err != nil {
			return nil, err
		}
		took, err := trainingTime(ctx, sample)
		if err != nil {
			return nil, err
		}
		trials = append(trials, forecast.Trial{Users: users, Ratings: sample.Split.Train.Len(), Seconds: took.Seconds()})
		if n := len(trials); users == e.Data.Users || n > 1 && took.Seconds()-trials[n-2].Seconds >= enough {
			break
		}
	}
	f := forecast.EffortOf(trials[max(len(trials)-2, 0):], e.Split.Train.Len(), e.Schedule.Iterations(), int(e.Workers()))
	f.PeakMemory = forecast.PeakMemory(e)
	f.Took = math.Round(1000*time.Since(began).Seconds()) / 1000
	return f, nil
}

// trainingTime is the processor time of a training, with what is measured after every round.
func trainingTime(ctx context.Context, e *experiment.Experiment) (time.Duration, error) {
	start := processorTime()
	f, err := e.Federation()
	if err != nil {
		return 0, err
	}
	out, err := sim.Run(ctx, Simulation(e, f, func(_ sim.Iteration, shared []byte) error {
		_, failed := e.MeasureInterim(f, shared, e.Workers())
		return failed
	}))
	if err != nil {
		return 0, err
	}
	if _, err = e.Final(f, out.Model, e.Workers()); err != nil {
		return 0, err
	}
	return processorTime() - start, nil
}
