package internal_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Python's package knows words for 1 and 0 before a file is written. They are the words of files, each with the same worth.
func TestTruthsOfPython(t *testing.T) {
	words := func(path, head, pair string, yes func(worth string) bool) map[string]bool {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(b), head)
		text, _, _ = strings.Cut(text, "\n}")
		list := make(map[string]bool)
		for _, m := range regexp.MustCompile(pair).FindAllStringSubmatch(text, -1) {
			word, err := strconv.Unquote(m[1])
			if err != nil {
				t.Fatal(err)
			}
			list[word] = yes(m[2])
		}
		return list
	}
	python := words("../python/src/fedsim/_frames.py", "\n_TRUTHS = {", `("[^"]+"): (True|False)`, func(worth string) bool { return worth == "True" })
	files := words("dataset/records/values.go", "\nvar truths = map[string]int{", `("[^"]+"): (-?\d+)`, func(worth string) bool { return worth[0] != '-' })
	if diff := cmp.Diff(files, python); diff != "" || len(files) < 20 {
		t.Errorf("%d words (-files +Python):\n%s", len(files), diff)
	}
}
