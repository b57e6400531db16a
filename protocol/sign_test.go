package protocol_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

func signingKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	seed, err := hex.DecodeString(readVector(t).Seed)
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// Ed25519 is deterministic. Another implementation made the expected signatures, over bytes that
// were put together outside Go.
func TestSignatures(t *testing.T) {
	key, want := signingKey(t), readVector(t)
	p, final := hashed(), &protocol.Final{Model: []byte("final model")}
	if err := errors.Join(protocol.SignPlan(key, p), protocol.SignFinal(key, p.Session, final)); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(p.Signature); got != want.PlanSignature {
		t.Errorf("signature of the plan %s, want %s", got, want.PlanSignature)
	}
	if got := hex.EncodeToString(final.Signature); got != want.FinalSignature {
		t.Errorf("signature of the final model %s, want %s", got, want.FinalSignature)
	}
	if err := errors.Join(protocol.VerifyPlan(public(key), p), protocol.VerifyFinal(public(key), p.Session, final)); err != nil {
		t.Errorf("what was signed is refused: %v", err)
	}
}

// A plan is refused if any part of it is changed, or if another key signed it. The signature is no
// part of the signed bytes.
func TestVerifyPlanRefuses(t *testing.T) {
	key := signingKey(t)
	signed := hashed()
	if err := protocol.SignPlan(key, signed); err != nil {
		t.Fatal(err)
	}
	if signed.Hash() != hashed().Hash() {
		t.Error("the signature changes the hash that it is over")
	}
	changed := append([]func(*protocol.Plan){
		func(p *protocol.Plan) { p.Signature = nil },
		func(p *protocol.Plan) { p.Signature = p.Signature[:63] },
		func(p *protocol.Plan) { p.Signature = append(bytes.Clone(p.Signature), 0) },
		func(p *protocol.Plan) { p.Signature = bytes.Clone(p.Signature); p.Signature[0] ^= 1 },
	}, changes...)
	for i, change := range changed {
		p := hashed()
		p.Signature = signed.Signature
		change(p)
		if err := protocol.VerifyPlan(public(key), p); !errors.Is(err, protocol.ErrSignature) {
			t.Errorf("change %d: error %v, want ErrSignature", i, err)
		}
	}
	other := ed25519.NewKeyFromSeed(make([]byte, 32))
	if err := protocol.VerifyPlan(public(other), signed); !errors.Is(err, protocol.ErrSignature) {
		t.Errorf("by another's key: error %v, want ErrSignature", err)
	}
}

// Another model, another session, and what the server signed as a plan, are refused.
func TestVerifyFinalRefuses(t *testing.T) {
	key := signingKey(t)
	p, m := hashed(), &protocol.Final{Model: []byte("final model")}
	if err := errors.Join(protocol.SignPlan(key, p), protocol.SignFinal(key, p.Session, m)); err != nil {
		t.Fatal(err)
	}
	other := p.Session
	other[0]++
	for name, c := range map[string]struct {
		session protocol.SessionID
		m       protocol.Final
	}{
		"another session":       {other, *m},
		"another model":         {p.Session, protocol.Final{Model: []byte("final mode"), Signature: m.Signature}},
		"no signature":          {p.Session, protocol.Final{Model: m.Model}},
		"a plan's signature":    {p.Session, protocol.Final{Model: p.Broadcast, Signature: p.Signature}},
		"a signature cut short": {p.Session, protocol.Final{Model: m.Model, Signature: m.Signature[:32]}},
	} {
		if err := protocol.VerifyFinal(public(key), c.session, &c.m); !errors.Is(err, protocol.ErrSignature) {
			t.Errorf("%s: error %v, want ErrSignature", name, err)
		}
	}
}

// Keys of another length are an error, not a panic, and sign nothing.
func TestSigningKeyLengths(t *testing.T) {
	p, m := hashed(), &protocol.Final{Model: []byte("m")}
	for _, n := range []int{0, 31, 32, 33, 63, 65} {
		for name, err := range map[string]error{"plan": protocol.SignPlan(make([]byte, n), p), "final": protocol.SignFinal(make([]byte, n), p.Session, m)} {
			if err == nil || p.Signature != nil || m.Signature != nil {
				t.Errorf("%s signed with a key of %d bytes: error %v, signatures %x %x", name, n, err, p.Signature, m.Signature)
			}
		}
	}
	for _, n := range []int{0, 31, 33, 64} {
		for name, err := range map[string]error{"plan": protocol.VerifyPlan(make([]byte, n), p), "final": protocol.VerifyFinal(make([]byte, n), p.Session, m)} {
			if err == nil || errors.Is(err, protocol.ErrSignature) {
				t.Errorf("%s verified with a key of %d bytes: error %v, want one about the key", name, n, err)
			}
		}
	}
}
