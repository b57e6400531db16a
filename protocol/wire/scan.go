package wire

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// lastField is the largest number of a field in wire.proto: tags take one byte.
const lastField = 15

// scan refuses faults that protobuf would let pass or repair in silence, before memory is taken for
// any of it. These are fields that are unknown, of another type or there twice, numbers that do not
// fit their type, and lists that are too long.
func (c *cursor) scan(md protoreflect.MessageDescriptor, b []byte, l Limits) {
	var count [lastField + 1]int // by field; of a choice, by its first
	for len(b) > 0 && c.err == nil {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			c.fail(ErrSyntax, "", "a tag: %v", protowire.ParseError(n))
			return
		}
		b = b[n:]
		fd := md.Fields().ByNumber(number)
		if fd == nil {
			c.fail(ErrSyntax, "", "field %d is unknown", number)
			return
		}
		slot, most := fd.Number(), 1
		if one := fd.ContainingOneof(); one != nil {
			slot = one.Fields().Get(0).Number()
		}
		index := -1
		if fd.IsList() {
			index, most = count[slot], l.entries(fd.Name())
		}
		if count[slot]++; count[slot] > most {
			if fd.IsList() {
				c.fail(ErrLimit, string(fd.Name()), "more than %d", most)
			} else {
				c.fail(ErrSyntax, string(fd.Name()), "it stands twice, or beside its alternative")
			}
			return
		}
		c.enter(string(fd.Name()), index)
		b = c.scanValue(fd, typ, b, l)
		c.leave()
	}
}

// scanValue takes the value of a field off b.
func (c *cursor) scanValue(fd protoreflect.FieldDescriptor, typ protowire.Type, b []byte, l Limits) []byte {
	want, most := protowire.BytesType, uint64(math.MaxUint64)
	switch fd.Kind() {
	case protoreflect.DoubleKind:
		want = protowire.Fixed64Type
	case protoreflect.Uint64Kind:
		want = protowire.VarintType
	case protoreflect.Uint32Kind:
		want, most = protowire.VarintType, math.MaxUint32
	case protoreflect.EnumKind:
		want, most = protowire.VarintType, math.MaxInt32
	case protoreflect.BoolKind:
		want, most = protowire.VarintType, 1
	default: // bytes, strings and messages
	}
	if typ != want {
		c.fail(ErrSyntax, "", "of wire type %d, %d expected", typ, want)
		return nil
	}
	n := protowire.ConsumeFieldValue(fd.Number(), typ, b)
	if n < 0 {
		c.fail(ErrSyntax, "", "%v", protowire.ParseError(n))
		return nil
	}
	switch {
	case want == protowire.VarintType:
		if v, _ := protowire.ConsumeVarint(b); v > most {
			c.fail(ErrSyntax, "", "%d, at most %d fit", v, most)
		}
	case fd.Message() != nil:
		inner, _ := protowire.ConsumeBytes(b)
		c.scan(fd.Message(), inner, l)
	case fd.Kind() == protoreflect.StringKind:
		if text, _ := protowire.ConsumeBytes(b); !utf8.Valid(text) {
			c.fail(ErrSyntax, "", "not UTF-8")
		}
	}
	return b[n:]
}
