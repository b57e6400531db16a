package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"
)

// Types of values on the wire. A tag is the number of a field and this type, in one byte.
const (
	varint  = 0
	fixed64 = 1
	long    = 2
)

// Varint returns the bytes of an integer at 7 bits a byte.
func Varint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// uint counts, writes or reads an integer; 0 is left out. An integer above most does not fit its type.
func (c *Codec) uint(tag int, field string, v, most uint64) uint64 {
	switch {
	case c.mode == reads:
		if !c.next(tag, varint, field) {
			return 0
		}
		got, n := binary.Uvarint(c.b)
		if n <= 0 || got > most {
			c.Fail(ErrSyntax, field, "an integer that is cut off or above %d", most)
			return 0
		}
		c.b = c.b[n:]
		c.once(tag, field)
		return got
	case v == 0:
	case c.mode == counts:
		c.n += 1 + Varint(v)
	default:
		c.b = binary.AppendUvarint(append(c.b, byte(tag<<3|varint)), v)
	}
	return v
}

// next reports whether the next field has a number, and takes its tag.
func (c *Codec) next(tag, kind int, field string) bool {
	if len(c.b) == 0 {
		return false
	}
	switch v := int(c.b[0]); {
	case v >= 0x80 || v>>3 == 0:
		c.Fail(ErrSyntax, "", "a field that is unknown")
	case v>>3 != tag:
	case v&7 != kind:
		c.Fail(ErrSyntax, field, "of wire type %d, %d expected", v&7, kind)
	default:
		c.b = c.b[1:]
		return true
	}
	return false
}

// once refuses a second value of a field.
func (c *Codec) once(tag int, field string) {
	if c.mode == reads && len(c.b) > 0 && c.b[0]>>3 == byte(tag) {
		c.Fail(ErrSyntax, field, "it stands twice")
	}
}

// end refuses what is left of a message.
func (c *Codec) end() {
	if c.mode == reads && len(c.b) > 0 {
		c.Fail(ErrSyntax, "", "a field that is unknown, stands twice or is out of order")
	}
}

// take takes bytes behind their length off what is left to read.
func (c *Codec) take(field string) []byte {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v > uint64(len(c.b)-n) {
		c.Fail(ErrSyntax, field, "a length that is cut off or beyond the end")
		return nil
	}
	out := c.b[n : n+int(v)]
	c.b = c.b[n+int(v):]
	return out
}

// bytes counts, writes or reads bytes. No bytes are left out, except as the entry of a list.
func bytes[B ~[]byte | ~string](c *Codec, tag int, field string, v B, entry bool) (out B) {
	switch {
	case c.mode == reads:
		if !c.next(tag, long, field) {
			return out
		}
		if b := c.take(field); len(b) > 0 {
			out = B(append([]byte(nil), b...))
		}
		if !entry {
			c.once(tag, field)
		}
		return out
	case len(v) == 0 && !entry:
	case c.mode == counts:
		c.n += 1 + Varint(uint64(len(v))) + len(v)
	default:
		c.b = append(binary.AppendUvarint(append(c.b, byte(tag<<3|long)), uint64(len(v))), v...)
	}
	return v
}

// set writes what was read to where it belongs. A message that is counted or written may be in use elsewhere.
func set[T any](c *Codec, to *T, v T) {
	if c.mode == reads {
		*to = v
	}
}

// Uint is an integer that may be 0.
func (c *Codec) Uint(tag int, field string, v *uint32) {
	set(c, v, uint32(c.uint(tag, field, uint64(*v), math.MaxUint32)))
}

// Round is the number of a round, which is not 0.
func (c *Codec) Round(tag int, v *uint64) {
	set(c, v, c.uint(tag, "round", *v, math.MaxUint64))
	if *v == 0 {
		c.Fail(ErrValue, "round", "it is missing or 0; rounds count from 1")
	}
}

// Flag is true or false.
func (c *Codec) Flag(tag int, field string, v *bool) {
	n := uint64(0)
	if *v {
		n = 1
	}
	set(c, v, c.uint(tag, field, n, 1) == 1)
}

// Quantity is a number from 0 to most.
func Quantity[T ~int | ~uint8](c *Codec, tag int, field string, v *T, most int) {
	number(c, tag, field, v, most, ErrValue)
}

// Number is a number of clients.
func (c *Codec) Number(tag int, field string, v *int) {
	rule := ErrLimit
	if c.mode == writes {
		rule = ErrValue
	}
	number(c, tag, field, v, c.Clients, rule)
}

func number[T ~int | ~uint8](c *Codec, tag int, field string, v *T, most int, rule error) {
	n := c.uint(tag, field, uint64(*v), math.MaxUint32)
	if n > uint64(most) {
		c.Fail(rule, field, "%d; it must be from 0 to %d", int64(n), most)
		return
	}
	set(c, v, T(n))
}

