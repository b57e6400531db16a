package internal_test

import (
	"bytes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"io"
	"testing"

	"github.com/gtank/ristretto255"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/protocol"
)

// This file writes messages of an alignment, their seals and pseudonyms for a second time, after the comment of package align. Tests know
// the randomness of members: they seal messages in the name of a member, and open the messages that it sends.

// The kinds of messages of an alignment.
const (
	alignPoints = iota + 1
	alignNames
	alignRanks
	alignDone
	alignChecks
)

// alignForms are the size of an entry of each kind, in bytes, and the most entries.
var alignForms = map[byte][2]int{
	alignPoints: {32, 1024}, alignNames: {16, 2048}, alignRanks: {4, 8192}, alignDone: {1, 0}, alignChecks: {16, align.Checks},
}

// alignMessage is the content of an envelope.
type alignMessage struct {
	kind    byte
	a, b    uint32
	entries []byte
}

func (m alignMessage) encode() []byte {
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{m.kind}, m.a), m.b), m.entries...)
}

// parsedAlign reads a message; false if it has no message's form.
func parsedAlign(b []byte) (alignMessage, bool) {
	if len(b) < 9 {
		return alignMessage{}, false
	}
	m := alignMessage{b[0], binary.BigEndian.Uint32(b[1:5]), binary.BigEndian.Uint32(b[5:9]), b[9:]}
	form, known := alignForms[m.kind]
	return m, known && len(m.entries)%form[0] == 0 && len(m.entries)/form[0] <= form[1] && (len(m.entries) == 0) == (m.kind == alignDone)
}

// cipher seals and opens messages from one member to another: with X25519, HKDF and ChaCha20-Poly1305.
func (r *ring) cipher(from, to align.Seat) cipher.AEAD {
	r.t.Helper()
	key := make([]byte, 32)
	if _, err := io.ReadFull(r.random[from].Stream("align/key", 0), key); err != nil {
		r.t.Fatal(err)
	}
	private, err := ecdh.X25519().NewPrivateKey(key)
	if err != nil {
		r.t.Fatal(err)
	}
	public, err := ecdh.X25519().NewPublicKey(r.roles[to].Hello().Key)
	if err != nil {
		r.t.Fatal(err)
	}
	secret, err := private.ECDH(public)
	if err != nil {
		r.t.Fatal(err)
	}
	attempt := r.roles[to].Attempt()
	info := protocol.NewTranscript("fedsim/align/channel/v1").Bytes(attempt[:]).Uint(uint64(from)).Uint(uint64(to)).Encoding()
	key, err = hkdf.Key(sha256.New, secret, nil, string(info), chacha20poly1305.KeySize)
	if err != nil {
		r.t.Fatal(err)
	}
	x, err := chacha20poly1305.New(key)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

func alignNonce(sequence uint32) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 8), sequence)
}

// seal makes an envelope in the name of a member.
func (r *ring) seal(from, to align.Seat, sequence uint32, message []byte) align.Envelope {
	r.t.Helper()
	attempt := r.roles[to].Attempt()
	sealed := r.cipher(from, to).Seal(nil, alignNonce(sequence), message, nil)
	return align.Envelope{Attempt: attempt[:], From: from, To: to, Sequence: sequence, Sealed: sealed}
}

// open reads an envelope.
func (r *ring) open(e *align.Envelope) alignMessage {
	r.t.Helper()
	b, err := r.cipher(e.From, e.To).Open(nil, alignNonce(e.Sequence), e.Sealed, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	m, ok := parsedAlign(b)
	if !ok {
		r.t.Fatalf("%x has no message's form", b)
	}
	return m
}

// secret is the scalar of a party in its first attempt.
func (r *ring) secret(s align.Seat) *ristretto255.Scalar {
	r.t.Helper()
	return drawnScalar(r.t, r.random[s].Stream("align/secret", 1))
}

func drawnScalar(t testing.TB, random io.Reader) *ristretto255.Scalar {
	t.Helper()
	b := make([]byte, 64)
	if _, err := io.ReadFull(random, b); err != nil {
		t.Fatal(err)
	}
	s, err := ristretto255.NewScalar().SetUniformBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hashedToGroup is hash_to_ristretto255 of RFC 9380, appendix B, with expand_message_xmd of section 5.3.1.
func hashedToGroup(t testing.TB, input, domain []byte) *ristretto255.Element {
	t.Helper()
	tail := append(bytes.Clone(domain), byte(len(domain)))
	first := sha512.Sum512(append(append(append(make([]byte, sha512.BlockSize), input...), 0, 64, 0), tail...))
	uniform := sha512.Sum512(append(append(first[:], 1), tail...))
	e, err := ristretto255.NewIdentityElement().SetUniformBytes(uniform[:])
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finalized is the output of RFC 9497, section 3.3.1.
func finalized(input []byte, e *ristretto255.Element) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, uint16(len(input))), input...)
	b = append(binary.BigEndian.AppendUint16(b, 32), e.Bytes()...)
	sum := sha512.Sum512(append(b, "Finalize"...))
	return sum[:]
}

