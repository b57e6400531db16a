// Package export writes embeddings in the formats that other programs read. Every file has the ids
// of its rows, or has a second file with the ids.
package export

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
)

// Write writes embeddings in a format, parquet, csv, safetensors, faiss or word2vec, as [Folder] does.
func Write(format, dir string, all []model.Embeddings) (files []string, err error) {
	contents := make(map[string][]byte)
	of, ok := map[string]func(string, model.Embeddings) (map[string][]byte, error){
		"parquet": toParquet, "csv": toCSV, "faiss": toFAISS, "word2vec": toWord2Vec}[format]
	switch {
	case format == "safetensors":
		contents["model.safetensors"], err = safetensors(all)
	case !ok:
		err = fmt.Errorf("export: no format %q; there are parquet, csv, safetensors, faiss, word2vec", format)
	default:
		for _, x := range all {
			c, failed := of(x.Name, x)
			if failed != nil {
				return nil, fmt.Errorf("export: %s: %w", x.Name, failed)
			}
			maps.Copy(contents, c)
		}
	}
	if err != nil {
		return nil, err
	}
	return Folder(dir, contents)
}

// Folder writes files, by name, into a folder that must not exist yet, and returns their names. The folder
// appears when all files are written, or not at all; until then it is a hidden folder beside it.
func Folder(dir string, contents map[string][]byte) (files []string, err error) {
	if _, err = os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "export to", Path: dir, Err: fs.ErrExist}))
	}
	hidden, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(hidden))
		}
	}()
	for name, b := range contents { // ids are readable by the owner alone
		if err = os.WriteFile(filepath.Join(hidden, name), b, 0o600); err != nil {
			return nil, err
		}
	}
	// This fails if another program has made and filled a folder of this name.
	if err = atomicfile.Folder(hidden, dir); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(contents)), nil
}

// toCSV writes a line of names, and then an id and its numbers in each line.
func toCSV(name string, x model.Embeddings) (map[string][]byte, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_, rank := x.Matrix.Dims()
	head := []string{"id"}
	for k := range rank {
		head = append(head, "e"+strconv.Itoa(k))
	}
	err := w.Write(head)
	for i, id := range x.IDs {
		numbers := lists.Map(x.Matrix.Row(i), func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) })
		err = errors.Join(err, w.Write(append([]string{id}, numbers...)))
	}
	w.Flush()
	return map[string][]byte{name + ".csv": []byte(b.String())}, errors.Join(err, w.Error())
}

func toParquet(name string, x model.Embeddings) (map[string][]byte, error) {
	if Parquet == nil {
		return nil, errNoParquet
	}
	var b bytes.Buffer
	err := Parquet.Embeddings(&b, x)
	return map[string][]byte{name + ".parquet": b.Bytes()}, err
}

