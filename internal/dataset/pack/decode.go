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
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
)

type view struct {
	file  *packFile
	in    *subset // nil: all ratings of the file
	count int
}

func (v *view) Len() int { return v.count }

func (v *view) Size() int { return len(v.file.records) + len(v.file.offsets) }

// subset says which ratings of a file belong to a view.
type subset struct {
	first []int    // the number of ratings before each user
	bits  []uint64 // a bit of each rating, and a word more
}

// from returns the bits of 64 ratings, the first one lowest.
func (s *subset) from(rating int) uint64 {
	at, by := rating>>6, uint(rating&63)
	return s.bits[at]>>by | s.bits[at+1]<<(64-by)
}

// packFile is a file in the packed form that was checked, and must not change from then on.
type packFile struct {
	footer
	records []byte
	offsets []byte // 8 bytes for each user and one more: record u is records[offset(u):offset(u+1)]
}

func (f *packFile) offset(user int) uint64 { return binary.LittleEndian.Uint64(f.offsets[8*user:]) }

// decode returns the ratings of a user that are in a subset (nil: all), by item. It uses the memory of items and values as far as
// they reach. Its error names the fault of the record.
func (f *packFile) decode(user int, in *subset, items []int32, values []float32) ([]int32, []float32, error) {
	b := f.records[f.offset(user):f.offset(user+1)]
	n, b, err := uvarint(b)
	if err != nil {
		return nil, nil, err
	}
	if n > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%d ratings in %d bytes", n, len(b))
	}
	items, values = slices.Grow(items[:0], int(n))[:n], slices.Grow(values[:0], int(n))[:n]
	var some [64]uint64
	size, value := len(some), f.value
	if f.Raw { // a float stands behind each number
		size, value = 1, make([]float32, 1)
	}
	kept, next, step := 0, uint64(0), uint64(0) // how many, the item behind the last one, and the largest step
	for from := 0; from < len(items); from += size {
		keep, block := ^uint64(0), some[:min(len(items)-from, size)]
		if in != nil {
			keep = in.from(in.first[user] + from)
		}
		if b, err = numbers(b, block); err != nil {
			return nil, nil, err
		}
		if f.Raw {
			if len(b) < 4 {
				return nil, nil, errCut
			}
			value[0], b = math.Float32frombits(binary.LittleEndian.Uint32(b)), b[4:]
			if v := float64(value[0]); !(v >= f.least && v <= f.most) {
				return nil, nil, fmt.Errorf("a rating of %v, off the scale from %v to %v", v, f.Min, f.Max)
			}
		}
		kept, next, step = steps(block, keep, f.digits, value, kept, next, step, items, values)
		if next > uint64(f.Items) {
			return nil, nil, fmt.Errorf("an item beyond the %d there are", f.Items)
		}
	}
	switch {
	case step >= uint64(len(f.Levels)) && n > 0 && !f.Raw:
		return nil, nil, fmt.Errorf("step %d of a scale of %d", step, len(f.Levels))
	case len(b) > 0:
		return nil, nil, fmt.Errorf("%d bytes behind its ratings", len(b))
	}
	return items[:kept], values[:kept], nil
}

// steps turns numbers into items and ratings, and adds those to keep. It returns how many there are now, the item behind the last one, and
// the largest step.
func steps(numbers []uint64, keep uint64, digits uint, value []float32, kept int, next, step uint64, items []int32, values []float32) (int, uint64, uint64) {
	at, low := 0, uint64(len(value)-1)
	items, values = items[kept:kept+len(numbers)], values[kept:kept+len(numbers)]
	for _, x := range numbers {
		next, step = next+x>>(digits&63), max(step, x&low)
		items[at], values[at] = int32(next), value[x&low]
		next, at, keep = next+1, at+int(keep&1), keep>>1
	}
	return kept + at, next, step
}

// numbers reads numbers, as many as out has room for, and returns the bytes behind them. Numbers above 2^48, which skip more items than
// there may be, become 2^48, so that a sum of 64 fits.
func numbers(b []byte, out []uint64) ([]byte, error) {
	at := 0
	for k := 0; k < len(out); {
		if at+8 <= len(b) && k+4 <= len(out) {
			w := binary.LittleEndian.Uint64(b[at : at+8])
			// A table in place of branches, since the length of a number is hard to foresee.
			if f := &fours[w&0x8080808080808080*0x2040810204081>>56]; f[0] > 0 {
				at += int(f[0])
				four := (*[4]uint64)(out[k : k+4])
				four[0], four[1] = short(w), short(w>>(f[1]&63))
				four[2], four[3] = short(w>>(f[2]&63)), short(w>>(f[3]&63))
				k += 4
				continue
			}
		}
		x, rest, err := uvarint(b[at:])
		if err != nil {
			return nil, err
		}
		out[k], at, k = min(x, 1<<48), len(b)-len(rest), k+1
	}
	return b[at:], nil
}

// short is the number of one or two bytes at the low end of a word.
func short(w uint64) uint64 { return w&0x7f | w>>1&(w&0x80*0x7f) }

// fours tells where four numbers of at most two bytes are in eight bytes, by the highest bits of these, the first byte's lowest. It has
// how many bytes they take, and the first bit of the second, third and fourth. It is zero where one of them is longer.
var fours = func() (table [256][4]uint8) {
next:
	for pattern := range table {
		var f [4]uint8
		for k := range 4 {
			f[k], f[0] = 8*f[0], f[0]+1+uint8(pattern>>f[0]&1)
			if pattern>>(f[0]-1)&1 > 0 {
				continue next
			}
		}
		table[pattern] = f
	}
	return table
}()

