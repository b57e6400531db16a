package admission_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/node/admission"
)

// documents are the kinds of golden documents, and how each is read and verified.
var documents = []struct {
	name  string
	parse func(t testing.TB, text []byte) ([]byte, error) // encodes it again
}{
	{"federation.json", func(t testing.TB, text []byte) ([]byte, error) {
		f, err := admission.ParseFederation(text)
		return encoded(f, err, func() error { return f.Verify(goldenFederation(t).Operator) })
	}},
	{"invitation.json", func(_ testing.TB, text []byte) ([]byte, error) {
		i, err := admission.ParseInvitation(text)
		return encoded(i, err, func() error { return nil })
	}},
	{"membership.json", func(_ testing.TB, text []byte) ([]byte, error) {
		m, err := admission.ParseMembership(text)
		return encoded(m, err, func() error { return nil })
	}},
	{"enrolment.json", func(t testing.TB, text []byte) ([]byte, error) {
		e, err := admission.ParseEnrolment(text)
		return encoded(e, err, func() error { return e.Verify(goldenFederation(t)) })
	}},
	{"revocations.json", func(t testing.TB, text []byte) ([]byte, error) {
		r, err := admission.ParseRevocations(text)
		return encoded(r, err, func() error { return r.Verify(goldenFederation(t)) })
	}},
	{"list.json", func(t testing.TB, text []byte) ([]byte, error) {
		l, err := admission.ParseList(text)
		return encoded(l, err, func() error { return l.Verify(goldenFederation(t).Operator) })
	}},
}

func encoded(doc interface{ Encode() ([]byte, error) }, err error, verify func() error) ([]byte, error) {
	if err == nil {
		err = verify()
	}
	if err != nil {
		return nil, err
	}
	return doc.Encode()
}

var theFederation = sync.OnceValues(func() (*admission.Federation, error) {
	return admission.ReadFile(filepath.Join("testdata", "federation.json"), admission.ParseFederation)
})

