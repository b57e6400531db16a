package training

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/sim"
)

// Run trains an experiment through the simulator, or where all ratings are in one place,
// and measures the model and what it is compared with.
func Run(ctx context.Context, e *experiment.Experiment, p results.Progress) (_ *Result, err error) {
	defer stopWith(ctx, e, &err)()
	j := newJob(e, p)
	if err = j.train(ctx); err != nil {
		return nil, err
	}
	if err = j.compare(ctx); err != nil {
		return nil, err
	}
	return j.result, nil
}

func newJob(e *experiment.Experiment, p results.Progress) *job {
	j := &job{
		e: e, progress: results.OrSilent(p), clock: &stopwatch{last: time.Now(), laps: make(map[string]float64)},
		result: &Result{Experiment: e, Summary: &results.Summary{
			Algorithm: e.About().Name, Data: e.Data.Name, Notices: e.Data.Notices, Secagg: algorithm.Secagg.Of(e.Config), Noise: algorithm.Noise.Of(e.Config),
			Rounds: e.Schedule.Rounds(), BytesUpPerClient: map[string]int64{}, BytesDownPerClient: map[string]int64{},
		}},
	}
	j.result.NoteSettings(e)
	j.result.Seconds = j.clock.laps
	j.result.Seconds["load"] = e.Loading.Seconds()
	return j
}

// job is one run: an experiment in the simulator, and what the summary says of it.
type job struct {
	e           *experiment.Experiment
	progress    results.Progress
	clock       *stopwatch
	result      *Result
	attempts    []experiment.Attempt
	sessions    []algorithm.PastSession // that the model depends on, with the charged releases; this one is the last
	shared      []byte                  // the model that clients finished with; nil where all ratings are in one place
	checkpoints *checkpointer           // nil where no checkpoints are written
	engine      Engine                  // nil: the simulator

	on      *experiment.Experiment // what the run is measured on; nil: its own test part
	clients algorithm.ClientSide   // of the users of on, between rounds

	folder *results.Folder // which gets every round; nil: the run is not kept
	ended  time.Time       // the round before, and its measuring
}

func (j *job) train(ctx context.Context) error {
	train := j.federated
	if c, ok := j.e.Instance().(algorithm.Central); ok {
		train = func(ctx context.Context) error { return j.central(ctx, c) }
	}
	if err := train(ctx); err != nil {
		return err
	}
	r, run := j.result, j.e.Workers()
	e, m := j.e, r.Model // what is measured, and where
	if j.on != nil {
		clients, err := j.on.Instance().ClientSide()
		if err != nil {
			return err
		}
		e = j.on
		if m, err = clients.Final(j.shared, run); err != nil {
			return err
		}
	} else if !j.measures() {
		r.PeakMemory = results.PeakMemory()
		j.clock.lap("train")
		return model.Failed(m)
	}
	quality := e.Test.Measure(m, run)
	var slices []eval.ErrorSlice
	if quality.Ranking == nil {
		slices = e.Test.Slices(m, run)
	}
	r.SetQuality(quality, slices)
	r.RMSEWithDrift = e.Test.MeasureDrift(m, run)
	if j.on == nil {
		if q := e.Test.Validate(m, run); q != nil {
			r.SetValidation(*q)
		}
	}
	j.clock.lap("train")
	err := j.lists(e, m)
	if err != nil {
		return err
	}
	if j.on == nil {
		if r.Sampled, err = e.MeasureSampled(m, run); err != nil {
			return err
		}
		if c, ok := e.Instance().(algorithm.ClipReporter); ok {
			r.Clipped = new(c.Clipped())
		}
	}
	r.PeakMemory = results.PeakMemory()
	j.clock.lap("lists")
	return model.Failed(m)
}

// measures reports whether a part of the ratings was kept to measure on. split.test=0 trains on all, as a deployment does.
func (j *job) measures() bool { return j.e.Split.Test.Len() > 0 }

