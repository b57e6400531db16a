package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/internal/version"
)

// TestMain makes the test's own binary fedsim, where it is called by this name or with words that no test has: by a sweep, which starts the
// program that it is in.
func TestMain(m *testing.M) {
	version.State("of a test") // internal/version tests the digest that stands for it otherwise
	if filepath.Base(os.Args[0]) == "fedsim" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		Main()
		return
	}
	os.Exit(onPath(m))
}

// onPath runs the tests with a folder on the path in which the binary is called fedsim.
func onPath(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fedsim-path")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is of a test
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "fedsim"))
	}
	if err != nil {
		panic(err)
	}
	if err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		panic(err)
	}
	return m.Run()
}

// here is held by the call of fedsim that has the process's folder and environment.
var here sync.Mutex

// inProcess is fedsim without a process of its own, which takes longer to start than most calls take. It has the folder and the
// environment of its script; exec fedsim is a process.
func inProcess(ts *testscript.TestScript, neg bool, args []string) {
	if code := callHere(ts, args, ts.Stdout(), ts.Stderr()); neg != (code != 0) {
		ts.Fatalf("exit code %d", code)
	}
}

// callHere returns the exit code of a call in the process.
func callHere(ts *testscript.TestScript, args []string, out, errs io.Writer) int {
	here.Lock()
	defer here.Unlock()
	back, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer os.Chdir(back) //nolint:errcheck // the next call checks that it is where it wants to be
	for _, name := range []string{"COLUMNS", "HOME", "TMPDIR", "XDG_CACHE_HOME"} {
		before := os.Getenv(name)
		ts.Check(os.Setenv(name, ts.Getenv(name)))
		defer os.Setenv(name, before) //nolint:errcheck // likewise
	}
	return run(context.Background(), args, verb.Streams{Out: out, Err: errs})
}

// TestScript runs commands as a user would type them. Beside testscript's own commands
// there are:
//
//	refused CODE ARG...            fedsim ARG... must end with CODE, print no result and leave no folder runs
//	json FILE KEY OP VALUE         checks a value of a JSON file, or of the line N of FILE:N
//	same A B KEY WITHIN [KEY2]     the number KEY of the JSON file A is within WITHIN of KEY2 (or KEY) of B
//	identical NAME NAME...         runs of the names have the same metrics and models, byte for byte
//	few FILE N                     writes a file of ratings: each of 24 users rates N to N+2 of 30 items, N at most 28
//
// A KEY has dots between levels, with numbers from 0 for places in a list. A lone dot is the
// whole document. OP is == (VALUE is JSON, or else a string), < or >, or near (VALUE and a relative
// tolerance). Further OPs are keys (VALUE... are exactly the keys of an object), has (VALUE...
// are among them), and len (of a list or an object).
func TestScript(t *testing.T) {
	real, err := filepath.Abs("../../../../shared/data/ml-latest-small")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: scripts,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ML", real)
			e.Setenv("COLUMNS", "1000") // patterns are of whole lines
			e.Setenv("GOGC", strconv.Itoa(effort.Garbage))
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "long":
				return effort.Long(), nil
			case "ml-latest-small":
			default:
				return false, fmt.Errorf("unknown condition %q", name)
			}
			_, err := os.Stat(filepath.Join(real, "ratings.csv"))
			return err == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fedsim":    inProcess,
			"refused":   refused,
			"json":      checkJSON,
			"same":      same,
			"identical": identical,
			"few":       few,
		},
	})
}

func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var out, errs strings.Builder
	if code := callHere(ts, args[1:], io.MultiWriter(&out, ts.Stdout()), io.MultiWriter(&errs, ts.Stderr())); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	if out.Len() > 0 {
		ts.Fatalf("a refusal printed a result: %s", out.String())
	}
	if strings.TrimSpace(errs.String()) == "" {
		ts.Fatalf("a refusal without a word")
	}
	if _, err := os.Lstat(ts.MkAbs("runs")); !errors.Is(err, os.ErrNotExist) {
		ts.Fatalf("a refused run left %s", ts.MkAbs("runs"))
	}
}

