package read

import (
	"math"
	"strconv"
	"time"

	"github.com/fedsim/fedsim/dataset"
)

// digitForms lists the forms of dates that are written as one number, such as 20240531. As seconds or milliseconds since 1970 such
// numbers would be times of 1970, of 1976 or after the year 2600.
var digitForms = []struct{ form, example string }{
	{"20060102", "20240531"}, {"200601021504", "202405311800"}, {"20060102150405", "20240531180000"},
}

// digitDate returns the seconds since 1970 of a date that is written as a number in a form, if it is a date from 1970 to 2099.
func digitDate(at float64, form string) (seconds float64, ok bool) {
	if !(at >= 1970e4 && at < 1e14) || at != math.Trunc(at) {
		return 0, false
	}
	date, err := time.Parse(form, strconv.FormatInt(int64(at), 10))
	if err != nil || date.Year() < 1970 || date.Year() > 2099 {
		return 0, false
	}
	return float64(date.Unix()), true
}

// readDigits makes seconds of dates that are written as numbers, if all times of the table but 0 are such dates in one form. It
// reports whether they were.
func (t *table) readDigits() bool {
	for _, f := range digitForms {
		if dates, ok := inForm(t.times, f.form); ok {
			t.times = dates
			t.found = append(t.found, dataset.Finding{What: "form of times", Found: "dates such as " + f.example, Sure: dataset.Likely, Why: "all numbers are dates; they are read as seconds"})
			return true
		}
	}
	return false
}

// inForm returns the times as seconds if there are any and all of them have the form. A time of 0 or NaN stays.
func inForm(times []float64, form string) ([]float64, bool) {
	out, any := make([]float64, len(times)), false
	for k, at := range times {
		out[k] = at
		if at == 0 || math.IsNaN(at) {
			continue
		}
		seconds, ok := digitDate(at, form)
		if !ok {
			return nil, false
		}
		out[k], any = seconds, true
	}
	return out, any
}
