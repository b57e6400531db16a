package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/verb"
)

// crowd is a file of 24 users' ratings of 25 items, and one of what kind these are.
func crowd(t *testing.T) (ratings, features string) {
	t.Helper()
	users, items := "user,item,rating\n", "item_id,category,value\n"
	for i := range 25 {
		items += fmt.Sprintf("i%02d,kind,%c\n", i, 'a'+i%4)
		for u := range 24 {
			if (3*u+5*i)%7 < 4 {
				users += fmt.Sprintf("u%02d,i%02d,%d\n", u, i, 1+(u*(i%4)+i)%5)
			}
		}
	}
	dir := t.TempDir()
	ratings, features = filepath.Join(dir, "ratings.csv"), filepath.Join(dir, "kinds.csv")
	for path, text := range map[string]string{ratings: users, features: items} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ratings, features
}

// leftBehind runs the command and returns its model and its records of it, by file. It leaves out
// bytes and seconds, of stages too, which differ in a real sum by nature.
func leftBehind(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	args = append([]string{"run", "--out", dir, "--name", "it", "--baselines", "quick"}, args...)
	if code := run(context.Background(), args, verb.Streams{Out: &out, Err: &errs}); code != cli.Done {
		t.Fatalf("fedsim %v: exit %d: %s", args, code, errs.String())
	}
	files := make(map[string]string)
	for _, name := range []string{"item_embeddings.npy", "user_embeddings.npy", "item_bias.npy", "user_bias.npy"} {
		b, err := os.ReadFile(filepath.Join(dir, "it", name))
		if err == nil {
			files[name] = string(b)
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "it", "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "bytes_up")
		delete(m, "bytes_down")
		delete(m, "seconds")
		delete(m, "stages")
		files[fmt.Sprint("round ", i+1)] = fmt.Sprint(m)
	}
	return files
}

// ofStatistics are the algorithms whose rounds are of several kinds, each in a form of
// its own.
var ofStatistics = []string{
	"--algorithm ssp-c --set encoder.steps=20", "--algorithm dp-cmf --set statistics.gramian=per-item", "--algorithm dpals --set statistics.per-user=5",
	"--algorithm ada-dpals --noise-draw client", "--algorithm ssp-i --rounds 1 --set statistics.resample=3", "--algorithm ssp-convex --features none",
	"--algorithm private-item-bias", "--algorithm ada-dpals --set statistics.top-items=0.4",
}

// Real sums and ideal ones whose clients draw their own noise train the same model to the bit,
// whatever stage clients are lost at, and whether that is as many as may be or more.
func TestStatisticsRealIsIdeal(t *testing.T) {
	effort.LongOnly(t, "runs of sums of statistics take seconds")
	t.Parallel()
	ratings, features := crowd(t)
	common := []string{"--data", ratings, "--epsilon", "30", "--delta", "0.001", "--rank", "2", "--tolerance", "0.3", "--colluders", "0.05"}
	for i, algorithm := range ofStatistics {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(algorithm), common...)
			if !strings.Contains(algorithm, "features") && (i < 2 || i == 4) {
				args = append(args, "--features", features)
			}
			losses := [][]string{
				{"--dropout", "0.3"}, {"--dropout", "0.15", "--dropout-at", "unmask"}, {"--dropout", "0.15", "--dropout-at", "masked-input"},
				{"--dropout", "0.15", "--dropout-at", "advertise"}, {"--dropout", "0.15", "--dropout-at", "share"},
			}
			if i > 0 { // what is summed is no business of the stages
				losses = losses[:1]
			}
			for _, lost := range losses {
				with := slices.Concat(args, lost)
				ideal := leftBehind(t, append(with, "--noise-draw", "client")...)
				real := leftBehind(t, append(with, "--secagg", "real")...)
				if diff := cmp.Diff(ideal, real); diff != "" {
					t.Errorf("%v (-ideal +real):\n%.1000s", lost, diff)
				}
			}
			if i > 0 {
				return
			}
			active := []string{"--secagg", "real", "--mode", "active", "--dropout", "0"}
			if diff := cmp.Diff(leftBehind(t, append(args, "--dropout", "0", "--noise-draw", "client")...), leftBehind(t, append(args, active...)...)); diff != "" {
				t.Errorf("active (-ideal +real):\n%.1000s", diff)
			}
		})
	}
}

// TestStatisticsAreDeterministic checks that a seed gives the same bytes at any number of workers, and another seed gives others.
func TestStatisticsAreDeterministic(t *testing.T) {
	effort.LongOnly(t, "runs of sums of statistics take seconds")
	t.Parallel()
	for i, algorithm := range ofStatistics {
		args := append(strings.Fields(algorithm), "--data", "synthetic:small", "--rank", "3", "--epsilon", "30")
		one := leftBehind(t, append(args, "--workers", "1")...)
		if diff := cmp.Diff(one, leftBehind(t, append(args, "--workers", "8")...)); diff != "" {
			t.Errorf("%s (-1 worker +8):\n%.1000s", algorithm, diff)
		}
		if i == 0 && cmp.Equal(one, leftBehind(t, append(args, "--seed", "2")...)) {
			t.Errorf("%s: another seed gives the same", algorithm)
		}
	}
}
