package align

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gtank/ristretto255"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// ErrSealed says that an envelope does not open: it is not from whom it says, or was changed on
// its way. Nothing else comes of it.
var ErrSealed = errors.New("align: an envelope that does not open")

// ErrAttempts says that a party takes part in no more attempts.
var ErrAttempts = fmt.Errorf("align: %d attempts have failed; find the party that keeps starting anew, then start again", MaxAttempts)

// window bounds the messages on their way to one reader, and so the messages that wait at the aggregator
// for a slow party.
const window = 8

// link carries messages to one other member and back, in order and once each, over
// connections that may break.
type link struct {
	attempt  Attempt
	own, to  Seat
	out, in  cipher.AEAD
	waiting  [][]byte   // not sealed yet
	sent     []Envelope // not acknowledged yet
	sequence uint32     // of the last that was sealed
	heard    uint32     // of the last that was taken
}

func nonce(sequence uint32) []byte {
	b := make([]byte, chacha20poly1305.NonceSize)
	binary.BigEndian.PutUint32(b[len(b)-4:], sequence)
	return b
}

// flush seals what there is room for.
func (l *link) flush() (out []Envelope) {
	for len(l.waiting) > 0 && len(l.sent) < window {
		l.sequence++
		e := Envelope{Attempt: l.attempt[:], From: l.own, To: l.to, Sequence: l.sequence, Sealed: l.out.Seal(nil, nonce(l.sequence), l.waiting[0], nil)}
		l.waiting, l.sent = l.waiting[1:], append(l.sent, e)
		out = append(out, e)
	}
	return out
}

// open takes an envelope. The message is nil if there is nothing to do but to answer.
func (l *link) open(e *Envelope) (message []byte, answer []Envelope, err error) {
	switch {
	case e.Sequence == 0:
		for len(l.sent) > 0 && l.sent[0].Sequence <= e.Heard {
			l.sent = l.sent[1:]
		}
		return nil, l.flush(), nil
	case e.Sequence <= l.heard:
		return nil, l.taken(), nil // the acknowledgement was lost
	case e.Sequence > l.heard+1:
		return nil, nil, nil // one before it was lost, and comes again
	}
	message, err = l.in.Open([]byte{}, nonce(e.Sequence), e.Sealed, nil) // an empty message is not nil: it is refused for its form
	if err != nil {
		return nil, nil, fmt.Errorf("%w, from the %s", ErrSealed, e.From)
	}
	l.heard++
	return message, l.taken(), nil
}

func (l *link) taken() []Envelope {
	return []Envelope{{Attempt: l.attempt[:], From: l.own, To: l.to, Heard: l.heard}}
}

// Config names the members of an alignment, and the seat of this member.
type Config struct {
	Federation Federation
	Seat       Seat
	Identity   ed25519.PrivateKey
	Entropy    entropy.Source
}

// member holds the common state of a party and the server.
type member struct {
	cfg      Config
	key      *ecdh.PrivateKey
	hello    Hello
	attempts int
	attempt  Attempt
	counts   []uint32 // by seat
	links    []*link  // by seat; nil: one's own
}

func newMember(cfg Config, count int) (*member, error) {
	var b [32]byte
	if _, err := io.ReadFull(cfg.Entropy.Stream("align/key", 0), b[:]); err != nil {
		return nil, fmt.Errorf("align: drawing a key: %w", err)
	}
	key, err := ecdh.X25519().NewPrivateKey(b[:])
	if err != nil {
		return nil, err
	}
	m := &member{cfg: cfg, key: key, hello: Hello{Seat: cfg.Seat, Key: key.PublicKey().Bytes(), Count: uint32(count)}}
	m.hello.Signature = ed25519.Sign(cfg.Identity, m.hello.signed(cfg.Federation))
	return m, nil
}

// Hello returns the first message of the member on every connection.
func (m *member) Hello() Hello { return m.hello }

// Attempt names the attempt that the member is in; zero before the first.
func (m *member) Attempt() Attempt { return m.attempt }

// join takes who takes part, with the identities of the seats. It says whether an attempt begins with it; else it returns all that has
// not been acknowledged.
func (m *member) join(all []Hello, identities []ed25519.PublicKey) (begins bool, again []Envelope, err error) {
	if len(all) != len(identities) || len(all) < 3 {
		return false, nil, fmt.Errorf("align: %d take part of %d who are enrolled; it takes all, the server and at least two parties", len(all), len(identities))
	}
	for i := range all {
		if err = all[i].check(m.cfg.Federation, Seat(i), identities[i]); err != nil {
			return false, nil, fmt.Errorf("align: %w", err)
		}
	}
	if int(m.cfg.Seat) >= len(all) || string(all[m.cfg.Seat].Key) != string(m.hello.Key) || all[m.cfg.Seat].Count != m.hello.Count {
		return false, nil, errors.New("align: the own hello is not among the hellos of the participants") // an older one; the newer will follow
	}
	t := protocol.NewTranscript("fedsim/align/attempt/v1").Bytes(m.cfg.Federation[:])
	for i := range all {
		t.Uint(uint64(all[i].Seat)).Bytes(all[i].Key).Uint(uint64(all[i].Count))
	}
	attempt := Attempt(t.Sum())
	if attempt == m.attempt {
		for _, l := range m.links {
			if l != nil {
				again = append(again, l.sent...)
			}
		}
		return false, again, nil
	}
	links := make([]*link, len(all))
	counts := make([]uint32, len(all))
	for i := range all {
		counts[i] = all[i].Count
		if Seat(i) == m.cfg.Seat {
			continue
		}
		if links[i], err = m.link(attempt, &all[i]); err != nil {
			return false, nil, fmt.Errorf("align: the key of the %s: %w", all[i].Seat, err)
		}
	}
	if m.attempts == MaxAttempts {
		return false, nil, ErrAttempts
	}
	m.attempts++
	m.attempt, m.links, m.counts = attempt, links, counts
	return true, nil, nil
}

