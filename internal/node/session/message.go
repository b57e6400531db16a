package session

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/internal/strictjson"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// Message is a message that sets a stream up, before the messages of package
// protocol: JSON behind its length in 4 bytes, big endian. Exactly one field is set, ForGood apart.
type Message struct {
	Register *Register       `json:"register,omitempty"`
	Welcome  *Welcome        `json:"welcome,omitempty"`
	Publish  *Signed         `json:"publish,omitempty"`
	Session  *Signed         `json:"session,omitempty"`
	Enrol    json.RawMessage `json:"enrol,omitempty"` // an enrolment (package admission)
	Ready    *Ready          `json:"ready,omitempty"`
	Gathered *Gathered       `json:"gathered,omitempty"`
	Wait     *Wait           `json:"wait,omitempty"`
	// Decline is a client's answer to a session in which it takes no part. It is shown the next one.
	Decline Decline `json:"decline,omitempty"`
	// Declined tells the server, before the session begins or continues, how many clients decline it.
	Declined Declined `json:"declined,omitempty"`
	Refused  string   `json:"refused,omitempty"`
	// ForGood says of a refusal that the same would be refused again, whenever it is asked.
	ForGood bool `json:"for_good,omitempty"`

	// Of an alignment:
	Hello    *align.Hello    `json:"hello,omitempty"`
	Roster   *Roster         `json:"roster,omitempty"`
	Envelope *align.Envelope `json:"envelope,omitempty"`
	Ended    *align.Ended    `json:"ended,omitempty"`
}

// Register opens a stream.
type Register struct {
	Version string `json:"version"`
	// Life is drawn when a process starts: a peer that registers with another one than before has lost what it knew.
	Life [16]byte `json:"life"`
	// List is the SHA-256 of the text of the enrolment list that the peer has, if it has one. It is not sent again.
	List admission.Hash `json:"list,omitzero"`
	// Head is the signed head of a client's ledger (store.Head).
	Head []byte `json:"head,omitempty"`
	// At is the time by the peer's clock, in whole seconds.
	At time.Time `json:"at,omitzero"`
	// End, of a client, is the signed end of the last session that the client has finished.
	End *protocol.End `json:"end,omitempty"`
	// Seen is the size of the log of sessions that a client or the server has seen last; 0: none.
	Seen int64 `json:"seen,omitempty"`
}

// Welcome acknowledges a registration.
type Welcome struct {
	Life [16]byte `json:"life"` // the aggregator's own
	// At is the time by the aggregator's clock, in whole minutes.
	At time.Time `json:"at,omitzero"`
	// List, for the server and relays, is the enrolment list (package admission), or what was added since it was sent last. It is
	// missing if the peer has it.
	List json.RawMessage `json:"list,omitempty"`
	// Connected are the clients that are registered at the moment; for the server, and 0 for clients.
	Connected int `json:"connected"`
	// Latest, for the server, lists sessions that this server has signed: the latest session here, and sessions that clients know.
	Latest []Latest `json:"latest,omitempty"`
	// Head is the latest signed head of the client's ledger that the aggregator knows. It is missing
	// if the client has registered with it, or if there is none.
	Head []byte `json:"head,omitempty"`
	// Heads, for a relay, are the latest heads of all clients (store.Heads).
	Heads []byte `json:"heads,omitempty"`
}

// Latest says how far a session has come at the aggregator.
type Latest struct {
	Session protocol.SessionID `json:"session"`
	Round   uint64             `json:"round"` // the last that was opened since the aggregator started
	Ended   bool               `json:"ended,omitempty"`
}

// Signed is the description of a session with the server's signature.
type Signed struct {
	Descriptor json.RawMessage `json:"descriptor"`
	Signature  []byte          `json:"signature"`
	// List is the enrolment list as of now, from the aggregator, for a client: in active mode as a whole, else a part of it. It is
	// missing if the client registered with it, or was sent it last.
	List json.RawMessage `json:"list,omitempty"`
	// Ended says to clients that there is nothing left but the final model, so that the
	// list need not be that with which the session began.
	Ended bool `json:"ended,omitempty"`
}

// Ready says that the peer has checked a message. After a session, the peer takes part in it. After
// an enrolment, the enrolment is durable.
type Ready struct {
	// Presences, of a relay, is the number of messages of the kind presence that follow at once.
	// They name the clients that take part through it.
	Presences int `json:"presences,omitempty"`
	// Begun, of a client, names the beginning of the latest plan or model, which came over an earlier stream. The client
	// is sent the rest.
	Begun *Begun `json:"begun,omitempty"`
	// Seen, of a relay, are the sizes of the log of sessions that the clients behind it have seen last.
	Seen []int64 `json:"seen,omitempty"`
	// Declined, of a relay, counts the clients behind it that decline the session.
	Declined Declined `json:"declined,omitempty"`
}

