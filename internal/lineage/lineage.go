// Package lineage keeps what a session released, for a later session that starts from it. One file holds
// the released matrices and the cost of every session that they depend on.
package lineage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/model"
)

// File names the file in the folder of a session.
const File = "released.bin"

// domain begins the file, and ends in the version of its form. A file with searched begins where a search chose the settings of
// a session: a program that knows of no searches would count too small a cost, and refuses it.
//
//	file = domain ‖ length of the header (4 bytes) ‖ header ‖ numbers ‖ SHA-256 of all before
//
// The header is JSON. Numbers are the matrices in the order of the header, row by row. Integers and numbers are little-endian, numbers with 64 bits.
const (
	domain   = "fedsim/released/v1\n"
	searched = "fedsim/released/v2\n"
)

type header struct {
	algorithm.Basis
	Sessions []algorithm.PastSession `json:"sessions"`
	Matrices []matrix                `json:"matrices"`
}

type matrix struct {
	Name string   `json:"name"`
	Cols int      `json:"cols"`
	IDs  []string `json:"ids"`
}

// Encode returns the bytes of the file.
func Encode(s *algorithm.Start) ([]byte, error) {
	h := header{s.Basis, s.Sessions, []matrix{}}
	var numbers []byte
	for _, x := range s.Released {
		rows, cols := x.Matrix.Dims()
		if rows != len(x.IDs) {
			return nil, fmt.Errorf("lineage: %s has %d rows and %d ids", x.Name, rows, len(x.IDs))
		}
		h.Matrices = append(h.Matrices, matrix{x.Name, cols, x.IDs})
		numbers = model.AppendFloats(numbers, x.Matrix.Data()...)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	first := domain
	if slices.ContainsFunc(s.Sessions, func(p algorithm.PastSession) bool { return p.Search != nil }) {
		first = searched
	}
	b := append([]byte(first), binary.LittleEndian.AppendUint32(nil, uint32(len(text)))...)
	b = append(append(b, text...), numbers...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// Decode reads the bytes of the file.
func Decode(b []byte) (*algorithm.Start, error) {
	if !bytes.HasPrefix(b, []byte(domain)) && !bytes.HasPrefix(b, []byte(searched)) {
		return nil, fmt.Errorf("it does not begin with %q: it is no record of a session, or one of another version", domain)
	}
	end := len(b) - sha256.Size
	if end < len(domain)+4 || sha256.Sum256(b[:end]) != [sha256.Size]byte(b[end:]) {
		return nil, errors.New("it is damaged: its digest does not fit")
	}
	rest := b[len(domain):end]
	length := uint64(binary.LittleEndian.Uint32(rest))
	if rest = rest[4:]; length > uint64(len(rest)) {
		return nil, fmt.Errorf("it ends within its header of %d bytes", length)
	}
	var h header
	if err := json.Unmarshal(rest[:length], &h); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	for _, p := range h.Sessions {
		if p.Search != nil && p.Search.Validate() != nil {
			return nil, fmt.Errorf("session %s: %w", p.Session, p.Search.Validate())
		}
	}
	rest = rest[length:]
	s := &algorithm.Start{Basis: h.Basis, Sessions: h.Sessions, Digest: sha256.Sum256(b)}
	for _, m := range h.Matrices {
		rows := len(m.IDs)
		if m.Cols < 0 || rows > 0 && m.Cols > len(rest)/8/rows {
			return nil, fmt.Errorf("it ends within %s, of %d rows and %d columns", m.Name, rows, m.Cols)
		}
		size := 8 * rows * m.Cols
		x := model.Wrap(rows, m.Cols, model.Floats(rest[:size]))
		for i, v := range x.Data() {
			if math.IsNaN(v) || math.IsInf(v, -1) {
				return nil, fmt.Errorf("%s holds %v at place %d", m.Name, v, i)
			}
		}
		s.Released = append(s.Released, model.NewEmbeddings(m.Name, x, m.IDs))
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes stand behind its matrices", len(rest))
	}
	return s, nil
}

// Read reads the record in the folder of a session.
func Read(dir string) (*algorithm.Start, error) {
	path := filepath.Join(dir, File)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no session left a %s there: want the folder of a finished run of an algorithm from which a session can start, without ratings of public users in its sums or features", dir, File)
	}
	if err != nil {
		return nil, err
	}
	s, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.From = dir
	return s, nil
}

// Cost returns the ε of all sessions together, at the largest δ of one of them: the cost to a unit that every one of
// them trained on. It is infinite if a session had no noise, or if a plain search chose the settings of one. A private search
// that chose the settings of several sessions counts once.
func Cost(sessions []algorithm.PastSession) (dp.Result, float64, error) {
	var all dp.Problem
	for _, s := range sessions {
		if p := s.Search; p != nil && p.Private() && !slices.ContainsFunc(all.Searches, func(q dp.Search) bool { return reflect.DeepEqual(q, *p) }) {
			all.Searches = append(all.Searches, *p)
		}
		all.Delta = max(all.Delta, s.Delta)
		all.SamplerError += s.SamplerError
		all.Events = append(all.Events, s.Events...)
		if all.Accountant == "" {
			all.Accountant = s.Accountant
		} else if all.Accountant != s.Accountant {
			all.Accountant = dp.Best
		}
		if s.Epsilon == nil {
			return dp.Result{Epsilon: math.Inf(1), Accountant: dp.Unaccounted}, all.Delta, nil
		}
	}
	if len(all.Searches) > 0 {
		all.Accountant = dp.Best
	}
	r, err := all.Epsilon()
	return r, all.Delta, err
}

// Newest returns the folder of the newest finished run in a folder from which a session can start, except the runs of some names.
func Newest(dir string, except ...string) (string, error) {
	files, err := fs.Glob(os.DirFS(dir), "*/"+File)
	if err != nil {
		return "", err
	}
	var newest string
	var at int64
	for _, file := range files {
		info, failed := os.Stat(filepath.Join(dir, file))
		if failed != nil || slices.Contains(except, path.Dir(file)) {
			continue // removed meanwhile, or not meant
		}
		if t := info.ModTime().UnixNano(); newest == "" || t > at || t == at && file > newest {
			newest, at = file, t
		}
	}
	if newest == "" {
		return "", config.Errorf("start-from last: no finished run in %s left a %s; run a session first, or name its folder", dir, File)
	}
	return filepath.Join(dir, path.Dir(newest)), nil
}
