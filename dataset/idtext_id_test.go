package dataset_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// The rule of ids, by its statement: spaces and byte order marks around an id are no part of it, and 7.0 is 7. Words of pandas, R,
// Python, PostgreSQL and JSON for a missing value are no ids, and a float that lost digits is none either.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"7": "7", " 7 ": "7", "\u00a07\t": "7", "\ufeff7": "7", " \ufeff 7": "7", "7.0": "7", "7.00": "7", "-7.0": "-7", "0.0": "0", "-0.0": "0",
		"9007199254740991.0": "9007199254740991", "18446744073709551615": "18446744073709551615",
		"007": "007", "007.0": "007.0", "7.5": "7.5", "813.54": "813.54", "7.": "7.", ".0": ".0", "1.0.0": "1.0.0", "5e3": "5e3", "12e45678": "12e45678", "v7.0": "v7.0", "a+b": "a+b", "1e+x": "1e+x", "12e+3": "12e+3",
		"na": "na", "none": "none", "Null": "Null", "Nan": "Nan", "NAT": "NAT", "NaTasha": "NaTasha", "Antonia": "Antonia", "кот": "кот", "a b": "a b",
	} {
		if got, err := idtext.Parse([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is empty", " \t": "is empty", "\ufeff": "is empty", "NA": "is missing", " NA ": "is missing", "<NA>": "is missing", "N/A": "is missing", "#N/A": "is missing", "nan": "is missing", "NaN": "is missing",
		"NaT": "is missing", "None": "is missing", "null": "is missing", "NULL": "is missing", `\N`: "is missing",
		"1.8446744073709552e+19": "no exact integer", "1E+06": "no exact integer", "1.23457E+11": "no exact integer", "9007199254740992.0": "no exact integer", "-1e+20": "no exact integer",
		"a\x00b": "a byte that is zero", "caf\xe9": "is not UTF-8",
	} {
		if got, err := idtext.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", text, got, err, want)
		}
	}
}

// Numbers of JSON are ids where they are exact integers below 2^53, or written with digits alone.
func TestParseNumber(t *testing.T) {
	for text, want := range map[string]string{"7": "7", "7.0": "7", "-7": "-7", "1e3": "1000", "18446744073709551615": "18446744073709551615", "7.5": "", "1.8446744073709552e+19": "", "1e400": "", "9007199254740992.0": ""} {
		if got, err := idtext.ParseNumber(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}
