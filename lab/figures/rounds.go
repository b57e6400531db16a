package figures

import (
	"bufio"
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
func roundsOf(r *study.Run) (all []results.Metrics, err error) {
	err = lines(filepath.Join(r.Path, "metrics.jsonl"), func(m results.Metrics) { all = append(all, m) })
	return all, err
}

// clockOf returns the seconds of training up to the end of each round; empty for a run without times.
func clockOf(r *study.Run) (map[int]float64, error) {
	ends, total := make(map[int]float64), 0.0
	err := lines(filepath.Join(r.Path, "timings.jsonl"), func(t results.Timing) {
		total += t.Seconds
		ends[t.Round] = total
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return ends, err
}

// lines reads a file of JSON, a value on each line.
func lines[T any](path string, each func(T)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	scan := bufio.NewScanner(f)
	for n := 1; scan.Scan(); n++ {
		var v T
		if err = json.Unmarshal(scan.Bytes(), &v); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		each(v)
	}
	return scan.Err()
}
