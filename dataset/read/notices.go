package read

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtable"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// notifyEncoding says that the encoding of a text was assumed.
func (t *table) notifyEncoding() {
	for _, f := range t.found {
		if f.What == "encoding" && f.Sure == dataset.Likely {
			t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeEncoding, Text: "the text is read as " + f.Found + ", since " + strings.Split(f.Why, ";")[0] + "; if ids or titles look wrong, name its encoding with --encoding"})
		}
	}
}

// notifyUnread says that a file of clicks has columns that may be ratings.
func (t *table) notifyUnread(names []string) {
	if len(names) == 0 {
		return
	}
	t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeColumns, Text: "every row counts as a click, whatever it has in " + strings.Join(names, ", ") +
		"; if that is a rating, name it with --columns rating=" + names[0] + ", and write truths as 1 and 0"})
}

// notify appends a notice about the records that were counted, if there are any.
func (t *table) notify(kind dataset.NoticeKind, c records.Tally, text string) {
	if c.Count > 0 {
		t.notices = append(t.notices, c.Notice(kind, text))
	}
}

// mostUnlike is the share of the scale below which the ratings of a whole set are unlike it.
const mostUnlike = 0.5

// notifyScale says that a scale was assumed, or that ratings use little of it. The ratings of one client may all be alike, and
// are not compared with the scale.
func (t *table) notifyScale(o Options) {
	assumed := t.format.Scaleless && !t.clicks && (o.Min == nil || o.Max == nil)
	if t.ratings.Len() == 0 || t.clicks || !assumed && o.Max == nil && o.Min == nil {
		return
	}
	lo, hi := slices.Min(t.ratings.Value), slices.Max(t.ratings.Value)
	used := float64(hi-lo) / (t.max - t.min)
	detail := fmt.Sprintf("the ratings lie between %s and %s", records.Stars(float64(lo)), records.Stars(float64(hi)))
	if assumed {
		what, key := fmt.Sprintf("no rating scale: %s to %s", records.Stars(t.min), records.Stars(t.max)), "rating-min and rating-max"
		switch {
		case o.Min != nil:
			what, key = "no top of the rating scale: "+records.Stars(t.max), "rating-max"
		case o.Max != nil:
			what, key = "no bottom of the rating scale: "+records.Stars(t.min), "rating-min"
		}
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Detail: detail, Text: "the file states " + what + " is assumed; say the true scale with " + key})
	}
	if used < mostUnlike && used > 0 && t.skipped == nil {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Detail: detail, Text: fmt.Sprintf(
			"the ratings use %.2g%% of the rating scale %s to %s, and noise is added for all of it; if the scale is narrower, say so with rating-min and rating-max", 100*used, records.Stars(t.min), records.Stars(t.max))})
	}
}

// notifyAlike says that ids differ only by leading zeros. Both tables must be settled.
func (t *table) notifyAlike() {
	for _, ids := range []struct {
		table *idtable.Table
		text  string
	}{
		{&t.users, "pairs of users have ids that differ only by zeros, as 1 and 01 do; each half of a user is protected by itself: write every id in one way"},
		{&t.items, "pairs of items have ids that differ only by zeros, as 1 and 01 do; write every id in one way"},
	} {
		if n, example := ids.table.Alike(); n > 0 {
			t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeIDs, Text: fmt.Sprintf("%d %s", n, ids.text), Count: n, Detail: example})
		}
	}
}

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
	if b.skip || b.count == 0 {
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
