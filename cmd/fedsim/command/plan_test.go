package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results"
)

// printed returns the output of a command, which must end with 0.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, stderr bytes.Buffer
	if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &stderr}); code != cli.Done {
		t.Fatalf("fedsim %v: exit %d: %s", args, code, &stderr)
	}
	return out.Bytes()
}

// TestPlanIsWhatTheRunTakes checks that a run that loses no client sends the planned bytes, and ends with the planned privacy.
// The plan counts a message of the last client that travels alone. In company a message takes up to 3 bytes
// less, since a tag and a length replace a frame's header. A message that names client 0 takes less too,
// by the 2 bytes of its number. With at most 128 clients or an ideal sum no other number is shorter.
// Removals of noise are drawn: they are planned to a hundredth.
func TestPlanIsWhatTheRunTakes(t *testing.T) {
	effort.NotShort(t, "runs take seconds")
	twelve := filepath.Join(t.TempDir(), "twelve.csv")
	var csv strings.Builder
	csv.WriteString("user,item,rating\n")
	for u := range 12 {
		for i := range 300 {
			fmt.Fprintf(&csv, "u%d,i%d,%d\n", u, i, 1+(u*i)%5)
		}
	}
	if err := os.WriteFile(twelve, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"--data synthetic:small-100",
		"--data synthetic:small-100 --noise-draw client --rounds 2",
		"--data synthetic:small-100 --noise replace --rounds 2",
		"--data " + twelve + " --secagg real --noise replace --rounds 2",
		"--data synthetic:small-100 --algorithm sgd-mf",
		"--data synthetic:small-100 --algorithm hfl-sgdmf --accountant rdp",
		"--data " + twelve + " --secagg real",
		"--data " + twelve + " --secagg real --mode active --epsilon inf",
		"--data synthetic:small-100 --algorithm vfl-sgdmf --accountant rdp --item-steps 5 --secagg real --mode active",
	} {
		t.Run(strings.ReplaceAll(args, twelve, "twelve.csv"), func(t *testing.T) {
			if !strings.Contains(args, "--algorithm") {
				args += " --algorithm lfl-sgdmf"
			}
			common := append(strings.Fields(args), "--dropout", "0", "--tolerance", "0.3")
			if !strings.Contains(args, "--rounds") {
				common = append(common, "--rounds", "3")
			}
			var plan forecast.Forecast
			if err := json.Unmarshal(printed(t, append([]string{"plan", "--format", "json"}, common...)...), &plan); err != nil {
				t.Fatal(err)
			}
			var s results.Summary
			out := printed(t, append([]string{"run", "--baselines", "quick", "--format", "json", "--out", t.TempDir()}, common...)...)
			if err := json.Unmarshal(out, &s); err != nil {
				t.Fatal(err)
			}
			if plan.Noise == "replace" && s.Privacy.Epsilon < plan.Privacy.Epsilon {
				s.Privacy.Epsilon = plan.Privacy.Epsilon // planned for the greatest tolerated loss, and no client was lost
			}
			if diff := cmp.Diff(s.Privacy, plan.Privacy); diff != "" {
				t.Errorf("privacy (-run +plan):\n%s", diff)
			}
			if s.Algorithm != plan.Algorithm || s.Secagg != plan.Secagg || s.Noise != plan.Noise || s.Rounds != plan.Rounds || s.Data != plan.Data.Name {
				t.Errorf("the run was %s, %s, %s, %d, %s; the plan is %+v", s.Algorithm, s.Secagg, s.Noise, s.Rounds, s.Data, plan)
			}
			up, down := map[string]int64{}, map[string]int64{}
			var removal int64
			var less int64 // that the messages of a kind may take
			if plan.Bytes != nil {
				removal, less = int64(plan.Bytes.Removal*plan.Rounds), int64((3+2)*plan.Rounds)
				for _, m := range plan.Bytes.Messages {
					if m.Direction == forecast.Up {
						up[m.Kind] = int64(m.Bytes * m.Times)
					} else {
						down[m.Kind] = int64(m.Bytes * m.Times)
					}
				}
			}
			if off := math.Abs(float64(up["unmask"] - s.BytesUpPerClient["unmask"])); off > 0.01*float64(removal)+float64(less) {
				t.Errorf("the run unmasks with %d bytes a client, the plan with %d, of which removals %d", s.BytesUpPerClient["unmask"], up["unmask"], removal)
			}
			delete(up, "unmask")
			delete(s.BytesUpPerClient, "unmask")
			// Messages that are always alike, and messages that travel alone, are planned to the byte.
			near := func(kind string, run, plan int64) bool {
				exact := slices.Contains([]string{"announce", "masked-input", "consistency", "quorum", "final"}, kind)
				return run == plan || !exact && run < plan && run >= plan-less
			}
			for _, way := range []struct {
				name      string
				run, plan map[string]int64
			}{{"up", s.BytesUpPerClient, up}, {"down", s.BytesDownPerClient, down}} {
				for kind, want := range way.plan {
					if got, ok := way.run[kind]; !ok || !near(kind, got, want) {
						t.Errorf("%s: %d bytes %s, planned were %d", kind, got, way.name, want)
					}
				}
				if len(way.run) != len(way.plan) {
					t.Errorf("the run took %v %s, the plan says %v", way.run, way.name, way.plan)
				}
			}
		})
	}
}

