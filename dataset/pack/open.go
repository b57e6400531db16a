package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// ErrNotPacked is wrapped by the error of a file that begins as a packed one and is none, or no longer.
var ErrNotPacked = errors.New("no whole packed file")

// isPacked reports whether a regular file begins as a packed one of any version.
func Is(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false // whoever reads it says why
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	var magic [len(Magic)]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == Magic
}

// openPacked opens a packed file, of which every byte is checked: its digest, and every record.
func Open(ctx context.Context, name string, o Options) (*dataset.Set, error) {
	data, err := mapFile(name)
	if err != nil {
		return nil, fmt.Errorf("data %q: %w", name, err)
	}
	set, err := FromBytes(ctx, data, o)
	if err == nil && !o.Packed {
		if set = set.Unpacked(); set.Digest != set.ComputeDigest() {
			err = errors.New("its content is not that of the digest that it states")
		}
	}
	switch {
	case errors.Is(err, dataset.ErrScale) || ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w; pack the data again (fedsim data pack)", name, ErrNotPacked, err)
	}
	return set, nil
}

// readPacked makes a set of the bytes of a packed file, which it keeps.
func FromBytes(ctx context.Context, data []byte, o Options) (*dataset.Set, error) {
	f, rest, err := readFooter(data)
	if err != nil {
		return nil, err
	}
	set := &dataset.Set{Name: f.Name, Clicks: f.Clicks, Digest: f.Digest}
	if set.Min, set.Max, err = dataset.ScaleOr(o.Min, o.Max, f.Min, f.Max); err != nil {
		return nil, err
	}
	if set.Min > f.Min || set.Max < f.Max {
		return nil, fmt.Errorf("%w: %v to %v does not hold that of the file, %v to %v", dataset.ErrScale, set.Min, set.Max, f.Min, f.Max)
	}
	file := &packFile{footer: f, digits: digitsOf(len(f.Levels))}
	file.records, rest = rest[:f.Records:f.Records], rest[f.Records:]
	file.offsets, rest = rest[:8*(f.Users+1)], rest[8*(f.Users+1):]
	if set.UserIDs, err = readIDs(rest[:f.UserIDs], f.Users, f.Users); err != nil {
		return nil, fmt.Errorf("user %w", err)
	}
	rest = rest[f.UserIDs:]
	if set.ItemIDs, err = readIDs(rest[:f.ItemIDs], f.Items, f.Ratings); err != nil {
		return nil, fmt.Errorf("item %w", err)
	}
	if err = readFeatures(rest[f.ItemIDs:][:f.Features], set, f.Items); err != nil {
		return nil, err
	}
	if err = errors.Join(checkSum(data), file.check(ctx, o.Progress)); err != nil {
		return nil, err
	}
	set.Ratings = dataset.Ratings{Users: f.Users, Items: f.Items, Packed: &view{file: file, count: f.Ratings}}
	return set, nil
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
		return f, nil, fmt.Errorf("a footer of %d bytes, of which there may be %d", n, min(len(body), mostFooter))
	}
	if err = json.Unmarshal(body[len(body)-int(n):], &f); err != nil {
		return f, nil, fmt.Errorf("its footer is no JSON of its kind: %w", err)
	}
	sections = body[:len(body)-int(n)]
	return f, sections, f.validate(len(sections))
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
			return fmt.Errorf("step %v of the scale is not above the one before, or off %v to %v", v, f.Min, f.Max)
		}
	}
	if _, err := parseDigest(f.Digest); err != nil {
		return err
	}
	return nil
}

