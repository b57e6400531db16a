package read

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/records"
)

// lineRuns are the lines of ratings: where they follow one another, only the first is kept.
type lineRuns []lineRun

type lineRun struct{ rating, line int }

// add says that a rating, and those behind it until another is added, stands on a line.
func (l *lineRuns) add(rating, line int) {
	if n := len(*l); n > 0 && line-rating == (*l)[n-1].line-(*l)[n-1].rating {
		return
	}
	*l = append(*l, lineRun{rating, line})
}

// at is the line of a rating.
func (l lineRuns) at(rating int32) int {
	i, found := slices.BinarySearchFunc(l, int(rating), func(run lineRun, rating int) int { return cmp.Compare(run.rating, rating) })
	if !found {
		i--
	}
	return l[i].line + int(rating) - l[i].rating
}

// ParseTime reads a timestamp: a number, or a date, which is the number of seconds since 1970, in UTC where it
// names no zone. A number from 1e11 counts milliseconds, from 1e14 microseconds and from 1e17 nanoseconds, and becomes seconds. A number such as 20240531, 202405311800 or 20240531180000 is a date. Other dates are written as 2024-05-31, 2024-05-31T18:00:00Z, 2024-05-31 18:00, 31.05.2024 or 05/31/2024. A date
// with slashes that could have the day or the month first is an error.
func ParseTime(text string) (float64, error) {
	m, err := records.ParseTime([]byte(text))
	if err == nil && m.At != m.DayFirst {
		err = fmt.Errorf("timestamp %s has the day first or the month; write it as 2024-05-31", idtext.Quote([]byte(text)))
	}
	at := []float64{m.At}
	toSeconds(at)
	return at[0], err
}

// units lists the units of times in numbers, with the least magnitude of a time after March 1973. Seconds come
// before: 1e11 of them are the year 5138.
var units = []struct {
	least, perSecond float64
	name             string
}{{1e17, 1e9, "nanoseconds"}, {1e14, 1e6, "microseconds"}, {1e11, 1e3, "milliseconds"}}

// perSecond returns how many units of a time are a second, by the magnitude of the time.
func perSecond(at float64) float64 {
	for _, u := range units {
		if math.Abs(at) >= u.least {
			return u.perSecond
		}
	}
	return 1
}

// toSeconds brings times to seconds if all of them are of a smaller unit, or dates written as numbers, and says what they were. They are
// mixed if they are of several units. A time of 0 is of any unit.
func toSeconds(times []float64) (found dataset.Finding, mixed bool) {
	for _, f := range digitForms {
		if dates := inForm(times, f.form); dates != nil {
			copy(times, dates)
			return dataset.Finding{What: "form of times", Found: "dates such as " + f.example, Sure: dataset.Likely, Why: "all numbers are dates; they are read as seconds"}, false
		}
	}
	unit, smallest := 0.0, math.Inf(1)
	for _, at := range times {
		if at != 0 && !math.IsNaN(at) {
			unit, smallest = max(unit, perSecond(at)), min(smallest, perSecond(at))
		}
	}
	if unit <= 1 || smallest < unit {
		return found, unit > 1
	}
	for k := range times {
		times[k] /= unit
	}
	for _, u := range units {
		if u.perSecond == unit {
			found = dataset.Finding{What: "unit of times", Found: u.name, Sure: dataset.Likely, Why: "by their size; they are read as seconds"}
		}
	}
	return found, false
}

// notifyEpoch says that times lie in 1970, as numbers do that count days, years or places in a list, or zeros for missing times.
func (t *table) notifyEpoch() {
	const year = 365 * 86_400
	early, late := 0, 0
	for _, at := range t.times {
		switch {
		case at >= 0 && at < year:
			early++
		case !math.IsNaN(at):
			late++
		}
	}
	text := "times, all of the file, become times of 1970; if they count days or years, write them as dates or in seconds: drift counts in days"
	if late > 0 {
		text = "times become times of 1970, and the others do not; if a 0 or a far date stands for a missing time, leave the field empty"
	}
	t.notify(dataset.NoticeTimes, records.Tally{Count: early}, text)
}

// tableTimes are the timestamps of a table that need more than a column.
type tableTimes struct {
	missing records.Tally // ratings whose time cannot be read, and need not be
	open    []openDate    // dates that may have the day first
	openAt  records.Tally
	daily   bool // a date has the day first for certain
	monthly bool // a date has the month first for certain
}

