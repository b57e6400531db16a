package command

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fedsim/fedsim/internal/verb"
)

// Summaries fit the screen at 60 and at 80 columns and say there what they say on a wide screen, and every command that they
// end with can be parsed.
func TestSummariesFitTheScreen(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four models")
	}
	t.Chdir(t.TempDir())
	t.Setenv("FEDSIM_CACHE", t.TempDir())
	common := []string{"--data", "synthetic:small-100", "--algorithm", "private-item-bias", "--baselines", "quick"}
	for _, name := range []string{"a", "b"} {
		shownAt(t, "1000", slices.Concat([]string{"run", "--name", name, "--epsilon", map[string]string{"a": "1", "b": "20"}[name]}, common)...)
	}
	for _, args := range [][]string{
		slices.Concat([]string{"run", "--name", "c"}, common),
		slices.Concat([]string{"run", "--name", "d"}, []string{"--data", "synthetic:small-100", "--algorithm", "vfl-sgdmf", "--accountant", "rdp", "--baselines", "quick", "--rounds", "2"}),
		{"compare", filepath.Join("runs", "a"), filepath.Join("runs", "b"), "--resamples", "1000"},
		slices.Concat([]string{"plan"}, common[:4]),
		slices.Concat([]string{"plan", "--verbose", "--secagg", "real"}, common[:4]),
		{"audit", "--algorithm", "private-item-bias", "--runs", "40"},
		{"audit", "--algorithm", "private-item-bias", "--neighbours"},
		{"explain", "ssp-c"},
		{"explain", "epsilon"},
		{"keys", "dropout"},
	} {
		t.Run(strings.Join(args[:min(2, len(args))], " "), func(t *testing.T) {
			wide := shownAt(t, "1000", args...)
			for _, width := range []int{60, 80} {
				if args[0] == "run" {
					if err := os.RemoveAll(filepath.Join("runs", args[2])); err != nil {
						t.Fatal(err)
					}
				}
				text := shownAt(t, strconv.Itoa(width), args...)
				fits(t, text, width)
				missing := slices.DeleteFunc(words(wide), func(w string) bool { return strings.Contains(text, w) })
				if len(missing) > 0 {
					t.Errorf("at %d columns %q are lost from\n%s", width, missing, text)
				}
			}
			parses(t, wide)
		})
	}
}

// shownAt returns what a command prints on a screen of so many columns.
func shownAt(t *testing.T, columns string, args ...string) string {
	t.Helper()
	t.Setenv("COLUMNS", columns)
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, &errs)
	}
	return out.String()
}

// fits fails if a line is wider than the screen, unless it is a single word, or a single word beside a label.
func fits(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if n := utf8.RuneCountInString(line); n > width && len(strings.Fields(strings.TrimSuffix(line, `\`))) > 2 {
			t.Errorf("%d characters, want at most %d: %s", n, width, line)
		}
	}
}

// words returns the words of a text, except times, which differ between runs.
func words(text string) (list []string) {
	for w := range strings.FieldsSeq(text) {
		if w != `\` {
			list = append(list, w)
		}
	}
	return list
}

// parses fails unless a text ends with commands under next, and each is a call of this program.
func parses(t *testing.T, text string) {
	t.Helper()
	_, next, ok := strings.Cut(text, "\nnext\n")
	if !ok {
		if first := strings.Fields(text)[0]; !slices.Contains([]string{"ssp-c", "epsilon", "dropout"}, first) {
			t.Errorf("no next step in\n%s", text)
		}
		return
	}
	parser, err := program.Parser(newCommands(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(next) {
		if _, err = parser.Parse(strings.Fields(line)[1:]); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
