package protocol_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// serverKey is the key of testdata/leaves.py.
func serverKey() ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	return ed25519.NewKeyFromSeed(seed)
}

// leaves are the leaves of testdata/leaves.json, without their signatures.
func leaves() (begun, ended *protocol.Leaf) {
	sum := func(text string) []byte { h := sha256.Sum256([]byte(text)); return h[:] }
	begun = &protocol.Leaf{Format: protocol.LeafFormat, Session: "0102030405060708090a0b0c0d0e0f10", Agreement: sum("the agreement"), Plan: sum("the description"),
		Claims: protocol.Claims{Unit: "user", Delta: 1e-5}, Clients: 20, Rounds: 12, Charges: []dp.Event{}, Server: serverKey().Public().(ed25519.PublicKey)}
	last := *begun
	last.Claims = protocol.Claims{Unit: "rating", Delta: 2.5e-8, SamplerError: 1.25e-19, Search: "private", SearchDigest: strings.Repeat("ab", 32), Start: strings.Repeat("cd", 32)}
	last.Survivors = [][2]int{{1, -1}, {8, 20}, {1, 0}, {2, 19}}
	last.Charges = []dp.Event{dp.Skellam(1992552.6488, 500.5, 500.25).Times(12), dp.SubsampledGaussian(1.5, 0.01).Times(3)}
	last.Model = sum("the model")
	return begun, &last
}

// testdata/leaves.py writes the bytes and the signatures: it shares no code with this program.
func TestLeafBytes(t *testing.T) {
	b, err := os.ReadFile("testdata/leaves.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]string
	if err = json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	begun, ended := leaves()
	for name, want := range map[string]*protocol.Leaf{"begun": begun, "ended": ended} {
		got, err := protocol.ParseLeaf([]byte(golden[name]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := got.Encode(); err != nil || string(text) != golden[name] {
			t.Errorf("%s is written as %s, %v", name, text, err)
		}
		want.Signature = got.Signature
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		free := map[string]string{"begun": "session agreement claims clients rounds charges", "ended": "agreement plan claims clients rounds survivors charges"}[name]
		for i := range golden[name] { // a byte that the signature covers
			changed := []byte(golden[name])
			changed[i] ^= 1
			if l, failed := protocol.ParseLeaf(changed); failed == nil && !strings.Contains(free, field(golden[name], i)) {
				t.Errorf("%s with byte %d changed, of %s: %+v", name, i, field(golden[name], i), l)
			}
		}
	}
}

// field names the key of an entry whose value has the byte.
func field(text string, at int) string {
	name := ""
	for _, k := range []string{"format", "session", "agreement", "plan", "claims", "clients", "rounds", "survivors", "charges", "model", "server", "signature"} {
		if i := strings.Index(text, `"`+k+`":`); i >= 0 && i <= at {
			name = k
		}
	}
	return name
}

// A leaf whose counts or digests make no sense is refused, although its server signed it.
func TestLeavesThatAreNone(t *testing.T) {
	key := serverKey()
	sign := func(l *protocol.Leaf) []byte {
		if end, err := l.End(); err == nil && l.Model != nil {
			f := protocol.Final{Model: []byte("the model")}
			if err = protocol.SignFinal(key, end.Session, &f); err != nil {
				t.Fatal(err)
			}
			l.Signature = f.Signature
		} else if err == nil {
			h := protocol.DescriptionHash([32]byte(l.Plan))
			l.Signature = ed25519.Sign(key, h[:])
		}
		text, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, change := range map[string]func(*protocol.Leaf){
		"":                        func(*protocol.Leaf) {},
		"another format":          func(l *protocol.Leaf) { l.Format = "fedsim-session-v2" },
		"a short session":         func(l *protocol.Leaf) { l.Session = "01" },
		"no agreement":            func(l *protocol.Leaf) { l.Agreement = nil },
		"a short plan":            func(l *protocol.Leaf) { l.Plan = l.Plan[1:] },
		"no clients":              func(l *protocol.Leaf) { l.Clients = 0 },
		"no rounds":               func(l *protocol.Leaf) { l.Rounds, l.Survivors = 0, nil },
		"survivors of more":       func(l *protocol.Leaf) { l.Rounds = 11 },
		"more survivors":          func(l *protocol.Leaf) { l.Survivors = [][2]int{{12, 21}} },
		"a run of no rounds":      func(l *protocol.Leaf) { l.Survivors = [][2]int{{0, 20}} },
		"a key of another length": func(l *protocol.Leaf) { l.Server = l.Server[1:] },
	} {
		_, l := leaves()
		change(l)
		if _, err := protocol.ParseLeaf(sign(l)); (err == nil) != (name == "") || err != nil && !errors.Is(err, protocol.ErrLeaf) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, long := leaves()
	long.Charges = make([]dp.Event, 5000)
	if _, err := long.Encode(); !errors.Is(err, protocol.ErrLeaf) {
		t.Errorf("an entry that is too long for a tile: %v", err)
	}
}
