package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Pages name tests, and have commands that run some. Each test is there under its name.
func TestPagesNameTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
	named := regexp.MustCompile("(?:`|-run '?\\^?|-bench '?\\^?)((?:Test|Benchmark|Fuzz|Example)[A-Z_]\\w*)")
	var all []string
	pages := make(map[string]string)
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go") && (filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md"):
			return nil
		}
		b, err := os.ReadFile(path)
		if filepath.Ext(path) == ".md" {
			pages[path] = string(b)
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			all = append(all, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names, found := strings.Join(all, "\n"), 0
	for path, text := range pages {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if found++; !strings.Contains(names, m[1]) { // -run takes the beginning of a name, too
				t.Errorf("%s names %s, and there is no such test", path, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("pages name %d tests; want 50 at least", found)
	}
}
