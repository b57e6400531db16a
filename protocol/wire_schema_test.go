package protocol_test

import (
	"encoding/binary"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
)

// protoField is a field of a message in wire.proto.
type protoField struct{ kind, name string }

var (
	protoMessage = regexp.MustCompile(`(?ms)^message (\w+) \{\n(.*?)^\}`)
	protoLine    = regexp.MustCompile(`(?m)^\s+(?:repeated )?(\w+) (\w+) = (\d+);`)
	protoEnum    = regexp.MustCompile(`(?m)^  (KIND|STAGE|NOISE_KIND)_(\w+) = (\d+);`)
)

// readProto reads wire.proto: the fields of each message by their numbers, and the numbers of enums by their names.
func readProto(t *testing.T) (messages map[string]map[uint64]protoField, enums map[string]int) {
	t.Helper()
	text, err := os.ReadFile("../internal/protocol/wire/wire.proto")
	if err != nil {
		t.Fatal(err)
	}
	messages, enums = make(map[string]map[uint64]protoField), make(map[string]int)
	for _, m := range protoMessage.FindAllStringSubmatch(string(text), -1) {
		messages[m[1]] = make(map[uint64]protoField)
		for _, f := range protoLine.FindAllStringSubmatch(m[2], -1) {
			n, failed := strconv.ParseUint(f[3], 10, 64)
			if failed != nil {
				t.Fatal(failed)
			}
			messages[m[1]][n] = protoField{f[1], f[2]}
		}
	}
	for _, e := range protoEnum.FindAllStringSubmatch(string(text), -1) {
		if enums[e[1]+" "+strings.ToLower(e[2])], err = strconv.Atoi(e[3]); err != nil {
			t.Fatal(err)
		}
	}
	return messages, enums
}

// TestSchema checks that wire.proto describes the golden bytes, which golden.py writes without it: each field has the
// type that wire.proto gives its number, and wire.proto has no field that no golden message has. Tags take one byte.
func TestSchema(t *testing.T) {
	messages, enums := readProto(t)
	seen := make(map[string]bool)
	var walk func(message string, b []byte)
	walk = func(message string, b []byte) {
		for len(b) > 0 {
			f, ok := messages[message][uint64(b[0]>>3)]
			if !ok {
				t.Fatalf("%s has no field %d", message, b[0]>>3)
			}
			seen[message+"."+f.name] = true
			v, n := binary.Uvarint(b[1:])
			want := map[string]byte{"uint32": 0, "uint64": 0, "bool": 0, "Kind": 0, "Stage": 0, "NoiseKind": 0, "double": 1}
			typ, number := want[f.kind]
			if !number {
				typ = 2
			}
			if b[0] >= 0x80 || b[0]&7 != typ {
				t.Fatalf("%s.%s has the tag %#x, and is %s", message, f.name, b[0], f.kind)
			}
			switch typ {
			case 0:
				b = b[1+n:]
			case 1:
				b = b[9:]
			case 2:
				if _, inner := messages[f.kind]; inner {
					walk(f.kind, b[1+n:1+n+int(v)])
				}
				b = b[1+n+int(v):]
			}
		}
	}
	for _, c := range readGolden(t).Good {
		kind := kindNamed(t, c.Kind)
		walk(strings.ReplaceAll(strings.Title(strings.ReplaceAll(c.Kind, "-", " ")), " ", ""), unhex(t, c.Bytes)) //nolint:staticcheck // words of ASCII
		if got, want := int(kind.Code()), enums["KIND "+strings.ReplaceAll(c.Kind, "-", "_")]; got != want {
			t.Errorf("%s has the number %d in a frame, %d in wire.proto", c.Kind, got, want)
		}
	}
	for s := range protocol.Stages {
		if got, want := int(s)+1, enums["STAGE "+strings.ReplaceAll(s.String(), "-", "_")]; got != want {
			t.Errorf("the stage %s has the number %d, %d in wire.proto", s, got, want)
		}
	}
	for k := protocol.NoNoise; k <= protocol.LocalNoise; k++ {
		if got, want := int(k)+1, enums["NOISE_KIND "+k.String()]; got != want {
			t.Errorf("the noise %s has the number %d, %d in wire.proto", k, got, want)
		}
	}
	all := make(map[string]bool)
	for m, list := range messages {
		for _, f := range list {
			all[m+"."+f.name] = true
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(seen))); d != "" {
		t.Errorf("fields (-wire.proto +golden bytes):\n%s", d)
	}
}