// Choice is one of n values from 0 on, which count from 1 on the wire.
func Choice[T ~uint8](c *Codec, tag int, field string, v *T, n int) {
	got := c.uint(tag, field, 1+uint64(*v), math.MaxInt32)
	if got < 1 || got > uint64(n) {
		c.Fail(ErrValue, field, "%d; it must be from 1 to %d", got, n)
		return
	}
	set(c, v, T(got-1))
}

// Client is a client. In a list, it comes after the client of the entry before.
func Client[T ~uint32](c *Codec, tag int, field string, v *T) {
	set(c, v, T(c.uint(tag, field, uint64(*v), math.MaxUint32)))
	switch id := int64(*v); {
	case c.mode == counts:
	case c.mode == reads && id >= int64(c.Clients):
		c.Fail(ErrLimit, field, "%d, there are %d clients", id, c.Clients)
	case id <= c.last:
		c.Fail(ErrValue, field, "%d after %d; clients must ascend", id, c.last)
	default:
		c.last = id
	}
}

// Float is a number of 8 bytes. -0 is not left out.
func (c *Codec) Float(tag int, field string, v *float64) {
	switch {
	case c.mode == reads:
		if !c.next(tag, fixed64, field) {
			return
		}
		if len(c.b) < 8 {
			c.Fail(ErrSyntax, field, "a number that is cut off")
			return
		}
		*v = math.Float64frombits(binary.LittleEndian.Uint64(c.b))
		c.b = c.b[8:]
		c.once(tag, field)
	case math.Float64bits(*v) == 0:
	case c.mode == counts:
		c.n += 1 + 8
	default:
		c.b = binary.LittleEndian.AppendUint64(append(c.b, byte(tag<<3|fixed64)), math.Float64bits(*v))
	}
}

// Text is a string of UTF-8.
func (c *Codec) Text(tag int, field string, v *string) {
	got := bytes(c, tag, field, *v, false)
	if c.mode != counts && !utf8.ValidString(got) {
		rule := ErrSyntax
		if c.mode == writes {
			rule = ErrValue
		}
		c.Fail(rule, field, "not UTF-8")
		return
	}
	set(c, v, got)
}

// Fixed is an array. All of its bytes are sent.
func (c *Codec) Fixed(tag int, field string, array []byte) {
	got := bytes(c, tag, field, array, false)
	if c.length(field, got, len(array)); c.mode == reads && c.fault == nil {
		copy(array, got)
	}
}

// Exactly is a slice of n bytes.
func (c *Codec) Exactly(tag int, field string, v *[]byte, n int) {
	set(c, v, bytes(c, tag, field, *v, false))
	c.length(field, *v, n)
}

// Optional is a slice of n bytes, or nil.
func (c *Codec) Optional(tag int, field string, v *[]byte, n int) {
	if set(c, v, bytes(c, tag, field, *v, false)); len(*v) > 0 {
		c.length(field, *v, n)
	}
}

// OptionalArray is an array of 32 bytes, or nil.
func OptionalArray[A ~[32]byte](c *Codec, tag int, field string, v **A) {
	var sent []byte
	if *v != nil {
		a := [32]byte(**v)
		sent = a[:]
	}
	got := bytes(c, tag, field, sent, false)
	if c.mode != reads || len(got) == 0 {
		return
	}
	if c.length(field, got, 32); c.fault == nil {
		a := A(got)
		*v = &a
	}
}

func (c *Codec) length(field string, b []byte, n int) {
	if len(b) != n {
		c.Fail(ErrValue, field, "%d bytes, %d expected", len(b), n)
	}
}

// Bytes is a slice of any length; no bytes are nil.
func (c *Codec) Bytes(tag int, field string, v *[]byte) { set(c, v, bytes(c, tag, field, *v, false)) }

// Bitmap is a subset of the clients of a roster.
func Bitmap[B ~[]byte](c *Codec, tag int, field string, v *B) {
	set(c, v, bytes(c, tag, field, *v, false))
	c.Needs(len(*v) > 0, field)
	if most := c.Clients/8 + min(1, c.Clients%8); c.mode == reads && len(*v) > most {
		c.Fail(ErrLimit, field, "%d bytes, at most %d", len(*v), most)
	}
}

// Packed counts bytes that are not there; they are of an ideal sum.
func (c *Codec) Packed(n int) {
	if n > 0 {
		c.n += 1 + Varint(uint64(n)) + n
	}
}

