package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"
)

// ComputeDigest hashes the canonical content of a set. Every text is preceded by its
// length and every list by its own, so that no two contents share their bytes.
func (s *Set) ComputeDigest() string {
	d := NewDigester()
	d.Head(s, s.Len())
	d.Columns(s.Ratings)
	d.Tail(s)
	return d.Sum()
}

func NewDigester() *Digester { return &Digester{hash: sha256.New()} }

// Head hashes the parts of a set before its ratings, and the number of ratings.
func (d *Digester) Head(s *Set, ratings int) {
	d.Text("fedsim dataset v1")
	d.Texts(s.UserIDs)
	d.Texts(s.ItemIDs)
	d.Number(uint64(ratings))
}

// Tail hashes what comes behind them.
func (d *Digester) Tail(s *Set) {
	d.Texts(s.Titles)
	d.Number(uint64(len(s.Genres)))
	for _, genres := range s.Genres {
		d.Texts(genres)
	}
	d.Number(uint64(len(s.Years)))
	for _, year := range s.Years {
		d.Number(uint64(year))
	}
	if s.Times != nil && !s.MaybeTimes {
		d.Text("times")
		for _, at := range s.Times {
			d.Number(math.Float64bits(at))
		}
	}
	if s.Tested != nil {
		d.Text("tested")
		for _, tested := range s.Tested {
			part := uint64(0)
			if tested {
				part = 2
			}
			d.Number(part)
		}
	}
	for _, c := range s.Columns {
		d.Text("column")
		d.Text(c.Name)
		for _, values := range c.Values {
			d.Texts(values)
		}
	}
	if s.Raters != nil {
		d.Text("public users")
		d.Texts(s.Raters.IDs)
		d.ratings(s.Raters.Ratings)
	}
	if s.Profile != nil {
		d.Text("profile")
		if s.Profile.Source != "" {
			d.Text(s.Profile.Source)
			return
		}
		d.Texts(s.Profile.Columns)
		for _, v := range s.Profile.X {
			d.Number(math.Float64bits(v))
		}
	}
}

// Digester collects small writes before it hashes them.
type Digester struct {
	hash hash.Hash
	buf  []byte
}

// Bytes hashes some bytes without their length.
func (d *Digester) Bytes(b []byte) {
	d.buf = append(d.buf, b...)
	d.flush(4 << 10)
}

// flush hashes what was collected when it is at least atLeast bytes.
func (d *Digester) flush(atLeast int) {
	if len(d.buf) >= atLeast {
		d.hash.Write(d.buf) // never fails, says hash.Hash
		d.buf = d.buf[:0]
	}
}

func (d *Digester) Number(v uint64) {
	d.buf = binary.LittleEndian.AppendUint64(d.buf, v)
	d.flush(4 << 10)
}

func (d *Digester) Text(s string) {
	d.Number(uint64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *Digester) Texts(list []string) {
	d.Number(uint64(len(list)))
	for _, s := range list {
		d.Text(s)
	}
}

func (d *Digester) ratings(r Ratings) {
	d.Number(uint64(r.Len()))
	d.Columns(r)
}

func (d *Digester) Columns(r Ratings) {
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

func (d *Digester) Sum() string {
	d.flush(0)
	return hex.EncodeToString(d.hash.Sum(nil))
}
