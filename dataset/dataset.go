// Package dataset holds sets of ratings or clicks: who rated what, public features of the items and of the users, and a digest of it
// all. The rooms below it do the work, and import this package:
//
//   - package read opens files, archives, pipes and the names of published and generated sets;
//   - package split divides ratings into training, validation and test parts, holds users out, and deals items or users to organisations;
//   - package synthetic generates sets;
//   - package pack writes and opens the packed form;
//   - package published knows sets that others publish, and package download fetches them.
//
// This package reads no file, draws nothing and connects to nothing.
//
//	set, err := read.Open(ctx, "ml-1m.zip", read.Options{})
//	...
//	parts, err := split.Divide(set, split.Params{Test: 0.1, Seed: 1})
//	...
//	rows := parts.Train.ByUser()
//	items, values := rows.Row(0)
//	...
//	organisations, err := split.PartitionItems(set, split.CategoryPartition, 18, 1)
//
// Every set promises:
//
//   - Users and items have dense indices from 0 in a canonical order: numeric when all
//     ids are integers, else lexicographic. Ratings are sorted by user, then item.
//     Neither depends on the order of rows in a file, nor do digests and splits.
//   - The rating range is public: it comes from the format or from options, never from
//     the ratings.
//   - A (user, item) pair is rated once.
//   - Digests and synthetic sets are the same bits everywhere and at any GOMAXPROCS.
package dataset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
)

// Set is a data set: ratings, who and what they are about, and public item features.
type Set struct {
	Name string // "synthetic:ml-1m", "ml-1m", or the base name of the folder or file

	// Min and Max are the public range of the rating scale in stars. They are
	// never read off the ratings, which are private.
	Min, Max float64

	// Shift was added to each rating and to Min and Max by [Set.Raised]; 0 for a set as it was read.
	Shift float64

	Ratings

	// Clicks: the source has no column of ratings. Each record says that something was
	// consumed, and its value is the top of the scale, or how many there are of the pair
	// (read.DuplicatesCount).
	Clicks bool
	// MaybeTimes: the timestamps were no more than welcome (read.Options), and are not in the digest.
	MaybeTimes bool
	// Tested says of each rating whether it is one of the test file (read.Options); nil without one.
	Tested []bool

	UserIDs []string // id of each user in the source
	ItemIDs []string // id of each item in the source, with or without ratings

	// Public item features, one entry for each item; nil when the source has none.
	Titles []string   // "" for an item without a title
	Genres [][]string // nil for an item without a genre
	Years  []int      // year of release, 0 when unknown

	Columns []ItemColumn // others that an items.csv has

	// Raters are public users that were taken out of the set (split.TakeOut); nil where there are none.
	Raters *Raters

	// Profile are public features of the users; nil where there are none.
	Profile *Profile

	// Notices lists what the reader dropped, assumed or merged. They are for the owner of the data.
	Notices []Notice
	// Findings lists what the reader found out about the form of the file.
	Findings []Finding

	// Digest is a hex SHA-256 over ids, ratings and all else here but name, range, notices and findings, in canonical order: equal for
	// sources of equal content, whatever the order of their rows.
	Digest string
}

// ErrScale is returned for an impossible rating scale.
var ErrScale = errors.New("impossible rating scale")

// ScaleOr returns the scale from low to high, each end replaced by the given one if there is one.
func ScaleOr(low, high *float64, lo, hi float64) (float64, float64, error) {
	if low != nil {
		lo = *low
	}
	if high != nil {
		hi = *high
	}
	if !(lo < hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return 0, 0, fmt.Errorf("%w: %v to %v; want two finite numbers, the lower first", ErrScale, lo, hi)
	}
	return lo, hi, nil
}

// WiderScale returns the scale of [ScaleOr], which must hold the scale from lo to hi of what is named.
func WiderScale(low, high *float64, lo, hi float64, named string) (float64, float64, error) {
	setMin, setMax, err := ScaleOr(low, high, lo, hi)
	if err == nil && (setMin > lo || setMax < hi) {
		err = fmt.Errorf("%w: %v to %v does not hold the %s %v to %v", ErrScale, setMin, setMax, named, lo, hi)
	}
	return setMin, setMax, err
}

// ValidateIDs reports when a hand-made set has not one id for each user and item.
func (s *Set) ValidateIDs() error {
	check := func(name string, count, want int) error {
		if count == want {
			return nil
		}
		return fmt.Errorf("split: %d %s ids for %d %ss; want one for each, the draw is a hash of them", count, name, want, name)
	}
	return errors.Join(check("user", len(s.UserIDs), s.Users), check("item", len(s.ItemIDs), s.Items))
}

