package command

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/verb"
)

// Rows of users follow from exact ratings, which no ε covers, and so do items that a party has fine-tuned for itself. An export has
// them only with --users, and only the owner can read them. The sources are the documented file names and modes.
func TestExportLeavesUsersOut(t *testing.T) {
	t.Parallel()
	for algorithm, public := range map[string]string{"ssp-c": "item_bias.csv", "rr-on-bins": "weights.csv", "hfl-sgdmf": "item_embeddings.csv"} {
		dir := t.TempDir()
		_, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Predictions: true, Settings: map[string]string{
			"algorithm": algorithm, "data": "synthetic:small-60", "epsilon": "20", "baselines": "quick", "out": dir, "name": "one"}})
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, "one")
		files, err := filepath.Glob(filepath.Join(folder, "user_*.npy"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no matrix of users to leave out: %v", algorithm, err)
		}
		// Which items a user rated, what the user gave and the ids stand in files for the owner alone, too.
		patterns := []string{"split.csv", "predictions.csv", "user_*.ids.json"}
		if algorithm == "hfl-sgdmf" {
			patterns = append(patterns, "item_embeddings_party*.npy")
		}
		for _, pattern := range patterns {
			more, failed := filepath.Glob(filepath.Join(folder, pattern))
			if failed != nil || len(more) == 0 {
				t.Errorf("%s: no %s: %v", algorithm, pattern, failed)
			}
			files = append(files, more...)
		}
		for _, f := range files {
			if s, failed := os.Stat(f); failed != nil || s.Mode() != fs.FileMode(0o600) {
				t.Errorf("%s: mode %v, want 0600; %v", f, s.Mode(), failed)
			}
		}
		for _, users := range []bool{false, true} {
			var out, errs bytes.Buffer
			args := []string{"export", "--run", folder, "--to", "csv", "--out", filepath.Join(dir, map[bool]string{false: "items", true: "all"}[users])}
			if users {
				args = append(args, "--users")
			}
			if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &errs}); code != 0 {
				t.Fatalf("%s: exit %d: %s", algorithm, code, errs.String())
			}
			if !strings.Contains(out.String(), public) || strings.Contains(out.String(), "user_") != users || strings.Contains(out.String(), "_party") != (users && algorithm == "hfl-sgdmf") {
				t.Errorf("%s, --users=%v: %s", algorithm, users, out.String())
			}
			if warned := strings.Contains(errs.String(), "ε does not cover"); warned != users {
				t.Errorf("%s, --users=%v: it says %q", algorithm, users, errs.String())
			}
		}
	}
}
