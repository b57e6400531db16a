package dataset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// dates are the forms of a timestamp that is no number; without a zone they are in UTC.
var dates = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", time.DateOnly}

// ParseTime reads a timestamp: a number in any unit, or a date such as 2024-05-31,
// 2024-05-31 18:00:00 or 2024-05-31T18:00:00Z, which is the number of seconds since 1970, in UTC
// where it names no zone.
func ParseTime(text string) (float64, error) { return parseTime([]byte(text)) }

func parseTime(b []byte) (float64, error) {
	if v, ok := parseShortDecimal(b); ok {
		return v, nil
	}
	if len(b) == 0 {
		return 0, errors.New("timestamp is empty")
	}
	if v, err := strconv.ParseFloat(string(b), 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, nil
	}
	for _, form := range dates {
		if t, err := time.Parse(form, string(b)); err == nil {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, nil
		}
	}
	return 0, fmt.Errorf("timestamp %s is neither a finite number nor a date such as 2024-05-31 or 2024-05-31T18:00:00Z", quoteShort(b))
}
