// Package codec counts, writes and reads the fields of a message in protobuf's wire format. A message describes
// its fields once, in ascending order of their numbers, and a [Codec] goes through this description. So a length,
// an encoding and a decoder cannot differ. The package knows no message.
package codec

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
)

// Rules that a field or a message breaks.
var (
	// ErrSyntax: not protobuf, or a field that is unknown, stands twice or out of order, or is of another type.
	ErrSyntax = errors.New("malformed encoding")
	// ErrValue: a field is missing, has a wrong length, or is out of range or order.
	ErrValue = errors.New("invalid value")
	// ErrLimit: more than the limits allow.
	ErrLimit = errors.New("above the limit")
	// ErrIdeal: a field that only an ideal sum sends; a real sum sends it in another form.
	ErrIdeal = errors.New("of an ideal sum, which does not travel")
)

// Fault says which field breaks a rule.
type Fault struct {
	Field string // as in wire.proto, for example "members[3].keys.mask"; empty: the whole message
	Err   error  // wraps the rule
}

// Limits holds the most that a reader accepts.
type Limits struct {
	Clients    int   // numbers of clients are at most this, and a client is below it
	Neighbours int   // entries of a list of shares
	Releases   int   // entries of a list of releases
	Inside     []int // bytes of a message of each kind inside another message
}

type mode uint8

const (
	counts mode = iota
	writes
	reads
)

// Codec goes through the fields of one message. After the first fault it does nothing more, and what it has read is of no use.
type Codec struct {
	Limits
	// ViaRelay says that a relay holds the vectors of the message, which are missing.
	ViaRelay bool
	mode     mode
	n        int    // bytes counted
	b        []byte // written, or left to read
	last     int64  // the latest client of the list
	path     []step
	fault    *Fault
}

// step is a field on the way to a place; its index is -1 outside of a list.
type step struct {
	field string
	index int
}

// counters are used again: a simulation counts every message that it sends.
var counters = sync.Pool{New: func() any { return new(Codec) }}

// Count returns the bytes that fields take.
func Count(fields func(*Codec)) int {
	c := counters.Get().(*Codec)
	defer counters.Put(c)
	c.n = 0
	fields(c)
	return c.n
}

// Append appends fields to b. It returns nil and the fault of the first field that no receiver accepts.
func Append(b []byte, viaRelay bool, fields func(*Codec)) ([]byte, *Fault) {
	most := Limits{Clients: math.MaxInt32, Neighbours: math.MaxInt, Releases: math.MaxInt}
	c := Codec{Limits: most, ViaRelay: viaRelay, mode: writes, b: b, last: -1}
	if fields(&c); c.fault != nil {
		return nil, c.fault
	}
	return c.b, nil
}

// Read reads the fields of a message, which are all of b. Nothing that it reads refers to b.
func Read(b []byte, l Limits, viaRelay bool, fields func(*Codec)) *Fault {
	c := Codec{Limits: l, ViaRelay: viaRelay, mode: reads, b: b, last: -1}
	fields(&c)
	c.end()
	return c.fault
}

// Writes reports whether the fields are written.
func (c *Codec) Writes() bool { return c.mode == writes }

// Reads reports whether the fields are read.
func (c *Codec) Reads() bool { return c.mode == reads }

// Counts reports whether the fields are counted. Then nothing is checked.
func (c *Codec) Counts() bool { return c.mode == counts }

// Fail says that a field of the place breaks a rule, or the place does if field is "".
func (c *Codec) Fail(rule error, field, format string, args ...any) {
	if c.fault != nil || c.mode == counts {
		return
	}
	var b strings.Builder
	for _, s := range c.path {
		b.WriteString("." + s.field)
		if s.index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	if field != "" {
		b.WriteString("." + field)
	}
	c.fault = &Fault{strings.TrimPrefix(b.String(), "."), fmt.Errorf("%w: "+format, append([]any{rule}, args...)...)}
	c.b = nil
}

// Needs refuses a field that must be there, and not empty.
func (c *Codec) Needs(there bool, field string) {
	if !there {
		c.Fail(ErrValue, field, "it is missing or empty")
	}
}

// Ideal refuses to write what only an ideal sum sends.
func (c *Codec) Ideal(is bool, field string) {
	if is && c.mode == writes {
		c.Fail(ErrIdeal, field, "a real sum sends it masked or encrypted")
	}
}

func (c *Codec) enter(field string, index int) { c.path = append(c.path, step{field, index}) }
func (c *Codec) leave()                        { c.path = c.path[:len(c.path)-1] }
