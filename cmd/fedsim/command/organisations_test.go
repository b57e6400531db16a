package command

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results"
)

// leave runs the command on the small set and returns the folder it leaves.
func leave(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	args = append([]string{"run", "--data", "synthetic:small-100", "--baselines", "quick", "--out", out, "--name", "x"}, args...)
	var stderr bytes.Buffer
	if code := run(t.Context(), args, verb.Streams{Out: io.Discard, Err: &stderr}); code != cli.Done {
		t.Fatalf("fedsim %v: exit %d: %s", args, code, &stderr)
	}
	return filepath.Join(out, "x")
}

// rounds reads metrics.jsonl.
func rounds(t *testing.T, folder string) []results.Metrics {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []results.Metrics
	for line := range strings.Lines(string(b)) {
		var m results.Metrics
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// TestEpsilonGrowsToTheBudget checks that the spent ε grows with every round, by less each time as
// composition is subadditive, to the budget and not beyond it.
func TestEpsilonGrowsToTheBudget(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"vfl-sgdmf, pld", []string{"--algorithm", "vfl-sgdmf", "--rounds", "5"}},
		{"vfl-sgdmf", []string{"--algorithm", "vfl-sgdmf", "--accountant", "rdp", "--rounds", "5"}},
		{"vfl-sgdmf per user", []string{"--algorithm", "vfl-sgdmf", "--unit", "user", "--accountant", "rdp", "--rounds", "5", "--parties", "3"}},
		{"hfl-sgdmf", []string{"--algorithm", "hfl-sgdmf", "--accountant", "rdp", "--rounds", "5"}},
		{"hfl-sgdmf without sampling", []string{"--algorithm", "hfl-sgdmf", "--sampling-rate", "1", "--rounds", "5"}},
		{"hfl-synsgd", []string{"--algorithm", "hfl-synsgd", "--accountant", "rdp", "--rounds", "5"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasPrefix(tt.name, "vfl-sgdmf") && tt.name != "vfl-sgdmf" {
				effort.NotShort(t, "another accountant or unit stands for it")
			}
			t.Parallel()
			all := rounds(t, leave(t, append(tt.args, "--epsilon", "4")...))
			if len(all) != 5 {
				t.Fatalf("%d rounds, want 5", len(all))
			}
			before, step := 0.0, math.Inf(1)
			for _, m := range all {
				if m.Epsilon == nil {
					t.Fatalf("round %d states no epsilon", m.Round)
				}
				// A computed epsilon is an upper bound to some parts in 1e4.
				if grown := *m.Epsilon - before; !(grown > 0 && grown < step+1e-3) {
					t.Errorf("round %d: epsilon %v after %v, having grown by %v", m.Round, *m.Epsilon, before, step)
				}
				before, step = *m.Epsilon, *m.Epsilon-before
			}
			if !(before <= 4 && before > 3.99) {
				t.Errorf("in the end epsilon is %v, want 4", before)
			}
		})
	}
}

// matrix reads an .npy file.
func matrix(t *testing.T, path string) *mat.Dense {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var m mat.Dense
	if err := npyio.Read(f, &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// The files predict what the summary says: inner products of their rows,
// taken to the scale, have the stated error on the test part. A user of HFL is
// predicted by the items of the user's own party.
func TestFilesGiveTheStatedError(t *testing.T) {
	const parties = 3
	for _, algorithm := range []string{"vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd", "fmf-vfl"} {
		t.Run(algorithm, func(t *testing.T) {
			folder := leave(t, "--algorithm", algorithm, "--accountant", "rdp", "--rounds", "5", "--rank", "2", "--parties", strconv.Itoa(parties))
			set, err := read.Open(t.Context(), "synthetic:small-100", read.Options{})
			if err != nil {
				t.Fatal(err)
			}
			divided, err := split.Divide(set, split.Params{Test: 0.1, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			users := matrix(t, filepath.Join(folder, "user_embeddings.npy"))
			items := slices.Repeat([]*mat.Dense{matrix(t, filepath.Join(folder, "item_embeddings.npy"))}, set.Users) // that predict for a user
			if strings.HasPrefix(algorithm, "hfl") {
				parts, partErr := split.PartitionUsers(set, parties, 1)
				if partErr != nil {
					t.Fatal(partErr)
				}
				for k, own := range parts {
					m := matrix(t, filepath.Join(folder, "item_embeddings_party0"+strconv.Itoa(k+1)+".npy"))
					for _, u := range own {
						items[u] = m
					}
				}
			}
			if r, c := users.Dims(); r != set.Users || c != 2 {
				t.Errorf("%d×%d users, want %d×2", r, c, set.Users)
			}
			var squared float64
			for k, x := range divided.Test.Value {
				u := int(divided.Test.User[k])
				if r, c := items[u].Dims(); r != set.Items || c != 2 {
					t.Fatalf("%d×%d items, want %d×2", r, c, set.Items)
				}
				p := mat.Dot(users.RowView(u), items[u].RowView(int(divided.Test.Item[k])))
				d := min(max(p, set.Min), set.Max) - float64(x)
				squared += d * d
			}
			var s results.Summary
			b, err := os.ReadFile(filepath.Join(folder, "summary.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &s); err != nil {
				t.Fatal(err)
			}
			if want := squared / float64(divided.Test.Len()); math.Abs(s.TestMSE-want) > 1e-9*want {
				t.Errorf("the summary states a test MSE of %v, the files give %v", s.TestMSE, want)
			}
		})
	}
}
