// Package pack writes sets in the packed form (dataset/packed.md), in two to three bytes a rating, and opens files of it: [Write] and
// [Open]. A file is mapped into memory and checked byte by byte. Times, test files, public users and profiles have no packed form.
package pack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// The packed form of a set, as dataset/packed.md has it:
//
//	"FEDSIMP1"   magic and version
//	records      one for each user
//	offsets      where each begins in records, and where the last ends: 8 bytes each, little endian
//	user ids     a length and as many bytes each; none where they are 1, 2, ...
//	item ids     likewise
//	features     of the items, as JSON
//	footer       JSON: footer
//	its length   8 bytes, little endian
//	SHA-256      32 bytes, of everything before
//	"FEDSIMP1"
//
// A record is the number of ratings and a number for each, by item. The low bits of that number, as
// few as all steps of the scale take, hold the step of the rating. The bits above count the items left
// out since the previous rating. Numbers have seven bits in a byte, the low ones first. Where a set
// has more ratings than fit a scale of mostLevels steps, four bytes of a float32 stand behind each
// number in place of steps.
const (
	Magic      = "FEDSIMP"
	packOne    = Magic + "1"
	packTail   = 8 + sha256.Size + len(packOne)
	mostLevels = 1 << 16
	mostFooter = 16 << 20 // bytes
)

// features are public features of the items.
type features struct {
	Titles  []string             `json:"titles,omitempty"`
	Genres  [][]string           `json:"genres,omitempty"`
	Years   []int                `json:"years,omitempty"`
	Columns []dataset.ItemColumn `json:"columns,omitempty"`
}

// ErrNotPackable is wrapped by the error of a set that holds what the packed form does not.
var ErrNotPackable = errors.New("the packed form holds users, items, ratings and features of items, and nothing else")

// Untimed says that a set was packed without its timestamps.
var Untimed = dataset.Notice{Kind: dataset.NoticeTimes, Text: "timestamps are left out: the packed form has none"}

// Report describes a packed set: its counts, its size in bytes and its digest.
type Report struct {
	Users   int    `json:"users"`
	Items   int    `json:"items"`
	Ratings int    `json:"ratings"`
	Bytes   int64  `json:"bytes"`
	Digest  string `json:"digest"` // of the set

	Notices []dataset.Notice `json:"notices,omitempty"` // of the set
}

// Write writes the set in the packed form.
func Write(s *dataset.Set, w io.Writer) (Report, error) {
	if s.Times != nil || s.Tested != nil || s.Raters != nil || s.Profile != nil {
		return Report{}, fmt.Errorf("%s: %w; it has timestamps, a test file, public users or a profile", s.Name, ErrNotPackable)
	}
	if err := errors.Join(s.Validate(), s.ValidateIDs()); err != nil {
		return Report{}, err
	}
	p := NewWriter(w, levels(s))
	rows := s.ByUser()
	for u := range s.Users {
		_ = p.Record(rows.Row(u)) // close returns the first error of w
	}
	return p.Close(s)
}

// Options vary how a packed file is opened.
type Options struct {
	// Min and Max are the ends of the rating scale in stars; nil stands for what the file says. A scale that does not hold the file's is refused.
	Min, Max *float64
	// Packed leaves the ratings packed. Without it they are in columns, at 12 bytes a rating.
	Packed bool
	// Progress, when not nil, hears how many ratings of how many were checked.
	Progress func(done, total int64)
}

// InMemory returns the set with its ratings packed, in memory. It refuses a set that Pack refuses.
func InMemory(s *dataset.Set) (*dataset.Set, error) {
	var file bytes.Buffer
	if _, err := Write(s, &file); err != nil {
		return nil, err
	}
	return FromBytes(context.Background(), file.Bytes(), Options{})
}

// levels are the distinct ratings, ascending; nil where there are too many for a scale.
func levels(s *dataset.Set) []float32 {
	seen := make(map[float32]bool)
	s.Each(func(_, _ int32, v float32) {
		if len(seen) <= mostLevels {
			seen[v] = true
		}
	})
	if len(seen) > mostLevels {
		return nil
	}
	return slices.Sorted(maps.Keys(seen))
}

