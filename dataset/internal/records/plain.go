package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtable"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// Plain describes the form of line that nearly every file of ratings has from end to end. A line holds
// a user and an item that are small integers, a rating in digits with at most one point, and at most
// one more field, of digits, with separators between:
//
//	196,242,3.5,881250949
//
// Nothing is quoted, no space stands around a field, and the rating is on the scale. Lines end in LF
// or CRLF. A line that differs is left to the scanner, which knows every form and reports errors.
type Plain struct {
	sep      byte
	width    int // 2 where the separator is that byte twice, else 1
	rated    bool
	click    float32 // without ratings, the value of a line
	more     bool    // there is one more field
	timed    bool    // which is a timestamp that is wanted
	min, max float64
	unrated  []float64

	// tenths is the value of a digit, a point and a digit, NaN where it is off the scale.
	tenths [100]float32
}

const (
	// PlainShortest is the shortest line, a click.
	PlainShortest = len("1,1\n")

	maxPlainID    = 7  // digits of an id
	maxPlainField = 16 // bytes of a rating or a timestamp
)

// PlainRows holds one rating per line read.
type PlainRows struct {
	User, Item []int32 // ids
	Value      []float32
	Time       []float64 // where they are wanted
	N          int       // ratings

	Users, Items       idtable.Set // ids of these and of all that were read before
	newUsers, newItems []int32     // of these alone
}

// PlainOf is the form of the plain lines of a file; false where its columns stand in another order, or among others.
func PlainOf(d Dialect, cols Columns, min, max float64, unrated []float64) (*Plain, bool) {
	p := &Plain{
		sep: d.sep[0], width: len(d.sep), rated: cols.Rating >= 0, timed: cols.Time >= 0, click: float32(max), min: min, max: max, unrated: unrated,
	}
	least := 2
	if p.rated {
		least = 3
	}
	p.more = cols.Count == least+1
	if cols.User != 0 || cols.Item != 1 || p.rated && cols.Rating != 2 || cols.Count != least && !p.more || p.timed && cols.Time != least {
		return nil, false
	}
	for i := range p.tenths {
		p.tenths[i] = p.onScale(float64(i) / 10)
	}
	return p, true
}

// onScale is a rating as it is kept, NaN where it is off the scale or says that an item was not rated.
func (p *Plain) onScale(v float64) float32 {
	if v < p.min || v > p.max || slices.Contains(p.unrated, v) {
		return float32(math.NaN())
	}
	return float32(v)
}

// Parse reads the lines of text[:end] up to the first that is not plain, and returns how many bytes they are. The last byte
// of text[:end] ends a line, and Slack bytes follow it. It is one loop, since a call costs as much as a field.
func (p *Plain) Parse(text []byte, end int, out *PlainRows) (at int) {
	out.reset(end/PlainShortest + 1)
	user := out.User
	item, value := out.Item[:len(user)], out.Value[:len(user)]
	sep, width := p.sep, p.width
	var last, lastMask uint64 // the user's field of the line before with the byte behind it, and where they are in a word
	var id int32              // of that user
	var idLen int
	k := 0
	for ; at < end && k < len(user); k++ {
		line := (*[Slack]byte)(text[at:])
		w := word(line[:])
		if w&lastMask != last || lastMask == 0 {
			idLen = digits(w)
			v := leading(w, idLen)
			if idLen == 0 || idLen > maxPlainID || v >= idtable.MaxSmall || byte(w) == '0' && idLen > 1 {
				break
			}
			id, lastMask = int32(v), math.MaxUint64>>(56-8*uint(idLen)&63)
			last = w & lastMask
		}
		q := idLen
		if line[q] != sep || line[q+width-1] != sep {
			break
		}
		q += width

		w = word(line[q:])
		n := digits(w)
		itemID := leading(w, n)
		if n == 0 || n > maxPlainID || itemID >= idtable.MaxSmall || byte(w) == '0' && n > 1 {
			break
		}
		q += n

		v, when := p.click, 0.
		if p.rated {
			if line[q] != sep || line[q+width-1] != sep {
				break
			}
			q += width
			w = word(line[q:])
			units, tenth := byte(w)-'0', byte(w>>16)-'0'
			switch {
			case units < 10 && byte(w>>8) == '.' && tenth < 10 && byte(w>>24)-'0' >= 10:
				v, n = p.tenths[10*units+tenth], 3
			case units < 10 && byte(w>>8) != '.' && byte(w>>8)-'0' >= 10:
				v, n = p.tenths[10*units], 1
			default:
				v, n = p.decimal(line[q:])
			}
			if v != v { //nolint:gocritic // NaN: off the scale, or no number
				break
			}
			q += n
		}
		if p.more {
			if line[q] != sep || line[q+width-1] != sep {
				break
			}
			q += width
			n = digits(word(line[q:]))
			if n == 8 {
				n += digits(word(line[q+8:]))
			}
			if n == 0 || n > maxPlainField {
				break
			}
			if p.timed {
				var short bool
				if when, short = parseShortDecimal(line[q : q+n]); !short {
					break
				}
			}
			q += n
		}
		if line[q] == '\r' {
			q++
		}
		if line[q] != '\n' {
			break
		}
		at += q + 1
		user[k], item[k], value[k] = id, int32(itemID), v
		if p.timed {
			out.Time = append(out.Time, when)
		}
		if !out.Users.Has(id) {
			out.Users.Add(id)
			out.newUsers = append(out.newUsers, id)
		}
		if !out.Items.Has(int32(itemID)) {
			out.Items.Add(int32(itemID))
			out.newItems = append(out.newItems, int32(itemID))
		}
	}
	out.N = k
	return at
}