func goldenFederation(t testing.TB) *admission.Federation {
	t.Helper()
	f, err := theFederation()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func compact(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// long matches keys, hashes and signatures, where a byte is like the next.
var long = regexp.MustCompile(`[\w+/=-]{24,}`)

// No byte of a document can be changed or left out; without FEDSIM_TEST_LONG every fourth is tried, and of long values few.
// An invitation and a membership contain an unsigned part: the address of the aggregator.
func TestEveryByteCounts(t *testing.T) {
	for _, d := range documents {
		t.Run(d.name, func(t *testing.T) {
			text := compact(t, golden(t, d.name))
			if _, err := d.parse(t, text); err != nil {
				t.Fatal(err)
			}
			runs := long.FindAllIndex(text, -1)
			left := func(i int) bool {
				return i%effort.Of(31, 17, 1) != 0 && slices.ContainsFunc(runs, func(r []int) bool { return r[0] < i && i < r[1]-1 })
			}
			for i, c := range text {
				if at := bytes.Index(text, []byte(`"addresses"`)); at >= 0 && i >= at {
					break
				}
				if left(i) || i%effort.Of(7, 4, 1) != 0 {
					continue
				}
				for _, other := range []byte{c ^ 1, c ^ 0x20} {
					changed := bytes.Clone(text)
					changed[i] = other
					if _, err := d.parse(t, changed); err == nil {
						t.Errorf("byte %d changed from %q to %q, and it passes: %s", i, c, other, changed[max(0, i-40):i+1])
					}
				}
				if _, err := d.parse(t, append(bytes.Clone(text[:i]), text[i+1:]...)); err == nil {
					t.Errorf("byte %d left out, and it passes: %s", i, text[max(0, i-40):i+1])
				}
			}
			for n := range text {
				if left(n) {
					continue
				}
				if _, err := d.parse(t, text[:n]); !errors.Is(err, admission.ErrMalformed) {
					t.Errorf("cut off after %d bytes: %v", n, err)
				}
			}
		})
	}
}

// Each text is valid JSON to a lenient parser and is refused for the reason given.
func TestStrictTexts(t *testing.T) {
	const odd = "a key is missing, there twice, out of its order or in other letters"
	text := string(compact(t, golden(t, "federation.json")))
	change := func(from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("%q is not in %s", from, text)
		}
		return strings.Replace(text, from, to, 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", change(`"clients":3`, `"clients":3,"colour":1`), `json: unknown field "colour"`},
		{"key twice", change(`"clients":3`, `"clients":3,"clients":3`), odd},
		{"key of a document twice", change(`{"fedsim`, `{"fedsim-federation-v1":{},"fedsim`), odd},
		{"key in other letters", change(`"clients"`, `"Clients"`), odd},
		{"key missing", change(`"clients":3,`, ``), odd},
		{"keys in another order", change(`"clients":3,"created":"2026-03-01T12:00:00Z"`, `"created":"2026-03-01T12:00:00Z","clients":3`), odd},
		{"number spelt differently", change(`"clients":3`, `"clients":3.0`), "cannot unmarshal number 3.0"},
		{"text spelt differently", change(`"Films`, `"\u0046ilms`), odd},
		{"time spelt differently", change(`12:00:00Z`, `12:00:00+00:00`), odd},
		{"time with a fraction", change(`12:00:00Z`, `12:00:00.5Z`), "whole seconds"},
		{"time before 1970", change(`2026-`, `1969-`), "whole seconds"},
		{"no clients", change(`"clients":3`, `"clients":0`), "there can be 1 to 100000"},
		{"too many clients", change(`"clients":3`, `"clients":100001`), "there can be 1 to 100000"},
		{"name with a line break", change(`"Films`, `"\nFilms`), "that can be printed"},
		{"name that turns the text around", change(`"Films`, "\"\u202eFilms"), "that can be printed"},
		{"name that begins with a space", change(`"Films`, `" Films`), "begins or ends with a space"},
		{"no name", change(`"Films & séries <3>"`, `""`), "1 to 64 bytes"},
		{"long name", change(`"Films`, `"`+strings.Repeat("F", 64)), "1 to 64 bytes"},
		{"short ID", change(`"000102030405060708090a0b0c0d0e0f"`, `"0001"`), "32 hexadecimal digits"},
		{"ID in capitals", change(`0a0b`, `0A0B`), odd},
		{"null", `{"fedsim-federation-v1":null}`, odd},
		{"an array", `[]`, "cannot unmarshal array"},
		{"another kind", strings.Replace(text, "federation-v1", "federation-v2", 1), `this is "fedsim-federation-v2", and a fedsim-federation-v1 is needed`},
		{"two kinds", change(`{"fedsim`, `{"other":1,"fedsim`), "there are 2 keys"},
		{"none", `{}`, "there are 0 keys"},
		{"more behind", text + "\n{}", "line 2: invalid character '{' after top-level value"},
		{"nothing", "", "line 1: unexpected end of JSON input"},
		{"error on the third line", "{\n\"fedsim-federation-v1\":\n,", "line 3: invalid character ','"},
	} {
		if _, err := admission.ParseFederation([]byte(c.text)); !errors.Is(err, admission.ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := admission.ParseInvitation([]byte(`{"fedsim-invitation-v1":{}}`)); !errors.Is(err, admission.ErrMalformed) || !strings.Contains(err.Error(), "no private key") {
		t.Errorf("an invitation of nothing: %v", err)
	}
	spaced := strings.ReplaceAll(strings.ReplaceAll(text, ",", "\r\n\t, "), "{", "{ ")
	if _, err := admission.ParseFederation([]byte(spaced)); err != nil {
		t.Errorf("white space is refused: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, d := range documents {
		text, err := d.parse(f, golden(f, d.name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(golden(f, d.name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, d := range documents {
			again, err := d.parse(t, text)
			if err != nil {
				continue
			}
			if !bytes.Equal(again, compact(t, text)) {
				t.Errorf("%s: %s is written again as %s", d.name, text, again)
			}
		}
	})
}

// The texts of keys and places are read in one spelling only.
func FuzzKeysAndPlaces(f *testing.F) {
	for _, s := range []string{"server", "aggregator", "client 0", "client 4294967295", "client 4294967296", "client 007", "client", "client -1", "Server", " server",
		"fedsim-public-", key(f, "somebody").Public().String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var p admission.Place
		if err := p.UnmarshalText([]byte(s)); err == nil && p.String() != s {
			t.Errorf("%q is read as the place %q", s, p)
		}
		if k, err := admission.ParsePublicKey(s); err == nil && k.String() != s {
			t.Errorf("%q is read as the key %q", s, k)
		}
	})
}

// The limits of received texts equal the sizes of the largest possible documents.
func TestSizes(t *testing.T) {
	w := newWorld(t, admission.MaxClients)
	e := w.enrol(client(admission.MaxClients-1), 1<<32-1, "somebody")
	text, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > admission.MaxEnrolmentSize {
		t.Errorf("an enrolment takes %d bytes, and at most %d are received", len(text), admission.MaxEnrolmentSize)
	}
	small := newWorld(t, 2)
	l := small.full().List()
	var entries []admission.Revocation
	for serial := range uint32(1000 + 4*2) { // as documented: 1000 and 4 a client
		entries = append(entries, admission.Revocation{Place: client(1), Serial: 1<<32 - 1 - serial, Identity: key(t, "somebody").Public()})
	}
	l.Revocations = small.revoke(nil, entries...)
	if text, err = l.Encode(); err != nil {
		t.Fatal(err)
	}
	if len(text) > small.federation.MaxListSize() {
		t.Errorf("a list takes %d bytes, and at most %d are received", len(text), small.federation.MaxListSize())
	}
	more := append(entries, admission.Revocation{Place: client(0), Serial: 1})
	if _, err := admission.Revoke(small.operator, small.federation, nil, more...); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("%d revocations: %v", len(more), err)
	}
}
