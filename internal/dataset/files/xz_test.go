package files

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// A dictionary above the limit is refused with what to do, and the error names the size that the writer was given.
func TestDictionaryOfXZ(t *testing.T) {
	for _, size := range []int{1 << 16, 3 << 20, 64 << 20, 1 << 30} {
		var b bytes.Buffer
		w, err := xz.WriterConfig{DictCap: size, BufSize: 1 << 12}.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write([]byte("user,item,rating\n1,2,3\n")); err != nil {
			t.Fatal(err)
		}
		if err = w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := xzDictionary(b.Bytes()[12:]); got != uint64(size) {
			t.Errorf("a dictionary of %d bytes is read as %d", size, got)
		}
		_, err = openXZ(&b)
		if refused := err != nil && strings.Contains(err.Error(), "its dictionary has 1024 MiB, and at most 128 MiB are used; pack it again"); refused != (size > mostDictionary) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
