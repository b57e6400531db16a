package align

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Seat numbers a member of an alignment: 0 the server, k+1 client k.
type Seat uint32

// Server is the server's seat.
const Server Seat = 0

// SeatOf is the seat of a client.
func SeatOf(id protocol.ClientID) Seat { return Seat(id) + 1 }

func (s Seat) String() string {
	if s == Server {
		return "server"
	}
	return fmt.Sprintf("client %d", uint32(s)-1)
}

// Bounds of an alignment.
const (
	// MaxIDs bounds the number of ids of a party, padding included.
	MaxIDs = 1 << 22
	// MaxID bounds the length of an id, in bytes.
	MaxID = 1 << 10
	// MaxAttempts bounds the attempts in which a party takes part, and so the knowledge that a liar
	// gains by beginning anew.
	MaxAttempts = 16
	// Checks is the number of ids, known to all parties, that each party has evaluated besides its own. If a party
	// multiplies a share f of the points by wrong scalars, this stays unnoticed with a chance of (1-f)^Checks.
	Checks = 16
	// MaxSealed is the length of the longest envelope's body, in bytes.
	MaxSealed = 64 << 10
)

// Hello opens an alignment for a member. Each process draws a new one.
type Hello struct {
	Seat Seat `json:"seat"`
	// Key is an X25519 public key. Messages to the seat are sealed with it.
	Key []byte `json:"key"`
	// Count is the number of a party's ids, padding included: the others multiply that many points for it. It is 0 for the server.
	Count     uint32 `json:"count"`
	Signature []byte `json:"signature"` // by the seat's identity
}

// Federation names a federation.
type Federation [32]byte

func (h *Hello) signed(f Federation) []byte {
	sum := protocol.NewTranscript("fedsim/align/hello/v1").Bytes(f[:]).Uint(uint64(h.Seat)).Bytes(h.Key).Uint(uint64(h.Count)).Sum()
	return sum[:]
}

// check says what is wrong with the hello of a seat whose identity is given.
func (h *Hello) check(f Federation, s Seat, identity ed25519.PublicKey) error {
	switch {
	case h.Seat != s:
		return fmt.Errorf("the hello of the %s is in the place of the hello of the %s", h.Seat, s)
	case (s == Server) != (h.Count == 0) || h.Count > MaxIDs:
		return fmt.Errorf("the %s has %d ids; a party has 1 to %d, the server none", s, h.Count, MaxIDs)
	case !ed25519.Verify(identity, h.signed(f), h.Signature):
		return fmt.Errorf("the hello of the %s is not signed by its identity", s)
	}
	return nil
}

// Attempt names an attempt at an alignment, by all that was said at its beginning.
type Attempt [32]byte

// String is a short name: the first 4 bytes, in hex.
func (a Attempt) String() string { return hex.EncodeToString(a[:4]) }

// prefix begins the names of rows.
const prefix = "aligned-"

// User returns the name by which the parties of an experiment call the user of a row.
func (a Attempt) User(row int) string { return fmt.Sprintf("%s%s/%d", prefix, a, row) }

// IsUser reports whether an id has the form of [Attempt.User], for any attempt.
func IsUser(id string) bool {
	var a uint32
	var row int
	n, err := fmt.Sscanf(id, prefix+"%08x/%d", &a, &row)
	return err == nil && n == 2
}

// Envelope is a sealed message on its way, or, with Sequence 0, an acknowledgement.
type Envelope struct {
	Attempt  []byte `json:"attempt"`
	From     Seat   `json:"from"`
	To       Seat   `json:"to"`
	Sequence uint32 `json:"sequence,omitempty"` // number among the messages from From to To; from 1 on
	Heard    uint32 `json:"heard,omitempty"`    // the last that has been taken, of an acknowledgement
	Sealed   []byte `json:"sealed,omitempty"`
}

// Ended is the server's word that all parties keep their rows.
type Ended struct {
	Attempt   []byte `json:"attempt"`
	Signature []byte `json:"signature"`
}

func ended(f Federation, attempt []byte) []byte {
	sum := protocol.NewTranscript("fedsim/align/ended/v1").Bytes(f[:]).Bytes(attempt).Sum()
	return sum[:]
}

// Ends says whether the server, of this identity, has signed for the end of an attempt.
func (e *Ended) Ends(a Attempt, f Federation, server ed25519.PublicKey) bool {
	return string(e.Attempt) == string(a[:]) && ed25519.Verify(server, ended(f, e.Attempt), e.Signature)
}

// kind names the content of an envelope, which holds the kind, two numbers, and entries of one size.
type kind byte

const (
	points kind = iota + 1 // a: owner, b: the first of these
	names                  // b: the first of these
	ranks                  // a: how many rows there are, b: the first of these
	done
	checks // the pseudonyms of the ids that all know
)

// forms says how long an entry of a message of each kind is, in bytes, and how many a message has at most.
var forms = map[kind]struct{ size, most int }{
	points: {pointSize, 1024}, names: {nameSize, 2048}, ranks: {4, 8192}, done: {1, 0}, checks: {nameSize, Checks},
}

type body struct {
	kind    kind
	a, b    uint32
	entries []byte
}

const headSize = 1 + 4 + 4

func (m body) encode() []byte {
	out := append(make([]byte, 0, headSize+len(m.entries)), byte(m.kind))
	out = binary.BigEndian.AppendUint32(out, m.a)
	out = binary.BigEndian.AppendUint32(out, m.b)
	return append(out, m.entries...)
}

// split makes messages of entries, however many.
func (m body) split() (list [][]byte) {
	form, first := forms[m.kind], m.b
	for part := range slices.Chunk(m.entries, form.most*form.size) {
		list = append(list, body{m.kind, m.a, first, part}.encode())
		first += uint32(len(part) / form.size)
	}
	return list
}

func (m body) n() uint32 { return uint32(len(m.entries) / forms[m.kind].size) }

var errForm = errors.New("a message that is none")

func parse(b []byte) (body, error) {
	if len(b) < headSize {
		return body{}, errForm
	}
	m := body{kind: kind(b[0]), a: binary.BigEndian.Uint32(b[1:]), b: binary.BigEndian.Uint32(b[5:]), entries: b[headSize:]}
	form, known := forms[m.kind]
	if n := len(m.entries); !known || n%form.size != 0 || n > form.most*form.size || (n == 0) != (m.kind == done) {
		return body{}, errForm
	}
	return m, nil
}

// Fault says why an alignment cannot continue: a member, named by the seal, sent what it must not.
type Fault struct {
	By  Seat
	Err error
}

func (f *Fault) Error() string {
	return fmt.Sprintf("align: the %s sent %v", f.By, f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }

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
	begins, out, err := c.join(all, identities)
	if !begins {
		return out, err
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