// run --dry-run is fedsim plan: the same output, warnings and exit code, and no file.
func TestDryRunIsPlan(t *testing.T) {
	effort.NotShort(t, "runs take a second")
	dir := t.TempDir()
	t.Chdir(dir)
	for _, args := range []string{
		"",
		"--format json",
		"--secagg real",
		"--secagg real --format=json --dropout 0.5", // warns
		"--algorithm vfl-sgdmf --accountant rdp --secagg real --mode active",
		"--algorithm sgd-mf --rounds 3", // warns
		"--secagg real --mode active",   // refused
		"--secagg real --mode active --format json",
		"--epsilon 0", // a wrong call
	} {
		var out, errs [2]bytes.Buffer
		var codes [2]int
		for i, words := range [][]string{{"plan"}, {"run", "--dry-run"}} {
			words = append(words, "--data", "synthetic:small")
			codes[i] = run(t.Context(), append(words, strings.Fields(args)...), verb.Streams{Out: &out[i], Err: &errs[i]})
		}
		if codes[0] != codes[1] || out[0].String() != out[1].String() || errs[0].String() != errs[1].String() {
			t.Errorf("%q: plan ends with %d and prints\n%s%s\nrun --dry-run ends with %d and prints\n%s%s", args, codes[0], &out[0], &errs[0], codes[1], &out[1], &errs[1])
		}
		if out[0].Len()+errs[0].Len() == 0 {
			t.Errorf("%q: nothing is said", args)
		}
		if left := files(t, dir); len(left) > 0 {
			t.Fatalf("%q: left behind: %v", args, left)
		}
	}
}

// TestPlanFlags checks that plan and run share the flags of experiments, and that only run has flags for results.
func TestPlanFlags(t *testing.T) {
	var help bytes.Buffer
	run(t.Context(), []string{"plan", "--help"}, verb.Streams{Out: &help, Err: io.Discard})
	var plan []string
	for _, m := range flagLine.FindAllStringSubmatch(help.String(), -1) {
		plan = append(plan, m[1])
	}
	want := slices.DeleteFunc(append(runFlags(), "help", "version", "set", "format", "from", "cpuprofile", "memprofile", "trace", "calibrate", "verbose", "sessions", "total-epsilon", "shares"), func(f string) bool {
		return slices.Contains([]string{"baselines", "workers", "out", "name"}, f)
	})
	slices.Sort(plan)
	slices.Sort(want)
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("flags of plan (-want +got):\n%s", diff)
	}
}