// Writer writes a packed file from its beginning to its end. The first error of the writer is kept.
type Writer struct {
	footer
	out     *bufio.Writer
	hash    hash.Hash
	written int64
	err     error
	step    map[float32]uint64
	offsets []uint64
	buf     []byte
}

// NewWriter begins a file of ratings that are among the levels, in ascending order; nil stands for any ratings.
func NewWriter(w io.Writer, levels []float32) *Writer {
	f := footer{Levels: levels, Raw: levels == nil, digits: digitsOf(len(levels))}
	p := &Writer{footer: f, out: bufio.NewWriterSize(w, 1<<20), hash: sha256.New(), step: make(map[float32]uint64), offsets: []uint64{0}}
	for i, v := range f.Levels {
		p.step[v] = uint64(i)
	}
	p.write([]byte(packOne))
	return p
}

func (p *Writer) write(b []byte) {
	if p.err != nil {
		return
	}
	p.hash.Write(b) // never fails, says hash.Hash
	p.written += int64(len(b))
	_, p.err = p.out.Write(b)
}

// Record writes the ratings of the next user, whose items ascend.
func (p *Writer) Record(items []int32, values []float32) error {
	p.buf = p.record(p.buf[:0], items, values)
	p.Ratings += len(items)
	p.Records += len(p.buf)
	p.offsets = append(p.offsets, uint64(p.Records))
	p.write(p.buf)
	return p.err
}

// record appends a user's record.
func (p *Writer) record(b []byte, items []int32, values []float32) []byte {
	b, next := binary.AppendUvarint(b, uint64(len(items))), int32(0)
	for k, j := range items {
		b = binary.AppendUvarint(b, uint64(j-next)<<p.digits|p.step[values[k]])
		if p.Raw {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(values[k]))
		}
		next = j + 1
	}
	return b
}

// Close writes what stands behind the records, of a set that need not have its ratings.
func (p *Writer) Close(s *dataset.Set) (Report, error) {
	p.Name, p.Digest, p.Min, p.Max, p.Clicks, p.Users, p.Items = s.Name, s.Digest, s.Min, s.Max, s.Clicks, s.Users, s.Items
	for _, at := range p.offsets {
		p.write(binary.LittleEndian.AppendUint64(nil, at))
	}
	p.UserIDs = p.ids(s.UserIDs, p.Users)
	p.ItemIDs = p.ids(s.ItemIDs, p.Ratings)
	features, err := json.Marshal(features{s.Titles, s.Genres, s.Years, s.Columns})
	if err != nil {
		return Report{}, err
	}
	p.Features = len(features)
	p.write(features)
	footer, err := json.Marshal(p.footer)
	if err != nil {
		return Report{}, err
	}
	p.write(footer)
	p.write(binary.LittleEndian.AppendUint64(nil, uint64(len(footer))))
	p.write(p.hash.Sum(nil))
	p.write([]byte(packOne))
	if p.err == nil {
		p.err = p.out.Flush()
	}
	return Report{Users: p.Users, Items: p.Items, Ratings: p.Ratings, Bytes: p.written, Digest: p.Digest, Notices: s.Notices}, p.err
}

// ids writes ids, unless they are 1, 2, ..., and at most so many, and returns how many bytes they
// take. A reader makes numbered ids without reading them: a limit keeps small files from making them
// endless.
func (p *Writer) ids(list []string, most int) int {
	if len(list) <= most && idtext.AreNumbered(list) {
		return 0
	}
	before := p.written
	for _, id := range list {
		p.write(append(binary.AppendUvarint(nil, uint64(len(id))), id...))
	}
	return int(p.written - before)
}

