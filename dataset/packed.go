package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Packed holds ratings in the packed form (docs/packed.md): two to three bytes a rating, by user, in memory or
// mapped from a file of which the system reads what is used. It is read-only and safe for concurrent use.
type Packed struct {
	file  *packFile
	cut   *cut // nil: all ratings of the file
	part  byte // of the cut
	count int
}

// packFile is a file in the packed form that was checked, and must not change from then on.
type packFile struct {
	packFooter
	records []byte
	offsets []byte // 8 bytes for each user and one more: record u is records[offset(u):offset(u+1)]
	digits  uint   // low bits of a number that are the step of the scale; the high ones are the items left out before it
}

// cut says which part of a split a rating belongs to.
type cut struct {
	SplitParams
	users, items []uint64 // what is hashed of each
}

// of returns the part of a rating.
func (c *cut) of(user int, item int32) byte { return c.part(mix(c.users[user] ^ c.items[item])) }

// record returns the bytes of a user's ratings.
func (f *packFile) record(user int) []byte { return f.records[f.offset(user):f.offset(user+1)] }

func (f *packFile) offset(user int) uint64 { return binary.LittleEndian.Uint64(f.offsets[8*user:]) }

// each calls hear with the ratings of a user, by item. An error says what is wrong with the record.
func (f *packFile) each(user int, hear func(item int32, value float32)) error {
	b := f.record(user)
	n, b, err := uvarint(b)
	if err != nil {
		return err
	}
	if n > uint64(len(b)) {
		return fmt.Errorf("%d ratings in %d bytes", n, len(b))
	}
	next, items := uint64(0), uint64(f.Items)
	for range n {
		var x uint64
		if x, b, err = uvarint(b); err != nil {
			return err
		}
		// Neither sum overflows: both are below 2^63, or refused.
		if next += x >> f.digits; next >= items {
			return fmt.Errorf("an item beyond the %d there are", items)
		}
		var value float32
		switch step := x & (1<<f.digits - 1); {
		case f.Raw && len(b) < 4:
			return errCut
		case f.Raw:
			value, b = math.Float32frombits(binary.LittleEndian.Uint32(b)), b[4:]
			if !(float64(value) >= f.least && float64(value) <= f.most) {
				return fmt.Errorf("a rating of %v, off the scale from %v to %v", value, f.Min, f.Max)
			}
		case step >= uint64(len(f.Levels)):
			return fmt.Errorf("step %d of a scale of %d", step, len(f.Levels))
		default:
			value = f.Levels[step]
		}
		hear(int32(next), value)
		next++
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes behind its ratings", len(b))
	}
	return nil
}

var errCut = errors.New("its last number is cut off")

// uvarint reads a number of 63 bits at most, in base 128 with the low digits first.
func uvarint(b []byte) (uint64, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], nil
	}
	if len(b) > 1 && b[1] < 0x80 {
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, b[2:], nil
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

// each calls hear with the ratings of a user in this part.
func (p *Packed) each(user int, hear func(item int32, value float32)) {
	part := hear
	if p.cut != nil {
		part = func(item int32, value float32) {
			if p.cut.of(user, item) == p.part {
				hear(item, value)
			}
		}
	}
	if err := p.file.each(user, part); err != nil { // it was whole when it was opened
		panic(fmt.Sprintf("dataset: the packed file has changed since it was opened: record of user %d: %v", user, err))
	}
}

// row returns the ratings of a user in this part.
func (p *Packed) row(user int) (items []int32, values []float32) {
	n, _, _ := uvarint(p.file.record(user)) // was checked
	items, values = make([]int32, 0, n), make([]float32, 0, n)
	p.each(user, func(item int32, value float32) {
		items, values = append(items, item), append(values, value)
	})
	return items, values
}

// Unpack returns the ratings in columns: themselves, where they are not packed.
func (r Ratings) Unpack() Ratings {
	if r.Packed == nil {
		return r
	}
	out := newRatings(r.Users, r.Items, r.Len())
	k := 0
	r.Each(func(user, item int32, value float32) {
		out.User[k], out.Item[k], out.Value[k] = user, item, value
		k++
	})
	return out
}

// Each calls hear with every rating, in the order of the columns; of packed ones by user, then item.
func (r Ratings) Each(hear func(user, item int32, value float32)) {
	if r.Packed == nil {
		for k, v := range r.Value {
			hear(r.User[k], r.Item[k], v)
		}
		return
	}
	for u := range r.Users {
		r.Packed.each(u, func(item int32, value float32) { hear(int32(u), item, value) })
	}
}

// unpacked is the set with its ratings in columns.
func (s *Set) unpacked() *Set {
	if s.Packed == nil {
		return s
	}
	out := *s
	out.Ratings = s.Unpack()
	return &out
}

// splitPacked is Split of packed ratings by chance: parts are views of the same file, which draw anew who
// belongs to them whenever they are read. It reads every rating once, to count them.
func (s *Set) splitPacked(p SplitParams) (*Split, error) {
	c := &cut{SplitParams: p, users: s.userDraws(p.Seed), items: hashIDs(itemDraw, s.ItemIDs)}
	var counts [3]int
	d := splitDigester(s.Digest, s.Len())
	s.Each(func(user, item int32, _ float32) {
		part := c.of(int(user), item)
		counts[part]++
		d.buf = append(d.buf, part)
		d.flush(4 << 10)
	})
	if err := p.checkParts(counts); err != nil {
		return nil, err
	}
	view := func(part byte) Ratings {
		return Ratings{Users: s.Users, Items: s.Items, Packed: &Packed{file: s.Packed.file, cut: c, part: part, count: counts[part]}}
	}
	return &Split{Train: view(partTrain), Validation: view(partValidation), Test: view(partTest), Digest: d.sum()}, nil
}

// digitsOf is how many bits the steps of a scale take.
func digitsOf(levels int) uint { return uint(bits.Len(uint(max(levels-1, 0)))) }