func few(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: few FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := []byte("user,item,rating\n")
	for u := range 24 {
		for k := range n + u%3 {
			text = fmt.Appendf(text, "%d,%d,%d\n", u, (u*7+k*11)%30, 1+(u*3+k*2)%5)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: json FILE[:LINE] KEY OP VALUE...")
	}
	key, op, want := args[1], args[2], args[3:]
	if v := value(ts, args[0], key); !holds(ts, v, op, want) {
		ts.Fatalf("%s: %s is %v, want it %s %s", args[0], key, v, op, strings.Join(want, " "))
	}
}

// value is the value of a key in a file, or in a line of it.
func value(ts *testscript.TestScript, spec, key string) any {
	text := document(ts, spec)
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("%s: %v in %q", spec, err, text)
	}
	if key == "." {
		return v
	}
	for part := range strings.SplitSeq(key, ".") {
		if list, isList := v.([]any); isList {
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(list) {
				ts.Fatalf("%s has no %s: it is a list of %d", spec, key, len(list))
			}
			v = list[i]
			continue
		}
		object, ok := v.(map[string]any)
		if _, there := object[part]; !ok || !there {
			ts.Fatalf("%s has no %s", spec, key)
		}
		v = object[part]
	}
	return v
}

func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || len(args) > 5 {
		ts.Fatalf("usage: same A B KEY WITHIN [KEY2]")
	}
	within, err := strconv.ParseFloat(args[3], 64)
	ts.Check(err)
	a, okA := value(ts, args[0], args[2]).(float64)
	key := args[len(args)-1]
	if len(args) == 4 {
		key = args[2]
	}
	b, okB := value(ts, args[1], key).(float64)
	if !okA || !okB || !(math.Abs(a-b) <= within) {
		ts.Fatalf("%s of %s is %v, %s of %s is %v; want them within %v", args[2], args[0], a, key, args[1], b, within)
	}
}

func identical(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: identical NAME NAME...")
	}
	var first []string
	for i, name := range args {
		paths, err := filepath.Glob(filepath.Join(ts.MkAbs("runs"), name, "*"))
		ts.Check(err)
		var kept []string
		for _, path := range paths {
			if ext := filepath.Ext(path); ext == ".npy" || ext == ".jsonl" && filepath.Base(path) != "timings.jsonl" {
				kept = append(kept, filepath.Base(path)+"\n"+ts.ReadFile(path))
			}
		}
		if i == 0 {
			first = kept
		}
		if len(kept) < 3 || !slices.Equal(kept, first) {
			ts.Fatalf("%s differs from %s, in %d files", name, args[0], len(kept))
		}
	}
}

// document is the text of a file, or of one line of it: the last for FILE:$.
func document(ts *testscript.TestScript, spec string) string {
	file, line, ok := strings.Cut(spec, ":")
	text := ts.ReadFile(file)
	if !ok {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if line == "$" {
		return lines[len(lines)-1]
	}
	n, err := strconv.Atoi(line)
	ts.Check(err)
	if n < 1 || n > len(lines) {
		ts.Fatalf("%s has %d lines", file, len(lines))
	}
	return lines[n-1]
}

func holds(ts *testscript.TestScript, v any, op string, want []string) bool {
	number := func(i int) float64 {
		if len(want) <= i {
			ts.Fatalf("%s needs %d values", op, i+1)
		}
		f, err := strconv.ParseFloat(want[i], 64)
		ts.Check(err)
		return f
	}
	f, isNumber := v.(float64)
	object, _ := v.(map[string]any)
	switch op {
	case "==":
		var w any
		if err := json.Unmarshal([]byte(want[0]), &w); err != nil {
			w = want[0]
		}
		return reflect.DeepEqual(v, w)
	case "<":
		return isNumber && f < number(0)
	case ">":
		return isNumber && f > number(0)
	case "near":
		return isNumber && math.Abs(f-number(0)) <= number(1)*math.Abs(number(0))
	case "keys":
		return len(object) == len(want) && hasAll(object, want)
	case "has":
		return hasAll(object, want)
	case "len":
		list, ok := v.([]any)
		return ok && float64(len(list)) == number(0) || object != nil && float64(len(object)) == number(0)
	}
	ts.Fatalf("unknown comparison %q", op)
	return false
}

func hasAll(object map[string]any, keys []string) bool {
	return object != nil && !slices.ContainsFunc(keys, func(k string) bool { _, ok := object[k]; return !ok })
}
