package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/version"
)

func TestMain(m *testing.M) {
	version.State("of a test") // internal/version tests the digest that stands for it otherwise
	testscript.Main(m, map[string]func(){"fedsim": Main})
}

// TestScript runs commands as a user would type them. Beside testscript's own commands
// there are:
//
//	refused CODE ARG...            fedsim ARG... must end with CODE, print no result and leave no folder runs
//	json FILE KEY OP VALUE         checks a value of a JSON file, or of the line N of FILE:N
//	same A B KEY WITHIN [KEY2]     the number KEY of the JSON file A is within WITHIN of KEY2 (or KEY) of B
//	identical NAME NAME...         runs of the names have the same metrics and models, byte for byte
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
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
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
			"refused":   refused,
			"json":      checkJSON,
			"same":      same,
			"identical": identical,
		},
	})
}

func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("fedsim", args[1:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("a refusal printed a result: %s", out)
	}
	if strings.TrimSpace(ts.ReadFile("stderr")) == "" {
		ts.Fatalf("a refusal without a word")
	}
	if _, err := os.Lstat(ts.MkAbs("runs")); !errors.Is(err, os.ErrNotExist) {
		ts.Fatalf("a refused run left %s", ts.MkAbs("runs"))
	}
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
