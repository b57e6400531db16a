package wire

import "github.com/fedsim/fedsim/protocol"

// The kinds of fields. Each takes what a field holds and says what is wrong with it.

func (d *decoder) missing(field string) { d.fail(ErrValue, field, "it is missing") }

// list is a list of n entries, which must not be empty.
func (d *decoder) list(field string, n int) {
	if n == 0 {
		d.missing(field)
	}
}

// entries converts the entries of a list, which must not be empty. last is the client of the entry before.
func entries[In, Out any](d *decoder, field string, list []In, convert func(x In, last *int64) Out) []Out {
	d.list(field, len(list))
	out := make([]Out, len(list))
	last := int64(-1)
	for i, x := range list {
		d.enter(field, i)
		out[i] = convert(x, &last)
		d.leave()
	}
	return out
}

// vectors is a list of n vectors: there are none where a relay holds them, and some elsewhere.
func (d *decoder) vectors(field string, n int) {
	switch {
	case !d.viaRelay:
		d.list(field, n)
	case n > 0:
		d.fail(ErrValue, field, "%d vectors, which the relay holds", n)
	}
}

// nonEmpty are bytes of any length but 0.
func (d *decoder) nonEmpty(field string, b []byte) []byte {
	if len(b) == 0 {
		d.fail(ErrValue, field, "it is missing or empty")
	}
	return b
}

// fixed are n bytes, even after an error.
func (d *decoder) fixed(field string, b []byte, n int) []byte {
	if len(b) != n {
		d.fail(ErrValue, field, "%d bytes, %d expected", len(b), n)
		return make([]byte, n)
	}
	return b
}

// optional are n bytes or none.
func (d *decoder) optional(field string, b []byte, n int) []byte {
	if len(b) == 0 {
		return nil
	}
	return d.fixed(field, b, n)
}

// orNil makes one of the two ways to have no bytes.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func (d *decoder) round(v uint64) uint64 {
	if v == 0 {
		d.fail(ErrValue, "round", "it is missing or 0; rounds count from 1")
	}
	return v
}

// count is a number that counts something.
func (d *decoder) count(field string, v uint32, most int) int {
	if int64(v) > int64(most) {
		d.fail(ErrValue, field, "%d, at most %d", v, most)
		return 0
	}
	return int(v)
}

// clients is a number of clients.
func (d *decoder) clients(field string, v uint32) int {
	if int64(v) > int64(d.limits.Clients) {
		d.fail(ErrLimit, field, "%d, there are %d clients", v, d.limits.Clients)
		return 0
	}
	return int(v)
}

// choice is one of n values, which count from 1 on the wire.
func (d *decoder) choice(field string, v int32, n int) int32 {
	if v < 1 || int64(v) > int64(n) {
		d.fail(ErrValue, field, "%d; it must be from 1 to %d", v, n)
		return 0
	}
	return v - 1
}

// next is a client that comes after the last one of its list.
func (d *decoder) next(field string, v uint32, last *int64) protocol.ClientID {
	switch id := int64(v); {
	case id >= int64(d.limits.Clients):
		d.fail(ErrLimit, field, "%d, there are %d clients", v, d.limits.Clients)
	case id <= *last:
		d.fail(ErrValue, field, "%d after %d; clients must ascend", v, *last)
	default:
		*last = id
	}
	return protocol.ClientID(v)
}

// bitmap is a subset of a roster; only the largest possible number of clients is known of the
// roster.
func (d *decoder) bitmap(field string, b []byte) protocol.Bitmap {
	if most := bitmapSize(d.limits.Clients); len(b) > most {
		d.fail(ErrLimit, field, "%d bytes, at most %d", len(b), most)
		return nil
	}
	return d.nonEmpty(field, b)
}
