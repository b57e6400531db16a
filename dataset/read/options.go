package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/dataset/records"
	"github.com/fedsim/fedsim/internal/lists"
)

// Options vary how a set is opened. The zero value is ready to use.
type Options struct {
	// Min and Max are the ends of the rating scale in stars; ratings outside are refused. Where one is nil the format's default holds:
	// 0 and 5 of files that are of no published set, 0 and 1 of clicks.
	Min, Max *float64

	// Columns names columns that differ from the names of a format.
	Columns Columns

	// Form says how a file is written; what it leaves open is found by the beginning of the file.
	Form Form

	// Unrated are values of the column of ratings that say that an item was not rated. Such rows are left out and counted.
	Unrated []float64

	// BadRows says what becomes of rows that cannot be used; "" refuses the file.
	BadRows BadRows

	// Duplicates says what becomes of several records of one pair; "" refuses the file. The
	// errors of what cannot be counted wrap ErrDuplicates.
	Duplicates Duplicates

	// Times keeps the timestamps, which take 8 bytes a rating, where the source has them.
	Times bool
	// MaybeTimes keeps timestamps too. A rating whose timestamp cannot be read has the time NaN, and a notice says so. The
	// digest is the digest of the set without times: the split does not depend on them.
	MaybeTimes bool

	// Test is a file of ratings to test on: a part of the set that the data themselves do not contain.
	// "" is no file. Its users and items belong to the set, whether or not they are in the data.
	Test string

	// Fields leaves out the features of a regression as numbers, which take far more memory than categories ([dataset.Profile.Fields]).
	Fields bool

	// Packed leaves ratings packed ([dataset.Packed]) of a file in that form, and of a generated set of 50 million or more.
	// Without it they are in columns, of any source, at 12 bytes a rating.
	Packed bool

	// Input is the reader of the spec "-"; nil stands for [os.Stdin].
	Input io.Reader

	// Skipped, when not nil, hears of each record of a file of ratings that cannot be used, and of the earlier of two ratings of one
	// pair, since the last in the file counts. The set then contains all other records, and may be empty. Skipped serves a client that
	// must take part with whatever the file holds; nil refuses the file. A file of no known format, or that cannot be read, is refused
	// either way. A file without a single row shows no scale: unless the options state it, the set's scale is 0 to 0.
	Skipped func(*dataset.FileError)

	// Cache is where sets of a published name are looked for; "" means [published.UserCache].
	Cache published.Cache

	// Progress, when not nil, is called with how much of the whole is done: unpacked
	// bytes for files (total is 0 where the size is unknown), ratings for synthetic sets.
	// Calls do not overlap.
	Progress func(done, total int64)
}

// Form says how a file is written, where the caller knows. The zero value leaves all of it to the beginning of the file.
type Form struct {
	// Separator stands between fields: one character, "::", or one of the words comma, semicolon, tab, pipe, space.
	Separator string
	// NoHeader takes the first row for a rating. Without names of columns the columns are user, item, rating and timestamp.
	NoHeader bool
	// DayFirst reads dates with slashes, such as 05/06/2024, with the day before the month.
	DayFirst bool
	// Encoding of the text, as of [ParseEncoding].
	Encoding string
	// Member is the file of an archive or folder that holds the ratings.
	Member string
}

// ErrDuplicates is wrapped by the error where duplicates are to be counted and cannot be.
var ErrDuplicates = errors.New("duplicates")

// BadRows says what becomes of rows that cannot be used.
type BadRows string

// Rules for rows that cannot be used. The zero value is BadRowsError.
const (
	// BadRowsError refuses the file and names the first ten.
	BadRowsError BadRows = "error"
	// BadRowsSkip leaves them out, and a notice counts them.
	BadRowsSkip BadRows = "skip"
)

// ParseUnrated reads numbers with commas between. The empty text is none.
func ParseUnrated(text string) ([]float64, error) {
	var list []float64
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for number := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%q is no number; want values that mean not rated, as 0,-1,99", strings.TrimSpace(number))
		}
		list = append(list, v)
	}
	return list, nil
}

// files are the options of what finds and unpacks files.
func (o Options) files() files.Options {
	return files.Options{Member: o.Form.Member, Encoding: o.Form.Encoding, Standard: o.Input, Holds: func(ctx context.Context, in files.Input) bool {
		rows, err := sniff(ctx, in, o)
		return err == nil && rows.Rows != nil
	}}
}