// Begun names the first bytes of a message.
type Begun struct {
	Kind   string         `json:"kind"`
	Bytes  int            `json:"bytes"`
	Digest admission.Hash `json:"digest"` // SHA-256
}

// BegunOf names the beginning of a broadcast that has come; nil: nothing has.
func BegunOf(b *wire.Begun) *Begun {
	s, ok := b.Start()
	if !ok {
		return nil
	}
	return &Begun{Kind: s.Kind.String(), Bytes: s.Bytes, Digest: admission.Hash(s.Digest)}
}

// Rest returns the frames of a message that a peer lacks: all, if it begins otherwise.
func (b *Begun) Rest(kind protocol.Kind, pieces [][]byte) [][]byte {
	if b == nil || b.Kind != kind.String() {
		return pieces
	}
	rest, ok := wire.Rest(pieces, wire.Start{Kind: kind, Bytes: b.Bytes, Digest: b.Digest})
	switch {
	case !ok:
		return pieces
	case len(rest) == 0:
		return nil
	}
	return [][]byte{rest}
}

// Gathered says how many clients are connected to a relay, and how many parties the relay knows, before there is a session.
type Gathered struct {
	Connected int `json:"connected"`
	Enrolled  int `json:"enrolled"`
}

// Wait says that a client takes no part in the session that it was shown, since it has finished that one, or since it is over and
// of a server that has been put out. It is shown the next one.
type Wait struct{}

// NoticeSize limits a notice, in bytes, before the size of the federation is known.
const NoticeSize = 4 << 10

var ErrNotice = errors.New("node: not what is said at this point of a registration")

// Say writes a control message to a stream.
func Say(s network.Stream, c *Message) error {
	b, err := c.Frame()
	if err != nil {
		return err
	}
	_, err = s.Write(b)
	return err
}

// Frame is a control message as it is written.
func (c *Message) Frame() ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 4)) // for the length
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // documents have one spelling, which Marshal would change
	if err := e.Encode(c); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - 1) // the line feed
	binary.BigEndian.PutUint32(b.Bytes(), uint32(b.Len()-4))
	return b.Bytes(), nil
}

// WithList is the frame of a message about a session with a list put into it. The frame stays as it is, for other peers.
func WithList(frame, list []byte) []byte {
	out := slices.Concat(frame[:len(frame)-len("}}")], []byte(`,"list":`), list, []byte("}}"))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// Conclude says the last message. It waits for the peer to have it: streams end with a reset here,
// and a reset overtakes a message on its way.
func Conclude(s network.Stream, c *Message) error {
	if err := Say(s, c); err != nil {
		return err
	}
	if err := peer.EndWriting(s); err != nil {
		return peer.IgnoreEOF(err) // the peer may be that quick
	}
	_, err := s.Read(make([]byte, 1)) // ends with the peer's side, or the deadline
	return peer.IgnoreEOF(err)
}

// Hear reads a control message of at most so many bytes. A refusal is an error, and one for good is fatal.
func Hear(s network.Stream, most int) (*Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(most) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are expected", ErrNotice, n, most)
	}
	var text bytes.Buffer // grows with what arrives, not with what is announced
	if _, err := io.CopyN(&text, s, int64(n)); err != nil {
		return nil, err
	}
	c := new(Message)
	if err := strictjson.Known(text.Bytes(), c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotice, err)
	}
	switch { // quoted: it may be anything
	case c.Refused != "" && c.ForGood:
		return nil, peer.Fatal(admission.Lasting(fmt.Errorf("%w: %q; asking again would not change that", ErrRefused, c.Refused)))
	case c.Refused != "":
		return nil, fmt.Errorf("%w: %q", ErrRefused, c.Refused)
	}
	return c, nil
}

// Met remembers the lives of aggregators that a party has met.
type Met struct{ lives [][16]byte }

// Meet tells the log if a life comes back after another one. An aggregator that is started again has a new life, so two aggregators run
// with one key then, and each has some of the parties.
func (m *Met) Meet(life [16]byte, log *zerolog.Logger) {
	if n := len(m.lives); n > 0 && m.lives[n-1] == life {
		return
	}
	if slices.Contains(m.lives, life) {
		log.Error().Msg("two aggregators run with one key, and each has some of the parties: no round may have enough. Stop one of the two")
	}
	m.lives = append(m.lives, life)
}

// NewLife draws the name of a process's life.
func NewLife() (life [16]byte) {
	_, _ = rand.Read(life[:]) // never fails
	return life
}

// DescriptorSize limits the description of a session, in bytes; it contains the catalogue of items.
const DescriptorSize = 64 << 20

// AlignSize limits a member's message, in bytes: the longest envelope.
const AlignSize = 2 * align.MaxSealed

// Roster says who is there. When all are, it has their hellos and the enrolment list.
type Roster struct {
	There  int             `json:"there"`
	List   json.RawMessage `json:"list,omitempty"`
	Hellos []align.Hello   `json:"hellos,omitempty"` // by seat
}
