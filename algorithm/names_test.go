package algorithm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
)

// families returns the folders whose code may name algorithms: examples, and the folders that package internal/families links.
func families(t *testing.T) []string {
	t.Helper()
	list := []string{"examples"}
	for _, name := range []string{"internal/families/families.go", "lab/lab.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", filepath.FromSlash(name)), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, strings.TrimPrefix(path, "github.com/fedsim/fedsim/"))
		}
	}
	return list
}

// An algorithm's name in code outside its family is a decision that the family should
// make: which one runs where none is named, too. Comments and sentences may name one.
// Examples are programs that choose one.
func TestNobodyNamesAnAlgorithm(t *testing.T) {
	root := ".."
	files, families := 0, families(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case relErr != nil:
			return relErr
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "runs" || slices.Contains(families, strings.TrimPrefix(rel, "internal/"))):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			switch {
			case err != nil:
				t.Errorf("%s: %v", set.Position(literal.Pos()), err)
			case !slices.Contains(algorithm.Names(), text):
			default:
				t.Errorf("%s: the algorithm %q is named", set.Position(literal.Pos()), text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Errorf("%d files were read", files)
	}
}
