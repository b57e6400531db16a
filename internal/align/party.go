// Package align finds common rows for users that several organisations share, without showing
// their ids to any other party or the server. The server learns how the parties' lists overlap, and no id. A party
// learns the rows of its own ids and the number of rows.
//
// # Protocol
//
// Each party draws a secret scalar. The pseudonym of an id is its hash, a point of
// ristretto255, multiplied by all parties' secrets; no party knows their product. A party gets
// the pseudonyms of its own ids by oblivious evaluation, as in RFC 9497 but with a chain of
// evaluators. The owner blinds each point with a scalar of its own. Every other party in turn multiplies
// the point by its secret. The owner then multiplies by its own secret and removes the blinding.
//
//	owner -> next      points   the owner's ids: blinded, padded, in random order
//	party -> next      points   multiplied by the party's secret, until they are back
//	party -> server    names    the pseudonyms, hashed to 16 bytes
//	party -> server    checks   which of 16 ids all parties know
//	server -> party    ranks    the row of each, and the number of rows
//	party -> server    done     the party has stored its rows
//	server -> all      Ended    all parties have; signed
//
// The server sorts the union of all pseudonyms by a hash whose key it draws; a row is a rank
// in that order. Neither the pseudonyms nor their own order are published: a party
// could look up, or locate between two of its own, an id that it had evaluated but did not submit.
//
// # Trust
//
// The aggregator relays messages, sealed end to end with keys that are drawn for the alignment and
// signed with the members' identities ([Hello]). The hash of all hellos names the attempt and
// enters every key, so members that were shown different hellos cannot read each other.
//
// A party multiplies at most as many points of another party as that party declared in its
// hello, and [Checks]. Encodings that are not canonical, the identity element, and messages out of order end the alignment with
// an error that names the sender ([Fault]). Each party also has [Checks] ids evaluated that all know, hidden
// among its own. If their pseudonyms differ between parties, a party has multiplied by several
// scalars, and the server ends the alignment ([ErrMismatch]). The check cannot tell which party it was.
//
// # Failures
//
// A broken connection costs nothing: unacknowledged messages are sent again. A process that restarts
// has lost its keys. Its new hello begins another attempt, and all parties draw new
// secrets for it. A party takes part in at most [MaxAttempts].
//
// Party and Collector are state machines without I/O, clock and goroutines.
package align

import (
	"cmp"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Party is an organisation with a list of ids.
type Party struct {
	*member
	ids   []string
	count int

	// Of an attempt:
	secret    *ristretto255.Scalar
	inputs    [][]byte               // ids, padding and checks, in random order
	factors   []*ristretto255.Scalar // the secret over the blinding of each
	names     [][]byte               // the pseudonym of each that has come back
	evaluated []uint32               // by owner: how many points were multiplied
	ranks     []uint32
	users     uint32
	taken     map[uint32]bool // rows
	result    *Rows
}

// Rows is the result of an alignment for a party.
type Rows struct {
	Attempt Attempt
	Users   int            // rows in all, padding of all parties included
	Row     map[string]int // of each of the party's ids; from 0 on
}

// NewParty makes a party of distinct ids, which are made up to count with padding.
func NewParty(cfg Config, ids []string, count int) (*Party, error) {
	if len(ids) == 0 || count < len(ids) || count > MaxIDs {
		return nil, fmt.Errorf("align: %d ids of %d with padding; there must be at least one and, with padding, at most %d", len(ids), count, MaxIDs)
	}
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		switch {
		case id == "" || len(id) > MaxID || !utf8.ValidString(id):
			return nil, fmt.Errorf("align: id %d is %.40q; it must be a text of 1 to %d bytes in UTF-8", i+1, id, MaxID)
		case seen[id]:
			return nil, fmt.Errorf("align: id %d, %q, is there twice", i+1, id)
		}
		seen[id] = true
	}
	if cfg.Seat == Server {
		return nil, errors.New("align: the server has no ids")
	}
	m, err := newMember(cfg, count)
	return &Party{member: m, ids: ids, count: count}, err
}

