package split

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

// open reads or generates a set.
func open(tb testing.TB, spec string, o read.Options) *dataset.Set {
	tb.Helper()
	set, err := read.Open(context.Background(), spec, o)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// generated returns a synthetic set, which is generated once.
func generated(tb testing.TB, shape string) *dataset.Set {
	tb.Helper()
	generatedMu.Lock()
	defer generatedMu.Unlock()
	set, ok := generatedSets[shape]
	if !ok {
		set = open(tb, "synthetic:"+shape, read.Options{})
		generatedSets[shape] = set
	}
	return set
}

var (
	generatedMu   sync.Mutex
	generatedSets = make(map[string]*dataset.Set)
)

// ownFile writes a text to a file of its own.
func ownFile(tb testing.TB, name, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// writeCSV writes a set as ratings.csv of MovieLens.
func writeCSV(tb testing.TB, set *dataset.Set) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "ratings.csv")
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "userId,movieId,rating,timestamp\n")
	for k, v := range set.Value {
		fmt.Fprintf(w, "%s,%s,%v,0\n", set.UserIDs[set.User[k]], set.ItemIDs[set.Item[k]], v)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return file
}