// records are the options of what reads the records of a file.
func (o Options) records() records.Options {
	return records.Options{Columns: records.Names{o.Columns.User, o.Columns.Item, o.Columns.Rating, o.Columns.Timestamp}, Separator: o.Form.Separator, NoHeader: o.Form.NoHeader}
}

// sniff takes a file out of what it is packed in and finds out what it is. The rows are returned with an error too, to say where it is.
func sniff(ctx context.Context, in files.Input, o Options) (records.RatingRows, error) {
	found, err := in.Unwrap(ctx, o.files())
	if err != nil {
		return records.RatingRows{Rows: &records.Scanner{Line: 1}}, err
	}
	rows, err := records.Open(ctx, in, o.records())
	rows.Found = append(found, rows.Found...)
	return rows, err
}

// ParseSeparator returns what a word or a character stands for. "" is none.
func ParseSeparator(text string) (string, error) { return records.ParseSeparator(text) }

// ParseEncoding checks the name of an encoding, such as utf-8, utf-16, latin1, windows-1251, gbk or shift_jis. "" is none.
func ParseEncoding(name string) error { return files.CheckEncoding(name) }

// Texts holds options for the form of a file as flags and keys spell them. "" leaves an option to what the file shows.
type Texts struct {
	Columns, Separator, Encoding, Member, Unrated string
	NoHeader, DayFirst                            bool
}

// Set parses the texts into the options. An error begins with the name of the flag that mends it.
func (t Texts) Set(o *Options) error {
	o.Form = Form{NoHeader: t.NoHeader, DayFirst: t.DayFirst, Encoding: t.Encoding, Member: t.Member}
	var err error
	if o.Columns, err = ParseColumns(t.Columns); err != nil {
		return fmt.Errorf("--columns: %w", err)
	}
	if o.Form.Separator, err = ParseSeparator(t.Separator); err != nil {
		return fmt.Errorf("--separator: %w", err)
	}
	if err = ParseEncoding(t.Encoding); err != nil {
		return fmt.Errorf("--encoding: %w", err)
	}
	if o.Unrated, err = ParseUnrated(t.Unrated); err != nil {
		return fmt.Errorf("--unrated: %w", err)
	}
	return nil
}

// Columns are the names of the columns of a file, where it has others than its format. ""
// leaves a column the name that the format gives it. A whole number that names no column is the place of one, from 1.
type Columns struct {
	User, Item, Rating, Timestamp string
	// Label makes the file one of a regression, with this label: User may then name the column of the examples' ids, and every
	// other one holds features.
	Label string
	// Private are the names of columns with private features of a regression, with + between.
	Private string
}

// ParseColumns reads pairs with commas between, such as "user=visitor,item=sku". Names are
// user, item, rating and timestamp, or of a regression label and perhaps user and private. The empty text names none.
func ParseColumns(text string) (Columns, error) {
	var c Columns
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		what, name, paired := strings.Cut(pair, "=")
		what, name = strings.TrimSpace(what), strings.TrimSpace(name)
		to := map[string]*string{"user": &c.User, "item": &c.Item, "rating": &c.Rating, "timestamp": &c.Timestamp, "label": &c.Label, "private": &c.Private}[what]
		switch {
		case !paired || to == nil || name == "":
			return Columns{}, fmt.Errorf("%q is not one of user=NAME, item=NAME, rating=NAME, timestamp=NAME, label=NAME, private=NAME+NAME; a number in place of a name is the place of the column, from 1", strings.TrimSpace(pair))
		case *to != "":
			return Columns{}, fmt.Errorf("%s is named twice, %q and %q; keep one", what, *to, name)
		}
		*to = name
	}
	if c.Private != "" && c.Label == "" {
		return Columns{}, fmt.Errorf("private=%s is of a regression; say which column has the label: label=NAME", c.Private)
	}
	if c.Label != "" && (c.Item != "" || c.Rating != "" || c.Timestamp != "") {
		return Columns{}, fmt.Errorf("label=%s is of a regression, whose other columns are features; beside it only user=NAME, the id of an example, and private=NAME+NAME say something", c.Label)
	}
	return c, nil
}