// lists measures lists, popularity in their place, and how metrics differ between users.
func (j *job) lists(e *experiment.Experiment, m *model.Trained) error {
	if e.Data.Profile != nil { // a regression has one item
		return nil
	}
	run := j.e.Workers()
	q, err := e.MeasureLists(m, run)
	if err != nil {
		return err
	}
	j.result.SetLists(q)
	errs := e.Test.ErrorsByUser(m, run)
	if q == nil {
		j.result.Spread = e.Test.Spread(errs)
		return nil
	}
	j.result.Spread = e.Test.Spread(errs, q.ByUser)
	popular := map[string]eval.Popular{results.ExactCounts: e.Test.Popularity()}
	for _, x := range m.Matrices {
		if x.Name == algorithm.ItemCounts {
			popular[results.ReleasedCounts] = x.Data()
		}
	}
	for name, p := range popular {
		if q, err = e.MeasureLists(p, run); err != nil {
			return err
		}
		j.result.SetPopularity(name, q)
	}
	return nil
}

// interim measures the shared model between two rounds.
func (j *job) interim(f *experiment.Federation, shared []byte) (eval.Quality, error) {
	if j.on == nil {
		return j.e.MeasureInterim(f, shared, j.e.Workers())
	}
	p, err := j.clients.Interim(shared, j.e.Workers())
	if err != nil {
		return eval.Quality{}, err
	}
	return j.on.Test.Measure(p, j.e.Workers()), model.Failed(p)
}

// compare measures the baselines. If the context ends meanwhile, the result lacks the others.
func (j *job) compare(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		err = j.baselines(ctx)
	}
	j.result.PeakMemory = results.PeakMemory()
	return cmp.Or(err, ctx.Err())
}

