package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/results"
)

// Load is [study.Load] without the runs whose rounds cannot be read, which pictures need. It calls warn with the reason.
func Load(warn func(error), dirs ...string) (whole study.Runs, err error) {
	runs, err := study.Load(warn, dirs...)
	if err != nil {
		return nil, err
	}
	var damaged []error
	for _, r := range runs {
		_, err := roundsOf(r)
		_, err2 := clockOf(r)
		if err = errors.Join(err, err2); err == nil {
			whole = append(whole, r)
		} else {
			damaged = append(damaged, err)
		}
	}
	if len(whole) == 0 {
		return nil, errors.Join(damaged...)
	}
	for _, err := range damaged {
		warn(fmt.Errorf("%w: the run is left out", err))
	}
	return whole, nil
}

// roundsOf reads the rounds of a run.
func roundsOf(r *study.Run) ([]results.Metrics, error) {
	return lines[results.Metrics](filepath.Join(r.Path, "metrics.jsonl"))
}

// clockOf returns the seconds of training up to the end of each round; empty for a run without times.
func clockOf(r *study.Run) (map[int]float64, error) {
	all, err := lines[results.Timing](filepath.Join(r.Path, "timings.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	ends, total := make(map[int]float64), 0.0
	for _, t := range all {
		total += t.Seconds
		ends[t.Round] = total
	}
	return ends, err
}

// lines reads a file of JSON, a value on each line.
func lines[T any](path string) (all []T, err error) {
	b, err := os.ReadFile(path)
	for line := range bytes.Lines(b) {
		var v T
		if err = json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, len(all)+1, err)
		}
		all = append(all, v)
	}
	return all, err
}
