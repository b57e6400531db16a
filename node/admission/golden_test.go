package admission_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
)

// The documents in testdata were made by generate.py beside them, without Go.

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenDoc parses a golden document and requires it to be written as it was read.
func goldenDoc[T interface{ Encode() ([]byte, error) }](t testing.TB, name string, parse func([]byte) (T, error)) T {
	t.Helper()
	text := golden(t, name)
	doc, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	if got, err := doc.Encode(); err != nil || !bytes.Equal(got, compact.Bytes()) {
		t.Errorf("%s is written again as\n%s (%v), want\n%s", name, got, err, compact.Bytes())
	}
	return doc
}

func goldenKey(t testing.TB, name string) admission.PrivateKey {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, golden(t, name), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := admission.ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGoldenDocuments(t *testing.T) {
	operator := goldenKey(t, "key.json")
	f := goldenDoc(t, "federation.json", admission.ParseFederation)
	i := goldenDoc(t, "invitation.json", admission.ParseInvitation)
	m := goldenDoc(t, "membership.json", admission.ParseMembership)
	e := goldenDoc(t, "enrolment.json", admission.ParseEnrolment)
	r := goldenDoc(t, "revocations.json", admission.ParseRevocations)
	l, part := goldenDoc(t, "list.json", admission.ParseList), goldenDoc(t, "part.json", admission.ParseList)
	if err := f.Verify(operator.Public()); err != nil {
		t.Error(err)
	}
	if err := e.Verify(f); err != nil {
		t.Error(err)
	}
	if err := r.Verify(f); err != nil {
		t.Error(err)
	}
	if err := l.Verify(operator.Public()); err != nil {
		t.Error(err)
	}
	for _, l := range []*admission.List{l, part} {
		if err := errors.Join(l.Verify(operator.Public()), m.Check(l)); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(m.Enrolment, *e) || m.Federation.Hash() != f.Hash() || i.Federation.Hash() != f.Hash() || !reflect.DeepEqual(l.Revocations, r) {
		t.Error("documents that are part of others differ from themselves")
	}

	var want struct{ Federation, Ticket, Revocations, List string }
	if err := json.Unmarshal(golden(t, "hashes.json"), &want); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		got  admission.Hash
		want string
	}{
		{"federation", f.Hash(), want.Federation}, {"ticket", e.Ticket.Hash(), want.Ticket},
		{"revocations", r.Hash(), want.Revocations}, {"list", l.Hash(), want.List}, {"part of a list", part.Hash(), want.List},
	} {
		if hex.EncodeToString(c.got[:]) != c.want {
			t.Errorf("the %s hashes to %x, want %s", c.what, c.got, c.want)
		}
	}
}

// Ed25519 signatures are deterministic, so what Go signs with the golden keys is
// the golden document: the enrolment follows from invitation and identity, and the
// revocations from what they revoke.
func TestGoldenSignatures(t *testing.T) {
	operator := goldenKey(t, "key.json")
	f := goldenDoc(t, "federation.json", admission.ParseFederation)
	want := goldenDoc(t, "revocations.json", admission.ParseRevocations)
	m, err := goldenDoc(t, "invitation.json", admission.ParseInvitation).Accept(goldenKey(t, "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	if want := goldenDoc(t, "membership.json", admission.ParseMembership); !reflect.DeepEqual(m, want) {
		t.Errorf("accepted anew the invitation gives\n%+v, want\n%+v", m, want)
	}
	first, err := admission.Revoke(operator, f, nil, want.Entries[1])
	if err != nil {
		t.Fatal(err)
	}
	got, err := admission.Revoke(operator, f, first, want.Entries[0])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("signed anew the revocations are\n%+v, want\n%+v", got, want)
	}
}
