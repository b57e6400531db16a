package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
)

// interrupter cancels when it is written a text, as a person would on seeing it.
type interrupter struct {
	bytes.Buffer
	at     string
	cancel context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	if strings.Contains(string(b), i.at) {
		i.cancel()
	}
	return i.Buffer.Write(b)
}

func TestInterruptLeavesNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   string // what stderr says when it happens; "": before the start
		args []string
	}{
		{"before the start", "", nil},
		{"in the first round", "lfl-sgdmf 1/4", nil},
		{"after the last round, in the run without noise", "lfl-sgdmf 4/4", nil},
		{"after the last round, in the baselines", "lfl-sgdmf 4/4", []string{"--epsilon", "inf"}},
		{"clients drawing noise", "lfl-sgdmf 2/4", []string{"--noise-draw", "client"}},
		{"in one place", "sgd-mf 2/30", []string{"--algorithm", "sgd-mf"}},
		{"with JSON", "lfl-sgdmf 2/4", []string{"--format", "json"}},
		{"parties with items", "vfl-sgdmf 1/4", []string{"--algorithm", "vfl-sgdmf", "--accountant", "rdp"}},
		{"parties with items, in the run of each alone", "vfl-sgdmf 4/4", []string{"--algorithm", "vfl-sgdmf", "--accountant", "rdp"}},
		{"parties with users", "hfl-sgdmf 2/4", []string{"--algorithm", "hfl-sgdmf", "--accountant", "rdp"}},
		{"parties with users, in stage 3", "fmf-hfl 4/4", []string{"--algorithm", "fmf-hfl"}},
		{"gradients of a step", "hfl-synsgd 3/4", []string{"--algorithm", "hfl-synsgd", "--accountant", "rdp"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.at == "" {
				cancel()
			}
			dir := t.TempDir()
			var out bytes.Buffer
			stderr := &interrupter{at: tt.at, cancel: cancel}
			if tt.at == "" {
				stderr.at = "\x00"
			}
			args := append([]string{"run", "--data", "synthetic:small", "--rounds", "4", "--out", filepath.Join(dir, "deep", "runs")}, tt.args...)
			if !slices.Contains(tt.args, "--algorithm") {
				args = append(args, "--algorithm", "lfl-sgdmf")
			}
			if code := run(ctx, args, verb.Streams{Out: &out, Err: stderr}); code != cli.Interrupted {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, cli.Interrupted, stderr)
			}
			kept := strings.Contains(stderr.String(), "interrupted; this command with --resume continues after round ") // on a slow machine a checkpoint is due
			if !kept && !strings.Contains(stderr.String(), "interrupted; nothing was left behind") {
				t.Errorf("stderr does not say so: %q", stderr)
			}
			if out.Len() > 0 {
				t.Errorf("a result was printed: %q", &out)
			}
			if left := files(t, dir); kept != (len(left) == 3 && strings.HasSuffix(left[2], ".checkpoint")) || !kept && len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// An interrupted run touches nothing that was there before, not even an empty folder.
func TestInterruptKeepsWhatWasThere(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs")
	if err := os.MkdirAll(filepath.Join(out, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{out, filepath.Join(out, "empty")} {
		before := files(t, filepath.Dir(out))
		ctx, cancel := context.WithCancel(t.Context())
		args := []string{"run", "--algorithm", "lfl-sgdmf", "--data", "synthetic:small", "--rounds", "3", "--out", out}
		if code := run(ctx, args, verb.Streams{Out: io.Discard, Err: &interrupter{at: "lfl-sgdmf 1/3", cancel: cancel}}); code != cli.Interrupted {
			t.Errorf("exit code %d, want %d", code, cli.Interrupted)
		}
		if after := files(t, filepath.Dir(out)); !slices.Equal(after, before) {
			t.Errorf("there were %v, now there are %v", before, after)
		}
	}
}

// TestNothingHasTheNameBeforeTheEnd checks that during a run nothing bears its name.
func TestNothingHasTheNameBeforeTheEnd(t *testing.T) {
	out := t.TempDir()
	var seen []string
	watch := writerFunc(func(b []byte) (int, error) {
		if !bytes.HasPrefix(b, []byte("lfl-sgdmf ")) { // baselines, and the run is there
			return len(b), nil
		}
		entries, err := os.ReadDir(out)
		for _, e := range entries {
			seen = append(seen, e.Name())
		}
		return len(b), err
	})
	args := []string{"run", "--algorithm", "lfl-sgdmf", "--data", "synthetic:small", "--rounds", "2", "--out", out, "--name", "x"}
	if code := run(t.Context(), args, verb.Streams{Out: io.Discard, Err: watch}); code != cli.Done {
		t.Fatalf("exit code %d", code)
	}
	if len(seen) < 2 {
		t.Fatalf("saw %v while it ran, want the temporary folder in both rounds", seen)
	}
	for _, name := range seen {
		if !strings.HasPrefix(name, ".") {
			t.Errorf("%s was there while the run went on", name)
		}
	}
	if got, want := files(t, out), []string{"x", "x/catalogue.json", "x/config.yaml", "x/evidence.json", "x/item_embeddings.ids.json", "x/item_embeddings.npy", "x/manifest.json",
		"x/metrics.jsonl", "x/released.bin", "x/shared.bin", "x/split.csv", "x/summary.json", "x/timings.jsonl", "x/user_embeddings.ids.json", "x/user_embeddings.npy"}; !slices.Equal(got, want) {
		t.Errorf("it left %v, want %v", got, want)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// files lists everything below a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			rel, relErr := filepath.Rel(dir, path)
			if relErr != nil {
				return relErr
			}
			all = append(all, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every flag of run that is no command of its own is a key of an experiment,
// so that none is a dud, and every key of the top level is a flag.
func TestRunFlagsAreKeys(t *testing.T) {
	flags := runFlags()
	var keys []string
	for _, k := range config.Keys() {
		keys = append(keys, k.Name)
	}
	for _, flag := range flags {
		if !slices.Contains(keys, flag) {
			t.Errorf("--%s is not a key; the keys are %v", flag, keys)
		}
	}
	for _, key := range keys {
		if !strings.Contains(key, ".") && key != algorithm.ChosenBy.Name && !slices.Contains(flags, key) { // tune writes chosen-by
			t.Errorf("the key %s has no flag", key)
		}
	}
}

// runParser is the command as Kong has it, and what becomes of its arguments.
func runParser(t *testing.T) (*kong.Kong, *commands) {
	t.Helper()
	c := newCommands()
	parser, err := program.Parser(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return parser, c
}

// switches holds the flags of settings that have no value.
var switches = []string{"no-header", "day-first", "verify-inputs"}

// Every flag reaches its key: the setting says the flag's name and value.
func TestRunFlagsBecomeSettings(t *testing.T) {
	parser, c := runParser(t)
	args := []string{"run"}
	value := func(flag string) string { return "value of " + flag }
	for _, flag := range runFlags() {
		if slices.Contains(switches, flag) {
			args = append(args, "--"+flag)
		} else {
			args = append(args, "--"+flag, value(flag))
		}
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	settings, err := c.Run.Settings(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, s := range settings {
		keys = append(keys, s.Key)
		if s.Value != value(s.Key) && (!slices.Contains(switches, s.Key) || s.Value != "yes") || s.Origin != "--"+s.Key {
			t.Errorf("--%s became %+v", s.Key, s)
		}
	}
	want := runFlags() // in the order of the help, which has groups
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("settings for %v, want for %v", keys, want)
	}
}

// runFlags are the flags of run that stand for keys, spelt as Kong spells them:
// taken from the help text, not from the code that turns them into keys.
func runFlags() []string {
	var all []string
	for _, m := range flagLine.FindAllStringSubmatch(runHelp(), -1) {
		if !slices.Contains([]string{"help", "version", "set", "dry-run", "format", "from", "resume", "save-predictions", "sessions", "total-epsilon", "shares", "seeds", "cpuprofile", "memprofile", "trace", "verbose"}, m[1]) {
			all = append(all, m[1])
		}
	}
	return all
}

// flagLine matches the beginning of a flag's help. Further lines of the help are indented
// more, and may begin with a flag too.
var flagLine = regexp.MustCompile(`(?m)^(?:  -\w, |      |  )--([a-z-]+)`)

func runHelp() string {
	var out bytes.Buffer
	run(context.Background(), []string{"run", "--help"}, verb.Streams{Out: &out, Err: io.Discard})
	return out.String()
}

// TestHelpNamesTheDefaults checks that the help states the defaults of the configuration.
func TestHelpNamesTheDefaults(t *testing.T) {
	b := config.Config{}.YAML()
	var defaults map[string]any
	if err := yaml.Unmarshal(b, &defaults); err != nil {
		t.Fatal(err)
	}
	parser, _ := runParser(t)
	ctx, err := parser.Parse([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range ctx.Selected().Flags {
		m := regexp.MustCompile(`Default ([a-z0-9.-]*[a-z0-9])[.,]`).FindStringSubmatch(f.Help)
		want := defaults[f.Name]
		if m == nil || want == nil || want == "auto" || want == "" {
			continue
		}
		checked++
		var got any
		if err := yaml.Unmarshal([]byte(m[1]), &got); err != nil {
			t.Fatal(err)
		}
		if number(got) != number(want) {
			t.Errorf("--%s: the help says %v, the default is %v", f.Name, got, want)
		}
	}
	if checked < 12 {
		t.Errorf("only %d defaults were found in the help", checked)
	}
}

// number makes numbers of different Go types comparable.
func number(v any) any {
	switch n := v.(type) {
	case uint64:
		return float64(n)
	case int64:
		return float64(n)
	}
	return v
}

// A terminal would get a bar; a pipe gets no control characters.
func TestProgressWithoutTerminal(t *testing.T) {
	var stderr bytes.Buffer
	args := []string{"run", "--algorithm", "lfl-sgdmf", "--data", "synthetic:small", "--rounds", "1", "--out", t.TempDir()}
	if code := run(t.Context(), args, verb.Streams{Out: io.Discard, Err: &stderr}); code != cli.Done {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if strings.ContainsAny(stderr.String(), "\r\x1b") {
		t.Errorf("control characters for a pipe: %q", &stderr)
	}
	if round, rest, _ := strings.Cut(stderr.String(), "\n"); !strings.HasPrefix(round, "lfl-sgdmf 1/1  rmse ") || rest != "baselines\nnon private\n" {
		t.Errorf("want a line for the round and each phase after it: %q", &stderr)
	}
}

// The next step after a run on data from a pipe names the data again: the pipe is empty by then.
func TestNextStepAfterAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // nothing can be lost
	data := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err = os.Stat(data); err != nil {
		t.Skip("the system has no names of open files")
	}
	for u := range 60 {
		for i := range 12 {
			if _, err = fmt.Fprintf(w, "%d,%d,%d\n", u, (u+i*i)%40, 1+(u*i)%5); err != nil { // 7 kB, which a pipe holds
				t.Fatal(err)
			}
		}
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := call(t, "run", "--data", data, "--columns", "user=1,item=2,rating=3", "--duplicates", "last", "--algorithm", "private-item-bias", "--baselines", "quick", "--out", t.TempDir())
	if code != cli.Done || !strings.Contains(out, "--data FILE") {
		t.Errorf("exit code %d, %s\n%s", code, out, errs)
	}
}