// Places returns the place of each id in a list.
func Places(ids []string) map[string]int32 {
	at := make(map[string]int32, len(ids))
	for i, id := range ids {
		at[id] = int32(i)
	}
	return at
}

// Raters are users whose ratings are public and who are not among the users of the set:
// their ratings are features of its items (read.Features, "rater"), one value for each of them.
type Raters struct {
	IDs   []string // in the order of the set that they were in
	Least float64  // as of split.PublicUsers

	Ratings // Users is the number of ids; Items is the number of items of the set
}

// Raised is the set on a scale that starts at 0, if the scale of the set starts below: what algorithms bound ratings by is then the top of
// the scale. Shift says how much was added; less it, a prediction is on the scale of the data. The digest remains.
func (s *Set) Raised() *Set {
	if s.Min >= 0 {
		return s
	}
	set := *s.Unpacked()
	set.Shift = -s.Min
	set.Min, set.Max = 0, s.Max+set.Shift
	set.Value = make([]float32, s.Len())
	for k, v := range s.Unpacked().Value {
		set.Value[k] = float32(float64(v) + set.Shift)
	}
	return &set
}

// ID is the id of a user or an item, in the only form that sets hold. It reads itself from a flag, and from a text or a
// number of JSON, by the rule of [ParseID].
type ID string

// ParseID returns an id as files of ratings are read: without spaces and byte order marks around it, and a whole number without decimals, so
// that 7.0 is 7. Text that is empty, not UTF-8, a missing value (NA, None) or a float that is no exact integer (1.8e+19) is an error.
func ParseID(text string) (string, error) {
	id, err := idtext.Parse([]byte(text))
	if err != nil {
		return "", fmt.Errorf("an id %w", err)
	}
	return string(id), nil
}

// UnmarshalText reads an id by the rule of [ParseID].
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	*id = ID(parsed)
	return err
}

// UnmarshalJSON reads an id of a text or a number. A number must be an exact integer, and null is an error.
func (id *ID) UnmarshalJSON(b []byte) error {
	var text string
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		if !utf8.Valid(b) { // which JSON would mend without a word
			text = string(b)
		} else if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		return id.UnmarshalText([]byte(text))
	}
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		return fmt.Errorf("an id is %s; want a text or a number", idtext.Quote(b))
	}
	number, err := idtext.ParseNumber(string(b))
	if err != nil {
		return fmt.Errorf("an id %w", err)
	}
	*id = ID(number)
	return nil
}

// Where returns a set with some of its ratings. Which users and items there are stays.
func (s *Set) Where(keep func(user, item int32) bool) *Set {
	var kept []int32
	set := *s
	set.Tested = nil
	for k, u := range s.User {
		if !keep(u, s.Item[k]) {
			continue
		}
		kept = append(kept, int32(k))
		if s.Tested != nil {
			set.Tested = append(set.Tested, s.Tested[k])
		}
	}
	set.Ratings = s.Gather(kept)
	return &set
}

// ComputeDigest hashes the canonical content of a set. Every text is preceded by its
// length and every list by its own, so that no two contents share their bytes.
func (s *Set) ComputeDigest() string {
	d := NewDigester()
	d.Head(s, s.Len())
	d.Columns(s.Ratings)
	d.Tail(s)
	return d.Sum()
}

func NewDigester() *Digester {
	h := sha256.New()
	return &Digester{hash: h, buf: bufio.NewWriter(h)}
}

// Head hashes the parts of a set before its ratings, and the number of ratings.
func (d *Digester) Head(s *Set, ratings int) {
	d.Text("fedsim dataset v1")
	d.Texts(s.UserIDs)
	d.Texts(s.ItemIDs)
	d.Number(uint64(ratings))
}

// Tail hashes what comes behind them.
func (d *Digester) Tail(s *Set) {
	d.Texts(s.Titles)
	d.Number(uint64(len(s.Genres)))
	for _, genres := range s.Genres {
		d.Texts(genres)
	}
	d.Number(uint64(len(s.Years)))
	for _, year := range s.Years {
		d.Number(uint64(year))
	}
	if s.Times != nil && !s.MaybeTimes {
		d.Text("times")
		for _, at := range s.Times {
			d.Number(math.Float64bits(at))
		}
	}
	if s.Tested != nil {
		d.Text("tested")
		for _, tested := range s.Tested {
			part := uint64(0)
			if tested {
				part = 2
			}
			d.Number(part)
		}
	}
	for _, c := range s.Columns {
		d.Text("column")
		d.Text(c.Name)
		for _, values := range c.Values {
			d.Texts(values)
		}
	}
	if s.Raters != nil {
		d.Text("public users")
		d.Texts(s.Raters.IDs)
		d.Number(uint64(s.Raters.Len()))
		d.Columns(s.Raters.Ratings)
	}
	if s.Profile != nil {
		d.Text("profile")
		if s.Profile.Source != "" {
			d.Text(s.Profile.Source)
			return
		}
		d.Texts(s.Profile.Columns)
		for _, v := range s.Profile.X {
			d.Number(math.Float64bits(v))
		}
	}
}

