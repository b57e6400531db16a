package dataset

import (
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
