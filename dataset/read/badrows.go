package read

import (
	"fmt"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// mostBad limits the rows that are counted where the first refuses the file.
const mostBad = 1000

// badRows are the rows that cannot be used.
type badRows struct {
	skip  bool
	none  bool // no other row can be used
	count int
	first []*dataset.FileError // at most mostLines
}

// add keeps a row in mind, and reports whether to read on.
func (b *badRows) add(row *dataset.FileError) bool {
	if b.count++; len(b.first) < records.MostLines {
		b.first = append(b.first, row)
	}
	return b.skip || b.count < mostBad
}

// err names the rows, where they are not left out.
func (b *badRows) err() error {
	switch {
	case b.skip || b.count == 0:
		return nil
	}
	return &badRowsError{*b}
}

// badRowsError is the error of one row or of several.
type badRowsError struct{ badRows }

func (e *badRowsError) Error() string {
	if e.count == 1 && e.none {
		return e.first[0].Error()
	}
	if e.count == 1 {
		return e.first[0].Error() + "; --bad-rows skip leaves the row out"
	}
	var text strings.Builder
	count, mend := fmt.Sprint(e.count), "; correct them, or leave them out with --bad-rows skip"
	if e.count == mostBad {
		count += " or more"
	}
	if e.none {
		mend = ", and there are no others; if the file is sound, say how it is written with --columns, --separator, --rating-min and --rating-max"
	}
	fmt.Fprintf(&text, "%s rows cannot be used%s", count, mend)
	for _, row := range e.first {
		text.WriteString("\n  " + row.Error())
	}
	if e.count > len(e.first) {
		fmt.Fprintf(&text, "\n  and %d more", e.count-len(e.first))
	}
	return text.String()
}

// Unwrap returns the errors of the first rows.
func (e *badRowsError) Unwrap() []error {
	var list []error
	for _, row := range e.first {
		list = append(list, row)
	}
	return list
}

// notifyRows says which rows were left out or mended.
func (t *table) notifyRows() {
	if t.bad.count > 0 && t.bad.skip {
		all := records.Tally{Count: t.bad.count}
		for _, row := range t.bad.first {
			all.Lines = append(all.Lines, row.Line)
		}
		why := "rows cannot be used and are left out"
		if all.Count == 1 {
			why = "row cannot be used and is left out"
		}
		n := all.Notice(dataset.NoticeRows, why)
		n.Detail = "the first: " + t.bad.first[0].Err.Error()
		t.notices = append(t.notices, n)
	}
	why := "rows have a value that means not rated and are left out"
	if t.left.Count == 1 {
		why = "row has a value that means not rated and is left out"
	}
	if len(t.format.Unrated) > 0 {
		why += ", as " + t.format.Name + " has it"
	}
	t.notify(dataset.NoticeRows, records.Tally{Count: t.left.Count}, why)
	t.notify(dataset.NoticeRows, t.mended, "rows have a quote in a wrong place of a column that is not used; their ratings are read")
	if t.zeros > 0 {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Count: t.zeros, Text: fmt.Sprintf(
			"%d ratings are 0, which in %s means that an item was not rated; leave them out with --unrated 0", t.zeros, t.format.Name)})
	}
}