// link makes the ciphers to and from another member.
func (m *member) link(a Attempt, h *Hello) (*link, error) {
	public, err := ecdh.X25519().NewPublicKey(h.Key)
	if err != nil {
		return nil, err
	}
	secret, err := m.key.ECDH(public) // fails for keys of low order
	if err != nil {
		return nil, err
	}
	aead := func(from, to Seat) cipher.AEAD {
		info := protocol.NewTranscript("fedsim/align/channel/v1").Bytes(a[:]).Uint(uint64(from)).Uint(uint64(to)).Encoding()
		key, _ := hkdf.Key(sha256.New, secret, nil, string(info), chacha20poly1305.KeySize) // so many bytes there always are
		x, _ := chacha20poly1305.New(key)
		return x
	}
	own := m.cfg.Seat
	return &link{attempt: a, own: own, to: h.Seat, out: aead(own, h.Seat), in: aead(h.Seat, own)}, nil
}

// say sends messages to a seat, as far as there is room.
func (m *member) say(to Seat, messages ...[]byte) []Envelope {
	l := m.links[to]
	l.waiting = append(l.waiting, messages...)
	return l.flush()
}

// receive opens an envelope. There is a message if ok. It passes over envelopes of other attempts.
func (m *member) receive(e *Envelope) (message body, ok bool, answer []Envelope, err error) {
	if string(e.Attempt) != string(m.attempt[:]) || e.To != m.cfg.Seat || int(e.From) >= len(m.links) || m.links[e.From] == nil {
		return body{}, false, nil, nil
	}
	b, answer, err := m.links[e.From].open(e)
	if err != nil || b == nil {
		return body{}, false, answer, err
	}
	if message, err = parse(b); err != nil {
		return body{}, false, nil, &Fault{e.From, err}
	}
	return message, true, answer, nil
}

// Sizes in bytes.
const (
	pointSize = 32
	nameSize  = 16 // of a pseudonym's hash: two of 2^22 meet with a chance of 2^-85
)

// suite is the domain of hashing to the group; what hashes under it is an input to nothing else.
const suite = "fedsim-align-v1-ristretto255-SHA512"

var (
	errPoint    = errors.New("a point that does not decode")
	errIdentity = errors.New("the identity in place of a point")
)

// expand is expand_message_xmd of RFC 9380, section 5.3.1, with SHA-512, to 64 bytes. The
// domain is at most 255 bytes long.
func expand(message, domain []byte) []byte {
	tail := append(append([]byte(nil), domain...), byte(len(domain)))
	h := sha512.New()
	h.Write(make([]byte, h.BlockSize()))
	h.Write(message)
	h.Write([]byte{0, sha512.Size, 0})
	h.Write(tail)
	first := h.Sum(nil)
	h.Reset()
	h.Write(first)
	h.Write([]byte{1})
	h.Write(tail)
	return h.Sum(nil)
}

// hash is hash_to_ristretto255 of RFC 9380, appendix B.
func hash(message, domain []byte) *ristretto255.Element {
	e, _ := ristretto255.NewIdentityElement().SetUniformBytes(expand(message, domain)) // there are 64 bytes
	return e
}

// drawScalar draws a scalar that is not zero.
func drawScalar(r io.Reader) (*ristretto255.Scalar, error) {
	var b [64]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, fmt.Errorf("align: drawing a scalar: %w", err)
		}
		s, _ := ristretto255.NewScalar().SetUniformBytes(b[:]) // there are 64 bytes
		if s.Equal(ristretto255.NewScalar()) == 0 {
			return s, nil
		}
	}
}

// multiply multiplies an encoded point in place.
func multiply(b []byte, s *ristretto255.Scalar) error {
	e, err := ristretto255.NewIdentityElement().SetCanonicalBytes(b)
	switch {
	case err != nil:
		return errPoint
	case e.Equal(ristretto255.NewIdentityElement()) == 1:
		return errIdentity
	}
	copy(b, e.ScalarMult(s, e).Bytes())
	return nil
}

// digest is the output of RFC 9497, section 3.3.1, for an input of at most 65,535 bytes.
func digest(input, point []byte) [sha512.Size]byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(input)))
	b = append(b, input...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(point)))
	b = append(append(b, point...), "Finalize"...)
	return sha512.Sum512(b)
}
