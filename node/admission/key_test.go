package admission_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/node/admission"
)

// No way of printing a key, an invitation or a struct that holds one shows a form of the secret,
// whether the field is exported or not.
func TestPrivateKeysDoNotPrint(t *testing.T) {
	w := newWorld(t, 3)
	k := key(t, "secret")
	i := w.invite(client(1), 1)
	type holder struct {
		Exported admission.PrivateKey
		hidden   admission.PrivateKey
	}
	seen := map[string]any{
		"key": k, "pointer": &k, "slice": []admission.PrivateKey{k}, "map": map[string]admission.PrivateKey{"key": k},
		"struct": holder{k, k}, "pointer to struct": &holder{k, k}, "interface": any(k), "error": fmt.Errorf("with %v", k),
		"invitation": *i, "pointer to invitation": i,
	}
	secrets := append(spellings(k.Ed25519()), spellings(i.Key.Ed25519())...)
	secrets = append(secrets, secretText(t, i)) // the form that files have
	for name, v := range seen {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%p", "%T", "%10.2v", "%w"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, v)
		for _, print := range []func(any) ([]byte, error){json.Marshal, xml.Marshal, yaml.Marshal, gobMarshal} {
			b, err := print(v)
			fmt.Fprintf(&out, "%s %v\n", b, err)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "v", v)
		for _, s := range secrets {
			if strings.Contains(out.String(), s) {
				t.Errorf("%s: printed with its secret:\n%s", name, out.String())
				break
			}
		}
	}
	if got := fmt.Sprint(k); !strings.Contains(got, k.Public().String()) {
		t.Errorf("the key prints as %q, which does not say which one it is", got)
	}
}

// spellings are the forms in which bytes show up in prints: the seed is the
// first half of a private key.
func spellings(k ed25519.PrivateKey) []string {
	seed := k.Seed()
	list := strings.Trim(fmt.Sprint(seed), "[]")
	return []string{
		string(seed), hex.EncodeToString(seed), strings.ToUpper(hex.EncodeToString(seed)),
		base64.StdEncoding.EncodeToString(seed)[:40], base64.RawURLEncoding.EncodeToString(seed)[:40],
		list, strings.ReplaceAll(list, " ", ","), strings.ReplaceAll(list, " ", ", "),
		strings.Trim(fmt.Sprintf("%#v", seed), "[]byte{}"), strings.Trim(fmt.Sprintf("%x", seed[:16]), " "),
	}
}

// secretText is a private key as the text of an invitation has it.
func secretText(t *testing.T, i *admission.Invitation) string {
	t.Helper()
	text, err := i.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, s, ok := strings.Cut(string(text), "fedsim-private-")
	if !ok {
		t.Fatalf("the invitation's text has no private key: %s", text)
	}
	return s[:40]
}

func gobMarshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

// One letter mistyped, missing, doubled or in capitals, or two swapped, is found.
func TestMistypedPublicKeysAreRefused(t *testing.T) {
	text := key(t, "somebody").Public().String()
	if k, err := admission.ParsePublicKey(text); err != nil || k != key(t, "somebody").Public() {
		t.Fatalf("%s is read as %v (%v)", text, k, err)
	}
	var wrong []string
	for i := range text {
		wrong = append(wrong, text[:i]+text[i+1:], text[:i+1]+text[i:], text[:i]+" "+text[i:])
		for _, c := range "abcdefghijklmnopqrstuvwxyz234567089-=" {
			wrong = append(wrong, text[:i]+string(c)+text[i+1:])
		}
		wrong = append(wrong, text[:i]+strings.ToUpper(text[i:i+1])+text[i+1:])
		if i > 0 {
			wrong = append(wrong, text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:])
		}
	}
	tried := 0
	for _, s := range append(wrong, "", "fedsim-public-", text+"\n", text+"a", text+"======") {
		if s == text {
			continue
		}
		tried++
		if _, err := admission.ParsePublicKey(s); !errors.Is(err, admission.ErrMalformed) {
			t.Errorf("%q is read in place of %q (%v)", s, text, err)
		}
	}
	if tried < 2500 {
		t.Errorf("only %d wrong texts were tried", tried)
	}
}

// libsodium lists the points of small order (ge25519_has_small_order). Each is tried with either
// sign and in every spelling: for such a point, signatures need no private key. The other keys
// follow from the curve's equation.
func TestNoKeys(t *testing.T) {
	const order, spelling, point = "small order", "one spelling", "not an Ed25519 public key"
	for _, c := range []struct{ key, reason string }{
		{"0000000000000000000000000000000000000000000000000000000000000000", order},
		{"0000000000000000000000000000000000000000000000000000000000000080", order},
		{"0100000000000000000000000000000000000000000000000000000000000000", order},
		{"0100000000000000000000000000000000000000000000000000000000000080", spelling},
		{"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", order},
		{"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85", order},
		{"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", order},
		{"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa", order},
		{"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", order},
		{"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", spelling},
		{"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", spelling},
		{"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", spelling},
		{"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", spelling},
		{"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", spelling},
		{"f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", spelling}, // y = 3 + p, of a good point
		{"0200000000000000000000000000000000000000000000000000000000000000", point},    // y = 2
		{"", "0 bytes"},
		{"03000000000000000000000000000000000000000000000000000000000000", "31 bytes"},
		{"030000000000000000000000000000000000000000000000000000000000000000", "33 bytes"},
	} {
		k, err := hex.DecodeString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admission.NewPublicKey(k); !errors.Is(err, admission.ErrMalformed) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s as a public key: %v, want %q", c.key, err, c.reason)
		}
	}
	good := append([]byte{3}, make([]byte, 31)...)
	if _, err := admission.NewPublicKey(good); err != nil {
		t.Errorf("the point of y = 3 is refused: %v", err)
	}
}

// The key equals what crypto/ed25519 makes of 32 bytes, and the caller alone holds the copy that is
// handed out.
func TestPrivateKeyIsAnEd25519Key(t *testing.T) {
	k := key(t, "somebody")
	private := k.Ed25519()
	if !bytes.Equal(private, ed25519.NewKeyFromSeed(private.Seed())) || !k.Public().Ed25519().Equal(private.Public()) {
		t.Error("the halves of the key do not belong together")
	}
	clear(private)
	if bytes.Equal(k.Ed25519(), private) {
		t.Error("clearing what was handed out cleared the key")
	}
	var none admission.PrivateKey
	if !none.IsZero() || none.Ed25519() != nil || !none.Public().IsZero() || k.IsZero() || k.Public().IsZero() {
		t.Error("the zero key is not told from a key")
	}
	if _, err := admission.GenerateKey(entropy.Source{}); !errors.Is(err, entropy.ErrNone) {
		t.Errorf("a key was drawn from nothing (%v)", err)
	}
	a, errA := admission.GenerateKey(entropy.System())
	b, errB := admission.GenerateKey(entropy.System())
	if errA != nil || errB != nil || a.Public() == b.Public() {
		t.Errorf("two keys of the system are %v and %v (%v, %v)", a, b, errA, errB)
	}
}