// Join takes who takes part, with the identities of the seats. The same again, after a
// connection has broken, has what may be lost sent again; others begin a new attempt.
func (p *Party) Join(all []Hello, identities []ed25519.PublicKey, run protocol.Runner) ([]Envelope, error) {
	begins, out, err := p.join(all, identities)
	if !begins {
		return out, err
	}
	if err = p.draw(); err != nil {
		return nil, err
	}
	blinded, err := p.blind(run)
	if err != nil {
		return nil, err
	}
	return p.say(p.next(), body{kind: points, a: uint32(p.cfg.Seat), entries: blinded}.split()...), nil
}

// next is to whom points go, and before from whom they come: seats 1 to n stand in a circle.
func (p *Party) next() Seat { return p.cfg.Seat%Seat(len(p.links)-1) + 1 }

func (p *Party) before() Seat {
	n := Seat(len(p.links) - 1)
	return (p.cfg.Seat+n-2)%n + 1
}

// The first byte of an input tells its origin. The second byte of a check is its number.
const (
	ofID byte = iota
	ofPadding
	ofCheck
)

// draw begins an attempt: a secret, padding, and an order.
func (p *Party) draw() (err error) {
	n := uint64(p.attempts)
	if p.secret, err = drawScalar(p.cfg.Entropy.Stream("align/secret", n)); err != nil {
		return err
	}
	p.inputs = make([][]byte, p.count, p.count+Checks)
	pad := p.cfg.Entropy.Stream("align/padding", n)
	for i := range p.inputs {
		if i < len(p.ids) {
			p.inputs[i] = append([]byte{ofID}, p.ids[i]...)
			continue
		}
		p.inputs[i] = append([]byte{ofPadding}, make([]byte, 32)...)
		if _, err = io.ReadFull(pad, p.inputs[i][1:]); err != nil {
			return fmt.Errorf("align: drawing padding: %w", err)
		}
	}
	for i := range byte(Checks) {
		p.inputs = append(p.inputs, append([]byte{ofCheck, i}, p.attempt[:]...))
	}
	order := p.cfg.Entropy.Stream("align/order", n)
	for i := len(p.inputs) - 1; i > 0; i-- {
		j, err := entropy.Uniform(order, uint64(i+1))
		if err != nil {
			return fmt.Errorf("align: drawing an order: %w", err)
		}
		p.inputs[i], p.inputs[j] = p.inputs[j], p.inputs[i]
	}
	p.names, p.users, p.ranks, p.result = nil, 0, nil, nil
	p.evaluated, p.taken = make([]uint32, len(p.links)), make(map[uint32]bool, p.count)
	return nil
}

// blind is the hash of each input under a scalar of its own. The inverses, times the
// secret, are kept.
func (p *Party) blind(run protocol.Runner) ([]byte, error) {
	draw := p.cfg.Entropy.Stream("align/blind", uint64(p.attempts))
	blinds := make([]*ristretto255.Scalar, len(p.inputs))
	for i := range blinds {
		var err error
		if blinds[i], err = drawScalar(draw); err != nil {
			return nil, err
		}
	}
	p.factors = make([]*ristretto255.Scalar, len(blinds))
	out := make([]byte, pointSize*len(blinds))
	run.Each(len(blinds), func(i int) {
		e := hash(p.inputs[i], []byte(suite))
		copy(out[i*pointSize:], e.ScalarMult(blinds[i], e).Bytes())
		inverse := ristretto255.NewScalar().Invert(blinds[i])
		p.factors[i] = inverse.Multiply(inverse, p.secret)
	})
	return out, nil
}

// Take takes an envelope. A Fault ends the alignment; another error is for the log.
func (p *Party) Take(e *Envelope, run protocol.Runner) ([]Envelope, error) {
	m, ok, out, err := p.receive(e)
	if !ok {
		return out, err
	}
	var more []Envelope
	switch {
	case m.kind == points && e.From == p.before() && Seat(m.a) == p.cfg.Seat:
		more, err = p.arrive(m, run)
	case m.kind == points && e.From == p.before():
		more, err = p.evaluate(m, run)
	case m.kind == ranks && e.From == Server:
		err = p.rank(m)
	default:
		err = errTurn
	}
	if err != nil {
		return nil, &Fault{e.From, err}
	}
	return append(out, more...), nil
}

var (
	errTurn  = errors.New("a message that is not in turn")
	errCount = errors.New("more than was declared")
)

