package read

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

// tally counts records and keeps the lines of the first.
type tally struct {
	count int
	lines []int
}

func (c *tally) add(line int) {
	if c.count++; len(c.lines) < mostLines {
		c.lines = append(c.lines, line)
	}
}

// join adds records of another file.
func (c *tally) join(other tally) {
	c.count += other.count
	c.lines = append(c.lines, other.lines...)
	c.lines = c.lines[:min(len(c.lines), mostLines)]
}

// notifyEncoding says that the encoding of a text was assumed.
func (t *table) notifyEncoding() {
	for _, f := range t.found {
		if f.What == "encoding" && f.Sure == dataset.Likely {
			t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeEncoding, Text: "the text is read as " + f.Found + ", since " + strings.Split(f.Why, ";")[0] + "; if ids or titles look wrong, name its encoding with --encoding"})
		}
	}
}

// notice makes a notice of the records that were counted.
func (c *tally) notice(kind dataset.NoticeKind, text string) dataset.Notice {
	return dataset.Notice{Kind: kind, Text: fmt.Sprintf("%d %s", c.count, text), Count: c.count, Lines: c.lines}
}

// notify appends a notice about the records that were counted, if there are any.
func (t *table) notify(kind dataset.NoticeKind, c tally, text string) {
	if c.count > 0 {
		t.notices = append(t.notices, c.notice(kind, text))
	}
}

// mostLines limits the lines of a notice.
const mostLines = 10

// mostUnlike is the share of the scale below which the ratings of a whole set are unlike it.
const mostUnlike = 0.5

// notifyScale says that a scale was assumed, or that ratings use little of it. The ratings of one client may all be alike, and
// are not compared with the scale.
func (t *table) notifyScale(o Options) {
	assumed := t.format.scaleless && !t.clicks && (o.Min == nil || o.Max == nil)
	if t.ratings.Len() == 0 || t.clicks || !assumed && o.Max == nil && o.Min == nil {
		return
	}
	lo, hi := slices.Min(t.ratings.Value), slices.Max(t.ratings.Value)
	used := float64(hi-lo) / (t.max - t.min)
	detail := fmt.Sprintf("the ratings lie between %s and %s", stars(float64(lo)), stars(float64(hi)))
	if assumed {
		what, key := fmt.Sprintf("no rating scale: %s to %s", stars(t.min), stars(t.max)), "rating-min and rating-max"
		switch {
		case o.Min != nil:
			what, key = "no top of the rating scale: "+stars(t.max), "rating-max"
		case o.Max != nil:
			what, key = "no bottom of the rating scale: "+stars(t.min), "rating-min"
		}
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Detail: detail, Text: "the file states " + what + " is assumed; say the true scale with " + key})
	}
	if used < mostUnlike && used > 0 && t.skipped == nil {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeScale, Detail: detail, Text: fmt.Sprintf(
			"the ratings use %.2g%% of the rating scale %s to %s, and noise is added for all of it; if the scale is narrower, say so with rating-min and rating-max", 100*used, stars(t.min), stars(t.max))})
	}
}

// stars is a number without an exponent.
func stars(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// notifyAlike says that ids differ only by leading zeros or a decimal part of zeros. Both tables must be settled.
func (t *table) notifyAlike() {
	for _, ids := range []struct {
		table *idTable
		text  string
	}{
		{&t.users, "pairs of users have ids that differ only by zeros, as 1, 01 and 1.0 do; each half of a user is protected by itself: write every id in one way"},
		{&t.items, "pairs of items have ids that differ only by zeros, as 1, 01 and 1.0 do; write every id in one way"},
	} {
		if n, example := ids.table.alike(); n > 0 {
			t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeIDs, Text: fmt.Sprintf("%d %s", n, ids.text), Count: n, Detail: example})
		}
	}
}

// alike counts the ids that equal another id except for zeros, and returns an example.
func (t *idTable) alike() (n int, example string) {
	var other map[string]string // the first id of a plain form that is no id itself
	for _, name := range t.names {
		plain := plainID(name)
		if plain == name {
			continue
		}
		twin, found := plain, t.has(plain)
		if !found {
			twin, found = other[plain]
		}
		switch {
		case found:
			if n++; n == 1 {
				example = fmt.Sprintf("%q and %q", twin, name)
			}
		case other == nil:
			other = map[string]string{plain: name}
		default:
			other[plain] = name
		}
	}
	return n, example
}

// has reports whether a settled table has an id.
func (t *idTable) has(id string) bool {
	if small, is := smallInteger([]byte(id)); is && !t.mapped {
		return small < len(t.small) && t.small[small] >= 0
	}
	_, known := t.number[id]
	return known
}

// plainID is an integer without leading zeros and without a decimal part of zeros; any other id stays.
func plainID(id string) string {
	whole, part, point := strings.Cut(id, ".")
	if whole == "" || strings.Trim(whole, "0123456789") != "" || strings.Trim(part, "0") != "" || point && part == "" {
		return id
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		return "0"
	}
	return whole
}