var errCut = errors.New("its last number is cut off")

// uvarint reads a number of 63 bits at most, in base 128 with the low digits first.
func uvarint(b []byte) (uint64, []byte, error) {
	x, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, errCut
	case n < 0 || x > math.MaxInt64:
		return 0, nil, errors.New("a number of more than 63 bits")
	}
	return x, b[n:], nil
}

func (v *view) Row(user int, items []int32, values []float32) ([]int32, []float32) {
	if v.count == 0 {
		return items[:0], values[:0]
	}
	items, values, err := v.file.decode(user, v.in, items, values)
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
	done := 0
	var bad error
	lists.Each(runtime.GOMAXPROCS(0), (f.Users+block-1)/block, func(i int) {
		mu.Lock()
		stop := bad != nil || ctx.Err() != nil
		mu.Unlock()
		if stop {
			return
		}
		n, err := f.checkRecords(i*block, min((i+1)*block, f.Users))
		mu.Lock()
		defer mu.Unlock()
		done += n
		bad = errors.Join(bad, err)
		if progress != nil {
			progress(int64(done), int64(f.Ratings))
		}
	})
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

// ErrNotPacked is wrapped by the error of a file that begins as a packed one and is none, or no longer.
var ErrNotPacked = errors.New("no whole packed file")

// Is reports whether a regular file begins as a packed one of any version.
func Is(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false // the reader of the file reports why
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	magic, err := io.ReadAll(io.LimitReader(f, int64(len(Magic))))
	return err == nil && string(magic) == Magic
}

// Open opens a packed file and checks every byte: its digest, and every record.
func Open(ctx context.Context, name string, o Options) (*dataset.Set, error) {
	data, err := mapFile(name)
	if err != nil {
		return nil, fmt.Errorf("data %q: %w", name, err)
	}
	set, err := FromBytes(ctx, data, o)
	if err == nil && !o.Packed {
		if set = set.Unpacked(); set.Digest != set.ComputeDigest() {
			err = errors.New("its content does not match the digest that it states")
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

// FromBytes makes a set of the bytes of a packed file, which it keeps.
func FromBytes(ctx context.Context, data []byte, o Options) (*dataset.Set, error) {
	f, rest, err := readFooter(data)
	if err != nil {
		return nil, err
	}
	set := &dataset.Set{Name: f.Name, Clicks: f.Clicks, Digest: f.Digest}
	if set.Min, set.Max, err = dataset.WiderScale(o.Min, o.Max, f.Min, f.Max, "scale of the file,"); err != nil {
		return nil, err
	}
	take := func(n int) (section []byte) {
		section, rest = rest[:n:n], rest[n:]
		return section
	}
	file := &packFile{footer: f, records: take(f.Records), offsets: take(8 * (f.Users + 1))}
	if set.UserIDs, err = readIDs(take(f.UserIDs), f.Users, f.Users); err != nil {
		return nil, fmt.Errorf("user %w", err)
	}
	if set.ItemIDs, err = readIDs(take(f.ItemIDs), f.Items, f.Ratings); err != nil {
		return nil, fmt.Errorf("item %w", err)
	}
	if err = readFeatures(take(f.Features), set, f.Items); err != nil {
		return nil, err
	}
	if err = errors.Join(checkSum(data), file.check(ctx, o.Progress)); err != nil {
		return nil, err
	}
	set.Ratings = dataset.Ratings{Users: f.Users, Items: f.Items, Packed: &view{file: file, count: f.Ratings}}
	return set, nil
}

// Divide packs the ratings of parts 1 and 2 anew: who reads these few does not read past all others.
func (v *view) Divide(choose func(user int, items []int32, parts []byte)) [3]dataset.Packed {
	f, w := v.file, NewWriter(io.Discard, v.file.Levels)
	in := &subset{make([]int, f.Users), make([]uint64, v.count/64+2)}
	parts := [3]*view{{file: f, in: in}}
	for p := 1; p < len(parts); p++ {
		parts[p] = &view{file: &packFile{footer: f.footer, offsets: make([]byte, 8)}}
	}
	var items [3][]int32 // of a user: of all parts, of part 1 and of part 2
	var values [3][]float32
	some, rating := make([]byte, f.Items), 0
	for u := range f.Users {
		items[0], values[0] = v.Row(u, items[0], values[0])
		chosen := some[:len(items[0])]
		choose(u, items[0], chosen)
		in.first[u] = rating
		for k, p := range chosen {
			if parts[p].count++; p == 0 {
				in.bits[rating>>6] |= 1 << (rating & 63)
			} else {
				items[p], values[p] = append(items[p], items[0][k]), append(values[p], values[0][k])
			}
			rating++
		}
		for p, x := range parts[1:] {
			x.file.records = w.record(x.file.records, items[p+1], values[p+1])
			x.file.offsets = binary.LittleEndian.AppendUint64(x.file.offsets, uint64(len(x.file.records)))
			items[p+1], values[p+1] = items[p+1][:0], values[p+1][:0]
		}
	}
	var views [3]dataset.Packed
	for p, x := range parts {
		if x.count == 0 {
			x.file = f // nothing is read of it
		} else if p > 0 {
			x.file.records, x.file.offsets = slices.Clone(x.file.records), slices.Clone(x.file.offsets) // without room to grow
		}
		views[p] = x
	}
	return views
}
