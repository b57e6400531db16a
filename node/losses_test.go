package node_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every loss in the table of losses.md is tested: there is a test of each name, which is in no row twice.
func TestEveryLossIsTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("losses.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, dir := range []string{".", filepath.Join("..", "internal", "node"), filepath.Join("..", "cmd", "fednode")} {
		err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| .* \\| `(Test\\w+)` \\|$").FindAllStringSubmatch(string(page), -1)
	seen := make(map[string]bool)
	for _, row := range rows {
		if seen[row[1]] || !strings.Contains(code.String(), "\nfunc "+row[1]+"(t *testing.T) {") {
			t.Errorf("%s: the test is in another row, too, or there is none", row[0])
		}
		seen[row[1]] = true
	}
	if len(rows) < 20 {
		t.Errorf("%d rows, want 20 at least", len(rows))
	}
}
