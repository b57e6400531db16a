package protocol_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
)

// fields notes of every field that a value is made of, as "Type.Field", whether it is
// other than zero somewhere.
func fields(v reflect.Value, set map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fields(v.Elem(), set)
		}
	case reflect.Slice:
		if e := v.Type().Elem().Kind(); e == reflect.Struct || e == reflect.Slice {
			for i := range v.Len() {
				fields(v.Index(i), set)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
			fields(v.Field(i), set)
		}
	default: // a number, text, or an array of bytes: no fields
	}
}

// The golden messages, which come back as they were, leave no field out. A field that is added to a
// message and not to wire.proto would be lost in silence. The parts that only ideal sums send do
// not travel, and a message is loaded before.
func TestGoldenHasEveryField(t *testing.T) {
	set := make(map[string]bool)
	for _, m := range messages() {
		fields(reflect.ValueOf(m), set)
	}
	maps.DeleteFunc(set, func(_ string, seen bool) bool { return seen })
	got := slices.Sorted(maps.Keys(set))
	want := []string{"Delivery.Load", "MaskedInput.Packed", "MaskedInput.Vectors", "Roster.Load", "Unmask.Packed", "Unmask.Removals"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("fields that no golden message has (-of ideal sums +found):\n%s", d)
	}
	// It sees into what is nested and listed.
	all := make(map[string]bool)
	fields(reflect.ValueOf(&protocol.Survivors{Next: &protocol.Roster{Members: []protocol.Member{{Client: 1}}}}), all)
	if !all["Member.Client"] || all["Keys.Mask"] || all["Survivors.U1"] {
		t.Errorf("fields are %v", all)
	}
}