// A pseudonym is the hash of the id under the product of all secrets, by whatever way, as RFC 9497 has it. The vectors are of
// its appendix A.1.1, OPRF(ristretto255, SHA-512), mode OPRF.
func TestPseudonyms(t *testing.T) {
	scalar := func(s string) *ristretto255.Scalar {
		x, err := ristretto255.NewScalar().SetCanonicalBytes(unhex(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	secret := scalar("5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e")
	blind := scalar("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706")
	for _, v := range []struct{ input, blinded, evaluated, output string }{
		{
			"00", "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c", "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
			"527759c3d9366f277d8c6020418d96bb393ba2afb20ff90df23fb7708264e2f3ab9135e3bd69955851de4b1f9fe8a0973396719b7912ba9ee8aa7d0b5e24bcf6",
		},
		{
			"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a", "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418", "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
			"f4a74c9c592497375e796aa837e907b1a045d34306a749db9f34221f7e750cb4f2a6413a6bf6fa5e19ba6348eb673934a722a7ede2e7621306d18951e7cf2c73",
		},
	} {
		input := unhex(t, v.input)
		e := hashedToGroup(t, input, []byte("HashToGroup-OPRFV1-\x00-ristretto255-SHA512"))
		for _, step := range []struct {
			by   *ristretto255.Scalar
			want string
		}{{blind, v.blinded}, {secret, v.evaluated}} {
			if got := hex.EncodeToString(e.ScalarMult(step.by, e).Bytes()); got != step.want {
				t.Errorf("input %s: %s, want %s", v.input, got, step.want)
			}
		}
		if got := finalized(input, e.ScalarMult(ristretto255.NewScalar().Invert(blind), e)); !bytes.Equal(got, unhex(t, v.output)) {
			t.Errorf("input %s: the output is %x, want %s", v.input, got, v.output)
		}
	}
	r := newRing(t, [][]string{{"a"}, {"b"}, {"c"}})
	var got []byte
	r.fate = func(e *align.Envelope) (int, bool) {
		if e.To == align.Server && e.From == 1 && e.Sequence == 1 {
			got = r.open(e).entries
		}
		return 1, false
	}
	if err := r.align(); err != nil {
		t.Fatal(err)
	}
	input := []byte("\x00a")
	e := hashedToGroup(t, input, []byte("fedsim-align-v1-ristretto255-SHA512"))
	for _, s := range []align.Seat{3, 1, 2} {
		e.ScalarMult(r.secret(s), e)
	}
	if want := finalized(input, e)[:16]; !bytes.Equal(got, want) {
		t.Errorf("the pseudonym is %x, want %x", got, want)
	}
}

// FuzzAlignMessage checks that a party reads any sealed message that has a message's form, and refuses all others. It carries points
// of another party on under the same head.
func FuzzAlignMessage(f *testing.F) {
	point := ristretto255.NewGeneratorElement().Bytes()
	f.Add(alignMessage{kind: alignPoints, a: 1, b: 2, entries: make([]byte, 64)}.encode())
	f.Add(alignMessage{kind: alignPoints, a: 1, b: 0, entries: append(bytes.Clone(point), point...)}.encode())
	f.Add(alignMessage{kind: alignPoints, a: 3, b: 0, entries: point}.encode())
	f.Add(alignMessage{kind: alignDone}.encode())
	f.Add([]byte{3, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRing(t, [][]string{{"a"}, {"b"}, {"c"}})
		if err := r.join(); err != nil {
			t.Fatal(err)
		}
		e := r.seal(1, 2, 1, b)
		m, ok := parsedAlign(b)
		out, err := r.roles[2].Take(&e, r.run)
		if refused := isFault(err, 1, notAMessage); refused == ok {
			t.Fatalf("%x is refused for its form: %v, %v", b, refused, err)
		}
		for i := range out {
			if out[i].Sequence == 0 {
				continue
			}
			if on := r.open(&out[i]); on.kind != alignPoints || on.a != m.a || on.b != m.b || len(on.entries) != len(m.entries) {
				t.Errorf("%x goes on as %+v", b, on)
			}
		}
	})
}