// baselines measures what the run is compared with: some by training through the
// roles once more, unless only the quick ones are wanted.
func (j *job) baselines(ctx context.Context) error {
	if j.on != nil || !j.measures() {
		return nil
	}
	j.progress.Start("baselines", 0)
	for _, b := range j.e.Baselines() {
		if b.Vary != nil && !b.Itself && !algorithm.Baselines.Is(j.e.Config, "all") {
			continue
		}
		if err := j.baseline(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// baseline measures a baseline as the run is measured, and adds it to the summary.
func (j *job) baseline(ctx context.Context, b algorithm.Baseline) error {
	r, run := j.result, j.e.Workers()
	value, drift := r.PrimaryMetric(), r.RMSEWithDrift
	if !b.Itself {
		var p model.Predictor
		var err error
		lap := "baselines"
		if b.Predict != nil {
			p, err = orEnd(ctx, func() (model.Predictor, error) { return b.Predict(run) })
		} else {
			e, wrong := j.e.Vary(b)
			if wrong != nil {
				return wrong
			}
			defer stopWith(ctx, e, &err)()
			lap = b.Name
			p, err = j.runVariant(ctx, b.Name, e)
		}
		if err != nil {
			return err
		}
		value, drift = j.e.Test.Measure(p, run).PrimaryMetric(), j.e.Test.MeasureDrift(p, run)
		j.clock.lap(lap)
		if err = errors.Join(model.Failed(p), ctx.Err()); err != nil {
			return err
		}
	}
	r.Baselines = append(r.Baselines, results.Baseline{Name: b.Name, Note: b.Note, Value: value})
	if drift != nil {
		r.BaselinesWithDrift = append(r.BaselinesWithDrift, results.Baseline{Name: b.Name, Note: b.Note, Value: *drift})
	}
	return nil
}

// orEnd returns the result of do, or the context's error as soon as the context ends. do then continues in the background:
// baselines that train at once know no context.
func orEnd[T any](ctx context.Context, do func() (T, error)) (x T, err error) {
	done := make(chan func() (T, error), 1)
	go func() {
		got, failed := do()
		done <- func() (T, error) { return got, failed }
	}()
	select {
	case result := <-done:
		return result()
	case <-ctx.Done():
		return x, ctx.Err()
	}
}

// stopWith stops what an instance waits for outside the process when the context ends, or when the returned function finds an error.
func stopWith(ctx context.Context, e *experiment.Experiment, err *error) (detach func()) {
	stop := func() {
		if s, ok := e.Instance().(algorithm.Stopper); ok {
			s.Stop()
		}
	}
	cancel := context.AfterFunc(ctx, stop)
	return func() {
		if cancel() && *err != nil {
			stop()
		}
	}
}

// runVariant runs a named variant of the experiment and returns its model.
func (j *job) runVariant(ctx context.Context, name string, e *experiment.Experiment) (model.Predictor, error) {
	name = strings.ReplaceAll(name, "_", " ")
	if c, ok := e.Instance().(algorithm.Central); ok {
		j.progress.Start(name, c.Epochs())
		return c.Train(ctx, e.Workers(), algorithm.Passes{}, sim.Apart(algorithm.Seed.Of(e.Config), e.Session()), func(at algorithm.Epoch) error {
			j.progress.Step(at.Number)
			return nil
		})
	}
	f, err := e.Federation()
	if err != nil {
		return nil, err
	}
	j.progress.Start(name, e.Schedule.Rounds())
	out, err := sim.Run(ctx, Simulation(e, f, func(it sim.Round, _ []byte) error {
		j.progress.Step(int(it.Number))
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return e.Final(f, out.Model, e.Workers())
}

// federated trains through the roles and fills in what it cost.
func (j *job) federated(ctx context.Context) error {
	f, err := j.e.Federation()
	if err != nil {
		return err
	}
	j.start(j.e.Schedule.Rounds())
	c := Simulation(j.e, f, func(it sim.Round, shared []byte) error { return j.round(f, it, shared) })
	if k := j.checkpoints; k != nil {
		c.Between = func(take func() (*sim.Snapshot, error)) error {
			return k.afterRound(j.result.Metrics, j.attempts, func(c *checkpoint) error {
				s, failed := take()
				if failed == nil {
					c.Run = *s
				}
				return failed
			})
		}
		if k.from != nil {
			c.From = &k.from.Run
		}
	}
	run := j.engine
	if run == nil {
		run = func(ctx context.Context, _ *experiment.Experiment, _ *experiment.Federation, c sim.Config) (*sim.Outcome, error) {
			return sim.Run(ctx, c)
		}
	}
	out, err := run(ctx, j.e, f, c)
	if err != nil {
		return err
	}
	r := j.result
	r.SkippedRounds = out.Skipped()
	for _, it := range out.Rounds {
		if it.Skipped != nil {
			r.RecordSkipped(it.Number, j.e)
		}
		r.DroppedPerRound += float64(it.Dropped) / float64(len(out.Rounds))
	}
	r.BytesUpPerClient = results.PerClient(out.Up, len(f.Trainers))
	r.BytesDownPerClient = results.PerClient(out.Down, len(f.Trainers))
	r.Seconds["virtual"] = out.Clock.Seconds()
	spent, err := j.e.Spent(f.Ledgers, j.attempts)
	if err != nil {
		return err
	}
	r.Privacy = j.e.Statement(spent)
	charged, err := j.e.Charged(f.Ledgers, j.attempts)
	if err != nil {
		return err
	}
	if err = j.state(charged); err != nil {
		return err
	}
	j.shared = out.Model
	if r.Model, err = j.e.Final(f, out.Model, j.e.Workers()); err != nil {
		return err
	}
	r.Mean = r.Model.Mean
	if err = j.record(f); err != nil {
		return err
	}
	if r.Model.Shared != nil && j.measures() {
		shared := j.e.Test.Measure(r.Model.Shared, j.e.Workers()).RMSE
		r.SharedRMSE = &shared
	}
	return nil
}

// state notes the releases that were charged, and every session before this one.
func (j *job) state(charged []dp.Event) error {
	past, err := j.e.Past(charged, j.result.SkippedRounds)
	if j.e.Start != nil {
		j.sessions = slices.Clone(j.e.Start.Sessions)
	}
	j.sessions = append(j.sessions, past)
	return err
}

// record notes what the session leaves for a later session, and what it costs together with earlier sessions. Another
// engine may have taken the rounds without the federation's strategy, and then leaves nothing.
func (j *job) record(f *experiment.Federation) (err error) {
	if j.engine != nil {
		return nil
	}
	r := j.result
	if r.Record, err = j.e.Record(f.Strategy, r.Model, r.SkippedRounds); err == nil && r.Record != nil && j.e.Start != nil {
		r.AllSessions, err = results.Together(r.Record)
	}
	return err
}

// round measures after a round and writes it down.
func (j *job) round(f *experiment.Federation, it sim.Round, shared []byte) error {
	j.attempts = append(j.attempts, experiment.Attempt{
		Survivors: it.Survivors, Answered: it.Answered, Summed: it.Skipped == nil, Sent: it.Sent > 0,
	})
	trained := time.Now()
	quality, err := j.interim(f, shared)
	if err != nil {
		return err
	}
	spent, err := j.e.Spent(f.Ledgers, j.attempts)
	if err != nil {
		return err
	}
	m := results.MetricsOf(quality, int(it.Number))
	m.Federated = &results.Federated{
		Alive: it.Alive, Dropped: it.Dropped, Skipped: it.Skipped != nil,
		BytesUp: it.Up, BytesDown: it.Down, Seconds: it.Duration.Seconds(), Stages: make(map[string]float64),
	}
	for s, d := range it.Stages {
		if d > 0 {
			m.Stages[protocol.Stage(s).String()] = d.Seconds()
		}
	}
	if stated := j.e.Statement(spent).Epsilon; !math.IsInf(stated, 1) {
		m.Epsilon, m.Delta = &stated, j.e.Privacy.Budget.Delta
	}
	if err = j.report(m, it.Skipped); err != nil {
		return err
	}
	return j.time(m.Round, trained)
}

// time writes down what a round took that was trained at a time, and measured by now.
func (j *job) time(round int, trained time.Time) error {
	began, now := j.ended, time.Now()
	j.ended = now
	if j.folder == nil {
		return nil
	}
	return j.folder.Time(results.Timing{Round: round, Seconds: trained.Sub(began).Seconds(), Measuring: now.Sub(trained).Seconds()})
}

func (j *job) report(m results.Metrics, skipped error) error {
	j.result.Metrics = append(j.result.Metrics, m)
	if j.folder != nil {
		if err := j.folder.Append(m); err != nil {
			return err
		}
	}
	return j.progress.Round(m, skipped)
}

// start begins the rounds, or the passes of training in one place.
func (j *job) start(rounds int) {
	j.progress.Start(j.e.About().Name, rounds)
	j.ended = time.Now()
	if k := j.checkpoints; k != nil && k.resumer != nil {
		k.resumer.Resumed(k.written, k.rounds)
	}
}

// central trains on all ratings in one place.
func (j *job) central(ctx context.Context, c algorithm.Central) error {
	r := j.result
	j.start(c.Epochs())
	r.Rounds, r.Secagg = c.Epochs(), "none"
	k, from := j.checkpoints, algorithm.Passes{}
	if k != nil && k.from != nil {
		from = algorithm.Passes{Done: k.from.Rounds, State: k.from.Central}
	}
	m, err := c.Train(ctx, j.e.Workers(), from, sim.Apart(algorithm.Seed.Of(j.e.Config), j.e.Session()), func(e algorithm.Epoch) error {
		trained := time.Now()
		failed := j.report(results.MetricsOf(j.e.Test.Measure(e.Model, j.e.Workers()), e.Number), nil)
		if failed == nil {
			failed = j.time(e.Number, trained)
		}
		if failed != nil || k == nil || e.Number == c.Epochs() {
			return failed
		}
		return k.afterRound(j.result.Metrics, j.attempts, func(c *checkpoint) error {
			c.Central = e.Save()
			return nil
		})
	})
	if err != nil {
		return err
	}
	spent, err := j.e.Planned()
	r.Model, r.Mean, r.Privacy = m, m.Mean, j.e.Statement(spent)
	return errors.Join(err, j.state(j.e.Privacy.Run))
}

// stopwatch keeps the seconds of phases, on the wall clock.
type stopwatch struct {
	last time.Time
	laps map[string]float64
}

// lap adds the time since the last lap to a phase.
func (s *stopwatch) lap(phase string) {
	now := time.Now()
	s.laps[phase] += now.Sub(s.last).Seconds()
	s.last = now
}
