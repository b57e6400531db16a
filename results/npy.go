package results

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/model"
)

// WriteEmbeddings writes embeddings to a folder as NAME.npy, row by row in float64, and the ids of
// their rows as NAME.ids.json. It replaces existing files, once both are written.
func WriteEmbeddings(dir string, x model.Embeddings) error {
	ids, err := json.Marshal(x.IDs)
	if err != nil {
		return err
	}
	return atomicfile.WriteAll(
		atomicfile.File{Path: filepath.Join(dir, x.Name+".npy"), Mode: matrixMode(x.Named), Write: func(w io.Writer) error { return encodeNPY(w, x.Matrix) }},
		atomicfile.File{Path: filepath.Join(dir, x.Name+".ids.json"), Mode: 0o600, Write: func(w io.Writer) error {
			_, err := w.Write(append(ids, '\n'))
			return err
		}})
}

// ReadEmbeddings reads the embeddings in a folder that have a file with the ids of their rows, in
// the order of their names. The folder is of a finished run, or of a deployment's party.
func ReadEmbeddings(dir string) ([]model.Embeddings, error) {
	files, err := filepath.Glob(filepath.Join(globbed(dir), "*.npy"))
	if err != nil {
		return nil, err
	}
	var all []model.Embeddings
	for _, path := range files {
		name := strings.TrimSuffix(path, ".npy")
		var ids []string
		err = readJSON(name+".ids.json", &ids)
		if errors.Is(err, fs.ErrNotExist) {
			continue // rows that are neither users nor items, such as an encoder's
		}
		if err != nil {
			return nil, err
		}
		m, err := readNPY(path, len(ids), -1)
		if err != nil {
			return nil, err
		}
		all = append(all, model.NewEmbeddings(filepath.Base(name), m, ids))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no embeddings with ids: want the folder of a finished run, by version 0.2 or later", dir)
	}
	return all, nil
}

// globbed returns path with every wildcard character escaped.
func globbed(path string) string {
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(path, `\$0`)
}

// matrixMode returns the file mode of a matrix. Only the owner may read rows of users, because they
// follow from exact ratings.
func matrixMode(x model.Named) fs.FileMode {
	if x.OfUsers() {
		return 0o600
	}
	return 0o666
}

// writeNPY writes a matrix in NumPy's format, row by row in float64.
func writeNPY(path string, mode fs.FileMode, m *model.Matrix) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	return errors.Join(encodeNPY(w, m), w.Flush(), file.Close())
}

func encodeNPY(w io.Writer, m *model.Matrix) error {
	rows, cols := m.Dims()
	return npyio.Write(w, mat.NewDense(rows, cols, m.Data()))
}

// npyHeader is the description in a file that writeNPY wrote.
var npyHeader = regexp.MustCompile(`^\{'descr': '<f8', 'fortran_order': False, 'shape': \((\d{1,9}), (\d{1,9})\), \}\s*$`)

// readNPY reads a matrix of finite numbers of the given size; cols -1 accepts any number of
// columns. It reads only the format of writeNPY: npyio's reader takes missing bytes for zeros, and
// panics at a damaged header.
func readNPY(path string, rows, cols int) (*model.Matrix, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	header, numbers, ok := cutNPY(b)
	shape := npyHeader.FindSubmatch(header)
	if !ok || shape == nil {
		return nil, fmt.Errorf("%s: it is not a matrix of float64 in NumPy's format, as a run leaves it", path)
	}
	if cols < 0 {
		cols, _ = strconv.Atoi(string(shape[2])) // digits
	}
	if is, want := fmt.Sprintf("%s x %s", shape[1], shape[2]), fmt.Sprintf("%d x %d", rows, cols); is != want {
		return nil, fmt.Errorf("%s: it is %s; by the run's data and rank it must be %s", path, is, want)
	}
	m := model.NewMatrix(rows, cols)
	data := m.Data()
	if len(numbers) != 8*len(data) {
		return nil, fmt.Errorf("%s: %d bytes follow its header; for %d x %d numbers there must be %d", path, len(numbers), rows, cols, 8*len(data))
	}
	for i := range data {
		data[i] = math.Float64frombits(binary.LittleEndian.Uint64(numbers[8*i:]))
		if math.IsNaN(data[i]) || math.IsInf(data[i], 0) {
			return nil, fmt.Errorf("%s: number %d is %v; the run diverged, or the file is damaged", path, i, data[i])
		}
	}
	return m, nil
}

// cutNPY cuts a file of version 1 or 2 into its description and its numbers.
func cutNPY(b []byte) (header, numbers []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte("\x93NUMPY"))
	if !ok || len(b) < 6 {
		return nil, nil, false
	}
	size, rest := int64(binary.LittleEndian.Uint16(b[2:])), b[4:]
	if b[0] != 1 {
		size, rest = int64(binary.LittleEndian.Uint32(b[2:])), b[6:]
	}
	if size > int64(len(rest)) {
		return nil, nil, false
	}
	return rest[:size], rest[size:], true
}