type footer struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"` // of the set, as it would be from any source
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Clicks  bool      `json:"clicks,omitempty"`
	Users   int       `json:"users"`
	Items   int       `json:"items"`
	Ratings int       `json:"ratings"`
	Levels  []float32 `json:"levels,omitempty"` // ascending
	Raw     bool      `json:"raw,omitempty"`    // there are no levels, but floats

	// Sections are the bytes of records, user ids, item ids and features.
	Records  int `json:"records_bytes"`
	UserIDs  int `json:"user_ids_bytes"`
	ItemIDs  int `json:"item_ids_bytes"`
	Features int `json:"features_bytes"`

	digits      uint      // low bits of a number that are the step of the scale; the high ones are the items left out before it
	value       []float32 // of each number of so many bits: its level, or 0
	least, most float64   // the scale, in float32 as ratings are
}

// readFooter reads what a packed file says of itself, and returns the sections that it has.
func readFooter(data []byte) (f footer, sections []byte, err error) {
	switch {
	case len(data) < len(packOne) || string(data[:len(Magic)]) != Magic:
		return f, nil, fmt.Errorf("it does not begin with %q", packOne)
	case string(data[:len(packOne)]) != packOne:
		return f, nil, fmt.Errorf("it is of version %q of the packed form, and this fedsim reads version 1", string(data[len(Magic)]))
	case len(data) < len(packOne)+packTail || !bytes.HasSuffix(data, []byte(packOne)):
		return f, nil, fmt.Errorf("its last %d bytes are missing: it was cut off", len(packOne))
	}
	body := data[len(packOne) : len(data)-packTail]
	n := binary.LittleEndian.Uint64(data[len(data)-packTail:])
	if n > uint64(min(len(body), mostFooter)) {
		return f, nil, fmt.Errorf("a footer of %d bytes; at most %d are allowed", n, min(len(body), mostFooter))
	}
	if err = json.Unmarshal(body[len(body)-int(n):], &f); err != nil {
		return f, nil, fmt.Errorf("its footer is no JSON of its kind: %w", err)
	}
	sections = body[:len(body)-int(n)]
	err = f.validate(len(sections))
	return f, sections, err
}

// validate refuses a footer that contradicts itself or the bytes there are.
func (f *footer) validate(sections int) error {
	sizes := []int{f.Records, f.UserIDs, f.ItemIDs, f.Features, f.Users, f.Items, f.Ratings}
	if slices.Min(sizes) < 0 || slices.Max(sizes[:4]) > sections || f.Users > min(sections/8, math.MaxInt32) || f.Items > math.MaxInt32 || f.Ratings > f.Records {
		return errors.New("its footer states counts or sizes that cannot be")
	}
	if all := f.Records + 8*(f.Users+1) + f.UserIDs + f.ItemIDs + f.Features; all != sections {
		return fmt.Errorf("its sections are %d bytes by the footer, and there are %d", all, sections)
	}
	if !(f.Min < f.Max) || math.IsInf(f.Min, 0) || math.IsInf(f.Max, 0) {
		return fmt.Errorf("a scale from %v to %v", f.Min, f.Max)
	}
	f.least, f.most = min(f.Min, float64(float32(f.Min))), max(f.Max, float64(float32(f.Max))) // ratings are rounded so
	if len(f.Levels) > mostLevels || f.Raw != (f.Levels == nil) {
		return fmt.Errorf("%d steps of the scale; there may be %d, or none and raw ratings", len(f.Levels), mostLevels)
	}
	for i, v := range f.Levels {
		if i > 0 && v <= f.Levels[i-1] || !(float64(v) >= f.least && float64(v) <= f.most) {
			return fmt.Errorf("step %v of the scale is not above the previous step, or off %v to %v", v, f.Min, f.Max)
		}
	}
	f.digits = digitsOf(len(f.Levels))
	f.value = append(slices.Clone(f.Levels), make([]float32, 1<<f.digits-len(f.Levels))...)
	if len(f.Digest) != 2*sha256.Size || strings.Trim(f.Digest, "0123456789abcdef") != "" {
		return fmt.Errorf("its digest %s is no SHA-256 in hex", idtext.Quote([]byte(f.Digest)))
	}
	return nil
}

// digitsOf returns the number of bits of a step of a scale.
func digitsOf(levels int) uint { return uint(bits.Len(uint(max(levels-1, 0)))) }