// message counts, writes or reads the fields of a message that is there.
func (c *Codec) message(tag int, field string, index int, fields func()) {
	c.enter(field, index)
	defer c.leave()
	switch c.mode {
	case counts:
		before := c.n
		fields()
		c.n += 1 + Varint(uint64(c.n-before))
	case writes:
		c.b = append(c.b, byte(tag<<3|long), 0)
		start := len(c.b)
		if fields(); c.fault != nil {
			return
		}
		n := len(c.b) - start
		if more := Varint(uint64(n)) - 1; more > 0 { // make room for a longer length
			c.b = append(c.b, make([]byte, more)...)
			copy(c.b[start+more:], c.b[start:start+n])
		}
		binary.PutUvarint(c.b[start-1:], uint64(n))
	case reads:
		inner := c.take("")
		outer := c.b
		c.b = inner
		fields()
		if c.end(); c.fault == nil {
			c.b = outer
		}
	}
}

// Message is a message inside. If there is none, the pointer is nil.
func Message[T any](c *Codec, tag int, field string, v **T, fields func(*T)) {
	if c.mode == reads {
		if !c.next(tag, long, field) {
			return
		}
		*v = new(T)
	}
	if *v == nil {
		return
	}
	c.message(tag, field, -1, func() { fields(*v) })
	c.once(tag, field)
}

// Required is a message inside that is never missing.
func Required[T any](c *Codec, tag int, field string, v *T, fields func(*T)) {
	if c.mode == reads && !c.next(tag, long, field) {
		c.Needs(false, field)
		return
	}
	c.message(tag, field, -1, func() { fields(v) })
	c.once(tag, field)
}

// List is a list of messages, at most most of them. Clients in it ascend.
func List[T any](c *Codec, tag int, field string, v *[]T, most int, fields func(*T)) {
	last := c.last
	c.last = -1
	entries(c, tag, field, v, most, func(i int, x *T) { c.message(tag, field, i, func() { fields(x) }) })
	c.last = last
}

// Slices is a list of bytes, at most most of them.
func (c *Codec) Slices(tag int, field string, v *[][]byte, most int, nonEmpty bool) {
	entries(c, tag, field, v, most, func(i int, x *[]byte) {
		set(c, x, c.entry(tag, *x))
		c.enter(field, i)
		c.Needs(!nonEmpty || len(*x) > 0, "")
		c.leave()
	})
}

// Arrays is a list of arrays of 32 bytes, at most most of them.
func Arrays[A ~[32]byte](c *Codec, tag int, field string, v *[]A, most int) {
	entries(c, tag, field, v, most, func(i int, x *A) {
		a := [32]byte(*x)
		b := c.entry(tag, a[:])
		if c.enter(field, i); c.mode == reads {
			if c.length("", b, 32); c.fault == nil {
				*x = A(b)
			}
		}
		c.leave()
	})
}

// Integers is a list of vectors of integers, 8 bytes a coordinate, at most most of them.
func (c *Codec) Integers(tag int, field string, v *[][]int64, most int) {
	entries(c, tag, field, v, most, func(i int, x *[]int64) {
		if c.mode == counts {
			c.n += 1 + Varint(uint64(8*len(*x))) + 8*len(*x)
			return
		}
		b := make([]byte, 0, 8*len(*x))
		for _, n := range *x {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = c.entry(tag, b)
		if len(b) == 0 || len(b)%8 != 0 {
			c.enter(field, i)
			c.Fail(ErrValue, "", "%d bytes; a coordinate takes 8, and there is at least one", len(b))
			c.leave()
			return
		}
		if c.mode == reads {
			*x = make([]int64, len(b)/8)
			for j := range *x {
				(*x)[j] = int64(binary.LittleEndian.Uint64(b[8*j:]))
			}
		}
	})
}

// entry counts, writes or reads the bytes of an entry, whose tag is taken.
func (c *Codec) entry(tag int, v []byte) []byte {
	if c.mode != reads {
		return bytes(c, tag, "", v, true)
	}
	return append([]byte(nil), c.take("")...)
}

// entries goes through the entries of a list. A list that is read is counted before memory is taken for it.
func entries[T any](c *Codec, tag int, field string, v *[]T, most int, each func(i int, x *T)) {
	if c.mode == reads {
		n := c.listed(tag, field)
		if n > most {
			c.Fail(ErrLimit, field, "more than %d", most)
		}
		if c.fault != nil || n == 0 {
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		if c.mode == reads && !c.next(tag, long, field) {
			return
		}
		each(i, &(*v)[i])
	}
}

// listed counts the entries of the list that comes next, and checks their lengths.
func (c *Codec) listed(tag int, field string) (n int) {
	rest := c.b
	for c.next(tag, long, field) {
		if c.take(field); c.fault != nil {
			return 0
		}
		n++
	}
	if c.fault == nil {
		c.b = rest
	}
	return n
}