// safetensors returns the format of Hugging Face: eight bytes with the length of a header in JSON,
// the header, and the numbers. The header's metadata holds only texts, so it holds the ids as JSON.
func safetensors(all []model.Embeddings) ([]byte, error) {
	type tensor struct {
		Type    string `json:"dtype"`
		Shape   [2]int `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, metadata, at := make(map[string]any), map[string]string{"format": "fedsim"}, 0
	for _, x := range all {
		rows, rank := x.Matrix.Dims()
		header[x.Name] = tensor{"F64", [2]int{rows, rank}, [2]int{at, at + 8*rows*rank}}
		at += 8 * rows * rank
		ids, err := json.Marshal(x.IDs)
		if err != nil {
			return nil, err
		}
		metadata[x.Name+".ids"] = string(ids)
	}
	header["__metadata__"] = metadata
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ') // so that numbers are aligned
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	b = append(b, text...)
	for _, x := range all {
		for _, v := range x.Matrix.Data() {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b, nil
}

// toFAISS writes an IndexFlatIP, which searches by inner product, as faiss.read_index reads it
// (write_index in faiss/impl/index_write.cpp). A text file has the ids of its rows. FAISS has
// float32 alone.
func toFAISS(name string, x model.Embeddings) (map[string][]byte, error) {
	rows, rank := x.Matrix.Dims()
	b := []byte("IxFI")
	b = binary.LittleEndian.AppendUint32(b, uint32(rank))
	b = binary.LittleEndian.AppendUint64(b, uint64(rows))
	const unused = 1 << 20 // a number that FAISS writes twice and never reads
	b = binary.LittleEndian.AppendUint64(b, unused)
	b = binary.LittleEndian.AppendUint64(b, unused)
	b = append(b, 1)                                           // is_trained
	b = binary.LittleEndian.AppendUint32(b, 0)                 // METRIC_INNER_PRODUCT
	b = binary.LittleEndian.AppendUint64(b, uint64(rows*rank)) // the count of the numbers that follow
	for _, v := range x.Matrix.Data() {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	var ids strings.Builder
	for _, id := range x.IDs {
		if strings.ContainsAny(id, "\r\n") {
			return nil, fmt.Errorf("the id %q has a line feed; take another format", id)
		}
		ids.WriteString(id + "\n")
	}
	return map[string][]byte{name + ".faiss": b, name + ".ids.txt": []byte(ids.String())}, nil
}

// toWord2Vec writes the text format of word2vec: a line with the size, and then an id and its
// numbers in each line, with spaces between. The format has no form for an id with a space. If there is one, ids are
// written as in URLs, with %20 for a space, and a second file has the ids as they are.
func toWord2Vec(name string, x model.Embeddings) (map[string][]byte, error) {
	var b strings.Builder
	rows, rank := x.Matrix.Dims()
	b.WriteString(fmt.Sprintf("%d %d\n", rows, rank))
	spaced := slices.ContainsFunc(x.IDs, func(id string) bool { return strings.ContainsFunc(id, unicode.IsSpace) })
	for i, id := range x.IDs {
		if id == "" {
			return nil, errors.New("an id is empty, which word2vec has no form for; take another format")
		}
		if spaced {
			id = url.PathEscape(id)
		}
		b.WriteString(id)
		for _, v := range x.Matrix.Row(i) {
			b.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	files := map[string][]byte{name + ".txt": []byte(b.String())}
	if !spaced {
		return files, nil
	}
	ids, err := json.Marshal(x.IDs)
	files[name+".ids.json"] = append(ids, '\n')
	return files, err
}

// Line is an item of one user's list of recommendations.
type Line struct {
	User      string  `parquet:"user"`
	Rank      int64   `parquet:"rank"` // from 1
	Item      string  `parquet:"item"`
	Title     string  `parquet:"title"`
	Score     float64 `parquet:"score"` // descends with the rank
	Predicted float64 `parquet:"predicted"`
	By        string  `parquet:"by"` // what the list rests on
}

// LineWriter writes a file of lists: lines after the lines before, and the rest when it is closed.
type LineWriter interface {
	Write([]Line) error
	Close() error
}

// Parquet writes files in the format Parquet. It is nil in a program that does not import package internal/export/parquet.
var Parquet interface {
	Embeddings(io.Writer, model.Embeddings) error
	Lists(io.Writer) LineWriter
}

var errNoParquet = errors.New("export: this program cannot write Parquet files; import github.com/fedsim/fedsim/internal/export/parquet, or choose another format")

// NewLists begins a file of lists as csv or parquet.
func NewLists(w io.Writer, format string) (LineWriter, error) {
	switch format {
	case "csv":
		l := csvLines{csv.NewWriter(w)}
		return l, l.csv.Write([]string{"user", "rank", "item", "title", "score", "predicted", "by"})
	case "parquet":
		if Parquet == nil {
			return nil, errNoParquet
		}
		return Parquet.Lists(w), nil
	}
	return nil, fmt.Errorf("export: lists have no format %q", format)
}

// csvLines is a file of lists as CSV.
type csvLines struct{ csv *csv.Writer }

func (l csvLines) Write(lines []Line) error {
	for _, x := range lines {
		err := l.csv.Write([]string{x.User, strconv.FormatInt(x.Rank, 10), x.Item, x.Title, strconv.FormatFloat(x.Score, 'g', -1, 64), strconv.FormatFloat(x.Predicted, 'g', -1, 64), x.By})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l csvLines) Close() error {
	l.csv.Flush()
	return l.csv.Error()
}