// openDate is a date of a rating that may have the day first.
type openDate struct {
	rating   int
	dayFirst float64
}

// time reads the time of the next rating.
func (t *table) time(field []byte) (records.Moment, error) {
	m, err := records.ParseTime(field)
	if err != nil && t.MaybeTimes {
		return records.Moment{At: math.NaN()}, nil
	}
	return m, err
}

// addTime keeps the time of the rating that was appended last.
func (t *table) addTime(m records.Moment, line int) {
	switch {
	case math.IsNaN(m.At):
		t.odd.missing.Add(line)
	case m.At != m.DayFirst:
		t.odd.open = append(t.odd.open, openDate{rating: len(t.times), dayFirst: m.DayFirst})
		t.odd.openAt.Add(line)
	}
	t.odd.daily, t.odd.monthly = t.odd.daily || m.OnlyDay, t.odd.monthly || m.OnlyMonth
	t.times = append(t.times, m.At)
}

// settleTimes decides dates that may be read in two ways by the others of the file, and says which ratings have no time.
func (t *table) settleTimes() error {
	o := &t.odd
	if t.times == nil {
		return nil
	}
	daily := o.daily || t.Form.DayFirst
	switch {
	case t.Form.DayFirst && o.monthly && !t.MaybeTimes:
		return fmt.Errorf("%s: day-first: the file has dates whose second number is above 12, so that the month is first; leave --day-first out, or write dates as 2024-05-31", t.parts[0].file)
	case len(o.open) == 0:
	case daily && o.monthly && !t.MaybeTimes:
		return &dataset.FileError{File: t.parts[0].file, Line: o.openAt.Lines[0], Err: errors.New("the date has the day first or the month, and the file has dates of both kinds; write dates as 2024-05-31")}
	case daily && o.monthly:
		for _, d := range o.open {
			t.times[d.rating] = math.NaN()
		}
		t.notify(dataset.NoticeTimes, o.openAt, "ratings have a date with slashes that may have the day first or the month, and the file has dates of both kinds; they are kept without a time: write dates as 2024-05-31")
	case daily:
		for _, d := range o.open {
			t.times[d.rating] = d.dayFirst
		}
	case !o.monthly:
		t.notify(dataset.NoticeTimes, o.openAt, "dates with slashes may have the day first or the month; the month is assumed first: say --day-first if the day is, or write dates as 2024-05-31")
	}
	found, mixed := toSeconds(t.times)
	switch {
	case mixed:
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeTimes, Text: "times differ so much that they may be of several units, such as seconds and milliseconds; they are kept as numbers: write all in seconds"})
	case found.What != "":
		t.found = append(t.found, found)
	}
	t.notifyEpoch()
	if o.missing.Count == len(t.times) {
		t.times = nil
	}
	effect := "ratings have no timestamp that can be read; they are kept without a time, and have no drift"
	if t.times == nil {
		effect = "ratings, all of the file, have no timestamp that can be read, so that no error with drift is measured"
	}
	t.notify(dataset.NoticeTimes, o.missing, effect+": write timestamps as a number or as 2024-05-31 18:00:00")
	return nil
}

// digitForms lists the forms of dates that are written as one number, such as 20240531. As seconds or milliseconds since 1970 such
// numbers would be times of 1970, of 1976 or after the year 2600.
var digitForms = []struct{ form, example string }{
	{"20060102", "20240531"}, {"200601021504", "202405311800"}, {"20060102150405", "20240531180000"},
}

// inForm returns the times as seconds if there are any and all of them are dates from 1970 to 2099 in the form of a number; else nil. A
// time of 0 or NaN stays.
func inForm(times []float64, form string) []float64 {
	var out []float64
	for k, at := range times {
		if at == 0 || math.IsNaN(at) {
			continue
		}
		if !(at >= 1970e4 && at < 1e14) || at != math.Trunc(at) {
			return nil
		}
		date, err := time.Parse(form, strconv.FormatInt(int64(at), 10))
		if err != nil || date.Year() < 1970 || date.Year() > 2099 {
			return nil
		}
		if out == nil {
			out = slices.Clone(times)
		}
		out[k] = float64(date.Unix())
	}
	return out
}
