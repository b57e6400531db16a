package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
)

// digest hashes the canonical content of a set. Every text is preceded by its
// length and every list by its own, so that no two contents share their bytes.
func (s *Set) digest() string {
	d := &digester{hash: sha256.New()}
	d.head(s, s.Len())
	d.columns(s.Ratings)
	d.tail(s)
	return d.sum()
}

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
			d.number(uint64(partOf(tested)))
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
	for k, v := range r.Value {
		d.buf = binary.LittleEndian.AppendUint32(d.buf, uint32(r.User[k]))
		d.buf = binary.LittleEndian.AppendUint32(d.buf, uint32(r.Item[k]))
		d.buf = binary.LittleEndian.AppendUint32(d.buf, math.Float32bits(v))
		d.flush(4 << 10)
	}
}

func (d *digester) sum() string {
	d.flush(0)
	return hex.EncodeToString(d.hash.Sum(nil))
}
