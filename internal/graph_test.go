package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

const module = "github.com/fedsim/fedsim"

// graph maps the import path of each package to the paths that its files other
// than tests import.
type graph map[string][]string

// load asks the go command for every package of the module and all that they
// link, and what their files for other systems import.
func load(t *testing.T) graph {
	t.Helper()
	effort.NotShort(t, "the go command lists all packages")
	watch(t, root)
	g, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const root = ".."

var loadOnce = sync.OnceValues(func() (graph, error) {
	g, elsewhere, err := list("linux", "-deps", "./...")
	if err != nil {
		return nil, err
	}
	for _, system := range []string{"darwin", "windows"} {
		own, _, err := list(system, elsewhere...)
		if err != nil {
			return nil, err
		}
		for p, imports := range own {
			g[p] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(g[p], imports))))
		}
	}
	return g, nil
})

// list asks the go command for packages on one system, and says which of the module have files for other systems.
func list(system string, arguments ...string) (g graph, elsewhere []string, err error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,IgnoredGoFiles"}, arguments...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+system)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, nil, fmt.Errorf("%v: %w\n%s", cmd, err, exit.Stderr)
		}
		return nil, nil, fmt.Errorf("%v: %w", cmd, err)
	}
	if g, elsewhere, err = decode(bytes.NewReader(out)); err != nil {
		return nil, nil, fmt.Errorf("output of %v: %w", cmd, err)
	}
	return g, elsewhere, nil
}

// watch lists every folder of the module. The go command reuses the result of a
// test until something changes that the test itself has read. Reads of its child
// processes do not count. Without watch a new import elsewhere would go unseen.
func watch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "runs"):
			return filepath.SkipDir
		default:
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// decode reads the concatenated objects that go list -json prints.
func decode(r io.Reader) (g graph, elsewhere []string, err error) {
	g = make(graph)
	d := json.NewDecoder(r)
	for {
		var p struct {
			ImportPath              string
			Imports, IgnoredGoFiles []string
		}
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return g, elsewhere, nil
		case err != nil:
			return nil, nil, err
		}
		g[p.ImportPath] = p.Imports
		if matches("...", p.ImportPath) && len(p.IgnoredGoFiles) > 0 {
			elsewhere = append(elsewhere, p.ImportPath)
		}
	}
}

// own returns the packages of this module in order.
func (g graph) own() []string {
	var list []string
	for p := range g {
		if matches("...", p) {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// matches reports whether pattern names the import path: "dp" is one package of
// this module, "dp/..." it and all below, also below internal/dp, "..." the whole
// module, "." its root. A pattern whose first element has a dot or that begins
// with "std:" is a path outside.
func matches(pattern, path string) bool {
	switch outside, std := strings.CutPrefix(pattern, "std:"); {
	case std:
		pattern = outside
	case pattern == "...":
		pattern = module + "/..."
	case pattern == ".":
		pattern = module
	default:
		if first, _, _ := strings.Cut(pattern, "/"); !strings.Contains(first, ".") {
			pattern = module + "/" + pattern
		}
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		inner := module + "/internal" + strings.TrimPrefix(tree, module)
		return path == tree || strings.HasPrefix(path, tree+"/") || strings.HasPrefix(path, inner+"/")
	}
	return path == pattern
}

// anyMatches reports whether one of the patterns names the import path.
func anyMatches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// violations returns one line for every pair of packages that breaks the rule:
// both ends of the shortest chain of imports, the chain, and the reason.
func (g graph) violations(r rule) []string {
	var found []string
	for _, from := range g.own() {
		if !anyMatches(r.from, from) || anyMatches(r.except, from) {
			continue
		}
		for _, chain := range g.chains(from, r.direct) {
			to := chain[len(chain)-1]
			if to == from || !anyMatches(r.forbid, to) || anyMatches(r.allow, to) {
				continue
			}
			found = append(found, fmt.Sprintf("%s must not import %s (%s): %s", from, to, strings.Join(chain, " -> "), r.why))
		}
	}
	return found
}

// chains returns a shortest chain of imports from a package to every other that
// it reaches, nearest first. With direct it returns only chains of one step.
func (g graph) chains(from string, direct bool) [][]string {
	seen := map[string]bool{from: true}
	chains := [][]string{{from}}
	for i := 0; i < len(chains); i++ {
		if direct && i > 0 {
			break
		}
		last := chains[i][len(chains[i])-1]
		for _, to := range g[last] {
			if !seen[to] {
				seen[to] = true
				chains = append(chains, append(slices.Clone(chains[i]), to))
			}
		}
	}
	return chains[1:]
}

// unknown returns what a rule names in this module although there is no such
// package: a misspelt rule would hold for ever.
func (g graph) unknown(r rule) []string {
	var list []string
	for _, pattern := range slices.Concat(r.from, r.except, r.forbid, r.allow) {
		first, _, _ := strings.Cut(pattern, "/")
		if pattern == "..." || strings.ContainsAny(first, ".:") {
			continue
		}
		if !slices.ContainsFunc(g.own(), func(p string) bool { return matches(pattern, p) }) {
			list = append(list, pattern)
		}
	}
	return list
}

// A guard against running in a tree that was moved: the rules would hold there.
func TestRootIsTheModule(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(data), "\n"); first != "module "+module {
		t.Errorf("go.mod begins with %q, want %q", first, "module "+module)
	}
}
