package secagg_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
)

// spoil changes a copy of a message as a script of bytes says: anywhere in it, each
// step goes down into some field and changes what it ends at. Every message of that
// shape has a script.
func spoil[M protocol.Message](m M, script []byte) M {
	v := reflect.ValueOf(m).Elem()
	out := reflect.New(v.Type())
	out.Elem().Set(clone(v))
	for s := (reader{script}); len(s.b) > 0; {
		s.change(out.Elem())
	}
	return out.Interface().(M)
}

// clone is a copy that shares nothing.
func clone(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(clone(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(clone(v.Field(i)))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(clone(v.Index(i)))
		}
	default: // a value
	}
	return out
}

// reader reads a script; behind its end there are zeros.
type reader struct{ b []byte }

func (r *reader) next() byte {
	if len(r.b) == 0 {
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

// below is a number below n, 0 if there is none.
func (r *reader) below(n int) int {
	x := int(r.next())
	if n > 256 {
		x |= int(r.next()) << 8
	}
	if n == 0 {
		return 0
	}
	return x % n
}

func (r *reader) integer() (v uint64) {
	for i := range 8 {
		v |= uint64(r.next()) << (8 * i)
	}
	return v
}

func (r *reader) change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		r.change(v.Field(r.below(v.NumField())))
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
		case r.next() == 0:
			v.SetZero()
		default:
			r.change(v.Elem())
		}
	case reflect.Array:
		r.change(v.Index(r.below(v.Len())))
	case reflect.Slice:
		r.changeSlice(v)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + r.delta())
	case reflect.Func: // of a message that waits for its long parts, which no peer sends
	default: // unsigned, of some size
		v.SetUint(v.Uint() + uint64(r.delta()))
	}
}

// delta is small or anything.
func (r *reader) delta() int64 {
	if d := r.next(); d != 0 {
		return int64(int8(d))
	}
	return int64(r.integer())
}

// changeSlice cuts, lengthens or reorders a slice, or changes an element.
func (r *reader) changeSlice(v reflect.Value) {
	const most = 1 << 12 // as long as a slice grows
	i, j := r.below(v.Len()), 0
	switch op := r.next(); {
	case op == 0:
		v.SetZero()
	case op == 1:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case v.Len() == 0:
	case op == 2:
		v.SetLen(i)
	case op == 3: // without element i
		v.Set(reflect.AppendSlice(v.Slice(0, i), v.Slice(i+1, v.Len())))
	case op == 4: // element i twice
		if v.Len() < most {
			v.Set(reflect.Append(v, clone(v.Index(i))))
		}
	case op == 5: // all twice
		if v.Len() < most/2 {
			v.Set(reflect.AppendSlice(v, v))
		}
	case op == 6:
		j = r.below(v.Len())
		reflect.Swapper(v.Interface())(i, j)
	default:
		r.change(v.Index(i))
	}
}

// A script reaches every field, and leaves the message that it was given.
func TestSpoil(t *testing.T) {
	whole := &protocol.Delivery{Round: 1, Clients: 2, Arrived: protocol.Bitmap{3}, Shares: []protocol.EncryptedShare{
		{Peer: 1, Ciphertext: []byte{1, 2}, Committed: &protocol.Commitments{Signature: []byte{9}}}}}
	before := clone(reflect.ValueOf(whole)).Interface()
	changed := func(change func(*protocol.Delivery)) *protocol.Delivery {
		c := clone(reflect.ValueOf(whole)).Interface().(*protocol.Delivery)
		change(c)
		return c
	}
	for _, c := range []struct {
		script []byte
		want   *protocol.Delivery
	}{
		{nil, whole},
		{[]byte{0, 2}, changed(func(d *protocol.Delivery) { d.Round = 3 })},
		{[]byte{1, 0xff}, changed(func(d *protocol.Delivery) { d.Clients = 1 })},
		{[]byte{1, 0, 1, 2}, changed(func(d *protocol.Delivery) { d.Clients = 2 + 0x201 })},
		{[]byte{2, 0, 0}, changed(func(d *protocol.Delivery) { d.Arrived = nil })},
		{[]byte{2, 0, 1}, changed(func(d *protocol.Delivery) { d.Arrived = append(d.Arrived, 0) })},
		{[]byte{3, 0, 4}, changed(func(d *protocol.Delivery) { d.Shares = append(d.Shares, d.Shares[0]) })},
		{[]byte{3, 0, 5}, changed(func(d *protocol.Delivery) { d.Shares = append(d.Shares, d.Shares[0]) })},
		{[]byte{3, 0, 3}, changed(func(d *protocol.Delivery) { d.Shares = []protocol.EncryptedShare{} })},
		{[]byte{3, 0, 7, 1, 1, 2}, changed(func(d *protocol.Delivery) { d.Shares[0].Ciphertext = []byte{1} })},
		{[]byte{3, 0, 7, 1, 0, 6, 1}, changed(func(d *protocol.Delivery) { slices.Reverse(d.Shares[0].Ciphertext) })},
		{[]byte{3, 0, 7, 2, 0}, changed(func(d *protocol.Delivery) { d.Shares[0].Committed = nil })},
		{[]byte{3, 0, 7, 2, 1, 0, 31, 7}, changed(func(d *protocol.Delivery) { d.Shares[0].Committed.Seed[31] = 7 })},
		{[]byte{3, 0, 7, 2, 0, 3, 0, 7, 2}, changed(func(d *protocol.Delivery) { d.Shares[0].Committed = &protocol.Commitments{} })},
		{[]byte{0, 2, 1, 1}, changed(func(d *protocol.Delivery) { d.Round, d.Clients = 3, 3 })},
	} {
		if d := cmp.Diff(c.want, spoil(whole, c.script)); d != "" {
			t.Errorf("script %v (-want +got):\n%s", c.script, d)
		}
	}
	if got := spoil(&protocol.Shares{}, []byte{1}); !got.Ahead {
		t.Error("a flag is not turned over")
	}
	if d := cmp.Diff(before, whole); d != "" {
		t.Errorf("the message itself is changed:\n%s", d)
	}
}
