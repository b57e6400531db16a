package results

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // registers the built-in algorithms
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
)

// tree lists everything below a folder.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFolderDiscardLeavesNothing(t *testing.T) {
	for _, out := range []string{"runs", "a/b/c", "./runs/", "there", "there/new", "."} {
		t.Run(out, func(t *testing.T) {
			root := t.TempDir()
			t.Chdir(root)
			if err := os.Mkdir("there", 0o755); err != nil {
				t.Fatal(err)
			}
			e := opened.Experiment(t, "")
			algorithm.Out.Set(&e.Config, out)
			f, err := NewFolder(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Append(Metrics{Round: 1}); err != nil {
				t.Fatal(err)
			}
			f.Discard()
			f.Discard() // a second call does nothing
			if diff := cmp.Diff([]string{"there"}, tree(t, root)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// Folders made on the way are kept if another program has put files into them.
func TestFolderDiscardKeepsWhatIsNotItsOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	e := opened.Experiment(t, "out=a/b")
	f, err := NewFolder(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("a/other", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.Discard()
	if diff := cmp.Diff([]string{"a", "a/other"}, tree(t, ".")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestNewFolderThatCannotBe(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ name, out, run, reason string }{
		{"a file in the place of out", "file", "x", "not a directory"},
		{"a file in the place of out, without a name", "file", "", "not a directory"},
		{"a file above out", "file/runs", "x", "not a directory"},
		{"a name too long", "runs", long, "file name too long"},
		{"an out too long", "new/" + long, "x", "file name too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("file", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			e := opened.Experiment(t, "")
			algorithm.Out.Set(&e.Config, tt.out)
			algorithm.RunName.Set(&e.Config, tt.run)
			f, err := NewFolder(e)
			if err == nil {
				f.Discard()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %q, want %q in it", err, tt.reason)
			}
			if diff := cmp.Diff([]string{"file"}, tree(t, ".")); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// trained makes a model of the two matrices for all.
func trained(items, users *model.Matrix) *model.Trained {
	return &model.Trained{Matrices: []model.Named{{Name: "item_embeddings", Matrix: items}, {Name: "user_embeddings", Matrix: users}}}
}

func TestFolderNames(t *testing.T) {
	t.Chdir(t.TempDir())
	complete := func(e *experiment.Experiment) string {
		t.Helper()
		f, err := NewFolder(e)
		if err != nil {
			t.Fatal(err)
		}
		path, err := f.Complete(e, &Summary{}, trained(model.NewMatrix(1, 1), model.NewMatrix(1, 1)), noCost)
		if err != nil {
			t.Fatal(err)
		}
		f.Discard() // after Complete it does nothing
		return filepath.ToSlash(path)
	}
	const name = "runs/lfl-sgdmf-synthetic-small-eps2.5-seed7"
	e := opened.Experiment(t, "epsilon=2.5 seed=7")
	for _, want := range []string{name, name + "-2", name + "-3"} {
		if got := complete(e); got != want {
			t.Errorf("the run is %s, want %s", got, want)
		}
	}
	if got := DefaultName(opened.Experiment(t, "epsilon=1e9")); !strings.Contains(got, "-eps1e+09-") { // and not 1e-09
		t.Errorf("a run of epsilon 1e9 is called %s", got)
	}
	if got := complete(opened.Experiment(t, "name=mine")); got != "runs/mine" {
		t.Errorf("the run is %s, want runs/mine", got)
	}
	before := tree(t, ".")
	if f, err := NewFolder(opened.Experiment(t, "name=mine")); err == nil {
		f.Discard()
		t.Error("a name that is taken was accepted")
	} else if want := filepath.Join("runs", "mine") + " exists already; give another --name, or remove it"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if after := tree(t, "."); !slices.Equal(before, after) {
		t.Errorf("there were %v, now there are %v", before, after)
	}
}

// A folder that another run has meanwhile completed under the name is not overwritten.
func TestCompleteDoesNotOverwrite(t *testing.T) {
	t.Chdir(t.TempDir())
	e := opened.Experiment(t, "name=x")
	var folders [2]*Folder
	for i, name := range []string{"x", "y"} {
		var err error
		if folders[i], err = NewFolder(opened.Experiment(t, "name="+name)); err != nil {
			t.Fatal(err)
		}
		defer folders[i].Discard()
	}
	folders[1].name = "x" // a file system without locks lets both in
	m := trained(model.NewMatrix(1, 1), model.NewMatrix(1, 1))
	if _, err := folders[0].Complete(e, &Summary{Rounds: 1}, m, noCost); err != nil {
		t.Fatal(err)
	}
	if _, err := folders[1].Complete(e, &Summary{Rounds: 2}, m, noCost); err == nil {
		t.Error("the second run took the name of the first")
	}
	folders[1].Discard()
	var s struct{ Rounds int }
	b, err := os.ReadFile("runs/x/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Rounds != 1 {
		t.Errorf("the summary there says %d rounds (%v), want that of the first run", s.Rounds, err)
	}
	if got := tree(t, "."); len(got) != 11 {
		t.Errorf("left %v, want one run of nine files", got)
	}
}

// Runs of one description that end at the same time, such as of several threads of a program, each get a folder.
func TestCompleteAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	e := opened.Experiment(t, "")
	m := trained(model.NewMatrix(1, 1), model.NewMatrix(1, 1))
	var folders [24]*Folder
	for i := range folders {
		var err error
		if folders[i], err = NewFolder(e); err != nil {
			t.Fatal(err)
		}
		defer folders[i].Discard()
	}
	var done sync.WaitGroup
	var names sync.Map
	for _, f := range folders {
		done.Go(func() {
			path, err := f.Complete(e, &Summary{}, m, noCost)
			if _, twice := names.LoadOrStore(path, true); err != nil || twice {
				t.Errorf("%q: %v, twice %v", path, err, twice)
			}
		})
	}
	done.Wait()
}

// The model against NumPy's format as its documentation describes version 1.0:
// magic, version, length of the header, a header that ends at a multiple of 64,
// then the rows in order.
func TestModelFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	e := opened.Experiment(t, "name=x")
	f, err := NewFolder(e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	items := model.NewMatrix(3, 2)
	for r := range 3 {
		copy(items.Row(r), []float64{float64(r), -0.1 * float64(r)})
	}
	if _, err = f.Complete(e, &Summary{}, trained(items, model.NewMatrix(1, 2)), noCost); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("runs/x/item_embeddings.npy")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, []byte("\x93NUMPY")) || len(b) < 12 {
		t.Fatalf("it begins with %q", b[:min(len(b), 12)])
	}
	start, length := 10, int(binary.LittleEndian.Uint16(b[8:]))
	if b[6] == 2 {
		start, length = 12, int(binary.LittleEndian.Uint32(b[8:]))
	}
	header := strings.ReplaceAll(string(b[start:start+length]), " ", "")
	for _, want := range []string{"'descr':'<f8'", "'fortran_order':False", "'shape':(3,2)"} {
		if !strings.Contains(header, want) {
			t.Errorf("header %s, want %s in it", header, want)
		}
	}
	var got []float64
	for data := b[start+length:]; len(data) >= 8; data = data[8:] {
		got = append(got, math.Float64frombits(binary.LittleEndian.Uint64(data)))
	}
	if want := []float64{0, 0, 1, -0.1, 2, -0.2}; !slices.Equal(got, want) {
		t.Errorf("values %v, want %v", got, want)
	}
}

// noCost states a session without noise.
var noCost = []algorithm.PastSession{{}}

// "-" is standard input, also in a folder with a file of that name.
func TestWholePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"-", "r.csv"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"-": "-", "": "", "ml-1m": "ml-1m", "r.csv": filepath.Join(here, "r.csv")} {
		if got := whole(path); got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}
