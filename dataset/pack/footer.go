package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

type footer struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"` // of the set, as it would be from any source
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Clicks  bool      `json:"clicks,omitempty"`
	Users   int       `json:"users"`
	Items   int       `json:"items"`
	Ratings int       `json:"ratings"`
	Levels  []float32 `json:"levels,omitempty"` // ascending
	Raw     bool      `json:"raw,omitempty"`    // there are no levels, but floats

	// Sections are the bytes of records, user ids, item ids and features.
	Records  int `json:"records_bytes"`
	UserIDs  int `json:"user_ids_bytes"`
	ItemIDs  int `json:"item_ids_bytes"`
	Features int `json:"features_bytes"`

	digits      uint    // low bits of a number that are the step of the scale; the high ones are the items left out before it
	least, most float64 // the scale, in float32 as ratings are
}

// readFooter reads what a packed file says of itself, and returns the sections that it has.
func readFooter(data []byte) (f footer, sections []byte, err error) {
	switch {
	case len(data) < len(packOne) || string(data[:len(Magic)]) != Magic:
		return f, nil, fmt.Errorf("it does not begin with %q", packOne)
	case string(data[:len(packOne)]) != packOne:
		return f, nil, fmt.Errorf("it is of version %q of the packed form, and this fedsim reads version 1", string(data[len(Magic)]))
	case len(data) < len(packOne)+packTail || !bytes.HasSuffix(data, []byte(packOne)):
		return f, nil, fmt.Errorf("its last %d bytes are missing: it was cut off", len(packOne))
	}
	body := data[len(packOne) : len(data)-packTail]
	n := binary.LittleEndian.Uint64(data[len(data)-packTail:])
	if n > uint64(min(len(body), mostFooter)) {
		return f, nil, fmt.Errorf("a footer of %d bytes; at most %d are allowed", n, min(len(body), mostFooter))
	}
	if err = json.Unmarshal(body[len(body)-int(n):], &f); err != nil {
		return f, nil, fmt.Errorf("its footer is no JSON of its kind: %w", err)
	}
	sections = body[:len(body)-int(n)]
	err = f.validate(len(sections))
	return f, sections, err
}

// validate refuses a footer that contradicts itself or the bytes there are.
func (f *footer) validate(sections int) error {
	sizes := []int{f.Records, f.UserIDs, f.ItemIDs, f.Features, f.Users, f.Items, f.Ratings}
	if slices.Min(sizes) < 0 || slices.Max(sizes[:4]) > sections || f.Users > min(sections/8, math.MaxInt32) || f.Items > math.MaxInt32 || f.Ratings > f.Records {
		return errors.New("its footer states counts or sizes that cannot be")
	}
	if all := f.Records + 8*(f.Users+1) + f.UserIDs + f.ItemIDs + f.Features; all != sections {
		return fmt.Errorf("its sections are %d bytes by the footer, and there are %d", all, sections)
	}
	if !(f.Min < f.Max) || math.IsInf(f.Min, 0) || math.IsInf(f.Max, 0) {
		return fmt.Errorf("a scale from %v to %v", f.Min, f.Max)
	}
	f.least, f.most = min(f.Min, float64(float32(f.Min))), max(f.Max, float64(float32(f.Max))) // ratings are rounded so
	if len(f.Levels) > mostLevels || f.Raw != (f.Levels == nil) {
		return fmt.Errorf("%d steps of the scale; there may be %d, or none and raw ratings", len(f.Levels), mostLevels)
	}
	for i, v := range f.Levels {
		if i > 0 && v <= f.Levels[i-1] || !(float64(v) >= f.least && float64(v) <= f.most) {
			return fmt.Errorf("step %v of the scale is not above the previous step, or off %v to %v", v, f.Min, f.Max)
		}
	}
	f.digits = digitsOf(len(f.Levels))
	if _, err := parseDigest(f.Digest); err != nil {
		return err
	}
	return nil
}

// parseDigest refuses what is no SHA-256 in hex.
func parseDigest(text string) (string, error) {
	if len(text) != 2*sha256.Size || strings.Trim(text, "0123456789abcdef") != "" {
		return "", fmt.Errorf("its digest %s is no SHA-256 in hex", idtext.Quote([]byte(text)))
	}
	return text, nil
}

// digitsOf returns the number of bits of a step of a scale.
func digitsOf(levels int) uint { return uint(bits.Len(uint(max(levels-1, 0)))) }