// reset makes room for n ratings.
func (r *PlainRows) reset(n int) {
	if len(r.User) < n {
		r.User, r.Item, r.Value = make([]int32, n), make([]int32, n), make([]float32, n)
	}
	r.Time, r.newUsers, r.newItems, r.N = r.Time[:0], r.newUsers[:0], r.newItems[:0], 0
}

// Discard forgets what was read last.
func (r *PlainRows) Discard() {
	for _, id := range r.newUsers {
		r.Users.Remove(id)
	}
	for _, id := range r.newItems {
		r.Items.Remove(id)
	}
}

// word is eight bytes of text, the first of them in its lowest byte.
func word(text []byte) uint64 { return binary.LittleEndian.Uint64(text) }

// zeros is the digit zero in every byte.
const zeros = 0x3030303030303030

// digits counts the digits at the beginning of a word.
func digits(w uint64) int {
	t := w ^ zeros // below 10 in the place of a digit
	// The first byte that is no digit is told right: only such a one could carry into the next.
	return bits.TrailingZeros64((t+0x7676767676767676|t)&0x8080808080808080) / 8
}

// leading is the value of the first n digits of a word, n of 1 to 8; of none, anything.
func leading(w uint64, n int) uint64 {
	v := (w ^ zeros) << (64 - 8*uint(n)&63) // zeros lead
	v = v*10 + v>>8                         // of two digits, in every second byte
	return ((v&0x000000ff000000ff)*(100+1_000_000<<32) + (v>>16&0x000000ff000000ff)*(1+10_000<<32)) >> 32
}

// decimal is the rating at the beginning of a text and how many bytes it has; NaN where it is off the scale, or longer than
// ratings are.
func (p *Plain) decimal(text []byte) (float32, int) {
	n := 0
	for n <= maxPlainField && (text[n] == '.' || text[n]-'0' < 10) {
		n++
	}
	v, ok := parseShortDecimal(text[:n])
	if !ok {
		return float32(math.NaN()), 0
	}
	return p.onScale(v), n
}

// ParseRating parses a finite decimal number.
func ParseRating(b []byte) (float64, error) {
	if v, ok := parseShortDecimal(b); ok {
		return v, nil
	}
	if len(b) == 0 {
		return 0, errors.New("rating is empty")
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case idtext.IsMissing(b):
		return 0, fmt.Errorf("rating is missing: %s stands for no value", idtext.Quote(b))
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("rating %s is not finite", idtext.Quote(b))
	case err != nil:
		return 0, fmt.Errorf("rating %s is not a number", idtext.Quote(b))
	}
	if v == 0 {
		return 0, nil // -0 too, so that equal ratings have equal digests
	}
	return v, nil
}

// truths lists the words for 1 and for 0 of programs and databases, in lower case.
var truths = map[string]float64{"true": 1, "false": 0, "t": 1, "f": 0, "yes": 1, "no": 0, "y": 1, "n": 0}

// ParseTruth returns 1 for a word such as true, and 0 for one such as false.
func ParseTruth(b []byte) (v float64, is bool) {
	if len(b) > len("false") {
		return 0, false
	}
	v, is = truths[strings.ToLower(string(b))]
	return v, is
}

// parseShortDecimal parses digits with at most one point among or after them, 16 bytes at most, the
// form of nearly every rating. The quotient of two integers below 2^53 is rounded once, so the result
// equals strconv.ParseFloat's.
func parseShortDecimal(b []byte) (v float64, ok bool) {
	if len(b) == 0 || len(b) > 16 || b[0] == '.' {
		return 0, false
	}
	digits, scale, point := uint64(0), uint64(1), false
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			digits = digits*10 + uint64(c-'0')
			if point {
				scale *= 10
			}
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	if digits >= 1<<53 {
		return 0, false
	}
	return float64(digits) / float64(scale), true
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

// ParseTime returns a time, and the time that it is with the day before the month; these differ where a date with slashes may
// be read in both ways.
func ParseTime(b []byte) (at, dayFirst float64, err error) {
	if v, ok := parseShortDecimal(b); ok {
		return v, v, nil
	}
	switch {
	case len(b) == 0:
		return 0, 0, errors.New("timestamp is empty")
	case idtext.IsMissing(b):
		return 0, 0, fmt.Errorf("timestamp is missing: %s stands for no value", idtext.Quote(b))
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

// ReadsAs reports in which ways a date with slashes can be read: with the month first, with the day first.
func ReadsAs(b []byte) (monthFirst, dayFirst bool) {
	_, monthFirst = parseDate(b, slashed[0])
	_, dayFirst = parseDate(b, slashed[1])
	return monthFirst, dayFirst
}
