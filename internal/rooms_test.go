package internal_test

import (
	"flag"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of packages of CONTRIBUTING.md anew")

// TestTableOfPackages: CONTRIBUTING.md has a table of all packages with the first sentences of their comments. With -update the test
// writes the table.
func TestTableOfPackages(t *testing.T) {
	const page, head, foot = "../CONTRIBUTING.md", "| package | what it does |\n|---|---|\n", "\nImports run one way"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), head)
	got, after, ended := strings.Cut(rest, foot)
	if !found || !ended {
		t.Fatalf("%s has no table between %q and %q", page, head, foot)
	}
	want := strings.Join(rooms(t, ".."), "")
	switch {
	case got == want:
	case *update:
		if err = os.WriteFile(page, []byte(before+head+want+foot+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of packages is not what their comments say; go test ./internal -run TestTableOfPackages -update writes it. It should be\n%s", want)
	}
}

// rooms returns a row for each package below a folder, in the order of paths.
func rooms(t *testing.T, root string) []string {
	var rows []string
	subject := regexp.MustCompile(`^(Package|Command) \S+ `)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || !d.IsDir() {
			return err
		}
		if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		comment, production := "", false
		for _, file := range files {
			f, invalid := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if invalid != nil {
				return invalid
			}
			production = production || !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(file, ".pb.go")
			if f.Doc != nil && (comment == "" || f.Name.Name != "main") {
				comment = f.Doc.Text()
			}
		}
		sentence := new(doc.Package).Synopsis(comment)
		what := subject.ReplaceAllString(sentence, "")
		if first, rest, _ := strings.Cut(sentence, " "); strings.EqualFold(first, name) { // of a program
			what = rest
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case !production && comment == "":
		case what == sentence:
			t.Errorf("%s: its comment begins %q, not with Package or Command, its name and a verb", rel, sentence)
		default:
			rows = append(rows, "| `"+filepath.ToSlash(rel)+"` | "+strings.ReplaceAll(strings.TrimSuffix(what, ":"), "|", "\\|")+" |\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
