package training_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/results"
)

// hook is a results.Progress that calls something when a phase begins or a round is over.
type hook struct {
	start func(label string)
	round func(m results.Metrics)
}

func (h hook) Start(label string, _ int) { h.start(label) }
func (hook) Step(int)                    {}
func (h hook) Round(m results.Metrics, _ error) error {
	h.round(m)
	return nil
}

func keep(t *testing.T, h func(out string, stop func()) hook) (*training.Result, string, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "runs")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c, err := config.Config{}.WithMap(map[string]string{"data": "synthetic:small-60", "rounds": "2", "out": out, "name": "one"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(ctx, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Keep(ctx, e, h(out, stop), training.KeepOptions{})
	return r, out, err
}

// A run that is interrupted while a baseline trains is there, with what it was measured by and
// the baselines before.
func TestInterruptedBaselineKeepsTheRun(t *testing.T) {
	r, out, err := keep(t, func(_ string, stop func()) hook {
		return hook{start: func(label string) {
			if label == "non private" {
				stop()
			}
		}, round: func(results.Metrics) {}}
	})
	var without *results.UncomparedError
	if !errors.As(err, &without) || !errors.Is(err, context.Canceled) || without.Folder != filepath.Join(out, "one") {
		t.Fatalf("%v", err)
	}
	b, err := os.ReadFile(filepath.Join(out, "one", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		RMSE      float64 `json:"test_rmse"`
		Baselines map[string]float64
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if _, there := s.Baselines["non_private"]; there || s.Baselines["before_cooperation"] == 0 || s.RMSE != r.TestRMSE {
		t.Errorf("the summary is %s", b)
	}
	if left, err := filepath.Glob(filepath.Join(out, "*")); err != nil || len(left) != 1 {
		t.Errorf("in the folder are %q, %v", left, err)
	}
}

// A run that cannot be written is a result all the same, and an error that says so.
func TestResultOfARunThatCannotBeKept(t *testing.T) {
	r, _, err := keep(t, func(out string, _ func()) hook {
		return hook{start: func(string) {}, round: func(m results.Metrics) {
			if m.Round == 2 {
				if err := os.RemoveAll(out); err != nil {
					t.Error(err)
				}
			}
		}}
	})
	if err == nil || !strings.Contains(err.Error(), "the run is not kept: ") {
		t.Fatalf("%v", err)
	}
	if _, there := r.Baselines.Of("non_private"); !(r.TestRMSE > 0) || !there {
		t.Errorf("the result is %+v", r.Summary)
	}
}
