package wire

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire/internal/wirepb"
)

// The code relies on these properties of wire.proto. Field numbers fit a tag of one byte, and scan
// knows the type of every field. A list has bytes or messages, and a limit of its own.
func TestSchema(t *testing.T) {
	l := Limits{Clients: 1, Neighbours: 1, Releases: 1}
	want := func(list protoreflect.Name) int {
		if list == "proof" {
			return 40 // of any roster: two hashes a level of a tree of 2^20
		}
		return 1
	}
	messages := wirepb.File_protocol_wire_wire_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			if f.Number() > lastField {
				t.Errorf("%s has the number %d, above %d", f.FullName(), f.Number(), lastField)
			}
			switch k := f.Kind(); k {
			case protoreflect.BytesKind, protoreflect.MessageKind:
				if f.IsMap() || f.IsList() && l.entries(f.Name()) != want(f.Name()) {
					t.Errorf("the list %s has no limit", f.FullName())
				}
			case protoreflect.StringKind, protoreflect.DoubleKind, protoreflect.Uint64Kind, protoreflect.Uint32Kind, protoreflect.EnumKind, protoreflect.BoolKind:
				if f.IsList() {
					t.Errorf("%s is a list of %s: vectors are packed bytes", f.FullName(), k)
				}
			default:
				t.Errorf("%s is of the type %s, which is not scanned", f.FullName(), k)
			}
		}
	}
	if got := l.entries("clients"); got != 0 {
		t.Errorf("a list that is not known may have %d entries", got)
	}
	codes := wirepb.Kind(0).Descriptor().Values()
	if codes.Len() != int(protocol.Kinds)+1 {
		t.Errorf("wire.proto has %d kinds besides 0, there are %d", codes.Len()-1, protocol.Kinds)
	}
	if got := wirepb.Stage(0).Descriptor().Values().Len(); got != int(protocol.Stages)+1 {
		t.Errorf("wire.proto has %d stages besides 0, there are %d", got-1, protocol.Stages)
	}
}
