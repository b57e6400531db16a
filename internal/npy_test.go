package internal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/npy"
)

// file makes a file by hand, as the format's description says.
func file(header string, numbers any) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	b, _ = binary.Append(append(b, header...), binary.LittleEndian, numbers)
	return b
}

func head(kind, order, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }          \n", kind, order, shape)
}

func TestNPY(t *testing.T) {
	for _, c := range []struct {
		file  []byte
		shape []int
		want  npy.Array
	}{
		{file(head("<f8", "False", "2, 1"), []float64{.5, -3}), []int{2, 1}, npy.Array{Float: []float64{.5, -3}}},
		{file(head("<f4", "False", "2,"), []float32{.5, -3}), []int{2}, npy.Array{Float: []float64{.5, -3}}},
		{file(head("<f4", "True", "2,"), []float32{.5, -3}), []int{2}, npy.Array{Float: []float64{.5, -3}}}, // one dimension has one order
		{file(head("<i8", "False", "1, 1, 2"), []int64{1 << 40, -3}), []int{1, 1, 2}, npy.Array{Whole: []int64{1 << 40, -3}}},
		{file(head("<i4", "False", "2, 1, "), []int32{7, -3}), []int{2, 1}, npy.Array{Whole: []int64{7, -3}}},
		{file(head("<f8", "False", ""), []float64{.5}), nil, npy.Array{Float: []float64{.5}}},
		{file(head("<f8", "False", "3, 0"), []byte{}), []int{3, 0}, npy.Array{Float: []float64{}}},
		{[]byte(strings.Replace(strings.Replace(string(file(head("<f8", "False", "1,"), []float64{.5})), "\x01", "\x02", 1), "\x00{", "\x00\x00\x00{", 1)), []int{1}, npy.Array{Float: []float64{.5}}}, // of version 2
	} {
		got, err := npy.Read(bytes.NewReader(c.file), int64(len(c.file)))
		if err != nil || !slices.Equal(got.Shape, c.shape) || !slices.Equal(got.Float, c.want.Float) || !slices.Equal(got.Whole, c.want.Whole) {
			t.Errorf("%q is %+v, error %v", c.file, got, err)
		}
		for n := range c.file { // a reader that ends early is no fault of the format
			if _, err = npy.Read(bytes.NewReader(c.file[:n]), int64(len(c.file))); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, npy.ErrFormat) {
				t.Errorf("after %d bytes of %d the error is %v", n, len(c.file), err)
			}
			if _, err = npy.Read(bytes.NewReader(c.file[:n]), int64(n)); !errors.Is(err, npy.ErrFormat) {
				t.Errorf("%d bytes of %d: error %v", n, len(c.file), err)
			}
		}
	}
}

func TestNPYRefuses(t *testing.T) {
	good := string(file(head("<f8", "False", "2, 1"), []float64{.5, -3}))
	most := fmt.Sprint(math.MaxInt32)
	for name, text := range map[string]string{
		"text": "item_id,category,value\n1,a,b\n", "more": good + "x", "another version": strings.Replace(good, "\x01", "\x03", 1),
		"no header": "\x93NUMPY\x01\x00\x00\x00", "a header without an end": "\x93NUMPY\x01\x00\x05\x00{'des", "a header beyond the end": "\x93NUMPY\x01\x00\xff\xff{",
		"half floats": string(file(head("<f2", "False", "2, 1"), []uint16{1, 2})), "big-endian": strings.Replace(good, "<f8", ">f8", 1),
		"objects": strings.Replace(good, "'<f8'", "'|O'", 1), "fields": strings.Replace(good, "'<f8'", "[('a', '<f8')]", 1),
		"by columns":   strings.Replace(good, "False", "True", 1),
		"huge":         string(file(head("<f8", "False", most+", "+most), []float64{1})),
		"beyond int":   string(file(head("<f8", "False", "99999999999999999999"), []float64{1})),
		"around to 0":  string(file(head("<f8", "False", strings.Repeat("65536, ", 4)), []byte{})),
		"around to 1":  string(file(head("<f8", "False", "3, 2147483647, 2147483649"), []float64{1})),
		"below 0":      string(file(head("<f8", "False", "-1, -1"), []float64{1})),
		"not a number": string(file(head("<f8", "False", "a, 1"), []float64{1})),
	} {
		if a, err := npy.Read(strings.NewReader(text), int64(len(text))); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("%s: %+v, error %v", name, a, err)
		}
	}
}

func TestNPYMatrix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	if _, err := npy.ReadMatrix(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file the error is %v", err)
	}
	for text, ok := range map[string]bool{
		string(file(head("<f4", "False", "1, 2"), []float32{1, 2})): true, string(file(head("<i4", "False", "1, 2"), []int32{1, 2})): false,
		string(file(head("<f4", "False", "2,"), []float32{1, 2})): false, "": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := npy.ReadMatrix(path)
		if ok && (err != nil || !slices.Equal(a.Float, []float64{1, 2})) || !ok && (!errors.Is(err, npy.ErrFormat) || !strings.HasPrefix(err.Error(), path)) {
			t.Errorf("%q: %+v, error %v", text, a, err)
		}
	}
}
