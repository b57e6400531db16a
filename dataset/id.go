package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// ID is the id of a user or an item, in the only form that sets hold. It reads itself from a flag, and from a text or a
// number of JSON, by the rule of [ParseID].
type ID string

// ParseID returns an id as files of ratings are read. Spaces and byte order marks around it do not belong to it, and a
// whole number has no decimal part: 7.0 is 7. It is an error if the text is empty, not UTF-8, stands for a missing value
// (NA, NaN, None, null, \N, NaT), or is a float that is no exact integer (1.8e+19).
func ParseID(text string) (string, error) {
	id, err := idtext.Parse([]byte(text))
	if err != nil {
		return "", fmt.Errorf("an id %w", err)
	}
	return string(id), nil
}

// UnmarshalText reads an id by the rule of [ParseID].
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	*id = ID(parsed)
	return err
}

// UnmarshalJSON reads an id of a text or a number. A number must be an exact integer, and null is an error.
func (id *ID) UnmarshalJSON(b []byte) error {
	var text string
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		return id.UnmarshalText([]byte(text))
	}
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		return fmt.Errorf("an id is %s; want a text or a number", idtext.Quote(b))
	}
	number, err := idtext.ParseNumber(string(b))
	if err != nil {
		return fmt.Errorf("an id %w", err)
	}
	*id = ID(number)
	return nil
}
