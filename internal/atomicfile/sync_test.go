package atomicfile

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every writer syncs each file before the file gets its name, and the folder afterwards. This order is asked for by
// fsync(2) and rename(2): a file has its content on the disk before a name leads to it.
func TestWritersSync(t *testing.T) {
	text := func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	}
	for _, c := range []struct {
		name  string
		write func(dir string) error
		want  []string // the names that were synced, "." for the folder; * for a part of a name that is random
	}{
		{"Write", func(d string) error { return Write(filepath.Join(d, "a"), []byte("text"), 0o600) }, []string{"a.tmp", "."}},
		{"Create", func(d string) error { return Create(filepath.Join(d, "a"), []byte("text"), 0o600) }, []string{".a-*.tmp", "."}},
		{"New", func(d string) error { return New(filepath.Join(d, "a"), text) }, []string{".a-*.tmp", "."}},
		{"Replace", func(d string) error { return Replace(filepath.Join(d, "a"), text) }, []string{".a-*.tmp", "."}},
		{"WriteAll", func(d string) error {
			return WriteAll(File{filepath.Join(d, "a"), 0o600, text}, File{filepath.Join(d, "b"), 0o600, text})
		}, []string{"a.tmp", "b.tmp", ".", "."}},
		{"Part", func(d string) error { return Part(File{filepath.Join(d, "a"), 0o600, text}) }, nil}, // Folder does it
		{"Folder", func(d string) error {
			draft := filepath.Join(d, "draft")
			err := errors.Join(os.Mkdir(draft, 0o700), os.WriteFile(filepath.Join(draft, "x"), nil, 0o600), os.WriteFile(filepath.Join(draft, "y"), nil, 0o600))
			return errors.Join(err, Folder(draft, filepath.Join(d, "a")))
		}, []string{"draft", "draft/x", "draft/y", "."}},
	} {
		dir := t.TempDir()
		var synced []string
		sync = func(f *os.File) error {
			name, err := filepath.Rel(dir, f.Name())
			if _, early := os.Lstat(filepath.Join(dir, "a")); name == "." && errors.Is(early, fs.ErrNotExist) {
				t.Errorf("%s: the folder is synced before the file has its name", c.name)
			} else if name != "." && early == nil {
				t.Errorf("%s: %s is synced after the file has its name", c.name, name)
			}
			synced = append(synced, filepath.ToSlash(name))
			return errors.Join(err, f.Sync())
		}
		err := c.write(dir)
		sync = (*os.File).Sync
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		same := func(want, got string) bool { ok, err := filepath.Match(want, got); return ok && err == nil }
		if !slices.EqualFunc(c.want, synced, same) {
			t.Errorf("%s: synced %v, want %v", c.name, synced, c.want)
		}
	}
}

// A sync that fails leaves the old content under the name, and no other file.
func TestFailedSync(t *testing.T) {
	broken := errors.New("the disk is broken")
	text := func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}
	for name, write := range map[string]func(path string) error{
		"Write":    func(p string) error { return Write(p, []byte("new"), 0o600) },
		"Replace":  func(p string) error { return Replace(p, text) },
		"WriteAll": func(p string) error { return WriteAll(File{p, 0o600, text}) },
	} {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		sync = func(*os.File) error { return broken }
		err := write(path)
		sync = (*os.File).Sync
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, []byte("old")) {
			t.Errorf("%s: the file holds %q, %v", name, b, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("%s: the folder holds %v, %v", name, entries, err)
		}
	}
}

// All production code gives names through this package, which syncs. Only the log of a run, which is for people to read, is
// not worth a sync.
func TestNamesAreGivenHere(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || rel == "tools" || rel == "python" || rel == "internal/atomicfile" || strings.HasPrefix(name, ".") && rel != "." {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && rel == "lab/sweep/folder.go" && f.Name.Name == "one" {
				return false // the log
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" && (s.Sel.Name == "Rename" || s.Sel.Name == "Link") {
					t.Errorf("%s: os.%s gives a name without a sync; package atomicfile does both", files.Position(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
