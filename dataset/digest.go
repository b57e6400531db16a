package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"
)

// digest hashes the canonical content of a set. Every text is preceded by its
// length and every list by its own, so that no two contents share their bytes.
func (s *Set) digest() string {
	d := newDigester()
	d.head(s, s.Len())
	d.columns(s.Ratings)
	d.tail(s)
	return d.sum()
}

func newDigester() *digester { return &digester{hash: sha256.New()} }

// head hashes what comes before the ratings, of which there are so many.
func (d *digester) head(s *Set, ratings int) {
	d.text("fedsim dataset v1")
	d.texts(s.UserIDs)
	d.texts(s.ItemIDs)
	d.number(uint64(ratings))
}

// tail hashes what comes behind them.
func (d *digester) tail(s *Set) {
	d.texts(s.Titles)
	d.number(uint64(len(s.Genres)))
	for _, genres := range s.Genres {
		d.texts(genres)
	}
	d.number(uint64(len(s.Years)))
	for _, year := range s.Years {
		d.number(uint64(year))
	}
	if s.Times != nil && !s.MaybeTimes {
		d.text("times")
		for _, at := range s.Times {
			d.number(math.Float64bits(at))
		}
	}
	if s.Tested != nil {
		d.text("tested")
		for _, tested := range s.Tested {
			part := uint64(0)
			if tested {
				part = 2
			}
			d.number(part)
		}
	}
	for _, c := range s.Columns {
		d.text("column")
		d.text(c.Name)
		for _, values := range c.Values {
			d.texts(values)
		}
	}
	if s.Raters != nil {
		d.text("public users")
		d.texts(s.Raters.IDs)
		d.ratings(s.Raters.Ratings)
	}
	if s.Profile != nil {
		d.text("profile")
		if s.Profile.Source != "" {
			d.text(s.Profile.Source)
			return
		}
		d.texts(s.Profile.Columns)
		for _, v := range s.Profile.X {
			d.number(math.Float64bits(v))
		}
	}
}

// digester collects small writes before it hashes them.
type digester struct {
	hash hash.Hash
	buf  []byte
}

// bytes hashes some bytes without their length.
func (d *digester) bytes(b []byte) {
	d.buf = append(d.buf, b...)
	d.flush(4 << 10)
}

// flush hashes what was collected when it is at least atLeast bytes.
func (d *digester) flush(atLeast int) {
	if len(d.buf) >= atLeast {
		d.hash.Write(d.buf) // never fails, says hash.Hash
		d.buf = d.buf[:0]
	}
}

func (d *digester) number(v uint64) {
	d.buf = binary.LittleEndian.AppendUint64(d.buf, v)
	d.flush(4 << 10)
}

func (d *digester) text(s string) {
	d.number(uint64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digester) texts(list []string) {
	d.number(uint64(len(list)))
	for _, s := range list {
		d.text(s)
	}
}

func (d *digester) ratings(r Ratings) {
	d.number(uint64(r.Len()))
	d.columns(r)
}

func (d *digester) columns(r Ratings) {
	const at, width = 512, 12 // ratings at a time, and bytes of one
	for from := 0; from < len(r.Value); from += at {
		to := min(from+at, len(r.Value))
		users, items, values := r.User[from:to], r.Item[from:to], r.Value[from:to]
		bytes := slices.Grow(d.buf, width*len(users))[:len(d.buf)+width*len(users)]
		rest := bytes[len(d.buf):]
		for k, u := range users {
			one := rest[width*k : width*k+width]
			binary.LittleEndian.PutUint32(one, uint32(u))
			binary.LittleEndian.PutUint32(one[4:], uint32(items[k]))
			binary.LittleEndian.PutUint32(one[8:], math.Float32bits(values[k]))
		}
		d.buf = bytes
		d.flush(4 << 10)
	}
}

func (d *digester) sum() string {
	d.flush(0)
	return hex.EncodeToString(d.hash.Sum(nil))
}
