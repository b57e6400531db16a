// Package npy reads arrays in NumPy's format (NPY) whose writer may be damaged or hostile.
package npy

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Array holds numbers in the order of C, in the list for their type.
type Array struct {
	Shape []int
	Float []float64 // of <f8 and <f4
	Whole []int64   // of <i8 and <i4
}

// ErrFormat is wrapped by errors about the bytes of an array, not by errors of their reader.
var ErrFormat = errors.New("not an array in NumPy's format")

// header matches the header of a file of numbers, which stands behind the magic, a version and its own length.
var header = regexp.MustCompile(`^\{'descr': '(<[fi][48])', 'fortran_order': (False|True), 'shape': \(([\d, ]*)\),? *\} *\n$`)

// Read reads an array of size bytes, header included. It takes memory only for what size has room for.
func Read(r io.Reader, size int64) (a Array, err error) {
	left := size
	next := func(n int64) []byte { // fewer bytes where size ends
		b := make([]byte, min(n, left))
		left -= int64(len(b))
		if err == nil {
			_, err = io.ReadFull(r, b)
		}
		return b
	}
	width := map[string]int64{"\x93NUMPY\x01\x00": 2, "\x93NUMPY\x02\x00": 4}[string(next(8))] // of the header's length, by the version
	text := next(int64(binary.LittleEndian.Uint32(append(next(width), 0, 0, 0, 0))))
	if err != nil {
		return a, err
	}
	found := header.FindSubmatch(text)
	if found == nil {
		return a, fmt.Errorf("%w: its header is %.100q; want numbers of the type <f8, <f4, <i8 or <i4", ErrFormat, text)
	}
	shape := strings.FieldsFunc(string(found[3]), func(c rune) bool { return c == ',' || c == ' ' })
	if string(found[2]) == "True" && len(shape) > 1 {
		return a, fmt.Errorf("%w: it is in the order of Fortran; it must be in the order of C", ErrFormat)
	}
	kind := string(found[1])
	each := int64(kind[2] - '0') // bytes
	want := float64(each)        // exact as far as there are files
	for _, text := range shape {
		d, _ := strconv.Atoi(text) // digits; of too many the largest int
		a.Shape, want = append(a.Shape, d), want*float64(d)
	}
	if float64(left) != want {
		return a, fmt.Errorf("%w: %d bytes follow its header; for %s numbers there must be %.0f", ErrFormat, left, strings.Join(shape, " x "), want)
	}
	switch n := left / each; kind {
	case "<f8":
		a.Float, err = numbers[float64, float64](r, n)
	case "<f4":
		a.Float, err = numbers[float32, float64](r, n)
	case "<i8":
		a.Whole, err = numbers[int64, int64](r, n)
	default:
		a.Whole, err = numbers[int32, int64](r, n)
	}
	return a, err
}

func numbers[From, To float64 | float32 | int64 | int32](r io.Reader, n int64) ([]To, error) {
	list := make([]From, n)
	err := binary.Read(r, binary.LittleEndian, list)
	if same, is := any(list).([]To); is {
		return same, err
	}
	out := make([]To, n)
	for i, x := range list {
		out[i] = To(x)
	}
	return out, err
}

// ReadMatrix reads a file that holds a matrix of floats.
func ReadMatrix(path string) (Array, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Array{}, err
	}
	a, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(a.Shape) != 2 || a.Float == nil {
		return a, fmt.Errorf("%s: it is not a matrix of float64 in NumPy's format: %w", path, cmp.Or(err, ErrFormat))
	}
	return a, nil
}
