package testutil

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Fields writes out the fields of a role, pointers followed, so that two texts differ if a field
// was written in between. Values behind an interface or in a function count by identity only.
// Fields named in without are left out.
func Fields(role any, without ...string) string {
	w := writer{without: without, seen: make(map[uintptr]bool)}
	w.write("", reflect.ValueOf(role))
	return w.out.String()
}

type writer struct {
	out     strings.Builder
	without []string
	seen    map[uintptr]bool
}

func (w *writer) write(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if fmt.Fprintf(&w.out, "%s at %x\n", name, v.Pointer()); v.IsNil() || w.seen[v.Pointer()] {
			return
		}
		w.seen[v.Pointer()] = true
		w.write(name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; !slices.Contains(w.without, field) {
				w.write(name+"."+field, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprintf(&w.out, "%s of %d\n", name, v.Len())
		for i := range v.Len() {
			w.write(fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Interface:
		w.identity(name, v.Elem())
	case reflect.Map, reflect.Func, reflect.Chan:
		w.identity(name, v)
	default:
		fmt.Fprintf(&w.out, "%s = %v\n", name, v)
	}
}

// identity distinguishes values whose fields are not written out.
func (w *writer) identity(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		fmt.Fprintf(&w.out, "%s is nil\n", name)
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan:
		fmt.Fprintf(&w.out, "%s is a %s at %x\n", name, v.Type(), v.Pointer())
	default:
		fmt.Fprintf(&w.out, "%s is a %s, %v\n", name, v.Type(), v)
	}
}
