package read

import (
	"bytes"
	"compress/gzip"
	"runtime/metrics"
	"testing"

	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/ulikunitz/xz"
)

// FuzzSniff: no file makes the reader panic, and no file takes more memory than 64 MiB and 1,000 bytes for each
// of its own. A set that is read is a valid one.
func FuzzSniff(f *testing.F) {
	addSeeds(f, func(string) int { return 0 }, ".csv", ".json", ".txt", ".dat", ".tsv", ".mtx", ".index", ".data")
	for _, text := range []string{"\xff\xfeu\x00,\x00i\x00\n\x00", "u;i;r\r1;2;3,5\r", "1:\n5,3,2005-09-06\n", "[{\"user\":1,\"item\":2,\"rating\":3}]", "sep=|\nuser|item|rating\n1|2|3\n"} {
		f.Add([]byte(text), 0)
	}
	for _, packed := range [][]byte{packedBy(f, "gzip"), packedBy(f, "xz")} {
		f.Add(packed, 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, choice int) {
		o := Options{Input: bytes.NewReader(text)}
		if choice%2 == 1 {
			o.BadRows, o.MaybeTimes = BadRowsSkip, true
		}
		before := allocated()
		set, err := Open(t.Context(), files.Standard, o)
		if grown, most := allocated()-before, uint64(64<<20+1000*len(text)); grown > most {
			t.Fatalf("%d bytes took %d bytes of memory", len(text), grown)
		}
		if err != nil {
			return
		}
		if err = set.Ratings.Validate(); err != nil || set.Users != len(set.UserIDs) || set.Items != len(set.ItemIDs) {
			t.Fatalf("%d users, %d items: %v", len(set.UserIDs), len(set.ItemIDs), err)
		}
		if set.Digest == "" {
			t.Fatal("the set has no digest")
		}
	})
}

// packedBy returns a small packed file.
func packedBy(f *testing.F, how string) []byte {
	f.Helper()
	text := []byte("user,item,rating\n1,2,3\n")
	var b bytes.Buffer
	var err error
	if how == "gzip" {
		w := gzip.NewWriter(&b)
		_, err = w.Write(text)
		w.Close() //nolint:errcheck // of a buffer
	} else {
		w, failed := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b)
		if failed != nil {
			f.Fatal(failed)
		}
		_, err = w.Write(text)
		w.Close() //nolint:errcheck // of a buffer
	}
	if err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// allocated returns the bytes allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
