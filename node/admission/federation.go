// Package admission decides which parties are in a federation. It has no network: it makes, reads and verifies the documents by which
// parties are admitted and revoked, and keeps the key files.
//
// Only the federation's operator decides. The operator's key signs the [Federation], which fixes the number of clients; a [Ticket] for
// every place in it, which travels in an [Invitation] to one person; and [Revocations]. The key is needed for these only. In operation
// neither the aggregator nor the server has the key, and its holder must run neither. Otherwise the holder could enrol clients of their own
// until only one honest client is left: the sum would reveal that client's data.
//
// An invited person makes an identity key, which never leaves their machine, and redeems the ticket for it with the ticket's private key
// ([Invitation.Accept]). The [Enrolment] is a chain that every holder of the operator's public key can verify: operator, ticket, identity.
// The aggregator passes all of this on, but never sees the private half of a ticket. So it can neither invent clients nor enrol its own key
// for a place. It keeps a [Registry], in which the first party to redeem a ticket has the place for good, and shows its [List] to every
// party.
//
// # What a party must do
//
// A party checks a list with [Registry.Update] and [Membership.Check] before it uses the list, keeps that registry, and gives
// [List.Identities] to the secure sum. In active mode these are the keys with which clients check one another. In semi-honest mode clients
// take the keys of others on the aggregator's word anyway, so they get a [Part] of the list: the server, the aggregator and the client
// itself. A proof shows that these are on the list that the server signed for. So the cost of a client does not grow with the federation.
// The aggregator can still show different lists to different parties, leave out a party that others do not know yet, or withhold the newest
// revocations. Different lists end in no sum, since masks and signatures are bound to the identities. Leaving a party out is a dropout.
// Against withheld revocations, the operator sends them to the parties directly (they are public, and [Registry.Revoke] accepts them from
// any source); a party that has them refuses lists that do not.
//
// # Single use of invitations
//
// One place never has two identities on one list. That limits what a stolen invitation can do to one place. That the second to redeem a
// ticket is refused depends on the aggregator's registry, and on the parties' registries from the first list on that shows the place taken.
// Expiry depends on the aggregator's registry and clock as well: there is no proof of when a ticket was redeemed. So revoke an invitation
// that got into the wrong hands, and do not wait for it to expire: with a revoked serial no ticket is valid, at any aggregator.
//
// # Texts
//
// Documents are JSON, one object whose only key is the kind and version. Parsing is strict: unknown, missing, repeated and misordered keys,
// and everything that has a second spelling, are refused, except for white space. Signatures and hashes are over protocol.Transcript
// encodings, never over the texts.
package admission

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// Place is a place in the federation, as protocol.Party writes it: the server, the aggregator, or the client of a number from 0 to N-1. Its
// text is "server", "aggregator" or "client 7".
type Place protocol.Party

// ServerPlace and AggregatorPlace are the two places that exist once.
var (
	ServerPlace     = Place{Role: protocol.Server}
	AggregatorPlace = Place{Role: protocol.Aggregator}
)

// ClientPlace is the place of a client.
func ClientPlace(id protocol.ClientID) Place { return Place(protocol.ClientParty(id)) }

func (p Place) String() string { return protocol.Party(p).String() }

// MarshalText is String.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a place's text.
func (p *Place) UnmarshalText(text []byte) error {
	place := AggregatorPlace
	if number, client := strings.CutPrefix(string(text), "client "); client {
		n, _ := strconv.ParseUint(number, 10, 32)
		place = ClientPlace(protocol.ClientID(n))
	} else if string(text) == ServerPlace.String() {
		place = ServerPlace
	}
	if place.String() != string(text) { // also of a number that cannot be read
		return fmt.Errorf("%w: place %q; it must be server, aggregator or client and a number, like %q", ErrMalformed, text, ClientPlace(7))
	}
	*p = place
	return nil
}

// check says whether there is such a place among n clients.
func (p Place) check(n int) error {
	switch p.Role {
	case protocol.Server, protocol.Aggregator:
		if p.Client == 0 {
			return nil
		}
	case protocol.Client:
		if int64(p.Client) < int64(n) {
			return nil
		}
		return fmt.Errorf("%w: there is no %s; the federation has clients 0 to %d", ErrMalformed, p, n-1)
	case protocol.Relay: // the aggregator says who relays, not the operator
	}
	return fmt.Errorf("%w: there is no place %+v", ErrMalformed, protocol.Party(p))
}

// compare orders places: the server, the aggregator, the clients by number.
func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Role, q.Role), cmp.Compare(p.Client, q.Client))
}

func (p Place) write(t *protocol.Transcript) *protocol.Transcript {
	return t.Text(p.Role.String()).Uint(uint64(p.Client))
}

// FederationID identifies a federation, also among federations of the same name. Its text is hexadecimal.
type FederationID [16]byte

// MarshalText writes the ID's text.
func (id FederationID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText reads it.
func (id *FederationID) UnmarshalText(text []byte) error { return decodeHex(id[:], text) }

// Hash is a SHA-256 hash, hexadecimal as text.
type Hash protocol.Hash

// MarshalText writes the hash's text.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads it.
func (h *Hash) UnmarshalText(text []byte) error { return decodeHex(h[:], text) }

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
	errs := problems.List{checkText("name of a federation", f.Name, maxName), checkTime("creation of a federation", f.Created), f.Operator.check()}
	errs.If(strings.TrimSpace(f.Name) != f.Name, "%w: the name %q begins or ends with a space", ErrMalformed, f.Name)
	if !f.Recovery.IsZero() {
		if err := f.Recovery.check(); err != nil || f.Recovery == f.Operator {
			errs = append(errs, ErrIdentityUsed, err)
		}
	}
	errs.If(f.Clients < 1 || f.Clients > MaxClients,
		"%w: a federation of %d clients; there can be 1 to %d", ErrMalformed, f.Clients, MaxClients)
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
