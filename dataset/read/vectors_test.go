package read

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// npyFile writes a matrix in NumPy's format, as its description says.
func npyFile(tb testing.TB, name, kind, shape string, numbers any) string {
	tb.Helper()
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", kind, shape)
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	b, err := binary.Append(append(b, header...), binary.LittleEndian, numbers)
	path := filepath.Join(tb.TempDir(), name)
	if err = errors.Join(err, os.WriteFile(path, b, 0o600)); err != nil {
		tb.Fatal(err)
	}
	return path
}

// The rows are a mean (10, 20) and vectors whose principal components are (3, 4)/5 and (4, -3)/5: pairs along both axes, and two
// pairs in the middle between them, of each sign. In norm 1 their second moments are 6 and 4. Item 11 has no vector, and item 12 the mean.
func TestVectors(t *testing.T) {
	var x []float64
	var single []float32
	for _, v := range [][2]float64{{3, 4}, {-3, -4}, {6, 8}, {-6, -8}, {-4, 3}, {4, -3}, {-1, 7}, {1, -7}, {7, 1}, {-7, -1}, {-10, -20}, {0, 0}} {
		x = append(x, 10+v[0], 20+v[1])
		single = append(single, float32(10+v[0]), float32(20+v[1]))
	}
	set := &dataset.Set{Name: "set", ItemIDs: idtext.Numbered(12), Ratings: dataset.Ratings{Items: 12}}
	got := itemFeatures(t, set, npyFile(t, "my titles.NPY", "<f8", "12, 2", x))
	const half = 0.707107
	want := []dataset.Category{{
		Name: "my titles", Values: []string{"0+", "0-", "1+", "1-"}, Start: []int32{0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 14, 14},
		Value: []int32{0, 1, 0, 1, 3, 2, 0, 3, 1, 2, 0, 2, 1, 3}, Weight: []float64{1, 1, 1, 1, 1, 1, half, half, half, half, half, half, half, half},
	}}
	if fmt.Sprint(got.Categories) != fmt.Sprint(want) {
		t.Errorf("the features are %+v, want %+v", got.Categories, want)
	}
	if again := itemFeatures(t, set, npyFile(t, "my titles.npy", "<f4", "12, 2", single)); again.Digest != got.Digest {
		t.Errorf("float32 has the digest %s, float64 %s", again.Digest, got.Digest)
	}
}

// A singular value decomposition has the same components, up to signs.
func TestPrincipalComponents(t *testing.T) {
	const rows, cols, k = 150, 90, 5
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, rows*cols)
	for i := range x {
		x[i] = rng.NormFloat64()*math.Pow(0.8, float64(i%cols)) + 3
	}
	got := principal(x, rows, cols, k) // x is centred and in norm 1 from now on
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(rows, cols, x), mat.SVDThin) {
		t.Fatal("no decomposition")
	}
	var u mat.Dense
	svd.UTo(&u)
	for i, s := range got {
		if want := math.Abs(u.At(i/k, i%k) * svd.Values(nil)[i%k]); math.Abs(math.Abs(s)-want) > 1e-6 {
			t.Fatalf("component %d of row %d is %v; want %v", i%k, i/k, s, want)
		}
	}
}

func TestVectorErrors(t *testing.T) {
	set := &dataset.Set{Name: "mine", ItemIDs: []string{"a", "b", "c"}, Ratings: dataset.Ratings{Items: 3}}
	good, nan, inf := []float64{1, 2, 3, 4, 5, 6}, []float64{1, 2, 3, 4, 5, math.NaN()}, []float64{1, 2, math.Inf(-1), 4, 5, 6}
	path := npyFile(t, "x.npy", "<f8", "3, 2", good)
	for _, c := range []struct {
		spec, want string
	}{
		{npyFile(t, "x.npy", "<f8", "2, 3", good), "has 2 rows, and mine has 3 items; want a row for each line of fedsim data ids DATA --of items"},
		{npyFile(t, "x.npy", "<f8", "3, 2", nan), `row 2, column 1 (counted from 0; item "c") is NaN`},
		{npyFile(t, "x.npy", "<f8", "3, 2", inf), `row 1, column 0 (counted from 0; item "b") is -Inf`},
		{npyFile(t, "x.npy", "<f8", "3, 1", []float64{1, 2, 1e200}), "is 1e+200; want finite numbers"},
		{npyFile(t, "x.npy", "<f8", "3, 4097", make([]float64, 3*4097)), "has 4097 columns; want 1 to 4096"},
		{npyFile(t, "x.npy", "<f8", "3, 2", make([]float64, 6)), "x.npy: all its rows are zeros or equal"},
		{npyFile(t, "x.npy", "<f8", "3, 2", []float64{.1, .3, .1, .3, .1, .3}), "all its rows are zeros or equal"},
		{npyFile(t, "x.npy", "<f8", "3, 0", []byte{}), "has 0 columns"},
		{npyFile(t, "x.npy", "<f8", "6,", good), "not a matrix of float64"},
		{npyFile(t, "x.npy", "<i8", "3, 1", []int64{1, 2, 3}), "not a matrix of float64"},
		{npyFile(t, "x.npy", "<f2", "3, 1", []uint16{1, 2, 3}), "'<f2'"},
		{npyFile(t, "x.npy", "<f8", "2147483647, 2147483647", good), "for 2147483647 x 2147483647 numbers there must be"},
		{npyFile(t, ".npy", "<f8", "3, 2", good), "the file's name, which names the category, is empty"},
		{path + "," + npyFile(t, "x.npy", "<f8", "3, 2", good), `category "x" comes from ` + path + " already"},
		{filepath.Join(t.TempDir(), "gone.npy"), "no such file"},
	} {
		if _, err := Features(set, c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.spec, err, c.want)
		}
	}
	if f := itemFeatures(t, set, path); f.Categories[0].Name != "x" || slices.Contains(f.Categories[0].Values, "1+") {
		t.Errorf("three points of a line are %+v", f.Categories)
	}
}
