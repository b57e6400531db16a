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
	case b.count == 1:
		return b.first[0]
	}
	return &badRowsError{*b}
}

// badRowsError is the error of several rows.
type badRowsError struct{ badRows }

func (e *badRowsError) Error() string {
	var text strings.Builder
	count := fmt.Sprint(e.count)
	if e.count == mostBad {
		count += " or more"
	}
	fmt.Fprintf(&text, "%s rows cannot be used; correct them, or leave them out with --bad-rows skip", count)
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
		n := all.Notice(dataset.NoticeRows, "rows cannot be used and are left out")
		n.Detail = "the first: " + t.bad.first[0].Err.Error()
		t.notices = append(t.notices, n)
	}
	why := "rows have a value that means not rated and are left out"
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
