package fedsim_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/testutil"
)

var update = flag.Bool("update", false, "write the pages that are made from declarations")

func samePage(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what the declarations say; run the test with -update (-page +declarations):\n%s", path, d)
	}
}

// Every link between the pages leads somewhere, and the first page stays short.
func TestPagesAndTheirLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range testutil.Pages(t, ".") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if page == "README.md" && bytes.Count(text, []byte("\n")) > 110 {
			t.Errorf("README.md has %d lines; the rest belongs to docs", bytes.Count(text, []byte("\n")))
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(string(m[1]), "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			content, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
				t.Errorf("%s: %s has no heading %q", page, target, anchor)
			}
		}
	}
}

// TestReadmeCode checks that the Go code of the README stands in an example, which tests build and run.
func TestReadmeCode(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("examples/own-ratings/main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Error("the README has no Go code")
	}
	indent := regexp.MustCompile(`(?m)^[ \t]+`)
	for _, b := range blocks {
		if !bytes.Contains(indent.ReplaceAll(program, nil), indent.ReplaceAll(b[1], nil)) {
			t.Errorf("examples/own-ratings/main.go has nothing like\n%s", b[1])
		}
	}
}

// Source files that pages name are there. Names without a folder are of the package that
// the text is about, and are left out.
func TestPagesNameFilesThatAreThere(t *testing.T) {
	name := regexp.MustCompile("`((?:[a-z]+/)+[a-z_]+\\.go)`")
	seen := 0
	for _, page := range testutil.Pages(t, ".") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(text, -1) {
			seen++
			if _, err = os.Stat(string(m[1])); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
	if seen == 0 {
		t.Error("no page names a source file: the pattern finds none")
	}
}

// TestPathsHaveFewRooms checks that each path that docs/architecture.md leads through files has at most 12 rooms.
func TestPathsHaveFewRooms(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	file, paths := regexp.MustCompile("`((?:[a-z]+/)+)[a-z_]+\\.go`"), 0
	for _, section := range strings.Split(string(text), "\n## ") {
		rooms := make(map[string]bool)
		for _, m := range file.FindAllStringSubmatch(section, -1) {
			rooms[m[1]] = true
		}
		if len(rooms) > 12 {
			t.Errorf("%.20q goes through %d rooms, at most 12 are wanted", section, len(rooms))
		}
		if strings.HasPrefix(section, "One ") && len(rooms) > 5 {
			paths++
		}
	}
	if paths != 2 {
		t.Errorf("%d paths through files, want 2", paths)
	}
}

// A guide for people who train, deploy or check: at most 12 pages, each of at most 1,500 words outside of blocks of code.
// Every other page lies beside the code that it speaks of, or is a reference.
func TestGuideIsShort(t *testing.T) {
	guide, err := filepath.Glob("docs/*.md")
	if err != nil || len(guide) == 0 {
		t.Fatal(guide, err)
	}
	if n := len(guide) - 1; n > 12 { // without the list of pages
		t.Errorf("%d pages in docs, want 12 at most", n)
	}
	code := regexp.MustCompile("(?ms)^```.*?^```$")
	for _, page := range guide {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(code.ReplaceAllString(string(text), ""))); n > 1500 {
			t.Errorf("%s has %d words, want 1,500 at most", page, n)
		}
	}
}

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(page string) []string {
	var list []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		list = append(list, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}
