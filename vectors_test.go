package fedsim_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim"
)

// TestVectorsTellTastes draws ratings by hidden vectors of items, which a file shows turned into more dimensions. With the file the
// error at ε = 5 is lower by 5% and more.
func TestVectorsTellTastes(t *testing.T) {
	const users, items, hidden, shown = 300, 80, 3, 12
	rng := rand.New(rand.NewPCG(7, 8))
	normal := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	dot := func(x, y []float64) (sum float64) {
		for i := range x {
			sum += x[i] * y[i]
		}
		return sum
	}
	vectors, turn := make([][]float64, items), make([][]float64, shown)
	for c := range turn {
		turn[c] = normal(hidden)
	}
	header := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }\n", items, shown)
	npy := append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...)
	for j := range vectors {
		vectors[j] = normal(hidden)
		for c := range turn {
			npy = binary.LittleEndian.AppendUint64(npy, math.Float64bits(5+dot(vectors[j], turn[c])))
		}
	}
	var ratings strings.Builder
	ratings.WriteString("user,item,rating\n")
	for u := range users {
		taste := normal(hidden)
		for _, j := range rng.Perm(items)[:30] {
			fmt.Fprintf(&ratings, "%d,%d,%.0f\n", u, j, min(max(3+0.6*dot(taste, vectors[j])+0.3*rng.NormFloat64(), 1), 5))
		}
	}
	data, titles := filepath.Join(t.TempDir(), "ratings.csv"), filepath.Join(t.TempDir(), "titles.npy")
	if err := errors.Join(os.WriteFile(data, []byte(ratings.String()), 0o600), os.WriteFile(titles, npy, 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func(features string) float64 {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Settings: map[string]string{
			"algorithm": "ssp-c", "epsilon": "5", "data": data, "features": features, "seed": "1", "rating-min": "1", "rating-max": "5", "baselines": "quick"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.RMSE()
	}
	without, with := run("auto"), run("auto,"+titles)
	t.Logf("RMSE %.4f with vectors, %.4f without", with, without)
	if !(with < 0.95*without) {
		t.Errorf("RMSE %.4f with vectors, %.4f without", with, without)
	}
}
