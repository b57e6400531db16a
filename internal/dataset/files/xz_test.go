package files

import (
	"bytes"
	"encoding/base64"
	"io"
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

// A stream that the library cannot read is an error, also behind a stream that it can: no row is left out. xz 5.4 packed both streams,
// the second with the filter for programs of x86 before LZMA2.
func TestFilterOfXZ(t *testing.T) {
	plain := "/Td6WFoAAAD/EtlBAgAhARYAAAB0L+WjAQAWdXNlcixpdGVtLHJhdGluZwoxLDIsMwoAAAABJxeJgpB5BnKeegEAAAAAAFla"
	filtered := "/Td6WFoAAAD/EtlBAgEEACEBFgANhjUf4AD1AEhdABoLAw8zsBLJkEwCO3dzKDlwCLd6aHJiq6WQ7+Zhx1mjfsoJwfl3sWhk7++wVKGm4ILRC39iSaJXYrqPVhQ1BM6QamxDfsOqfwAAAVz2AQAAAMne0ceoAAr8AgAAAAAAWVo="
	for what, text := range map[string]string{"alone": filtered, "behind another": plain + filtered} {
		packed, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{ReadCloser: io.NopCloser(bytes.NewReader(packed)), Path: "ratings.csv.xz"}
		_, err = in.Unwrap(t.Context(), Options{})
		var read []byte
		if err == nil {
			read, err = io.ReadAll(in)
		}
		if err == nil || !strings.Contains(err.Error(), "unpack it with its own program") {
			t.Errorf("%s: read %q, error %v", what, read, err)
		}
	}
}
