package records

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// Forms of a timestamp that is no number, by the separator of its date. Without a zone they are in UTC. Seconds may have a
// fraction.
var (
	dashed  = withClock("2006-01-02", "T", " ")
	yearly  = withClock("2006/1/2", " ")
	dotted  = withClock("2.1.2006", " ", ", ")
	worded  = []string{time.RubyDate, time.ANSIC, time.RFC1123, time.RFC1123Z, "January 2, 2006", "Jan 2, 2006", "2 January 2006", "2 Jan 2006", "2-Jan-2006"} // the month in letters
	slashed = [2][]string{withClock("1/2/2006", " ", ", "), withClock("2/1/2006", " ", ", ")}                                                                  // month first, day first
)

// withClock is a form of dates, alone and with a time of day after each separator.
func withClock(date string, separators ...string) []string {
	forms := []string{date}
	for _, sep := range separators {
		for _, clock := range []string{"15:04:05", "15:04:05Z07:00", "15:04:05Z0700", "15:04", "15:04Z07:00", "15:04:05 UTC", "3:04 PM", "3:04:05 PM"} {
			forms = append(forms, date+sep+clock)
		}
	}
	return forms
}

// ParseTime returns a time, and the time that it is with the day before the month; these differ where a date with slashes may
// be read in both ways.
func ParseTime(b []byte) (at, dayFirst float64, err error) {
	if v, ok := parseShortDecimal(b); ok {
		return v, v, nil
	}
	if len(b) == 0 {
		return 0, 0, errors.New("timestamp is empty")
	}
	if v, err := strconv.ParseFloat(string(b), 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, v, nil
	}
	if bytes.IndexFunc(b, isLetter) >= 0 {
		if v, ok := parseDate(b, worded); ok {
			return v, v, nil
		}
	}
	forms := dashed
	switch slash := bytes.IndexByte(b, '/'); {
	case slash == 4:
		forms = yearly
	case slash > 0:
		month, isMonth := parseDate(b, slashed[0])
		day, isDay := parseDate(b, slashed[1])
		switch {
		case isMonth && isDay:
			return month, day, nil
		case isMonth:
			return month, month, nil
		case isDay:
			return day, day, nil
		}
	case bytes.IndexByte(b, '-') < 0:
		forms = dotted
	}
	if v, ok := parseDate(b, forms); ok {
		return v, v, nil
	}
	return 0, 0, fmt.Errorf("timestamp %s is neither a finite number nor a date such as 2024-05-31 or 2024-05-31T18:00:00Z", idtext.Quote(b))
}

// isLetter reports whether a letter is one of a month, and not the T or Z of a date in numbers.
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' }

func parseDate(b []byte, forms []string) (float64, bool) {
	for _, form := range forms {
		if t, err := time.Parse(form, string(b)); err == nil {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, true
		}
	}
	return 0, false
}

// ReadsAs reports in which ways a date with slashes can be read: with the month first, with the day first.
func ReadsAs(b []byte) (monthFirst, dayFirst bool) {
	_, monthFirst = parseDate(b, slashed[0])
	_, dayFirst = parseDate(b, slashed[1])
	return monthFirst, dayFirst
}
