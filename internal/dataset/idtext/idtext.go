// Package idtext checks, orders, quotes, numbers and hashes ids, and checks other short texts of files.
package idtext

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Quote quotes text of a file for an error message, at most 60 bytes of it.
func Quote(b []byte) string {
	if len(b) > 60 {
		return strconv.Quote(string(b[:60])) + "..."
	}
	return strconv.Quote(string(b))
}

// ErrNotUTF8 is the reason given for text in another encoding.
var ErrNotUTF8 = errors.New("is not UTF-8; convert the file")

// Check reports an id that cannot be used.
func Check(id []byte) error {
	if len(id) == 0 {
		return errors.New("is empty; every row needs one")
	}
	if bytes.IndexByte(id, 0) >= 0 {
		return fmt.Errorf("%s has a byte that is zero, which no text has; the file is damaged, or name its encoding with --encoding", Quote(id))
	}
	if !utf8.Valid(id) {
		return fmt.Errorf("%s %w", Quote(id), ErrNotUTF8)
	}
	return nil
}

// Numbered returns the ids "1" to n.
func Numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i + 1)
	}
	return ids
}

// AreNumbered reports whether ids are "1" to their count.
func AreNumbered(list []string) bool {
	for i, id := range list {
		if id != strconv.Itoa(i+1) {
			return false
		}
	}
	return true
}

// CheckOrder reports the first id that cannot be used, or that is out of the canonical order: numeric if all ids are integers, else
// lexicographic.
func CheckOrder(ids []string) error {
	integers, value := true, make([]int64, len(ids))
	for i, id := range ids {
		err := Check([]byte(id))
		if err != nil {
			return fmt.Errorf("id %d %w", i+1, err)
		}
		if integers {
			value[i], err = strconv.ParseInt(id, 10, 64)
			integers = err == nil
		}
	}
	for i := 1; i < len(ids); i++ {
		numeric := 0
		if integers {
			numeric = cmp.Compare(value[i-1], value[i])
		}
		if cmp.Or(numeric, cmp.Compare(ids[i-1], ids[i])) >= 0 {
			return fmt.Errorf("ids: %s stands behind %s, out of order", Quote([]byte(ids[i])), Quote([]byte(ids[i-1])))
		}
	}
	return nil
}

// missing lists the texts by which pandas, R, Python, databases and JSON write that a value is missing.
var missing = []string{
	"NA", "<NA>", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NaT", "None", "NULL", "null", `\N`,
}

// IsMissing reports whether a field has no value: it is empty, or one of the texts that stand for a missing value.
func IsMissing(field []byte) bool {
	const longest = 5
	return len(field) == 0 || len(field) <= longest && (field[0] < '0' || field[0] > '9') && slices.Contains(missing, string(field))
}

var byteOrderMark = []byte("\ufeff")

// mostExact bounds the whole numbers that a float of 64 bits tells apart.
const mostExact = 1 << 53

// Parse returns an id as it is compared with others: without spaces and byte order marks around it, and a whole number
// without a decimal part, so that 7.0 is 7. It may return a part of the text. An error says why a text is no id: it stands
// for a missing value, is a float that lost digits, or is no text.
func Parse(text []byte) ([]byte, error) {
	id := trim(text)
	if IsMissing(id) {
		return nil, missingError(id)
	}
	if whole, point, is := float(id); is {
		if v, err := strconv.ParseFloat(string(whole), 64); err != nil || !point || math.Abs(v) >= mostExact {
			return nil, inexact(id)
		}
		id = whole
	}
	return id, Check(id)
}

// trim drops spaces and byte order marks at both ends.
func trim(id []byte) []byte {
	for {
		n := len(id)
		if id = bytes.TrimPrefix(bytes.TrimSpace(id), byteOrderMark); len(id) == n {
			return id
		}
	}
}

// missingError is the error of an id without a value.
func missingError(id []byte) error {
	if len(id) == 0 {
		return errors.New("is empty; every row needs one")
	}
	return fmt.Errorf("is missing: %s stands for no value; every row needs one", Quote(id))
}

func inexact(id []byte) error {
	return fmt.Errorf("%s is a float that is no exact integer, and may stand for several ids; write ids as text or as integers", Quote(id))
}

// float cuts a number that a program wrote as a float: 7.0, or 1.8e+19 without a point in whole. Other texts, such as 7.5,
// 007.0 and 5e3, which may be names, are none.
func float(id []byte) (whole []byte, point, is bool) {
	digits := bytes.TrimPrefix(id, []byte("-"))
	if len(digits) < 3 || digits[0] < '0' || digits[0] > '9' || bytes.IndexByte(id, '.') < 0 && bytes.IndexByte(id, '+') < 0 {
		return nil, false, false
	}
	whole, part, point := bytes.Cut(id, []byte("."))
	unsigned := bytes.TrimPrefix(whole, []byte("-"))
	if point && onlyOf(part, "0") && onlyOf(unsigned, "0123456789") && (unsigned[0] != '0' || len(unsigned) == 1) {
		if unsigned[0] == '0' {
			whole = unsigned
		}
		return whole, true, true
	}
	mantissa, exponent, scientific := bytes.Cut(bytes.ToLower(id), []byte("e+"))
	whole, part, point = bytes.Cut(mantissa, []byte("."))
	unsigned = bytes.TrimPrefix(whole, []byte("-"))
	return id, false, scientific && len(unsigned) == 1 && onlyOf(unsigned, "0123456789") && onlyOf(exponent, "0123456789") && (!point || onlyOf(part, "0123456789"))
}

// onlyOf reports whether a text has only the given bytes, and one of them at least.
func onlyOf(text []byte, bytesOf string) bool {
	return len(text) > 0 && len(bytes.Trim(text, bytesOf)) == 0
}

// ParseNumber returns the id that a number of JSON stands for. A number with a decimal point or an exponent is a float.
func ParseNumber(number string) (string, error) {
	if !strings.ContainsAny(number, ".eE") {
		return number, nil
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return "", inexact([]byte(number))
	}
	return OfFloat(v, mostExact)
}

// OfFloat returns the id that a float stands for, of a type whose whole numbers are exact below a limit.
func OfFloat(v, limit float64) (string, error) {
	switch {
	case math.IsNaN(v):
		return "", missingError([]byte("NaN"))
	case v != math.Trunc(v) || math.Abs(v) >= limit:
		return "", inexact([]byte(strconv.FormatFloat(v, 'g', -1, 64)))
	}
	return strconv.FormatInt(int64(v), 10), nil
}
