package dataset

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// writeCSV writes a set as a MovieLens ratings.csv, in canonical order.
func writeCSV(tb testing.TB, set *Set) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "ratings.csv")
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "userId,movieId,rating,timestamp")
	for k, v := range set.Value {
		fmt.Fprintf(w, "%s,%s,%.1f,%d\n", set.UserIDs[set.User[k]], set.ItemIDs[set.Item[k]], v, 964982703+k)
	}
	if err := w.Flush(); err != nil { // keeps the first error of the writes above
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return file
}

// BenchmarkLoad loads a ratings.csv of a million ratings, "read" only reads its
// bytes. FEDSIM_BENCH_SHAPE=ml-10m makes it ten million.
func BenchmarkLoad(b *testing.B) {
	shape := os.Getenv("FEDSIM_BENCH_SHAPE")
	if shape == "" {
		shape = "ml-1m"
	}
	set, err := Open(context.Background(), "synthetic:"+shape, Options{})
	if err != nil {
		b.Fatal(err)
	}
	file := writeCSV(b, set)
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("open", func(b *testing.B) {
		b.SetBytes(info.Size())
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Open(context.Background(), file, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(info.Size())
		buf := make([]byte, bufferSize)
		for b.Loop() {
			f, err := os.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf); err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSynthetic(b *testing.B) {
	for _, name := range []string{"small", "ml-1m", "ml-10m"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(context.Background(), "synthetic:"+name, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
