package align

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Union is the result of an alignment for the server.
type Union struct {
	Attempt Attempt
	Users   int   // rows in all, padding included
	Lists   []int // how many ids each client has, padding included
	Shared  []int // how many rows are in so many lists: Shared[0] in one
}

// Collector is the server's role.
type Collector struct {
	*member
	names [][]byte // by seat: pseudonyms, one behind the other
	known []string // by seat: pseudonyms of the ids that all know
	kept  []bool   // by seat
	union *Union
}

// NewCollector makes the server of an alignment.
func NewCollector(cfg Config) (*Collector, error) {
	if cfg.Seat != Server {
		return nil, errors.New("align: only the server collects")
	}
	m, err := newMember(cfg, 0)
	return &Collector{member: m}, err
}

// Join takes who takes part, as [Party.Join] does.
func (c *Collector) Join(all []Hello, identities []ed25519.PublicKey, _ protocol.Runner) ([]Envelope, error) {
	begins, err := c.join(all, identities)
	if err != nil {
		return nil, err
	}
	if !begins {
		return c.again(), nil
	}
	c.names, c.known, c.kept, c.union = make([][]byte, len(all)), make([]string, len(all)), make([]bool, len(all)), nil
	return nil, nil
}

// Take takes an envelope, as [Party.Take] does.
func (c *Collector) Take(e *Envelope, _ protocol.Runner) ([]Envelope, error) {
	m, ok, out, err := c.receive(e)
	if !ok {
		return out, err
	}
	switch {
	case m.kind == names:
		err = c.collect(e.From, m)
	case m.kind == checks && m.n() == Checks && c.known[e.From] == "":
		c.known[e.From] = string(m.entries)
	case m.kind == done && c.union != nil && !c.kept[e.From]:
		c.kept[e.From] = true
	default:
		err = errTurn
	}
	if err != nil {
		return nil, &Fault{e.From, err}
	}
	if m.kind != done && c.complete() {
		more, err := c.publish()
		return append(out, more...), err
	}
	return out, nil
}

func (c *Collector) collect(from Seat, m body) error {
	have := uint32(len(c.names[from]) / nameSize)
	switch {
	case m.b != have:
		return errTurn
	case m.n() > c.counts[from]-have:
		return fmt.Errorf("%w: %d", errCount, c.counts[from])
	}
	c.names[from] = append(c.names[from], m.entries...)
	if have+m.n() == c.counts[from] {
		seen := make(map[string]bool, c.counts[from])
		for name := range slices.Chunk(c.names[from], nameSize) {
			if seen[string(name)] {
				return errors.New("a pseudonym twice")
			}
			seen[string(name)] = true
		}
	}
	return nil
}

func (c *Collector) complete() bool {
	for i, n := range c.counts {
		if len(c.names[i]) != nameSize*int(n) || c.known[i] == "" && Seat(i) != Server {
			return false
		}
	}
	return true
}

// ErrMismatch says that pseudonyms do not match, so that rows would not either.
var ErrMismatch = errors.New("align: parties have other pseudonyms for the same ids: one of them multiplies by several scalars, and it cannot be told which")

// publish numbers the union, and tells each party the rows of what it has.
func (c *Collector) publish() (out []Envelope, err error) {
	for _, known := range c.known[1:] {
		if known != c.known[1] {
			return nil, ErrMismatch
		}
	}
	key, err := entropy.NewSeed(c.cfg.Entropy, "align/rows", uint64(c.attempts))
	if err != nil {
		return nil, err
	}
	lists := make(map[string]int)
	for _, list := range c.names {
		for name := range slices.Chunk(list, nameSize) {
			lists[string(name)]++
		}
	}
	rows := order(lists, key[:])
	c.union = &Union{Attempt: c.attempt, Users: len(rows), Shared: make([]int, len(c.names)-1)}
	for _, n := range lists {
		c.union.Shared[n-1]++
	}
	for seat, list := range c.names {
		if Seat(seat) == Server {
			continue
		}
		c.union.Lists = append(c.union.Lists, len(list)/nameSize)
		var entries []byte
		for name := range slices.Chunk(list, nameSize) {
			entries = binary.BigEndian.AppendUint32(entries, rows[string(name)])
		}
		out = append(out, c.say(Seat(seat), body{kind: ranks, a: uint32(len(rows)), entries: entries}.split()...)...)
	}
	c.names = make([][]byte, len(c.names)) // no use for them any more
	c.counts = make([]uint32, len(c.counts))
	return out, nil
}

// order numbers names by their hash under a key.
func order(lists map[string]int, key []byte) map[string]uint32 {
	type entry struct {
		name string
		by   [sha256.Size]byte
	}
	all := make([]entry, 0, len(lists))
	h := hmac.New(sha256.New, key)
	for name := range lists {
		h.Reset()
		h.Write([]byte(name))
		e := entry{name: name}
		h.Sum(e.by[:0])
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(bytes.Compare(a.by[:], b.by[:]), cmp.Compare(a.name, b.name)) })
	rows := make(map[string]uint32, len(all))
	for i := range all {
		rows[all[i].name] = uint32(i)
	}
	return rows
}

// Result is the union as soon as all parties keep their rows; nil before.
func (c *Collector) Result() *Union {
	if c.union == nil || slices.Contains(c.kept[1:], false) {
		return nil
	}
	return c.union
}

// End is the server's word for the end of the attempt, once its own result is kept, too.
func (c *Collector) End() *Ended {
	return &Ended{Attempt: c.attempt[:], Signature: ed25519.Sign(c.cfg.Identity, ended(c.cfg.Federation, c.attempt[:]))}
}
