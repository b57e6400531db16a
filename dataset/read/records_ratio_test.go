package read_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/effort"
)

// A packed file that unpacks to more than 200 times its size, beyond the first 64 MiB, is refused while it is read, and
// the first 64 MiB are read. Zeros pack to far less than a 200th in each of the forms; the limit is as package read documents it.
func TestRatioOfPackedFiles(t *testing.T) {
	effort.NotShort(t, "unpacks 64 MiB three times")
	const mib = 1 << 20
	for name, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"zstd": func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size = 68
			var one bytes.Buffer // a mebibyte; all three forms may stand one after another
			w, err := open(&one)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = w.Write(make([]byte, mib)); err != nil {
				t.Fatal(err)
			}
			if err = w.Close(); err != nil {
				t.Fatal(err)
			}
			packed := bytes.NewBuffer(bytes.Repeat(one.Bytes(), size))
			if packed.Len()*200 > 64*mib {
				t.Fatalf("%d bytes of zeros are packed into %d, not under the ratio", size*mib, packed.Len())
			}
			in := files.Input{ReadCloser: io.NopCloser(packed), Path: "ratings"}
			if _, err = in.Unwrap(t.Context(), files.Options{Encoding: "utf-8"}); err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, in)
			if n < 63*mib || err == nil || !strings.Contains(err.Error(), "beyond 8589934592 or 200 times") {
				t.Errorf("%d bytes read, %v; want a refusal after the first 64 MiB", n, err)
			}
		})
	}
}
