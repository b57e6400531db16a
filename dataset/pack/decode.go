package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// view is ratings of a packed file.
type view struct {
	file  *packFile
	keep  func(user int, item int32) bool // which ratings of the file belong to these; nil: all
	count int
}

func (v *view) Len() int { return v.count }

func (v *view) Size() int { return len(v.file.records) + len(v.file.offsets) }

// packFile is a file in the packed form that was checked, and must not change from then on.
type packFile struct {
	footer
	records []byte
	offsets []byte // 8 bytes for each user and one more: record u is records[offset(u):offset(u+1)]
}

// record returns the bytes of a user's ratings.
func (f *packFile) record(user int) []byte { return f.records[f.offset(user):f.offset(user+1)] }

func (f *packFile) offset(user int) uint64 { return binary.LittleEndian.Uint64(f.offsets[8*user:]) }

// decode returns the ratings of a user, by item. It uses the memory of items and values as far as they
// reach. With keep, it returns only the ratings that keep accepts. Its error names the fault of the
// record.
func (f *packFile) decode(user int, keep func(user int, item int32) bool, items []int32, values []float32) ([]int32, []float32, error) {
	b := f.record(user)
	n, b, err := uvarint(b)
	if err != nil {
		return nil, nil, err
	}
	if n > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%d ratings in %d bytes", n, len(b))
	}
	items, values = slices.Grow(items[:0], int(n))[:n], slices.Grow(values[:0], int(n))[:n]
	next, count := uint64(0), uint64(f.Items)
	levels, digits := f.Levels, f.digits
	kept := 0
	for range n {
		var x uint64
		if len(b) > 1 && b[0] >= 0x80 && b[1] < 0x80 { // most are of two bytes
			x, b = uint64(b[0]&0x7f)|uint64(b[1])<<7, b[2:]
		} else if x, b, err = uvarint(b); err != nil {
			return nil, nil, err
		}
		if next += x >> digits; next >= count { // never more than 64 bits: both are below 2^63
			return nil, nil, fmt.Errorf("an item beyond the %d there are", count)
		}
		item := int32(next)
		next++
		var value float32
		if f.Raw {
			if value, b, err = f.raw(b); err != nil {
				return nil, nil, err
			}
		} else {
			step := x & (1<<digits - 1)
			if step >= uint64(len(levels)) {
				return nil, nil, fmt.Errorf("step %d of a scale of %d", step, len(levels))
			}
			value = levels[step]
		}
		if keep == nil || keep(user, item) {
			items[kept], values[kept] = item, value
			kept++
		}
	}
	if len(b) > 0 {
		return nil, nil, fmt.Errorf("%d bytes behind its ratings", len(b))
	}
	return items[:kept], values[:kept], nil
}

// raw reads a rating that is a float.
func (f *packFile) raw(b []byte) (float32, []byte, error) {
	if len(b) < 4 {
		return 0, nil, errCut
	}
	v := math.Float32frombits(binary.LittleEndian.Uint32(b))
	if !(float64(v) >= f.least && float64(v) <= f.most) {
		return 0, nil, fmt.Errorf("a rating of %v, off the scale from %v to %v", v, f.Min, f.Max)
	}
	return v, b[4:], nil
}

var errCut = errors.New("its last number is cut off")

// uvarint reads a number of 63 bits at most, in base 128 with the low digits first.
func uvarint(b []byte) (uint64, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], nil
	}
	x, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, errCut
	case n < 0 || x > math.MaxInt64:
		return 0, nil, errors.New("a number of more than 63 bits")
	}
	return x, b[n:], nil
}

func (v *view) Part(keep func(user int, item int32) bool, count int) dataset.Packed {
	return &view{file: v.file, keep: keep, count: count}
}

func (v *view) Row(user int, items []int32, values []float32) ([]int32, []float32) {
	items, values, err := v.file.decode(user, v.keep, items, values)
	if err != nil { // it was whole when it was opened
		panic(fmt.Sprintf("dataset: the packed file has changed since it was opened: the record of user %d: %v", user, err))
	}
	return items, values
}

// readIDs reads ids. Without a byte they are 1, 2, ..., at most so many.
func readIDs(b []byte, n, most int) ([]string, error) {
	switch {
	case len(b) == 0 && n > most:
		return nil, fmt.Errorf("ids: none of %d is there", n)
	case len(b) == 0:
		return idtext.Numbered(n), nil
	case n > len(b):
		return nil, fmt.Errorf("ids: %d in %d bytes", n, len(b))
	}
	ids := make([]string, n)
	text := string(b) // all ids share it
	for i := range ids {
		size, rest, err := uvarint(b)
		if err != nil || size > uint64(len(rest)) {
			return nil, fmt.Errorf("ids: id %d of %d is cut off", i+1, n)
		}
		at := len(text) - len(rest)
		ids[i], b = text[at:at+int(size)], rest[size:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("ids: %d bytes behind the last of %d", len(b), n)
	}
	return ids, idtext.CheckOrder(ids)
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
			return fmt.Errorf("offset %d of %d is %d, below the previous offset or beyond the records", u, f.Users, f.offset(u))
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
