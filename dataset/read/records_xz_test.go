package read_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/fedsim/fedsim/internal/dataset/files"
)

// A dictionary above 128 MiB is refused with what to do, and the error names the size that the header has. The byte of a size is by
// section 5.3.1 of the format of xz: the writer's byte is replaced, and the checksum of the header.
func TestDictionaryOfXZ(t *testing.T) {
	const text = "user,item,rating\n1,2,3\n"
	var b bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 16, BufSize: 1 << 12}.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	header := b.Bytes()[12:][:4*(int(b.Bytes()[12])+1)]
	at := bytes.Index(header, []byte{0x21, 1, 8}) // LZMA2, with one byte, which is of 64 KiB
	if at < 0 {
		t.Fatalf("the header of the block is %x", header)
	}
	for _, c := range []struct {
		bits byte
		mib  int // 0 if it is not refused
	}{{8, 0}, {19, 0}, {28, 0}, {30, 0}, {31, 192}, {32, 256}, {36, 1024}, {37, 1536}} {
		header[at+2] = c.bits
		sum := len(header) - 4
		binary.LittleEndian.PutUint32(header[sum:], crc32.ChecksumIEEE(header[:sum]))
		in := files.Input{ReadCloser: io.NopCloser(bytes.NewReader(b.Bytes())), Path: "ratings"}
		_, err = in.Unwrap(t.Context(), files.Options{Encoding: "utf-8"})
		if c.mib > 0 {
			if want := fmt.Sprintf("its dictionary has %d MiB, and at most 128 MiB are used; pack it again", c.mib); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("byte %d: %v, want %q", c.bits, err, want)
			}
			continue
		}
		if got, failed := io.ReadAll(in); err != nil || failed != nil || string(got) != text {
			t.Errorf("byte %d: %q is read, %v, %v", c.bits, got, err, failed)
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
		in := files.Input{ReadCloser: io.NopCloser(bytes.NewReader(packed)), Path: "ratings.csv.xz"}
		_, err = in.Unwrap(t.Context(), files.Options{})
		var read []byte
		if err == nil {
			read, err = io.ReadAll(in)
		}
		if err == nil || !strings.Contains(err.Error(), "unpack it with its own program") {
			t.Errorf("%s: read %q, error %v", what, read, err)
		}
	}
}
