package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
)

// Runner runs the open runs of a sweep in processes of this machine.
type Runner struct {
	// Program is the path of fedsim.
	Program string
	// Jobs is the number of processes that run at a time, and Workers the number of goroutines of
	// each.
	Jobs, Workers int
	// Progress, which may be nil, is called after every run, and at the start.
	Progress func(Progress)
}

// Progress counts the finished runs of a sweep.
type Progress struct {
	All, Finished, Failed, Running int
	Skipped                        int           // finished before the sweep started
	Left                           time.Duration // by the time of the other runs; 0: unknown
}

// Failure is a run that ended without a result.
type Failure struct {
	Run Run
	Log string // the file with its output
	Err error
}

// InterruptedError is returned by a sweep whose context ended. Finished runs stay.
type InterruptedError struct {
	Folder        string
	Finished, All int
}

// Error says how many runs are finished, and how to continue.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("interrupted; %d of %d runs are in %s, and the same command continues with the others", e.Finished, e.All, e.Folder)
}

// Run runs all open runs. A run that fails stops no other run. When ctx ends, Run interrupts the
// running processes and returns an [InterruptedError].
func (r Runner) Run(ctx context.Context, f *Folder) ([]Failure, error) {
	open := f.Open()
	s := &state{runner: r, folder: f, begin: time.Now(), last: Progress{All: len(f.Runs), Finished: len(f.Runs) - len(open), Skipped: len(f.Runs) - len(open)}}
	s.report()
	next := make(chan Run)
	var all sync.WaitGroup
	for range min(max(r.Jobs, 1), len(open)) {
		all.Go(func() {
			for run := range next {
				s.started()
				s.ended(run, r.one(ctx, f, run))
			}
		})
	}
	for _, run := range open {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- run:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	if ctx.Err() != nil {
		return s.failures, &InterruptedError{Folder: f.Path, Finished: s.last.Finished, All: len(f.Runs)}
	}
	return s.failures, nil
}

// patience is the time that an interrupted run has to clean up.
const patience = 20 * time.Second

// one runs the process of a run, unless another sweep of the folder has finished the run by now. The log gets its name when the
// process has ended, so that two sweeps never write to one log.
func (r Runner) one(ctx context.Context, f *Folder, run Run) error {
	if f.Finished(run) {
		return nil
	}
	log, err := os.CreateTemp(filepath.Dir(f.log(run)), run.Name+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { // a log is for people to read, and is no result
		log.Close()                       //nolint:errcheck // likewise
		os.Rename(log.Name(), f.log(run)) //nolint:errcheck // likewise
	}()
	cmd := exec.CommandContext(ctx, r.Program, "run", "--from", f.experiment(run), "--resume", "--workers", strconv.Itoa(r.Workers))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	if _, err = cli.Tie(cmd); err == nil {
		err = cmd.Run()
	}
	if err == nil && !f.Finished(run) {
		err = errors.New("it ended without a result")
	}
	if err != nil && ctx.Err() == nil {
		return reason(log.Name(), err)
	}
	return err
}

type state struct {
	mu       sync.Mutex
	runner   Runner
	folder   *Folder
	begin    time.Time
	last     Progress
	failures []Failure
}

func (s *state) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Running++
	s.report()
}

func (s *state) ended(run Run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Running--
	if err == nil {
		s.last.Finished++
	} else {
		s.last.Failed++
		s.failures = append(s.failures, Failure{Run: run, Log: s.folder.log(run), Err: err})
	}
	done := s.last.Finished - s.last.Skipped + s.last.Failed
	open := s.last.All - s.last.Finished - s.last.Failed
	s.last.Left = time.Since(s.begin) / time.Duration(done) * time.Duration(open)
	s.report()
}

// report passes the progress on. The caller holds mu, or is alone.
func (s *state) report() {
	if s.runner.Progress != nil {
		s.runner.Progress(s.last)
	}
}

// Unwrap is the end of the context.
func (e *InterruptedError) Unwrap() error { return context.Canceled }
