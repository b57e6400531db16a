package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/fedsim/fedsim/cmd/fedbeam/engine"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	_ "github.com/fedsim/fedsim/lab" // the algorithms of the lab
)

// TestMain serves as a worker too, since the tests start their own binary as the workers.
func TestMain(m *testing.M) {
	if was, err := engine.ServeAsWorker(context.Background(), os.Args[1:]); was {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(asCommand) != "" {
		Main()
	}
	os.Exit(m.Run())
}

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, verb.Streams{Out: &out, Err: &err})
	return code, out.String(), err.String()
}

// A run on two processes leaves a folder like any run's, tells each round, and says what Beam counted.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "experiment.yaml")
	if err := os.WriteFile(file, []byte("algorithm: lfl-sgdmf\ndata: synthetic:small\nrounds: 3\nbaselines: quick\nout: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errors := call(t, "run", file, "--processes", "2", "--format", "json", "--set", "seed=5", "--save-predictions")
	if code != cli.Done {
		t.Fatalf("exit code %d: %s", code, errors)
	}
	var summary struct {
		Results string
		Rounds  int
		Privacy struct{ Epsilon float64 }
	}
	if err := json.Unmarshal([]byte(out), &summary); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if summary.Rounds != 3 || summary.Privacy.Epsilon > 10 || summary.Privacy.Epsilon < 9 { // the budget is 10 and all rounds are spent
		t.Errorf("summary %+v", summary)
	}
	for _, name := range []string{"summary.json", "metrics.jsonl", "config.yaml", "item_embeddings.npy", "predictions.csv"} {
		if _, err := os.Stat(filepath.Join(summary.Results, name)); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"lfl-sgdmf 3/3", "beam: 3 rounds", "0 jobs repeated"} {
		if !strings.Contains(errors, want) {
			t.Errorf("stderr lacks %q:\n%s", want, errors)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"run --shards -1", "must not be negative"},
		{"run --attempts 0", "at least 1"},
		{"run --runner flink", "--exchange is needed"},
		{"run --runner flink --exchange x --processes 2", "with --runner prism they are processes"},
		{"run --runner samza", "must be one of"},
		{"run --set rounds", "KEY=VALUE"},
		{"run --set data=synthetic:small --set secagg=real", "secagg ideal"},
		{"run --set data=synthetic:small --set algorithm=sgd-mf", "fedsim run"},
		{"run -- --no-such-flag", "no-such-flag"},
		{"run -- word", "no flag of Beam's"},
		{"run -- --async", "waits for it"},
	} {
		code, _, errors := call(t, strings.Fields(c.args)...)
		if code != cli.Misuse || !strings.Contains(errors, c.want) {
			t.Errorf("%s: exit code %d, want %d; %q lacks %q", c.args, code, cli.Misuse, errors, c.want)
		}
		*jobopts.Async = false // flags of Beam's are the process's
	}
}