// likelyNotices says what was assumed of a text.
func likelyNotices(found []dataset.Finding) (list []dataset.Notice) {
	for _, f := range found {
		switch {
		case f.Sure != dataset.Likely:
		case f.What == "encoding":
			list = append(list, dataset.Notice{Kind: dataset.NoticeEncoding, Text: "the text is read as " + f.Found + ", since " + strings.Split(f.Why, ";")[0] + "; if ids or titles look wrong, name its encoding with --encoding"})
		case f.What == "decimal sign":
			list = append(list, dataset.Notice{Kind: dataset.NoticeScale, Text: "the comma in ratings is taken for a decimal sign: " + f.Why})
		}
	}
	return list
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
func (t *table) notifyScale() {
	assumed := t.format.Scaleless && !t.clicks && (t.Min == nil || t.Max == nil)
	if t.ratings.Len() == 0 || t.clicks || !assumed && t.Max == nil && t.Min == nil {
		return
	}
	lo, hi := slices.Min(t.ratings.Value), slices.Max(t.ratings.Value)
	used := float64(hi-lo) / (t.max - t.min)
	detail := fmt.Sprintf("the ratings lie between %s and %s", records.Stars(float64(lo)), records.Stars(float64(hi)))
	if assumed {
		what, key := fmt.Sprintf("no rating scale: %s to %s", records.Stars(t.min), records.Stars(t.max)), "rating-min and rating-max"
		switch {
		case t.Min != nil:
			what, key = "no top of the rating scale: "+records.Stars(t.max), "rating-max"
		case t.Max != nil:
			what, key = "no bottom of the rating scale: "+records.Stars(t.min), "rating-min"
		}
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Detail: detail, Text: "the file states " + what + " is assumed; say the true scale with " + key})
	}
	if used < mostUnlike && used > 0 && t.Skipped == nil {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Detail: detail, Text: fmt.Sprintf(
			"the ratings use %.2g%% of the rating scale %s to %s, and any noise covers all of it; if the scale is narrower, say so with rating-min and rating-max", 100*used, records.Stars(t.min), records.Stars(t.max))})
	}
}

// notifyAlike says that ids differ only by leading zeros. Both tables must be settled.
func (t *table) notifyAlike() {
	for _, ids := range []struct {
		table *idtext.Table
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
	records.Tally
	skip  bool
	none  bool                 // no other row can be used
	first []*dataset.FileError // of the lines that the tally keeps
}

// add keeps a row in mind, and reports whether to read on.
func (b *badRows) add(row *dataset.FileError) bool {
	if b.Add(row.Line); len(b.first) < len(b.Lines) {
		b.first = append(b.first, row)
	}
	return b.skip || b.Count < mostBad
}

// err names the rows, where they are not left out.
func (b *badRows) err() error {
	if b.skip || b.Count == 0 {
		return nil
	}
	return &badRowsError{*b}
}

// badRowsError is the error of one row or of several.
type badRowsError struct{ badRows }

func (e *badRowsError) Error() string {
	if e.Count == 1 && e.none {
		return e.first[0].Error()
	}
	if e.Count == 1 {
		return e.first[0].Error() + "; --bad-rows skip leaves the row out"
	}
	count, mend := fmt.Sprint(e.Count), "; correct them, or leave them out with --bad-rows skip"
	if e.Count == mostBad {
		count += " or more"
	}
	if e.none {
		mend = ", and there are no others; if the file is sound, say how it is written with --columns, --separator, --rating-min and --rating-max"
	}
	if e.none && !slices.ContainsFunc(e.first, func(row *dataset.FileError) bool { return !errors.Is(row, records.ErrNoNumber) }) {
		mend = ", and there are no others; write a rating such as 4 stars or 4/5 as the number 4 alone, or name another column with --columns rating=NAME"
	}
	rows := lists.Map(e.first, (*dataset.FileError).Error)
	if e.Count > len(e.first) {
		rows = append(rows, fmt.Sprintf("and %d more", e.Count-len(e.first)))
	}
	return fmt.Sprintf("%s rows cannot be used%s\n  %s", count, mend, strings.Join(rows, "\n  "))
}

// Unwrap returns the errors of the first rows.
func (e *badRowsError) Unwrap() []error {
	return lists.Map(e.first, func(row *dataset.FileError) error { return row })
}

// rows chooses the words about one row, or about several.
func rows(c records.Tally, one, several string) string {
	if c.Count == 1 {
		return one
	}
	return several
}

// notifyRows says which rows were left out or mended.
func (t *table) notifyRows() {
	if t.bad.Count > 0 && t.bad.skip {
		n := t.bad.Notice(dataset.NoticeRows, rows(t.bad.Tally, "row cannot be used and is left out", "rows cannot be used and are left out"))
		n.Detail = "the first: " + t.bad.first[0].Err.Error()
		t.notices = append(t.notices, n)
	}
	why := rows(t.left, "row has a value that means not rated and is left out", "rows have a value that means not rated and are left out")
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
