package training

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/sim"
)

// A forecast of time is made from samples. The first has firstSample users, and each next one several times as many, until
// it takes enough more time to be measured, and a share of the whole. Fewer users fit the processor's caches, and train faster.
const (
	firstSample = 64
	nextSample  = 4
	enough      = 0.5  // seconds of processor time
	share       = 0.02 // of the processor time that is forecast
)

// Calibrate forecasts the time that training takes on this machine. It trains on some users, then on four times as many, until
// that takes half a second of processor time more, and a fiftieth of the forecast. A line through the last two samples, by
// their ratings, gives the forecast. With real sums a client has more neighbours if there are more clients. Such an
// experiment, or one without clients, is a [config.Error].
func Calibrate(ctx context.Context, e *experiment.Experiment) (*forecast.Calibration, error) {
	if e.Real() || !e.About().Federated() || !e.About().ByUser {
		return nil, config.Errorf("calibrate: time is forecast of ideal sums over clients that are users, and not of %s with secagg %s", e.About().Name, algorithm.Secagg.Of(e.Config))
	}
	began := time.Now()
	var trials []forecast.Trial
	var f *forecast.Calibration
	for users := min(firstSample, e.Data.Users); ; users = min(nextSample*users, e.Data.Users) {
		sample, err := e.Sample(users)
		if err != nil {
			return nil, err
		}
		t, err := trial(ctx, sample)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
		trials = trials[max(len(trials)-2, 0):]
		f = forecast.CalibrationOf(trials, e.Split.Train.Len(), e.Schedule.Rounds(), int(e.Workers()))
		if users == e.Data.Users || len(trials) == 2 && t.Seconds-trials[0].Seconds >= max(enough, share*f.Processor) {
			break
		}
	}
	f.PeakMemory = forecast.PeakMemory(e)
	f.Took = math.Round(1000*time.Since(began).Seconds()) / 1000
	return f, nil
}

// trial times a training, with what is measured after every round.
func trial(ctx context.Context, e *experiment.Experiment) (forecast.Trial, error) {
	t := forecast.Trial{Users: e.Data.Users, Ratings: e.Split.Train.Len()}
	runtime.GC() // what others left is not this one's
	start, began := processorTime(), time.Now()
	f, err := e.Federation()
	if err != nil {
		return t, err
	}
	out, err := sim.Run(ctx, Simulation(e, f, func(_ sim.Round, shared []byte) error {
		_, failed := e.MeasureInterim(f, shared, e.Workers())
		return failed
	}))
	if err != nil {
		return t, err
	}
	if _, err = e.Final(f, out.Model, e.Workers()); err != nil {
		return t, err
	}
	t.Seconds, t.Wall = (processorTime() - start).Seconds(), time.Since(began).Seconds()
	return t, nil
}
