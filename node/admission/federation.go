package admission

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// FederationID identifies a federation, also among federations of the same name. Its text is hexadecimal.
type FederationID [16]byte

// MarshalText writes the ID's text.
func (id FederationID) MarshalText() ([]byte, error) { return encodeHex(id[:]), nil }

// UnmarshalText reads it.
func (id *FederationID) UnmarshalText(text []byte) error { return decodeHex(id[:], text) }

// Hash is a SHA-256 hash, hexadecimal as text.
type Hash protocol.Hash

// MarshalText writes the hash's text.
func (h Hash) MarshalText() ([]byte, error) { return encodeHex(h[:]), nil }

// UnmarshalText reads it.
func (h *Hash) UnmarshalText(text []byte) error { return decodeHex(h[:], text) }

func encodeHex(b []byte) []byte { return hex.AppendEncode(nil, b) }

func decodeHex(dst, text []byte) error {
	if b, err := hex.DecodeString(string(text)); err == nil && len(b) == len(dst) {
		copy(dst, b)
		return nil
	}
	return fmt.Errorf("%w: %q; %d hexadecimal digits are needed", ErrMalformed, text, 2*len(dst))
}

// MaxClients limits the clients of a federation, maxName the bytes of its name.
const (
	MaxClients = 100_000
	maxName    = 64
)

// Federation describes a federation, signed by its operator. Everything else in this package is bound to its hash, and so to N: only the
// operator decides how many clients there are.
type Federation struct {
	Name     string       `json:"name"` // 1 to 64 bytes that can be printed
	ID       FederationID `json:"id"`
	Clients  int          `json:"clients"` // when it was founded, 1 to MaxClients; see Places
	Created  time.Time    `json:"created"` // UTC, whole seconds
	Operator PublicKey    `json:"operator"`
	// Recovery, if set, is a key that can hand the federation over to another key of the operator: see Epoch. It signs nothing else.
	Recovery  PublicKey `json:"recovery,omitzero"`
	Signature Signature `json:"signature"`
	// Epochs change the places since then, in order. The hash of the federation is without them.
	Epochs []Epoch `json:"epochs,omitempty"`
}

// NewFederation makes a federation of n clients, with a recovery key if one is given. Its ID is drawn from src.
func NewFederation(operator PrivateKey, name string, n int, created time.Time, src entropy.Source, recovery ...PublicKey) (*Federation, error) {
	f := &Federation{Name: name, Clients: n, Created: seconds(created), Operator: operator.Public()}
	for _, k := range recovery {
		f.Recovery = k
	}
	if _, err := io.ReadFull(src.Stream("admission/federation", 0), f.ID[:]); err != nil {
		return nil, fmt.Errorf("admission: drawing a federation's ID: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	f.Signature = operator.Sign(f.Hash())
	return f, nil
}

// Hash names the federation: the SHA-256 of the transcript of the domain "fedsim/admission/federation/v1" with operator, name, ID, N,
// creation in seconds since 1970, and the recovery key if there is one. The signature is over it.
func (f *Federation) Hash() Hash {
	t := protocol.NewTranscript("fedsim/admission/federation/v1").
		Bytes(f.Operator[:]).Text(f.Name).Bytes(f.ID[:]).Uint(uint64(f.Clients)).Uint(uint64(f.Created.Unix()))
	if !f.Recovery.IsZero() {
		t.Bytes(f.Recovery[:])
	}
	return t.Sum()
}

// signedBy refuses a key that is not the operator's any more, or never was.
func (f *Federation) signedBy(operator PrivateKey) error {
	if operator.Public() != f.Signer() {
		return fmt.Errorf("%w: the operator of %q is %s, not %s", ErrFederation, f.Name, f.Signer(), operator.Public())
	}
	return nil
}

// Verify says whether the federation is that operator's. A federation cannot prove who its operator is, so the operator's key must have
// come over a trusted channel: with the invitation.
func (f *Federation) Verify(operator PublicKey) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.Operator != operator {
		return fmt.Errorf("%w: its operator is %s, not %s", ErrFederation, f.Operator, operator)
	}
	if !operator.Verify(f.Hash(), f.Signature) {
		return fmt.Errorf("%w: the federation %q is not signed by its operator %s", ErrSignature, f.Name, operator)
	}
	return f.verifyEpochs()
}

func (f *Federation) check() error {
	errs := []error{checkText("name of a federation", f.Name, maxName), checkTime("creation of a federation", f.Created), f.Operator.check()}
	if strings.TrimSpace(f.Name) != f.Name {
		errs = append(errs, fmt.Errorf("%w: the name %q begins or ends with a space", ErrMalformed, f.Name))
	}
	if !f.Recovery.IsZero() {
		if err := f.Recovery.check(); err != nil || f.Recovery == f.Operator {
			errs = append(errs, ErrIdentityUsed, err)
		}
	}
	if f.Clients < 1 || f.Clients > MaxClients {
		errs = append(errs, fmt.Errorf("%w: a federation of %d clients; there can be 1 to %d", ErrMalformed, f.Clients, MaxClients))
	}
	return errors.Join(errs...)
}

// own refuses what is bound to another federation.
func (f *Federation) own(hash Hash, what string) error {
	if hash != f.Hash() {
		return fmt.Errorf("%w: the %s is not of the federation %q (%x)", ErrFederation, what, f.Name, f.ID[:])
	}
	return nil
}

// checkText refuses what does not look on a screen like what it is.
func checkText(what, s string, size int) error {
	if s == "" || len(s) > size || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%w: %q as the %s; it must be 1 to %d bytes that can be printed", ErrMalformed, s, what, size)
	}
	return nil
}

// seconds is a time as documents hold it.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func checkTime(what string, t time.Time) error {
	if t != seconds(t) || t.Unix() < 0 || t.Year() > 9999 {
		return fmt.Errorf("%w: %v as the %s; it must be whole seconds in UTC, of the years 1970 to 9999", ErrMalformed, t, what)
	}
	return nil
}
