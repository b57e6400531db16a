// Package testutil has helpers for tests of several rooms: processes and their ports, writers on a disk that fails, pages that
// all people can read, and the fields of a role. Only tests import it.
package testutil

import (
	"flag"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

// FewCases has rapid check properties that are slow on a quarter of its usual number of cases, unless the tests are long or
// -rapid.checks says how many. It is called from an init function: the command line is read later, and wins.
func FewCases() {
	if effort.Long() {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}

// Pages lists the pages of the project: the Markdown files below a folder, as paths that begin with it.
func Pages(t *testing.T, root string) (list []string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			list = append(list, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}
