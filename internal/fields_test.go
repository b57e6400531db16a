package internal_test

import (
	"errors"
	"testing"

	"github.com/fedsim/fedsim/internal/testutil"
)

type inner struct {
	counts []int
	self   *inner
}

type role struct {
	stage uint8
	when  struct{ ns int64 }
	inner *inner
	err   error
	after func()
	cache map[string]int
	left  int
}

// Every write to a field shows, at any depth; nothing else does.
func TestFields(t *testing.T) {
	fresh := func() *role {
		r := &role{inner: &inner{counts: []int{1, 2}}, err: errors.New("one"), cache: map[string]int{}}
		r.inner.self = r.inner
		return r
	}
	for what, c := range map[string]struct {
		change func(*role)
		shows  bool
	}{
		"nothing":              {func(*role) {}, false},
		"a number":             {func(r *role) { r.stage++ }, true},
		"a field of a field":   {func(r *role) { r.when.ns++ }, true},
		"behind a pointer":     {func(r *role) { r.inner.counts = nil }, true},
		"in a slice":           {func(r *role) { r.inner.counts[1]++ }, true},
		"a pointer":            {func(r *role) { r.inner = &inner{counts: []int{1, 2}} }, true},
		"an interface":         {func(r *role) { r.err = errors.New("one") }, true},
		"an interface, to nil": {func(r *role) { r.err = nil }, true},
		"a function":           {func(r *role) { r.after = func() {} }, true},
		"a map":                {func(r *role) { r.cache = map[string]int{} }, true},
		"what is in a map":     {func(r *role) { r.cache["a"] = 1 }, false},
		"what is left out":     {func(r *role) { r.left++ }, false},
	} {
		r := fresh()
		before := testutil.Fields(r, "left")
		c.change(r)
		if got := testutil.Fields(r, "left") != before; got != c.shows {
			t.Errorf("a write to %s: shows %t, want %t", what, got, c.shows)
		}
	}
}