// evaluate multiplies another's points by the secret.
func (p *Party) evaluate(m body, run protocol.Runner) ([]Envelope, error) {
	switch {
	case m.a == uint32(Server) || int(m.a) >= len(p.counts) || m.b != p.evaluated[m.a]:
		return nil, errTurn
	case m.n() > p.counts[m.a]+Checks-p.evaluated[m.a]:
		return nil, fmt.Errorf("%w: the %s has %d ids", errCount, Seat(m.a), p.counts[m.a])
	}
	if err := multiplyAll(m.entries, run, func(int) *ristretto255.Scalar { return p.secret }); err != nil {
		return nil, err
	}
	p.evaluated[m.a] += m.n()
	return p.say(p.next(), m.encode()), nil
}

// arrive takes the blinding off the party's own points.
func (p *Party) arrive(m body, run protocol.Runner) ([]Envelope, error) {
	first := len(p.names)
	switch {
	case int(m.b) != first:
		return nil, errTurn
	case int(m.n()) > len(p.inputs)-first:
		return nil, fmt.Errorf("%w: %d", errCount, p.count)
	}
	if err := multiplyAll(m.entries, run, func(i int) *ristretto255.Scalar { return p.factors[first+i] }); err != nil {
		return nil, err
	}
	for point := range slices.Chunk(m.entries, pointSize) {
		d := digest(p.inputs[len(p.names)], point)
		p.names = append(p.names, d[:nameSize])
	}
	if len(p.names) < len(p.inputs) {
		return nil, nil
	}
	known, own := make([]byte, nameSize*Checks), make([]byte, 0, nameSize*p.count)
	for i, name := range p.names {
		if input := p.inputs[i]; input[0] == ofCheck {
			copy(known[nameSize*int(input[1]):], name)
		} else {
			own = append(own, name...)
		}
	}
	return p.say(Server, append(body{kind: names, entries: own}.split(), body{kind: checks, entries: known}.encode())...), nil
}

// multiplyAll multiplies points in place.
func multiplyAll(entries []byte, run protocol.Runner, by func(i int) *ristretto255.Scalar) error {
	errs := make([]error, len(entries)/pointSize)
	run.Each(len(errs), func(i int) { errs[i] = multiply(entries[i*pointSize:][:pointSize], by(i)) })
	return cmp.Or(errs...) // the first; a message of them says no more
}

func (p *Party) rank(m body) error {
	most := uint64(0)
	for _, n := range p.counts {
		most += uint64(n)
	}
	if len(p.names) < len(p.inputs) || int(m.b) != len(p.ranks) || len(p.ranks) == p.count || m.b > 0 && m.a != p.users {
		return errTurn
	}
	if m.n() > uint32(p.count)-m.b {
		return fmt.Errorf("%w: rows for %d", errCount, p.count)
	}
	if uint64(m.a) > most || int(m.a) < p.count {
		return fmt.Errorf("%d rows for %d ids of all parties; this party alone has %d", m.a, most, p.count)
	}
	p.users = m.a
	for i := range int(m.n()) {
		r := binary.BigEndian.Uint32(m.entries[4*i:])
		if r >= p.users || p.taken[r] {
			return fmt.Errorf("row %d, of %d, out of range or for the second time", r, p.users)
		}
		p.taken[r] = true
		p.ranks = append(p.ranks, r)
	}
	if len(p.ranks) < p.count {
		return nil
	}
	p.result = &Rows{Attempt: p.attempt, Users: int(p.users), Row: make(map[string]int, len(p.ids))}
	n := 0
	for _, input := range p.inputs {
		if input[0] == ofID {
			p.result.Row[string(input[1:])] = int(p.ranks[n])
		}
		if input[0] != ofCheck {
			n++
		}
	}
	return nil
}

// Progress returns how many points the party has multiplied for others and got back of its own,
// and the number of all such points. It returns 0 and 0 before the first attempt.
func (p *Party) Progress() (have, of int) {
	for seat, n := range p.counts {
		if Seat(seat) != Server {
			have, of = have+int(p.evaluated[seat]), of+int(n)+Checks
		}
	}
	return have + len(p.names), of
}

// Result are the rows, as soon as all are there; nil before.
func (p *Party) Result() *Rows { return p.result }

// Kept says to the server that the result is kept durably.
func (p *Party) Kept() []Envelope { return p.say(Server, body{kind: done}.encode()) }
