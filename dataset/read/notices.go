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