// readIDs reads ids. Without a byte they are 1, 2, ..., at most so many.
func readIDs(b []byte, n, most int) ([]string, error) {
	if len(b) == 0 {
		if n > most {
			return nil, fmt.Errorf("ids: none of %d is there", n)
		}
		return idtext.Numbered(n), nil
	}
	if n > len(b) {
		return nil, fmt.Errorf("ids: %d in %d bytes", n, len(b))
	}
	ids, integers := make([]string, n), true
	text := string(b) // all ids share it
	for i := range ids {
		size, rest, err := uvarint(b)
		if err != nil || size > uint64(len(rest)) {
			return nil, fmt.Errorf("ids: id %d of %d is cut off", i+1, n)
		}
		at := len(text) - len(rest)
		ids[i], b = text[at:at+int(size)], rest[size:]
		if err = idtext.Check(rest[:size]); err != nil {
			return nil, fmt.Errorf("id %d %w", i+1, err)
		}
		if integers {
			_, err = strconv.ParseInt(ids[i], 10, 64)
			integers = err == nil
		}
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("ids: %d bytes behind the last of %d", len(b), n)
	}
	for i := 1; i < n; i++ {
		if idtext.Compare(ids[i-1], ids[i], integers) >= 0 {
			return nil, fmt.Errorf("ids: %s stands behind %s, out of order", idtext.Quote([]byte(ids[i])), idtext.Quote([]byte(ids[i-1])))
		}
	}
	return ids, nil
}

// readFeatures reads the features of the items into the set.
func readFeatures(b []byte, set *dataset.Set, items int) error {
	var f features
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("its features are no JSON of their kind: %w", err)
	}
	bad := func(n int) bool { return n > 0 && n != items }
	if bad(len(f.Titles)) || bad(len(f.Genres)) || bad(len(f.Years)) || slices.ContainsFunc(f.Columns, func(c dataset.ItemColumn) bool { return len(c.Values) != items }) {
		return fmt.Errorf("its features are not of as many items as there are, %d", items)
	}
	set.Titles, set.Genres, set.Years, set.Columns = f.Titles, f.Genres, f.Years, f.Columns
	return nil
}

// checkSum compares the file with its digest.
func checkSum(data []byte) error {
	at := len(data) - len(packOne) - sha256.Size
	if got := sha256.Sum256(data[:at]); !bytes.Equal(got[:], data[at:at+sha256.Size]) {
		return errors.New("its SHA-256 is another than it states: it was damaged, or changed")
	}
	return nil
}

// check reads every record.
func (f *packFile) check(ctx context.Context, progress func(done, total int64)) error {
	at := uint64(0)
	for u := range f.Users + 1 {
		if f.offset(u) < at || f.offset(u) > uint64(len(f.records)) {
			return fmt.Errorf("offset %d of %d is %d, below the one before or beyond the records", u, f.Users, f.offset(u))
		}
		at = f.offset(u)
	}
	if f.offset(0) != 0 || at != uint64(len(f.records)) {
		return errors.New("its records are longer than its offsets say")
	}
	const block = 4096 // users
	var mu sync.Mutex
	next, done := 0, 0
	var bad error
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				mu.Lock()
				from := next
				next += block
				stop := from >= f.Users || bad != nil || ctx.Err() != nil
				mu.Unlock()
				if stop {
					return
				}
				n, err := f.checkRecords(from, min(from+block, f.Users))
				mu.Lock()
				done += n
				bad = errors.Join(bad, err)
				if progress != nil {
					progress(int64(done), int64(f.Ratings))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := errors.Join(ctx.Err(), bad); err != nil {
		return err
	}
	if done != f.Ratings {
		return fmt.Errorf("%d ratings by the footer, and %d in its records", f.Ratings, done)
	}
	return nil
}

// checkRecords reads the records of some users, and counts their ratings.
func (f *packFile) checkRecords(from, to int) (ratings int, err error) {
	var items []int32
	var values []float32
	for u := from; u < to; u++ {
		if items, values, err = f.decode(u, nil, items, values); err != nil {
			return ratings, fmt.Errorf("the record of user %d of %d: %w", u+1, f.Users, err)
		}
		ratings += len(items)
	}
	return ratings, nil
}

// parseDigest refuses what is no SHA-256 in hex.
func parseDigest(text string) (string, error) {
	if len(text) != 2*sha256.Size || strings.Trim(text, "0123456789abcdef") != "" {
		return "", fmt.Errorf("its digest %s is no SHA-256 in hex", idtext.Quote([]byte(text)))
	}
	return text, nil
}