// Digester collects small writes before it hashes them, which does not fail.
type Digester struct {
	hash hash.Hash
	buf  *bufio.Writer
}

// Bytes hashes some bytes without their length.
func (d *Digester) Bytes(b []byte) { _, _ = d.buf.Write(b) }

func (d *Digester) Number(v uint64) {
	d.Bytes(binary.LittleEndian.AppendUint64(d.buf.AvailableBuffer(), v))
}

func (d *Digester) Text(s string) {
	d.Number(uint64(len(s)))
	_, _ = d.buf.WriteString(s)
}

func (d *Digester) Texts(list []string) {
	d.Number(uint64(len(list)))
	for _, s := range list {
		d.Text(s)
	}
}

func (d *Digester) Columns(r Ratings) {
	for k, v := range r.Value {
		b := binary.LittleEndian.AppendUint32(d.buf.AvailableBuffer(), uint32(r.User[k]))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Item[k]))
		d.Bytes(binary.LittleEndian.AppendUint32(b, math.Float32bits(v)))
	}
}

func (d *Digester) Sum() string {
	_ = d.buf.Flush()
	return hex.EncodeToString(d.hash.Sum(nil))
}

// NoticeKind says what a [Notice] is about.
type NoticeKind string

// The kinds of notices.
const (
	NoticeTimes      NoticeKind = "times"      // timestamps were dropped, or read in one of two ways
	NoticeScale      NoticeKind = "scale"      // the rating scale was assumed, or is unlike the ratings
	NoticeIDs        NoticeKind = "ids"        // ids were trimmed, or two ids look like one
	NoticeDuplicates NoticeKind = "duplicates" // several records became one rating
	NoticeRows       NoticeKind = "rows"       // rows were left out, or read in spite of a fault
	NoticeItems      NoticeKind = "items"      // a list of items is unlike the ratings, or is not used
	NoticeColumns    NoticeKind = "columns"    // a column that may matter is not read
	NoticeEncoding   NoticeKind = "encoding"   // the encoding of the text was assumed
)

// Notice tells what a reader dropped, assumed or merged, and what its owner can do. Text and Lines hold no id and no rating.
type Notice struct {
	Kind   NoticeKind `json:"kind"`
	Text   string     `json:"text"`
	Count  int        `json:"count,omitempty"` // records, or pairs of ids
	Lines  []int      `json:"lines,omitempty"` // lines of the first records, at most ten
	Detail string     `json:"-"`               // ids or ratings as an example, for the owner of the data alone
}

// String is the notice for the owner of the data.
func (n Notice) String() string {
	text := n.Text
	if n.Detail != "" {
		text += " (" + n.Detail + ")"
	}
	if len(n.Lines) == 0 {
		return text
	}
	lines := lists.Map(n.Lines, func(line int) string { return fmt.Sprint(line) })
	name := "line "
	if n.Count > 1 {
		name = "lines "
	}
	if n.Count > len(lines) {
		lines = append(lines, "...")
	}
	return text + "; " + name + strings.Join(lines, ", ")
}

// Sureness says how sure a reader is of a [Finding].
type Sureness string

// How sure a reader can be.
const (
	Stated  Sureness = "stated"  // the caller or the file itself says so
	Certain Sureness = "certain" // nothing else fits the beginning of the file
	Likely  Sureness = "likely"  // most of the beginning fits
)

// SureIf is Stated if the caller says so, else Certain.
func SureIf(stated bool) Sureness {
	if stated {
		return Stated
	}
	return Certain
}

// Finding is one thing that a reader found out about a file before it read the ratings.
type Finding struct {
	What  string   `json:"what"`  // such as "separator"
	Found string   `json:"found"` // such as "semicolons"
	Sure  Sureness `json:"sure"`
	Why   string   `json:"why,omitempty"`
}

// String is the finding with its reason.
func (f Finding) String() string {
	text := f.Found + " (" + string(f.Sure)
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text + ")"
}

var (
	// ErrNoRatings is wrapped by the error of a file that holds no rating, and of a
	// folder or archive that holds no file of ratings.
	ErrNoRatings = errors.New("no ratings")

	// ErrOffScale is matched by the error of a rating that is outside the rating scale.
	ErrOffScale = errors.New("off the scale")
)

// FileError is an error in the content of a file: what is wrong, where, and what would be right.
type FileError struct {
	File string // path as it was opened
	Line int    // first line of the offending record, counted from 1
	Err  error  // the reason
}

// Error returns FILE:LINE: reason.
func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }
