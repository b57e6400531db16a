package dataset

import (
	"errors"
	"fmt"
	"strings"
)

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
	lines := make([]string, len(n.Lines))
	for i, line := range n.Lines {
		lines[i] = fmt.Sprint(line)
	}
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
