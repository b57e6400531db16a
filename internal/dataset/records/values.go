package records

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// ErrNoNumber is wrapped by the error for a rating that is no number.
var ErrNoNumber = errors.New("is not a number")

// ParseRating parses a finite decimal number.
func ParseRating(b []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case len(b) == 0:
		return 0, errors.New("rating is empty")
	case idtext.IsMissing(b):
		return 0, fmt.Errorf("rating is missing: %s stands for no value", idtext.Quote(b))
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("rating %s is not finite", idtext.Quote(b))
	case err != nil:
		return 0, fmt.Errorf("rating %s %w", idtext.Quote(b), ErrNoNumber)
	}
	if v == 0 {
		return 0, nil // -0 too, so that equal ratings have equal digests
	}
	return v, nil
}

// truths lists pairs of words of programs, databases and shops: a number for the word that is worth 1, and its negative for the word
// that is worth 0. They are in lower case, without what stands between their parts.
var truths = map[string]int{
	"true": 1, "false": -1, "t": 2, "f": -2, "yes": 3, "no": -3, "y": 4, "n": -4, "like": 5, "dislike": -5, "liked": 6, "disliked": -6, "thumbsup": 7, "thumbsdown": -7,
	"up": 8, "down": -8, "upvote": 9, "downvote": -9, "recommended": 10, "notrecommended": -10, "positive": 11, "negative": -11, "👍": 12, "👎": -12,
}

var joints = strings.NewReplacer(" ", "", "_", "", "-", "")

// TruthOf returns a number above 0 for a word such as true or like, its negative for the opposite, and 0 for another word.
func TruthOf(b []byte) int {
	if len(b) == 0 || b[0] <= '9' || len(b) > len("not recommended") { // most ratings are numbers
		return 0
	}
	return truths[strings.ToLower(joints.Replace(string(b)))]
}

// scaleError is the error of a rating that matches ErrOffScale.
type scaleError struct{ error }

func (scaleError) Is(target error) bool { return target == dataset.ErrOffScale }

func OffScale(format string, args ...any) error { return scaleError{fmt.Errorf(format, args...)} }

// Stars is a number without an exponent.
func Stars(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Forms of a timestamp that is no number, by the separator of its date. A zone stands behind as Z07:00 ([zoned]); without one they
// are in UTC. Seconds may have a fraction.
var (
	dashed  = withClock("2006-01-02", "T", " ")
	yearly  = withClock("2006/1/2", " ")
	dotted  = append(withClock("2.1.2006", " ", ", "), "20060102T150405", "20060102T150405Z07:00")
	slashed = [2][]string{withClock("1/2/2006", " ", ", "), withClock("2/1/2006", " ", ", ")} // month first, day first
	// worded have the month in letters, and may have the clock of Oracle.
	worded = slices.Concat(
		[]string{time.RubyDate, time.ANSIC, time.UnixDate, time.RFC1123, time.RFC1123Z, "January 2, 2006", "2 January 2006"}, withClock("Jan 2, 2006", " ", ", "), withClock("2 Jan 2006", " "),
		withClock("2-Jan-2006", " "), withClock("2-Jan-06", " "), []string{"2-Jan-06 3.04.05 PM", "2-Jan-06 3.04.05 PMZ07:00", "2-Jan-06 15.04.05", "2-Jan-06 15.04.05Z07:00", "2-Jan-2006 3.04.05 PM", "2-Jan-2006 3.04.05 PMZ07:00"},
	)
)

// withClock is a form of dates, alone and with a time of day after each separator.
func withClock(date string, separators ...string) []string {
	forms := []string{date}
	for _, sep := range separators {
		for _, clock := range []string{"15:04:05", "15:04:05Z07:00", "15:04", "15:04Z07:00", "3:04 PM", "3:04:05 PM", "3:04:05 PMZ07:00"} {
			forms = append(forms, date+sep+clock)
		}
	}
	return forms
}

// zoned writes the zone behind a time of day in one way: +00 of PostgreSQL, +0000 and " +00:00" as +00:00, and UTC as Z.
func zoned(text string) string {
	clock := strings.IndexAny(text, ": T")
	if clock < 0 {
		return text
	}
	for _, utc := range []string{" UTC", "UTC", " GMT", " Z"} {
		if short, is := strings.CutSuffix(text, utc); is && strings.ContainsAny(short, ":.") && !strings.Contains(short, ",") {
			return short + "Z"
		}
	}
	at := strings.LastIndexAny(text, "+-")
	if at <= clock || !strings.ContainsAny(text[clock:at], ":.") {
		return text
	}
	sign, digits := text[at:at+1], strings.ReplaceAll(text[at+1:], ":", "")
	if len(digits) == 2 {
		digits += "00"
	}
	if len(digits) != 4 || strings.Trim(digits, "0123456789") != "" {
		return text
	}
	return strings.TrimRight(text[:at], " ") + sign + digits[:2] + ":" + digits[2:]
}

// Moment is a time in seconds, or a number of any unit. A date with slashes may have the month first or the day.
type Moment struct {
	At                 float64 // with the month first where both can be
	DayFirst           float64 // the same unless both can be
	OnlyDay, OnlyMonth bool    // a number above 12 tells what is first
}

// ParseTime reads a number or a date.
func ParseTime(b []byte) (Moment, error) {
	switch {
	case len(b) == 0:
		return Moment{}, errors.New("timestamp is empty")
	case idtext.IsMissing(b):
		return Moment{}, fmt.Errorf("timestamp is missing: %s stands for no value", idtext.Quote(b))
	}
	v, err := strconv.ParseFloat(string(b), 64)
	ok := err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
	if !ok && bytes.IndexFunc(b, isLetter) >= 0 {
		v, ok = parseDate(b, worded)
	}
	forms := dashed
	switch slash := bytes.IndexByte(b, '/'); {
	case ok:
		return Moment{At: v, DayFirst: v}, nil
	case slash == 4:
		forms = yearly
	case slash > 0:
		month, isMonth := parseDate(b, slashed[0])
		day, isDay := parseDate(b, slashed[1])
		switch {
		case isMonth && isDay:
			return Moment{At: month, DayFirst: day}, nil
		case isMonth:
			return Moment{At: month, DayFirst: month, OnlyMonth: true}, nil
		case isDay:
			return Moment{At: day, DayFirst: day, OnlyDay: true}, nil
		}
	case bytes.IndexByte(b, '-') < 0:
		forms = dotted
	}
	if v, ok = parseDate(b, forms); ok {
		return Moment{At: v, DayFirst: v}, nil
	}
	return Moment{}, fmt.Errorf("timestamp %s is neither a finite number nor a date such as 2024-05-31 or 2024-05-31T18:00:00Z", idtext.Quote(b))
}

// isLetter reports whether a letter is one of a month, and not the T or Z of a date in numbers, UTC, AM or PM.
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || strings.ContainsRune("BDEFJLNORSVY", r) }

// IsTime reports whether seconds since 1970 are a time from the year 2 to 5138. Databases write others where there is no time, and units of
// times are told by size.
func IsTime(at float64) bool { return at >= -62_104_060_800 && at < 1e11 }

func parseDate(b []byte, forms []string) (float64, bool) {
	text := string(b)
	for i := 0; i < 2*len(forms); i++ { // as it is written, then with its zone in one way
		if i == len(forms) {
			if text = zoned(text); text == string(b) {
				break
			}
		}
		if t, err := time.Parse(forms[i%len(forms)], text); err == nil && IsTime(float64(t.Unix())) {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, true
		}
	}
	return 0, false
}
