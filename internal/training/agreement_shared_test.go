package training_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/results"
)

// encoded is a model as it is broadcast: float64, little endian, row by row.
func encoded(values []float64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b
}

// TestSharedEmbeddings checks that the server's model is about all items or, with VFL, about all users, and that
// a reader of the format can read it back.
func TestSharedEmbeddings(t *testing.T) {
	for settings, want := range map[string]struct {
		name string
		ids  func(*experiment.Experiment) []string
	}{
		"algorithm=fmf-lfl":           {"item_embeddings", func(e *experiment.Experiment) []string { return e.Data.ItemIDs }},
		"algorithm=fmf-hfl parties=3": {"item_embeddings", func(e *experiment.Experiment) []string { return e.Data.ItemIDs }},
		"algorithm=fmf-vfl parties=3": {"user_embeddings", func(e *experiment.Experiment) []string { return e.Data.UserIDs }},
	} {
		sim := opened.Experiment(t, settings+" rank=2 data=synthetic:small-60")
		e := opened.Joined(t, sim)
		ids := want.ids(sim)
		values := make([]float64, 2*len(ids))
		for i := range values {
			values[i] = float64(i) / 8
		}
		shared, err := e.Instance().Shared(encoded(values))
		if err != nil || len(shared) != 1 {
			t.Fatal(len(shared), err)
		}
		x := shared[0]
		if x.Name != want.name || !slices.Equal(x.IDs, ids) || !slices.Equal(x.Data(), values) {
			t.Errorf("%s: %s of %d ids and %d values; want %s of %d and %d", settings, x.Name, len(x.IDs), len(x.Data()), want.name, len(ids), len(values))
		}
		dir := t.TempDir()
		if err = results.WriteEmbeddings(dir, x); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join(dir, want.name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		var back mat.Dense
		if err = npyio.Read(f, &back); err != nil {
			t.Fatal(err)
		}
		if err = f.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(back.RawMatrix().Data, values) {
			t.Errorf("%s: the file holds other values", settings)
		}
		text, err := os.ReadFile(filepath.Join(dir, want.name+".ids.json"))
		if err != nil || !strings.HasPrefix(string(text), `["`+ids[0]+`","`+ids[1]+`"`) {
			t.Errorf("%s: ids %.40s, %v", settings, text, err)
		}
		if _, err = e.Instance().Shared(encoded(values[2:])); err == nil {
			t.Errorf("%s: a model that is too short was read", settings)
		}
	}
}
