package files

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// A packed file that unpacks to more than 200 times its size, beyond the first 64 MiB, is refused while it is read, and a file
// of less is read whole. Zeros pack to far less than a 200th in each of the forms; the limit is as package read documents it.
func TestRatioOfPackedFiles(t *testing.T) {
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
			for size, refused := range map[int64]bool{63 * mib: false, 68 * mib: true} {
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
				packed := bytes.NewBuffer(bytes.Repeat(one.Bytes(), int(size/mib)))
				if int64(packed.Len())*200 > 64*mib {
					t.Fatalf("%d bytes of zeros are packed into %d, not under the ratio", size, packed.Len())
				}
				in := Input{ReadCloser: io.NopCloser(packed), Path: "ratings"}
				if _, err = in.Unwrap(t.Context(), Options{Encoding: "utf-8"}); err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, in)
				if got := err != nil && strings.Contains(err.Error(), "beyond 8589934592 or 200 times"); got != refused || !refused && (err != nil || n != size) {
					t.Errorf("%d MiB: %d bytes read, %v; refused should be %t", size/mib, n, err, refused)
				}
			}
		})
	}
}
