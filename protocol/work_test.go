package protocol

import (
	"errors"
	"testing"
	"time"
)

// A work's result is taken in when its Done is applied: not before, each run's own, and
// not where the computation failed.
func TestWork(t *testing.T) {
	var taken []int
	runs, failure := 0, errors.New("failed")
	w := NewWork(7, func(Runner) (int, error) {
		if runs++; runs == 3 {
			return 0, failure
		}
		return runs, nil
	}, func(now time.Time, n int) Effects {
		taken = append(taken, n)
		return Effects{Wake: now.Add(time.Second)}
	})
	first, second, third := w.Do(Workers(1)), w.Do(Workers(1)), w.Do(Workers(1))
	if first.ID != 7 || first.Err != nil || taken != nil {
		t.Fatalf("run, %+v has taken %v in", first, taken)
	}
	now := time.Unix(100, 0)
	if eff := second.Apply(now); !eff.Wake.Equal(now.Add(time.Second)) || len(taken) != 1 || taken[0] != 2 {
		t.Errorf("applied, effects %+v and results %v", eff, taken)
	}
	if third.ID != 7 || third.Err != failure || !third.Apply(now).Wake.IsZero() || len(taken) != 1 {
		t.Errorf("failed, %+v has taken %v in", third, taken)
	}
}
