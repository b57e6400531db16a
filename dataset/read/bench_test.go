package read

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/effort"
)

// writeCSV writes a set as a MovieLens ratings.csv, in canonical order.
func writeCSV(tb testing.TB, set *dataset.Set) string {
	return writeRows(tb, set, "ratings.csv", "userId,movieId,rating,timestamp\n", ",")
}

// writeRows writes a set as a file of ratings.
func writeRows(tb testing.TB, set *dataset.Set, name, header, sep string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, header)
	for k, v := range set.Value {
		fmt.Fprintf(w, "%s%s%s%s%.1f%s%d\n", set.UserIDs[set.User[k]], sep, set.ItemIDs[set.Item[k]], sep, v, sep, 964982703+k)
	}
	if err = errors.Join(w.Flush(), f.Close()); err != nil { // Flush keeps the first error of the writes above
		tb.Fatal(err)
	}
	return file
}

// BenchmarkLoad loads a million ratings in every format, in canonical order and in none. It reports
// the speed of all loads and the nanoseconds per rating of the shortest load. It also reports the
// shortest load as a multiple of steps that a load cannot do without or cannot beat, each the shortest
// of five:
//
//   - of-read: read the file as the scanner does,
//   - of-readfile: read the file with os.ReadFile,
//   - of-copy: copy its bytes in memory,
//   - of-count: count its lines,
//   - of-hash: hash the ratings,
//   - of-unpack: unpack an archive.
//
// FEDSIM_TEST_LONG=load makes it ten million ratings.
func BenchmarkLoad(b *testing.B) {
	shape := "ml-1m"
	if effort.Load() {
		shape = "ml-10m"
	}
	set := open(b, "synthetic:"+shape, Options{})
	o := Options{Min: new(set.Min), Max: new(set.Max)}
	colonFile := writeRows(b, set, "ratings.dat", "", "::")
	for _, format := range []struct{ name, file string }{
		{"csv", writeCSV(b, set)},
		{"colons", colonFile},
		{"tabs", writeRows(b, set, "u.data", "", "\t")},
		{"shuffled", writeCSV(b, shuffled(set))},
		{"zip", zipped(b, "ml.zip", map[string]string{"ml": filepath.Dir(colonFile)})},
	} {
		b.Run(format.name, func(b *testing.B) {
			text, err := os.ReadFile(format.file)
			if err != nil {
				b.Fatal(err)
			}
			other := make([]byte, len(text))
			limits := map[string]time.Duration{
				"of-read":     shortest(b, func() error { return readAll(os.Open(format.file)) }),
				"of-readfile": shortest(b, func() error { _, err := os.ReadFile(format.file); return err }),
				"of-copy":     shortest(b, func() error { copy(other, text); return nil }),
				"of-count":    shortest(b, func() error { bytes.Count(text, []byte{'\n'}); return nil }),
				"of-hash":     shortest(b, func() error { sha256.Sum256(make([]byte, 12*set.Len())); return nil }),
				"of-unpack":   shortest(b, func() error { return unpackAll(format.file) }),
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				begin := time.Now()
				open(b, format.file, o)
				best = min(best, time.Since(begin))
			}
			b.ReportMetric(float64(best)/float64(set.Len()), "ns/rating")
			for name, limit := range limits {
				if limit > 0 {
					b.ReportMetric(best.Seconds()/limit.Seconds(), name)
				}
			}
		})
	}
}

// shuffled is a set whose ratings are in no order.
func shuffled(set *dataset.Set) *dataset.Set {
	out := *set
	perm := make([]int32, set.Len())
	for to, from := range rand.New(rand.NewPCG(1, 1)).Perm(set.Len()) {
		perm[to] = int32(from)
	}
	out.Ratings = set.Gather(perm)
	return &out
}

// shortest returns the shortest of five durations of f.
func shortest(b *testing.B, f func() error) time.Duration {
	b.Helper()
	best := time.Duration(1<<63 - 1)
	for range 5 {
		begin := time.Now()
		if err := f(); errors.Is(err, zip.ErrFormat) {
			return 0
		} else if err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(begin))
	}
	return best
}

// readAll reads to the end, through a buffer of the scanner's size.
func readAll(r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 256<<10))
	return errors.Join(err, r.Close())
}

// unpackAll unpacks an archive to nowhere. The error of a file that is none is zip.ErrFormat.
func unpackAll(file string) error {
	r, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	for _, f := range r.File {
		if err = readAll(f.Open()); err != nil {
			break
		}
	}
	return errors.Join(err, r.Close())
}

func BenchmarkSynthetic(b *testing.B) {
	for _, name := range []string{"small", "ml-1m", "ml-10m"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				open(b, "synthetic:"+name, Options{})
			}
		})
	}
}
