package cli_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/cli/screen"
)

// The expected lines are broken by hand.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		width            int
	}{
		{"short", "a b\n\nc\n", "a b\n\nc\n", 20},
		{"a sentence", "one two three four five six\n", "one two three four\n  five six\n", 20},
		{"a column", "privacy     of one user by name, and more\n", "privacy     of one user by\n            name, and more\n", 28},
		{"below a label", "            recall 0.0525, MRR 0.0227\n", "            recall 0.0525,\n            MRR 0.0227\n", 28},
		{"a column right of the middle", "  a very long name of a line  value one two\n", "  a very long name\n    of a line value\n    one two\n", 20},
		{"the last column", "  bias  0.91  learned with the budget\n", "  bias  0.91  learned with\n              the budget\n", 28},
		{"characters and not bytes", "ε ≤ 10 δ ≤ 0.00001 x\n", "ε ≤ 10 δ ≤ 0.00001 x\n", 20},
		{"one word", "results     runs/a-long-name-of-a-run\n", "results     runs/a-long-name-of-a-run\n", 28},
	} {
		if d := cmp.Diff(c.want, screen.Fit(c.text, c.width)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestWidth(t *testing.T) {
	var b bytes.Buffer
	for columns, want := range map[string]int{"": 80, "60": 60, "132": 132, "19": 80, "0": 80, "-5": 80, "wide": 80} {
		t.Setenv("COLUMNS", columns)
		if got := screen.Width(&b); got != want {
			t.Errorf("COLUMNS=%q: %d characters, want %d", columns, got, want)
		}
	}
}

// A long command continues after a backslash, and an id with a space stays one word.
func TestPrint(t *testing.T) {
	t.Setenv("COLUMNS", "44")
	var b bytes.Buffer
	err := screen.Print(&b, "done\n", []string{"fedsim", "recommend", "--run", "runs/it's", "--user", "a b"}, []string{"fedsim", "report", ""})
	if err != nil {
		t.Fatal(err)
	}
	want := "done\n\nnext\n  fedsim recommend --run 'runs/it'\\''s' \\\n    --user 'a b'\n  fedsim report ''\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Every character that a shell reads in its own way is quoted.
func TestQuoted(t *testing.T) {
	for _, special := range "|&;<>()$`\\\"' \t\n*?[]#~!{}^ü" {
		word := "a" + string(special)
		if got := screen.Quoted([]string{word})[0]; !strings.HasPrefix(got, "'") {
			t.Errorf("%q is written as %s", word, got)
		}
	}
	plain := []string{"runs/ssp-c_1", "--user=4.5", "a,b", "x:y", "a@b", "+5%"}
	if got := screen.Quoted(plain); !slices.Equal(got, plain) {
		t.Errorf("%q are written as %q", plain, got)
	}
}

func TestTable(t *testing.T) {
	rows := [][]string{{"key", "runs", "rmse", "mae"}, {"ε = 1", "1", "0.9312", "0.7"}, {"b", "10", "0.88", "-"}}
	wide := "key    runs    rmse  mae\nε = 1     1  0.9312  0.7\nb        10    0.88    -\n"
	if d := cmp.Diff(wide, screen.Table(rows, 1, 80)); d != "" {
		t.Errorf("wide (-want +got):\n%s", d)
	}
	narrow := "key    runs    rmse\nε = 1     1  0.9312\nb        10    0.88\n\nkey    mae\nε = 1  0.7\nb        -\n"
	if d := cmp.Diff(narrow, screen.Table(rows, 1, 20)); d != "" {
		t.Errorf("narrow (-want +got):\n%s", d)
	}
}

// No word is lost at any width, and only a word that is alone on its line may be wider.
func FuzzFit(f *testing.F) {
	f.Add("results     runs/a-long-name  of\n  a run that went on and on\n", 20)
	f.Fuzz(func(t *testing.T, text string, width int) {
		if width < 20 || width > 200 || strings.ContainsAny(text, "\r\v\f\u0085\u00a0\u2028\u2029") || !utf8.ValidString(text) {
			t.Skip("a width that no screen has, or spaces that are no breaks")
		}
		got := screen.Fit(text, width)
		if !slices.Equal(strings.Fields(got), strings.Fields(text)) {
			t.Fatalf("words of %q are %q", text, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > width && len(strings.Fields(line)) > 2 {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
	})
}
